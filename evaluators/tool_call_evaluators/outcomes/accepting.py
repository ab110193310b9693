"""What a suite should expect if what the agent did in a run is accepted: a change for each expectation that failed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from a2a_tool_capture.models import ToolCall

from ..evaluator import EvaluatorBase
from ..grouping import grouped
from ..matching.arguments import ArgumentMatcher, Matcher, as_matcher, rule_for
from ..matching.call_failure import has_failed
from ..matching.explain import diff_calls
from ..matching.placeholders import by_meaning, decided_in, is_optional, is_placeholder
from ..model import EvalResult, ExpectedCall
from ..suite import Case, Expectation, Suite
from ..suite.lint import READ_BY
from ..suite.yaml_document import Path
from ..texts import from_json
from ..tool_classes import ToolClasses, named
from ..visibility import calls_in
from .conversations import RunConversation, TurnJson, follow
from .recording import Context, expected_value, ordered, recording_problem, typical_turns


@dataclass(frozen=True, slots=True)
class Proposal:
    """A new `value` for the key at `path` of a suite file; `reasons` are those of the results that failed."""

    case_id: str
    turn: int | None
    """From 1; None: the expectations of the whole conversation."""
    key: str
    path: Path
    value: Any
    reasons: tuple[str, ...]

    @property
    def where(self) -> str:
        return _where(self.case_id, self.turn, self.key)


@dataclass(frozen=True, slots=True)
class Acceptance:
    """The changes that a run proposes, and in sentences which failed expectations it does not change, and why."""

    proposals: tuple[Proposal, ...]
    left_out: tuple[str, ...]


def acceptance(
    suite: Suite,
    document: Any,
    turns: Iterable[TurnJson],
    results: Mapping[str, Iterable[Mapping[str, Any]]] | None = None,
) -> Acceptance:
    """The changes to the suite file with the value `document` that let it expect what the agent did in `turns`.

    Only expectations that an evaluator reads which failed in every conversation of the case are changed, and of these
    only what differs: values and placeholders that still match stay. What the run does not show is left out:
    conversations that failed or whose tool calls are unknown, expectations for judges, and cases that passed in some of
    their conversations, which are flaky rather than changed. `results` are those of whole conversations.
    """
    proposals: list[Proposal] = []
    left_out: dict[str, None] = {}
    by_case = grouped(
        (conversation.case.id, conversation)
        for conversation in follow(turns, suite, results)
        if conversation.case is not None and conversation.executed
    )
    for index, case in enumerate(suite.cases):
        for found in _of_case(case, suite, ("cases", index), document, by_case.get(case.id, ())):
            if isinstance(found, Proposal):
                proposals.append(found)
            else:
                left_out[found] = None
    if not (proposals or left_out):
        left_out["all cases: " + ("no expectation failed" if by_case else "the run has no turns of them")] = None
    return Acceptance(tuple(proposals), tuple(left_out))


def _of_case(
    case: Case, suite: Suite, path: Path, document: Any, conversations: Sequence[RunConversation]
) -> Iterator[Proposal | str]:
    specs = suite.evaluators if case.evaluators is None else case.evaluators
    evaluators = {item.metric: item for item in (spec.build() for spec in specs)}
    parts: list[tuple[int | None, Path, Expectation]] = [
        (index + 1, (*path, "turns", index, "expect"), turn.expect) for index, turn in enumerate(case.turns)
    ]
    for turn, place, expect in [*parts, (None, (*path, "expect"), case.expect)]:
        seen = [came for item in conversations if (came := _Seen.of(item, turn)) is not None]
        for key, readers in READ_BY.items():
            if getattr(expect, key) is None:
                continue
            failed = [item.failed(readers, evaluators) for item in seen]
            if not any(failed):
                continue
            where = _where(case.id, turn, key)
            if problems := [problem for item in conversations if (problem := recording_problem(item))]:
                yield f"{where}: {problems[0]} show no behaviour to accept"
            elif not all(failed):
                yield f"{where}: failed in {sum(map(bool, failed))} of {len(failed)} conversations, so it is flaky"
            elif case.depth == "all" and key.startswith("tool_"):
                yield f"{where}: calls of the agents that were asked count, too (depth: all); change it by hand"
            elif key not in _NEW_VALUE:
                yield f"{where}: no value follows from what the agent did; change it by hand"
            else:
                old = _at(document, (*place, key))
                with by_meaning(decided_in(result.details for item in seen for result in item.results)):
                    value = _NEW_VALUE[key](old, seen, [item for one in failed for item in one])
                if value == old:
                    yield f"{where}: already expects what the agent did"
                else:
                    reasons = tuple({result.reason: None for result, _ in failed[0]})
                    yield Proposal(case.id, turn, key, (*place, key), value, reasons)


def _where(case_id: str, turn: int | None, key: str) -> str:
    return f"{case_id}: {key}" if turn is None else f"{case_id}, turn {turn}: {key}"


def _at(value: Any, path: Path) -> Any:
    """The value at `path`; None if it does not exist."""
    for step in path:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return None
    return value


_Failed = tuple[EvalResult, EvaluatorBase]


@dataclass(frozen=True, slots=True)
class _Seen:
    """What the agent did in a turn, or in all turns of a conversation, and its results."""

    turns: Sequence[TurnJson]
    results: Sequence[EvalResult]
    said: str
    classes: ToolClasses | None = None

    @classmethod
    def of(cls, conversation: RunConversation, turn: int | None) -> _Seen | None:
        """None if the turn was not executed."""
        executed, results = conversation.executed, list(conversation.results)
        if turn is not None:
            own = [one for one in conversation.turns if one.index == turn - 1 and one.turn is not None]
            executed, results = [one.turn for one in own if one.turn], [r for one in own for r in one.results]
        said = [one["user_text"] for one in conversation.sent]
        if turn is not None:
            said = said[: len(conversation.given) + turn]
        classes = conversation.case.tool_classes if conversation.case else None
        return cls(executed, results, "\n".join(said), classes) if executed else None

    def failed(self, readers: Iterable[str], evaluators: Mapping[str, EvaluatorBase]) -> list[_Failed]:
        """The failed results of evaluators with these names."""
        found = ((result, evaluators.get(result.evaluator)) for result in self.results if result.passed is False)
        return [(result, item) for result, item in found if item is not None and item.name in readers]

    @property
    def calls(self) -> list[ToolCall]:
        return [call for turn in self.turns for call in calls_in(turn)]

    @property
    def context(self) -> Context:
        return Context(self.said, datetime.fromisoformat(self.turns[0]["started_at"]))


def _calls(old: Any, seen: Sequence[_Seen], failed: Sequence[_Failed]) -> list[Any]:
    """The expected calls: of the typical conversations, with what still matches of the `old` ones."""
    matchers = [as_matcher(item.matcher) for _, item in failed if hasattr(item, "matcher")]
    matcher = matchers[0] if matchers else ArgumentMatcher()
    ignored = _ignored(seen[0].classes, failed)
    counting = [[call for call in item.calls if not ignored(call.name)] for item in seen]
    shapes = typical_turns([[call.name for call in calls] for calls in counting])
    made = [list(together) for together in zip(*(counting[index] for index in shapes), strict=True)]
    known = [ExpectedCall.from_dict(call) for call in old or ()]
    changes = diff_calls(known, [together[0] for together in made], matcher)
    earlier = {change.right: change.left for change in changes if change.right is not None}
    unread = [index for index, call in enumerate(known) if ignored(call.name)]
    extra = any(getattr(item, "mode", "") not in ("superset", "recall") for _, item in failed)
    out = []
    for index, together in enumerate(made):
        left = earlier.get(index)
        while left is not None and unread and unread[0] < left:
            out.append(old[unread.pop(0)])
        if left is not None:
            out.append(_call(old[left], together, rule_for(matcher, together[0].name), seen[0].context))
        elif extra:
            given = [ordered(call.arguments_given) for call in together if call.arguments is not None]
            arguments = expected_value(given, seen[0].context) if given else None
            out.append({"name": together[0].name, **({"arguments": arguments} if arguments != {} else {})})
    return out + [old[index] for index in unread]


def _ignored(classes: ToolClasses | None, failed: Sequence[_Failed]) -> Callable[[str], bool]:
    """Whether calls of a tool count for none of the evaluators that failed: what is expected of them stays."""
    names = [getattr(item, "ignored_tools", ()) for _, item in failed]
    if not names or not all(names):
        return lambda tool: False
    every = [named(one, classes) for one in names]  # an evaluator that lacks the classes is skipped, and does not fail
    return lambda tool: all(is_named(tool) for is_named in every)


def _call(old: Mapping[str, Any], made: Sequence[ToolCall], rule: Matcher, context: Context) -> dict[str, Any]:
    """The expected call `old` with what no longer matches replaced."""
    accepts = rule.accepts if isinstance(rule, ArgumentMatcher) else ArgumentMatcher().accepts
    key = "args" if "args" in old else "arguments"
    new = dict(old)
    wanted = old.get(key, {})
    given = [ordered(call.arguments_for(wanted)) for call in made if call.arguments is not None]
    if given and not all(isinstance(rule, ArgumentMatcher) and rule(wanted, one) for one in given):
        kept = _kept(wanted, given, expected_value(given, context), accepts)
        if kept != {} or key in old:
            new[key] = kept
    for part in ("result", "error"):
        actual = [getattr(call, part) for call in made]
        value = old.get(part)
        if value is not None and None not in actual:
            compared = actual if isinstance(value, str) else list(map(from_json, actual))
            if not all(accepts(value, one) for one in compared):
                new[part] = _kept(value, compared, expected_value(compared, context), accepts)
    if old.get("succeeded") is not None:
        new["succeeded"] = not any(has_failed(call.to_dict()) for call in made)
    return new


def _kept(old: Any, actual: Sequence[Any], new: Any, accepts: Callable[[Any, Any], bool]) -> Any:
    """`new`, with each part of `old` that accepts all of the `actual` values."""
    if all(accepts(old, value) for value in actual):
        return old
    objects = [value for value in actual if isinstance(value, Mapping)]
    if isinstance(old, Mapping) and not is_placeholder(old) and len(objects) == len(actual) and not is_placeholder(new):
        merged = {}
        for key, value in old.items():
            inner = [item[key] for item in objects if key in item]
            if len(inner) == len(objects) and key in new:
                merged[key] = _kept(value, inner, new[key], accepts)
            elif is_optional(value) and all(accepts(value, one) for one in inner):
                merged[key] = value
        return merged | {key: value for key, value in new.items() if key not in old}
    lists = [value for value in actual if isinstance(value, list)]
    if isinstance(old, list) and isinstance(new, list) and {len(old)} == {len(value) for value in lists}:
        items = zip(old, zip(*lists, strict=True), new, strict=True)
        return [_kept(one, values, value, accepts) for one, values, value in items]
    return new


def _order(_: Any, seen: Sequence[_Seen], failed: Sequence[_Failed]) -> list[str]:
    return [call.name for call in seen[0].calls]


def _response(old: Any, seen: Sequence[_Seen], failed: Sequence[_Failed]) -> Any:
    answers = [item.turns[-1]["response_text"] for item in seen]
    if isinstance(old, str):
        return answers[0]
    values = list(map(from_json, answers))
    return _kept(old, values, ordered(values[0]), ArgumentMatcher().accepts)


_NEW_VALUE: Mapping[str, Callable[[Any, Sequence[_Seen], Sequence[_Failed]], Any]] = {
    "tool_calls": _calls,
    "tool_calls_order": _order,
    "response": _response,
}
