"""`tool_correctness`: did the agent use the right tools, graded as one F1 or order score?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

from a2a_tool_capture.models import ToolCall

from ..evaluator import Measurement
from ..matching.arguments import ArgumentMatcher, as_matcher
from ..matching.explain import Pairing, matched_text
from ..matching.overlaps import in_some_order, overlapping_calls
from ..matching.pairing import longest_common_subsequence, maximum_matching
from ..model import EvalCase, ExpectedCall
from ..registry import register
from ..texts import counted, sentence
from .comparing import MatchingEvaluator

_NAMES = ArgumentMatcher(mode="ignore")


@register
class ToolCorrectness(MatchingEvaluator):
    """How well the tools that were used (A) agree with the expected ones (E), as one number.

    - `names_only`: F1 of the two sets of names, 2 * shared / (names in A + names in E)
    - `names_and_order`: longest common subsequence of the names / max(|A|, |E|); calls that overlap in time count in
      whichever order fits best
    - `names_and_args`: F1 of the calls, 2m / (|A| + |E|), with m the size of a largest matching by `matcher`

    Both empty: 1; exactly one empty: 0.

    Details: `mode`, and for `names_only` the names that are `correct`, `redundant` and `missing`, else the pairs as in
    `tool_trajectory`. Source: Dokimos.

    Example:

        evaluators:
          - tool_correctness: {mode: names_and_args, matcher: subset}
    """

    spellings: ClassVar[Mapping[str, str]] = {"match_mode": "mode"}
    needs = ("expected_tool_calls",)

    mode: Literal["names_only", "names_and_order", "names_and_args"] = "names_only"
    """What must agree: the names, the names in order, or the names and the arguments."""

    def measure(self, case: EvalCase) -> Measurement:
        wanted, made = case.expected_tool_calls or (), case.tool_calls
        lefts, rights = self._counting(case, wanted), self._counting(case, made)
        expected, actual = [wanted[index] for index in lefts], [made[index] for index in rights]
        if self.mode == "names_only":
            return self._compare_names(expected, actual)
        in_order = self.mode == "names_and_order"
        matcher = _NAMES if in_order else as_matcher(self.matcher)
        if in_order:
            wanted = tuple(ExpectedCall(call.name, None) for call in wanted)
            expected = [wanted[index] for index in lefts]
        pair = in_some_order(longest_common_subsequence, overlapping_calls(actual)) if in_order else maximum_matching
        pairing = Pairing.of(expected, actual, matcher, pair).placed(wanted, made, lefts, rights)
        score, summary = self._share(len(pairing.pairs), len(expected), len(actual))
        problems = pairing.problems() if score < 1.0 else []
        return Measurement(score, sentence(summary, problems), {"mode": self.mode, **pairing.details()})

    def _share(self, matched: int, expected: int, actual: int) -> tuple[float, str]:
        """The score, and a text that has it as a fraction."""
        counts = matched, expected, actual
        if self.mode == "names_and_args":
            return _f1(*counts), f"{self.mode}: {_f1_text(*counts)}{matched_text(*counts, of_made=False)}"
        longest = max(expected, actual)
        summary = f"{self.mode}: {matched_text(*counts, of_made=actual > expected)}"
        return matched / longest if longest else 1.0, summary

    def _compare_names(self, expected: Sequence[ExpectedCall], actual: Sequence[ToolCall]) -> Measurement:
        wanted, used = {call.name for call in expected}, {call.name for call in actual}
        details = {
            "mode": self.mode,
            "correct": sorted(wanted & used),
            "redundant": sorted(used - wanted),
            "missing": sorted(wanted - used),
        }
        problems = [f"{name} was not used" for name in details["missing"]]
        problems += [f"{name} was not expected" for name in details["redundant"]]
        counts = shared, *_ = len(wanted & used), len(wanted), len(used)
        summary = (
            f"{_f1_text(*counts)}{shared} of {counted(len(wanted), 'expected tool')} used, {len(used)} used in all"
        )
        return Measurement(_f1(*counts), sentence(f"names_only: {summary}", problems), details)


def _f1(shared: int, expected: int, actual: int) -> float:
    """2 * shared / (expected + actual), which is F1 of precision and recall; 1 where there is nothing."""
    return 2 * shared / (expected + actual) if expected + actual else 1.0


def _f1_text(shared: int, expected: int, actual: int) -> str:
    return f"F1 = {2 * shared}/{expected + actual}, " if expected + actual else ""
