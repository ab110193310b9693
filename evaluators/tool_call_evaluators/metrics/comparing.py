"""Bases of evaluators that compare calls, with a matcher of arguments or with criteria, or the answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ..evaluator import SkipEvaluation, SyncEvaluator
from ..matching.arguments import MATCHER_SPELLINGS, MatcherLike, as_matcher
from ..model import EvalCase
from ..options import OptionError
from .case_parts import check_path, output_part, select


@dataclass(frozen=True, kw_only=True)
class MatchingEvaluator(SyncEvaluator):
    """Base of evaluators with the option `matcher`."""

    reads_calls: ClassVar[bool] = True
    spellings = MATCHER_SPELLINGS

    matcher: MatcherLike = "exact"
    """How arguments compare: `exact`, `subset` (the call may have more), `superset` (it may have fewer), `ignore`, or
    an object with options."""

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            object.__setattr__(self, "matcher", as_matcher(self.matcher))
        except OptionError as error:
            raise OptionError(f"{self.name}: option matcher: {error}", "matcher") from None


@dataclass(frozen=True, kw_only=True)
class CriteriaEvaluator(SyncEvaluator):
    """Base of evaluators with criteria: a field of EvalCase and an option, both with the name `criterion`."""

    reads_calls: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if isinstance(getattr(self, self.criterion), list | tuple | Mapping):
            try:
                object.__setattr__(self, self.criterion, self.read_criteria())
            except ValueError as error:
                raise OptionError(f"{self.name}: option {error}", self.criterion) from None
        super().__post_init__()

    def read_criteria(self) -> Any:
        """The option as a case has it. Raises ValueError."""
        return getattr(EvalCase(**{self.criterion: getattr(self, self.criterion)}), self.criterion)

    def criteria_of(self, case: EvalCase) -> Any:
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
