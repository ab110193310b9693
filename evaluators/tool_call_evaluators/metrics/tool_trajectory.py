"""`tool_trajectory`: did the agent make the expected calls, in one of several modes of comparison?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Literal

from ..evaluator import Measurement
from ..matching.arguments import as_matcher
from ..matching.exact import made_exactly
from ..matching.explain import Pairing, matched_text, sentence, unless_all
from ..matching.match_table import match_table
from ..matching.pairing import items, longest_common_subsequence, maximum_matching
from ..model import EvalCase, ExpectedCalls
from ..registry import register
from .comparing import MatchingEvaluator

TrajectoryMode = Literal["strict", "in_order", "any_order", "superset", "subset", "precision", "recall", "within"]

_ALL_OR_NOTHING = ("strict", "superset", "subset", "within")


@register
@dataclass(frozen=True, kw_only=True)
class ToolTrajectory(MatchingEvaluator):
    """Compares the actual calls (A) with the expected calls (E); two match in name and, by `matcher`, arguments.

    With m the size of a largest matching that uses each call once:

    - `strict` 1 if both have the same length and match pair by pair, else 0
    - `in_order` longest common subsequence / max(|A|, |E|)
    - `any_order` m / max(|A|, |E|)
    - `superset` 1 if every expected call was made (m = |E|), else 0
    - `subset` 1 if every actual call was expected (m = |A|), else 0
    - `precision` m / |A|, `recall` m / |E|
    - `within` 1 if every actual call matches some expected one, which may match several, else 0

    Both empty: 1. E empty: 1 for `superset`, else 0. A empty: 1 for `subset` and `within`, else 0.
    Details: `mode`, and the pairing as `matched`, `missing`, `extra`, `near_misses` (positions from 1).
    """

    name: ClassVar[str] = "tool_trajectory"
    spellings: ClassVar[Mapping[str, str]] = {"match_mode": "mode"}
    needs: ClassVar[tuple[str, ...]] = ("expected_tool_calls",)

    mode: TrajectoryMode = "in_order"
    """How the calls compare. `strict`: equal, pair by pair; `in_order`: in this order, further calls lower the score;
    `any_order`: the same in any order; `superset`: every expected call was made; `subset`: every actual call was
    expected; `within`: as `subset`, and several may match one; `precision`, `recall`: the share of the actual, or
    expected, calls that match."""

    def measure(self, case: EvalCase) -> Measurement:
        expected, actual = case.expected_tool_calls or ExpectedCalls(), case.tool_calls
        matcher = as_matcher(self.matcher)
        if self.mode != "within" and made_exactly(expected, actual, matcher):
            summary = _summary(self.mode, len(actual), len(expected), len(actual))
            return Measurement(
                1.0, f"{summary}.", explain=lambda: self._details(Pairing.one_by_one(expected, actual, matcher))
            )
        pairing = Pairing(expected, actual, self._pairs(match_table(expected, actual, matcher), len(actual)), matcher)
        counts = matched, *_ = len(pairing.pairs), len(expected), len(actual)
        score, summary, problems = self._score(*counts), _summary(self.mode, *counts), []
        if self.mode in _ALL_OR_NOTHING:
            summary += unless_all(score, matched)
        if score < 1.0:
            pairing.refuse_unknown(several=self.mode == "within")
            problems = pairing.problems(
                missing=self.mode not in ("subset", "precision", "within"),
                extra=self.mode not in ("superset", "recall"),
            )
        return Measurement(score, sentence(summary, problems), self._details(pairing))

    def _pairs(self, table: Sequence[int], actual: int) -> list[tuple[int, int]]:
        if self.mode == "strict":
            return [(i, i) for i, options in enumerate(table) if options >> i & 1]
        if self.mode == "in_order":
            return longest_common_subsequence(table, actual)
        if self.mode != "within":
            return maximum_matching(table, actual)
        pairs, unmatched = [], -1
        for left, options in enumerate(table):
            pairs += [(left, right) for right in items(options & unmatched)]
            unmatched &= ~options
        return sorted(pairs, key=lambda pair: pair[1])

    def _details(self, pairing: Pairing) -> dict[str, Any]:
        return {"mode": self.mode, **pairing.details()}

    def _score(self, matched: int, expected: int, actual: int) -> float:
        if expected == actual == 0:
            return 1.0
        whole = {"superset": expected, "recall": expected, "subset": actual, "within": actual, "precision": actual}
        wanted = whole.get(self.mode, max(expected, actual))
        if self.mode in _ALL_OR_NOTHING:
            return float(matched == wanted)
        return matched / wanted if expected and actual else 0.0


@lru_cache(maxsize=1024)
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
