"""`tool_call_order`, `tool_call_count` and `tool_call_output`: compare calls with criteria.

Criteria are options of the evaluator, for the whole suite, or fields of the case, which take precedence. A name may
also be the id of a call: UiPath's criteria may name a tool by the `tool.id` of its spans.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from a2a_tool_capture.canonical import canonical
from a2a_tool_capture.models import ToolCall

from ..evaluator import Measurement
from ..matching.call_failure import outcome_unknown
from ..matching.explain import call_name, unless_all
from ..matching.overlaps import in_some_order, overlapping_calls
from ..matching.pairing import first_fitting, longest_common_subsequence
from ..model import CallsUnseenError, EvalCase, ExpectedCall, ExpectedOutput
from ..registry import register
from ..texts import counted, from_json, json_excerpt, sentence
from .comparing import ComparesCalls, CriteriaEvaluator, calls_named, graded

OTHERS = "*"
"""In `tool_calls_count`, all tools that are not named."""


@register
class ToolCallOrder(CriteriaEvaluator, ComparesCalls):
    """How far the tools were called in the expected order, by name.

    The score is the longest common subsequence of the names called and the names expected / number of names expected.
    Further calls cost nothing unless `strict`. Calls that overlap in time count in whichever order fits best. Both
    empty: 1; exactly one empty: 0. The result is skipped without expected names.

    Details: `lcs`, `actual` and `expected`, each a list of names. Source: UiPath.

    Example:

        evaluators:
          - tool_call_order: {tool_calls_order: [search, pay]}
    """

    criterion = "tool_calls_order"

    tool_calls_order: Sequence[str] | None = None
    """The names of the expected calls, in order, for cases without their own."""
    strict: bool = False
    """True: 1 for equal sequences, else 0."""
    only_succeeded: bool = False
    """True: calls that failed, by the rule of `tool_error`, are not read."""

    def measure(self, case: EvalCase) -> Measurement:
        wanted = [ExpectedCall(name) for name in self._criteria_of(case)]
        made = calls_named(case, {call.name for call in wanted}, only_succeeded=self.only_succeeded)
        expected = [wanted[index].name for index in self._counting(case, wanted)]
        counting = [made[index] for index in self._counting(case, made)]
        actual = [call.name for call in counting]
        lcs = expected if expected == actual else _in_order(expected, counting)
        all_or_nothing = self.strict or not expected
        score = float(expected == lcs and len(lcs) == len(actual)) if all_or_nothing else len(lcs) / len(expected)
        in_order = f"{len(lcs)} of {counted(len(expected), 'expected call')} in order{unless_all(score, len(lcs))}"
        return Measurement(
            score,
            f"{in_order if expected else 'no call expected'}: "
            f"expected {' > '.join(expected) or 'none'}, got {' > '.join(actual) or 'none'}.",
            {"lcs": lcs, "actual": actual, "expected": expected},
        )


@register
class ToolCallCount(CriteriaEvaluator):
    """The share of the criteria of the form "called so many times" that are met.

    A tool that was never called counts 0, also if no tool was called at all. `*` is all tools that are not named: with
    `["=", 0]`, only the named tools may be called. The result is skipped without criteria.

    Details, by name: `{actual, comparator, expected, score}`. Source: UiPath.

    Example:

        evaluators:
          - tool_call_count: {tool_calls_count: {search: [">=", 1], delete: ["=", 0]}}
    """

    criterion = "tool_calls_count"

    tool_calls_count: Mapping[str, Sequence[Any]] | None = None
    """How often each tool is called, `{name: [comparator, times]}`, for cases without their own; `*` is all other
    tools. Comparators: `=`, `!=`, `<`, `<=`, `>`, `>=`."""
    strict: bool = False
    """True: 1 if all criteria are satisfied, else 0."""
    only_succeeded: bool = False
    """True: calls that failed, by the rule of `tool_error`, are not counted."""

    def measure(self, case: EvalCase) -> Measurement:
        criteria = self._criteria_of(case)
        calls = calls_named(case, criteria.keys(), only_succeeded=self.only_succeeded)
        made = Counter(call.name if call.name in criteria else OTHERS for call in calls)
        details, problems = {}, []
        for name, criterion in criteria.items():
            comparator, times = criterion
            satisfied = criterion.met_by(made[name])
            details[name] = {
                "actual": made[name],
                "comparator": comparator,
                "expected": times,
                "score": float(satisfied),
            }
            if not satisfied:
                subject = f"{name} was"
                if name == OTHERS:
                    others = sorted({call.name for call in calls} - criteria.keys())
                    subject = f"other tools ({', '.join(others) or 'none'}) were"
                problems.append(f"{subject} called {counted(made[name], 'time')}, expected {comparator} {times}")
        satisfied_count = len(criteria) - len(problems)
        score = graded(satisfied_count, len(criteria), len(criteria), strict=self.strict)
        summary = (
            f"{satisfied_count} of {counted(len(criteria), 'count')} as expected{unless_all(score, satisfied_count)}"
        )
        return Measurement(score, sentence(summary, problems), details)


@register
class ToolCallOutput(CriteriaEvaluator):
    """The share of the expected outputs that tools returned.

    Each expected output, in order, takes the first unused call of its name whose result is an equal string. A result
    that is a JSON object counts as its `content` if it has one, else as JSON with sorted keys; so does an expected
    output. A call without a result has the empty string. Both empty: 1; exactly one empty: 0. The result is skipped
    without expected outputs.

    Details, for each call tried, as `<name>_0`, `<name>_1`, ...: `{expected, actual, score}`. Source: UiPath.

    Example:

        evaluators:
          - tool_call_output: {tool_outputs: [{name: lookup, output: sent}], strict: true}
    """

    criterion = "tool_outputs"

    tool_outputs: Sequence[Mapping[str, Any] | ExpectedOutput] | None = None
    """The expected outputs, each `{name, output}`, for cases without their own."""
    strict: bool = False
    """True: 1 if all outputs are matched, else 0."""

    def measure(self, case: EvalCase) -> Measurement:
        outputs = self._criteria_of(case)
        names = {name for name, _ in outputs}
        expected = [(name, _output_text(output)) for name, output in outputs]
        made = calls_named(case, names)
        actual = [(call.name, _output_text(call.result or "")) for call in made]
        pairs, attempts = first_fitting(expected, actual, lambda left, right: expected[left] == actual[right])
        returned_at = {left for left, _ in pairs}
        problems = [
            f"no {name} returned {json_excerpt(wanted)}"
            for left, (name, wanted) in enumerate(expected)
            if left not in returned_at
        ]
        missing = {name for left, (name, _) in enumerate(expected) if left not in returned_at}
        for index, call in enumerate(made):
            if call.name in missing and outcome_unknown(call):
                raise CallsUnseenError(f"the result of {call_name(index, made)}: not seen")
        matched = len(pairs)
        score = graded(matched, len(expected), len(case.tool_calls), strict=self.strict)
        returned = f"{matched} of {counted(len(expected), 'expected output')} returned{unless_all(score, matched)}"
        if not expected:
            returned = f"no output expected, {counted(len(case.tool_calls), 'call')} made"
        return Measurement(score, sentence(returned, problems), attempts)


def _in_order(expected: Sequence[str], actual: Sequence[ToolCall]) -> list[str]:
    """The longest common subsequence."""
    places: dict[str, int] = defaultdict(int)
    for j, call in enumerate(actual):
        places[call.name] |= 1 << j
    table = [places.get(name, 0) for name in expected]
    in_order = in_some_order(longest_common_subsequence, overlapping_calls(actual))
    return [expected[i] for i, _ in in_order(table, len(actual))]


def _output_text(result: str) -> str:
    value = from_json(result) if "{" in result else result
    if not isinstance(value, dict):
        return result
    content = value.get("content", value)
    return content if isinstance(content, str) else canonical(content)
