"""`tool_trajectory`: did the agent make the expected calls, in one of several modes of comparison?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from ..evaluator import Measurement
from ..matching.arguments import as_matcher
from ..matching.call_failure import why_failed
from ..matching.explain import Pairing, matched_text, unless_all
from ..matching.match_table import match_table
from ..matching.overlaps import in_some_order, overlapping_calls
from ..matching.pairing import Pair, Table, items, longest_common_subsequence, maximum_matching
from ..model import EvalCase
from ..registry import register
from ..texts import sentence
from .comparing import MatchingEvaluator

TrajectoryMode = Literal["strict", "in_order", "any_order", "superset", "subset", "precision", "recall", "within"]

_ALL_OR_NOTHING = ("strict", "superset", "subset", "within")


@register
class ToolTrajectory(MatchingEvaluator):
    """Whether the agent made the expected calls, by one of eight modes of comparison.

    A are the calls that were made, E the expected ones, and m the size of a largest matching between them that uses
    each call once. Two calls match if their names are equal and `matcher` accepts the arguments.

    - `strict`: 1 if both have the same length and match pair by pair, else 0
    - `in_order`: longest common subsequence / max(|A|, |E|)
    - `any_order`: m / max(|A|, |E|)
    - `superset`: 1 if every expected call was made (m = |E|), else 0
    - `subset`: 1 if every call that was made was expected (m = |A|), else 0
    - `precision`: m / |A|; `recall`: m / |E|
    - `within`: 1 if each call matches some expected one, which several may match, else 0

    Both empty: 1. E empty: 1 for `superset`, else 0. A empty: 1 for `subset` and `within`, else 0. In `strict` and
    `in_order`, calls that overlap in time count in whichever order fits best.

    Details: `mode`; `matched`, `missing` and `extra`, with positions from 1; `near_misses`, each missing call with the
    least different extra call of its tool. Source: Dokimos.

    Example:

        evaluators:
          - tool_trajectory: {mode: any_order, matcher: {mode: subset, trim: true}, threshold: 0.8}
    """

    spellings: ClassVar[Mapping[str, str]] = {"match_mode": "mode"}
    needs = ("expected_tool_calls",)

    mode: TrajectoryMode = "in_order"
    """How the calls compare."""

    only_succeeded: bool = False
    """True: calls that failed, by the rule of `tool_error`, do not count."""

    def measure(self, case: EvalCase) -> Measurement:
        wanted, made = case.expected_tool_calls or (), case.tool_calls
        lefts, rights = self._counting(case, wanted), self._counting(case, made)
        if self.only_succeeded:
            rights = [index for index in rights if not why_failed(made[index].error, made[index].result)]
        expected, actual = [wanted[index] for index in lefts], [made[index] for index in rights]
        matcher = as_matcher(self.matcher)
        if self.mode == "within":
            pairing = Pairing(expected, actual, _within(match_table(expected, actual, matcher)), matcher)
        else:
            pair = _PAIR.get(self.mode)
            pair = in_some_order(pair, overlapping_calls(actual)) if pair else maximum_matching
            pairing = Pairing.of(expected, actual, matcher, pair)
        pairing = pairing.placed(wanted, made, lefts, rights)
        counts = matched, *_ = len(pairing.pairs), len(expected), len(actual)
        score, summary, problems = self._score(*counts), _summary(self.mode, *counts), []
        if self.mode in _ALL_OR_NOTHING:
            summary += unless_all(score, matched)
        if score < 1.0:
            problems = pairing.problems(
                missing=self.mode not in ("subset", "precision", "within"),
                extra=self.mode not in ("superset", "recall"),
                several=self.mode == "within",
            )
        return Measurement(score, sentence(summary, problems), {"mode": self.mode, **pairing.details()})

    def _score(self, matched: int, expected: int, actual: int) -> float:
        if expected == actual == 0:
            return 1.0
        whole = {"superset": expected, "recall": expected, "subset": actual, "within": actual, "precision": actual}
        wanted = whole.get(self.mode, max(expected, actual))
        if self.mode in _ALL_OR_NOTHING:
            return float(matched == wanted)
        return matched / wanted if expected and actual else 0.0


def _in_place(table: Table, _: int) -> list[tuple[int, int]]:
    return [(i, i) for i, options in enumerate(table) if options >> i & 1]


def _within(table: Table) -> list[tuple[int, int]]:
    """Each call with the first expected one that it matches."""
    pairs, unmatched = [], -1
    for left, options in enumerate(table):
        pairs += [(left, right) for right in items(options & unmatched)]
        unmatched &= ~options
    return sorted(pairs, key=lambda pair: pair[1])


_PAIR: Mapping[str, Pair] = {"strict": _in_place, "in_order": longest_common_subsequence}
"""Of the other modes but `within`: `maximum_matching`."""


def _summary(mode: TrajectoryMode, matched: int, expected: int, actual: int) -> str:
    """The fraction that is the score, of the actual or of the expected calls."""
    match mode:
        case "subset" | "within":
            of_made = True
        case "superset":
            of_made = False
        case "precision":
            of_made = actual > 0
        case "recall":
            of_made = expected == 0
        case _:
            of_made = actual > expected
    return f"{mode}: {matched_text(matched, expected, actual, of_made=of_made)}"
