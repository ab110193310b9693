"""`tool_trajectory`: did the agent make the expected calls, in one of several modes of comparison?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from ..evaluator import Measurement, SyncEvaluator
from ..matching.arguments import MatcherLike, as_matcher, matcher_option
from ..matching.explain import Pairing, matched_text, sentence, unless_all
from ..matching.match_table import match_table
from ..matching.pairing import items, longest_common_subsequence, maximum_matching
from ..model import EvalCase
from ..registry import register

TrajectoryMode = Literal["strict", "in_order", "any_order", "superset", "subset", "precision", "recall", "within"]

_ALL_OR_NOTHING = ("strict", "superset", "subset", "within")


@register
@dataclass(frozen=True, kw_only=True)
class ToolTrajectory(SyncEvaluator):
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
    reads_calls: ClassVar[bool] = True
    spellings: ClassVar[Mapping[str, str]] = {"match_mode": "mode", "arguments": "matcher"}
    needs: ClassVar[tuple[str, ...]] = ("expected_tool_calls",)

    mode: TrajectoryMode = "in_order"
    matcher: MatcherLike = "exact"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "matcher", matcher_option(self.matcher, self.name))

    def measure(self, case: EvalCase) -> Measurement:
        expected, actual = case.expected_tool_calls or (), case.tool_calls
        matcher = as_matcher(self.matcher)
        table = match_table(expected, actual, matcher)
        if self.mode == "strict":
            pairs = [(i, i) for i, options in enumerate(table) if options >> i & 1]
        elif self.mode == "in_order":
            pairs = longest_common_subsequence(table, len(actual))
        elif self.mode == "within":
            pairs, unmatched = [], -1
            for left, options in enumerate(table):
                pairs += [(left, right) for right in items(options & unmatched)]
                unmatched &= ~options
            pairs.sort(key=lambda pair: pair[1])
        else:
            pairs = maximum_matching(table, len(actual))
        pairing = Pairing(expected, actual, pairs, matcher)
        score = self._score(len(pairs), len(expected), len(actual))
        problems = []
        if score < 1.0:
            problems = pairing.problems(
                missing=self.mode not in ("subset", "precision", "within"),
                extra=self.mode not in ("superset", "recall"),
            )
        of_made = self._of_made(len(expected), len(actual))
        summary = matched_text(len(pairs), len(expected), len(actual), of_made=of_made)
        all_or_nothing = unless_all(score, len(pairs)) if self.mode in _ALL_OR_NOTHING else ""
        summary = f"{self.mode}: {summary}{all_or_nothing}"
        return Measurement(score, sentence(summary, problems), {"mode": self.mode, **pairing.details()})

    def _of_made(self, expected: int, actual: int) -> bool:
        """Whether the score is a share of the actual calls, else of the expected calls."""
        of_made = {"subset": True, "within": True, "superset": False, "precision": actual > 0, "recall": expected == 0}
        return of_made.get(self.mode, actual > expected)

    def _score(self, matched: int, expected: int, actual: int) -> float:
        if expected == actual == 0:
            return 1.0
        if self.mode in _ALL_OR_NOTHING:
            wanted = {
                "superset": expected,
                "subset": actual,
                "within": actual,
                "strict": max(expected, actual),
            }[self.mode]
            return float(matched == wanted)
        if expected == 0 or actual == 0:
            return 0.0
        return matched / {"precision": actual, "recall": expected}.get(self.mode, max(expected, actual))
