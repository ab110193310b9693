"""`tool_efficiency`: the share of calls that do not repeat an earlier one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from a2a_tool_capture.models import ToolCall

from ..evaluator import Measurement
from ..matching.arguments import ArgumentMatcher, as_matcher, rule_for
from ..matching.explain import call_name
from ..matching.match_table import match_table
from ..matching.pairing import items
from ..matching.placeholders import quoted
from ..model import CallsUnseenError, EvalCase, ExpectedCall
from ..registry import register
from .comparing import MatchingEvaluator, without_calls


@register
class ToolEfficiency(MatchingEvaluator):
    """The share of calls that do not repeat an earlier one; 1 without calls.

    A call repeats another if the name is the same and `matcher` accepts the arguments. The result is skipped if the
    arguments of a call are unknown and its tool was called more than once. Polling and retries are repeats that may be
    right: set the threshold accordingly.

    Details: `repeats`, a list of `{position, name, of}`; `loops`, `{name, from, to}`, runs of the same call without
    another between. Source: Dokimos.

    Example:

        evaluators:
          - tool_efficiency: {threshold: 0.5}
    """

    def measure(self, case: EvalCase) -> Measurement:
        places = self._counting(case, case.tool_calls)
        calls = tuple(case.tool_calls[index] for index in places)
        same = self._same_calls(calls)
        repeat_of: dict[int, int] = {}
        fresh = (1 << len(calls)) - 1
        for index in range(len(calls)):
            if fresh >> index & 1:
                again = same[index] & fresh & -(2 << index)
                repeat_of.update(dict.fromkeys(items(again), index))
                fresh ^= again
        repeats = sorted(repeat_of.items())
        numbers = [place + 1 for place in places]
        details = {
            "repeats": [
                {"position": numbers[index], "name": calls[index].name, "of": numbers[of]} for index, of in repeats
            ],
            "loops": _loops(calls, same, numbers),
        }
        problems = [f"call {numbers[index]} ({calls[index].name}) repeats call {numbers[of]}" for index, of in repeats]
        distinct = len(calls) - len(repeats)
        return Measurement.share(distinct, len(calls), "call", "distinct", problems, details | without_calls(calls))

    def _same_calls(self, calls: tuple[ToolCall, ...]) -> list[int]:
        """For each call the calls that are the same, as bits; its own bit may be missing."""
        if len({call.name for call in calls}) == len(calls):
            return [0] * len(calls)
        matcher = as_matcher(self.matcher)
        made = Counter(call.name for call in calls)
        for index, call in enumerate(calls):
            rule = rule_for(matcher, call.name)
            ignored = isinstance(rule, ArgumentMatcher) and rule.mode == "ignore"
            if call.arguments is None and made[call.name] > 1 and not ignored:
                raise CallsUnseenError(f"the arguments of {call_name(index, calls)}: not seen")
        return match_table([ExpectedCall(call.name, quoted(call.arguments or {})) for call in calls], calls, matcher)


def _loops(calls: tuple[ToolCall, ...], same: list[int], numbers: Sequence[int]) -> list[dict[str, Any]]:
    """Runs of at least two calls, each the same as the one before, by the `numbers` of the first and the last."""
    loops: list[dict[str, Any]] = []
    for index in range(1, len(calls)):
        if same[index - 1] >> index & 1:
            if loops and loops[-1]["to"] == numbers[index - 1]:
                loops[-1]["to"] = numbers[index]
            else:
                loops.append({"name": calls[index].name, "from": numbers[index - 1], "to": numbers[index]})
    return loops
