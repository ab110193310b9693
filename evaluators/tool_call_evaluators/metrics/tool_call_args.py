"""`tool_call_args`: were the expected calls made with the expected arguments?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from a2a_tool_capture.models import ToolCall

from ..evaluator import Measurement, SyncEvaluator
from ..matching.arguments import ArgumentMatcher
from ..matching.exact import made_exactly
from ..matching.explain import Pairing, counted, sentence, unless_all
from ..matching.match_table import match_table
from ..matching.pairing import first_fitting
from ..model import EvalCase, ExpectedCalls
from ..registry import register

_EQUAL = ArgumentMatcher()
_CONTAINED = ArgumentMatcher(mode="subset")


@register
@dataclass(frozen=True, kw_only=True)
class ToolCallArgs(SyncEvaluator):
    """Matched expected calls / expected calls; each takes the first unused call that fits, in order.

    A call fits if the names and arguments are equal; with `subset` it may have further arguments. `strict`: 1 if all
    are matched, else 0. Extra calls do not count and calls of different tools may come
    in any order. Both empty: 1; exactly one empty: 0. The greedy order is not optimal: with
    placeholders or `subset` it may leave a later call unmatched; `tool_trajectory` with `recall` is optimal.

    Rule: UiPath's tool call args evaluator, which accepts extra arguments even without `subset`, contrary to its
    documentation; here they fail. Details: each pair tried under `<name>_0`, `<name>_1`, ... as
    `{expected, actual, score}`; and the pairing (positions from 1).
    """

    name: ClassVar[str] = "tool_call_args"
    reads_calls: ClassVar[bool] = True
    needs: ClassVar[tuple[str, ...]] = ("expected_tool_calls",)

    strict: bool = False
    subset: bool = False

    def measure(self, case: EvalCase) -> Measurement:
        expected, actual = case.expected_tool_calls or ExpectedCalls(), case.tool_calls
        matcher = _CONTAINED if self.subset else _EQUAL
        if expected and made_exactly(expected, actual, matcher):
            own = [1 << index for index in range(len(actual))]
            summary = _summary(len(expected), len(expected))
            return Measurement(1.0, f"{summary}.", explain=lambda: _paired(expected, actual, own, matcher)[1])
        pairing, details = _paired(expected, actual, match_table(expected, actual, matcher), matcher)
        matched = len(pairing.pairs)
        if not expected or not actual:
            score = float(len(expected) == len(actual))
        elif self.strict:
            score = float(matched == len(expected))
        else:
            score = matched / len(expected)
        problems = pairing.problems(extra=False) if score < 1.0 else []
        summary = _summary(matched, len(expected)) + unless_all(score, matched)
        if not expected:
            summary = f"no call expected, {counted(len(actual), 'call')} made"
        return Measurement(score, sentence(summary, problems), details)


def _summary(matched: int, expected: int) -> str:
    return f"{matched} of {counted(expected, 'expected call')} made with the expected arguments"


def _paired(
    expected: Sequence[ToolCall], actual: Sequence[ToolCall], fitting: Sequence[int], matcher: ArgumentMatcher
) -> tuple[Pairing, dict[str, Any]]:
    """The pairs, given for each expected call those that fit, as bits; and the details."""
    pairs, compared = first_fitting(
        [(call.name, call.arguments) for call in expected],
        [(call.name, call.arguments) for call in actual],
        lambda left, right: bool(fitting[left] >> right & 1),
    )
    pairing = Pairing(expected, actual, pairs, matcher)
    return pairing, {**compared, **pairing.details()}
