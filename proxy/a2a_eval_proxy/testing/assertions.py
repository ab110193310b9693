"""`assert_tool_calls`: were the calls made the expected ones, and if not, what differs?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from a2a_tool_capture.models import ToolCall
from tool_call_evaluators.matching.arguments import MatcherLike, as_matcher
from tool_call_evaluators.metrics.tool_trajectory import ToolTrajectory, TrajectoryMode
from tool_call_evaluators.model import CallsUnseenError, EvalCase, ExpectedCall
from tool_call_evaluators.outcomes.conversations import TurnJson
from tool_call_evaluators.texts import one_line, printable
from tool_call_evaluators.visibility import visibility_in

from ..runs.call_differences import diff_lines

_MAX_FINDINGS = 10


def assert_tool_calls(
    turns: TurnJson | Iterable[TurnJson],
    expected: Iterable[ToolCall | Mapping[str, Any]],
    *,
    mode: TrajectoryMode = "in_order",
    arguments: MatcherLike = "exact",
) -> None:
    """Assert that a turn made the expected tool calls; of several turns, all their calls one after the other.

    `expected` holds calls as in a suite, `{"name": ..., "arguments": {...}}`: without `arguments` none are
    expected, a `result` and an `error` only if given; placeholders such as `{"$any": True}` are understood. `mode` and
    `arguments` (there `matcher`) are those of the evaluator `tool_trajectory`, whose score must be 1. With the default,
    all expected calls were made in this order, and no others. `expected=[]` asserts that no tool was called. A turn
    whose calls are unknown fails, whatever is expected: no source shows calls of the agent, or its answer was lost, or
    its task failed before any call.

    Raises AssertionError where they are not: its first line is the first difference, then both sides are compared.
    Raises ValueError for no turns at all, a malformed expectation, or an unknown option: such a test checks nothing.
    """
    __tracebackhide__ = True
    chosen = [turns] if isinstance(turns, Mapping) else list(turns)
    problem = _misuse(chosen, expected)
    if problem is None:
        try:
            matcher = as_matcher(arguments)
            evaluator = ToolTrajectory(mode=mode, matcher=arguments)
            made = [call for turn in chosen for call in turn["tool_calls"]]
            case = EvalCase(tool_calls=made, expected_tool_calls=expected)
        except ValueError as error:
            problem = str(error)
    if problem is not None:
        raise ValueError(f"assert_tool_calls: {problem}")  # outside the handler: pytest shows no earlier error
    unknown = next((why for turn in chosen if (why := visibility_in(turn).unknown)), None)
    try:
        if unknown is None and evaluator.measure(case).score == 1.0:
            return
    except CallsUnseenError as error:
        unknown = str(error)
    lines = diff_lines(case.expected_tool_calls or (), case.tool_calls, mode, matcher)
    first = unknown or f"{_first_difference(lines)} ({mode})"
    hints = _hints(chosen, case.expected_tool_calls or (), lines)
    raise AssertionError(printable("\n".join([first, "", *lines, *hints])))


def _misuse(turns: Sequence[Any], expected: object) -> str | None:
    """What is wrong with the arguments, if they are not of the kinds that are compared."""
    if not turns:
        return "there is no turn; did the traffic go through the proxy's URL?"
    odd = next((turn for turn in turns if not isinstance(turn, Mapping) or "tool_calls" not in turn), None)
    if odd is not None:
        return f"expected a turn, as a2a_proxy.send() and a2a_proxy.turns() return, got {one_line(repr(odd), 80)}"
    if isinstance(expected, str | Mapping) or not isinstance(expected, Iterable):
        return f'expected a list of calls, [{{"name": ..., "arguments": ...}}], got {one_line(repr(expected), 80)}'
    name = next((call for call in expected if isinstance(call, str)), None) if isinstance(expected, Sequence) else None
    if name is not None:
        return f'write {{"name": {name!r}, "arguments": None}} in place of {name!r}, to accept any arguments'
    return None


def _first_difference(lines: Sequence[str]) -> str:
    """The first line of a comparison that says what is wrong, as a sentence."""
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        mark, text = line[0], line[2:].replace("   (", " (")
        if mark == "~":
            return f"{text}: {following.strip()}" if following.startswith("    ") else f"{text}: other arguments"
        if mark in "-+>":
            return text
    return "the tool calls are not the expected ones"


def _hints(turns: Sequence[TurnJson], expected: Sequence[ExpectedCall], lines: Sequence[str]) -> list[str]:
    """What explains the difference: calls expected without arguments, findings."""
    bare = any(line.startswith(f"~ {call.name}(") for call in expected if call.arguments == {} for line in lines)
    hint = ["", "a call expected without arguments has none; write arguments: None to accept any"] if bare else []
    found = [f"  {item['code']}: {one_line(item['message'], 300)}" for turn in turns for item in turn["findings"]]
    more = [f"  … and {len(found) - _MAX_FINDINGS} more"] if len(found) > _MAX_FINDINGS else []
    return [*hint, *(["", "findings:", *found[:_MAX_FINDINGS], *more] if found else [])]
