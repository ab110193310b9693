"""Selects what an evaluator of calls or answers reads of a case, and the bases of evaluators that compare it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, fields, replace
from typing import Any

from a2a_tool_capture.models import ToolCall

from ..evaluator import SkipEvaluation, SyncEvaluator
from ..judged.base import MeaningEvaluator
from ..matching.arguments import MATCHER_SPELLINGS, MatcherLike, as_matcher
from ..matching.call_failure import why_failed
from ..matching.placeholders import check_placeholders
from ..model import VACUOUS, EvalCase, ExpectedCall
from ..options import OptionError, did_you_mean
from ..texts import from_json
from ..tool_classes import named

_FIELDS = tuple(field.name for field in fields(EvalCase))


class NothingThereError(LookupError):
    """The path does not exist in the data of the agent; the message names the first missing step."""


def check_path(path: str, owner: str) -> None:
    """Raise OptionError unless `path` begins with a field of EvalCase."""
    first = path.partition(".")[0]
    if first not in _FIELDS:
        raise OptionError(
            f"{owner}: option field must begin with a field of the case; got {first!r}{did_you_mean(first, _FIELDS)}",
            "field",
        )


def select(case: EvalCase, path: str) -> Any:
    """The value at `path`: a field of the case, then keys and indices into it, as in `response_text.items.0.id`.

    A string is parsed as JSON to follow the path into it. Raises SkipEvaluation if the case lacks the field,
    CallsUnseenError for tool calls that are unknown, and NothingThereError if the path does not exist.
    """
    first, *steps = path.split(".")
    value = tuple(case.tool_calls) if first == "tool_calls" else getattr(case, first)
    if value is None:
        raise SkipEvaluation(f"not given: {first}")
    return _follow(value, steps, first)


def output_part(value: Any, keys: str | Sequence[str], where: str) -> Any:
    """The part of an answer that UiPath's option `target_output_key` selects.

    `*`: the whole answer. A key such as `order.id` or `items[0].id`: the value there. A list of keys: an object with
    these.

    Raises NothingThereError, which names the answer `where`, if there is no such key.
    """
    if keys == "*":
        return value
    if isinstance(keys, str):
        return _follow(value, re.sub(r"\[(\d+)\]", r".\1", keys).split("."), where)
    return {key: output_part(value, key, where) for key in keys}


def expected_part(value: Any, keys: str | Sequence[str]) -> Any:
    """As `output_part`, of the expected answer. Raises ValueError."""
    try:
        return output_part(value, keys, "the expected answer")
    except NothingThereError as error:
        raise ValueError(str(error)) from None


def _follow(value: Any, steps: Iterable[str], at: str) -> Any:
    for step in steps:
        value = from_json(value)
        if isinstance(value, Mapping) and step in value:
            value = value[step]
        elif isinstance(value, list | tuple) and step.isdecimal() and int(step) < len(value):
            value = value[int(step)]
        elif step in getattr(value, "__dataclass_fields__", ()):
            value = getattr(value, step)
        else:
            raise NothingThereError(f"{at} has no {step}")
        at = f"{at}.{step}"
    return value


def calls_named(case: EvalCase, names: AbstractSet[str], *, only_succeeded: bool = False) -> tuple[ToolCall, ...]:
    """The calls, or those that succeeded; one whose id is among the expected names goes by its id, as in UiPath's
    criteria, which may name a tool by the `tool.id` of its spans."""
    calls = case.tool_calls
    if only_succeeded:
        calls = tuple(call for call in calls if not why_failed(call.error, call.result))
    if names.isdisjoint(call.id for call in calls):
        return calls
    return tuple(replace(call, name=call.id) if call.id in names else call for call in calls)


def graded(matched: float, expected: int, actual: int, *, strict: bool) -> float:
    """`matched` / `expected`, or if `strict` 1 for all and 0 for less. Both empty: 1; exactly one empty: 0."""
    if not expected or not actual:
        return float(expected == actual)
    return float(matched == expected) if strict else min(1.0, matched / expected)


def without_calls(calls: Sequence[ToolCall]) -> dict[str, Any]:
    """The details of a score of `calls` where they are empty."""
    return {} if calls else {VACUOUS: True}


def read_matcher(evaluator: Any) -> None:
    """Put the matcher that the option `matcher` gives in its place. Raises OptionError."""
    try:
        object.__setattr__(evaluator, "matcher", as_matcher(evaluator.matcher))
    except OptionError as error:
        raise OptionError(f"{evaluator.name}: option matcher: {error}", "matcher") from None


@dataclass(frozen=True, kw_only=True)
class ComparesCalls(SyncEvaluator):
    """Base of evaluators for which the calls of some tools need not count."""

    reads_calls = True

    ignored_tools: Sequence[str] = ()
    """Tools whose calls do not count: names, patterns such as `get_*`, or the classes `reads` and `writes`."""

    def _counting(self, case: EvalCase, calls: Sequence[ExpectedCall | ToolCall]) -> Sequence[int]:
        """The indices of those `calls`, expected or made, that count. Raises NoClassesError."""
        if not self.ignored_tools:
            return range(len(calls))
        ignored = named(self.ignored_tools, case.tool_classes)
        return [index for index, call in enumerate(calls) if not ignored(call.name)]


@dataclass(frozen=True, kw_only=True)
class MatchingEvaluator(ComparesCalls, MeaningEvaluator):
    """Base of evaluators with the option `matcher`."""

    spellings = MATCHER_SPELLINGS

    matcher: MatcherLike = "exact"
    """How arguments compare: `exact`, `subset` (a call may have more), `superset` (fewer), `ignore`, or options."""

    def __post_init__(self) -> None:
        super().__post_init__()
        read_matcher(self)


@dataclass(frozen=True, kw_only=True)
class CriteriaEvaluator(SyncEvaluator):
    """Base of evaluators with criteria: a field of EvalCase and an option, both with the name `criterion`."""

    reads_calls = True

    def __post_init__(self) -> None:
        if isinstance(getattr(self, self.criterion), list | tuple | Mapping):
            try:
                object.__setattr__(self, self.criterion, self._read_criteria())
            except ValueError as error:
                raise OptionError(f"{self.name}: option {error}", self.criterion) from None
        super().__post_init__()

    def _read_criteria(self) -> Any:
        """The option as a case has it, with placeholders that are valid. Raises ValueError."""
        criteria = getattr(EvalCase(**{self.criterion: getattr(self, self.criterion)}), self.criterion)
        try:
            check_placeholders([item.to_dict() for item in criteria if isinstance(item, ExpectedCall)])
        except ValueError as error:
            raise ValueError(f"{self.criterion}: {error}") from None
        return criteria

    def _criteria_of(self, case: EvalCase) -> Any:
        """The case's criteria, else the option's. Raises SkipEvaluation without any."""
        own = getattr(case, self.criterion)
        found = getattr(self, self.criterion) if own is None else own
        if found is None or found == {}:
            raise SkipEvaluation(f"not given: {self.criterion}, in the case or as an option")
        return found


@dataclass(frozen=True, kw_only=True)
class AnswerEvaluator(SyncEvaluator):
    """Base of evaluators that compare the answer, or another part of the case."""

    field: str = "response_text"
    """The value to compare: a path such as `response_text.order.status` or `tool_calls.0.result`."""
    target_output_key: str | Sequence[str] = "*"
    """The part of the answer to compare: a path such as `order.items[0].id`, or a list of them; `*`: all."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_path(self.field, self.name)

    def actual_part(self, case: EvalCase) -> Any:
        """The part to compare. Raises as `select` and `output_part` do."""
        return output_part(select(case, self.field), self.target_output_key, self.field)
