"""`tool_call_args`: were the expected calls made with the expected arguments?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, ClassVar, Literal

from a2a_tool_capture.models import ToolCall

from ..evaluator import Measurement
from ..judged.base import MeaningEvaluator
from ..matching.arguments import ArgumentMatcher, outcome_differences
from ..matching.explain import Pairing, unless_all
from ..matching.match_table import match_table
from ..matching.pairing import first_fitting
from ..matching.similarity import leaves
from ..model import EvalCase, ExpectedCall
from ..registry import register
from ..texts import counted, sentence
from .comparing import ComparesCalls, CriteriaEvaluator, calls_named, graded

MAX_EXPLAINED = 100
"""Maximum number of pairs in `explained_tool_calls_args`; the other details have all."""
MAX_PRINTED = 2_000
"""Maximum length of a value there, in characters."""

_EQUAL = ArgumentMatcher()
_CONTAINED = ArgumentMatcher(mode="subset")


@register
class ToolCallArgs(CriteriaEvaluator, ComparesCalls, MeaningEvaluator):
    """The share of the expected calls that were made with the expected arguments.

    Each expected call, in order, takes the first unused call of its name whose arguments are equal. Extra calls do not
    count, and calls of different tools may come in any order. Both empty: 1; exactly one empty: 0. With `subset` or
    placeholders, an early expectation may take a call that only a later one matches; `tool_trajectory` with `recall`
    never does. An expected name may also be the id of a call.

    With `argument_score: similarity`, an expected call that no call fits takes the unused call of its name with the
    most similar arguments and counts by their similarity, as in `json_similarity`. Each further argument then counts
    as a value with similarity 0 unless `subset`, and an expected result or error as one of similarity 1 or 0.

    Details: `<name>_0`, `<name>_1`, ..., each pair that was tried as `{expected, actual, score}`;
    `explained_tool_calls_args`, the first 100 of them as sentences; the pairs as in `tool_trajectory`. Source: UiPath.

    Example:

        evaluators:
          - tool_call_args: {subset: true}
    """

    criterion = "expected_tool_calls"
    spellings: ClassVar[Mapping[str, str]] = {"tool_calls": "expected_tool_calls"}

    expected_tool_calls: Sequence[Mapping[str, Any] | ExpectedCall] | None = None
    """The expected calls of cases without their own."""
    strict: bool = False
    """True: 1 if all expected calls are matched, else 0."""
    subset: bool = False
    """True: a call may have further arguments, at the top level."""
    argument_score: Literal["match", "similarity"] = "match"
    """`match`: arguments agree or not; `similarity`: partial credit for similar arguments."""

    def measure(self, case: EvalCase) -> Measurement:
        wanted: Sequence[ExpectedCall] = self._criteria_of(case)
        lefts, rights = self._counting(case, wanted), self._counting(case, case.tool_calls)
        made = calls_named(case, {call.name for call in wanted})
        expected, actual = [wanted[index] for index in lefts], [made[index] for index in rights]
        matcher = _CONTAINED if self.subset else _EQUAL
        fitting = match_table(expected, actual, matcher)
        pairing, partial, compared = self._paired(expected, actual, fitting, matcher)
        pairing = pairing.placed(wanted, made, lefts, rights)
        details = {**compared, **pairing.details(), "explained_tool_calls_args": explained(compared)}
        matched = len(pairing.pairs) + partial
        score = graded(matched, len(expected), len(actual), strict=self.strict)
        problems = pairing.problems(extra=False) if score < 1.0 else []
        summary = f"{matched:g} of {counted(len(expected), 'expected call')} made with the expected arguments"
        summary += unless_all(score, matched)
        if not expected:
            summary = f"no call expected, {counted(len(actual), 'call')} made"
        return Measurement(score, sentence(summary, problems), details)

    def _paired(
        self,
        expected: Sequence[ExpectedCall],
        actual: Sequence[ToolCall],
        fitting: Sequence[int],
        matcher: ArgumentMatcher,
    ) -> tuple[Pairing, float, dict[str, Any]]:
        """Given for each expected call those that fit, as bits: the pairs, the sum of the similarities of the others,
        and the pairs that were compared."""
        scores: dict[tuple[int, int], float] = {}

        def score(left: int, right: int) -> float:
            fits = fitting[left] >> right & 1
            if not fits and self.argument_score == "similarity":
                scores[left, right] = self._similarity(expected[left], actual[right])
            return scores.get((left, right), float(fits))

        pairs, compared = first_fitting(
            [(call.name, call.arguments) for call in expected], [(call.name, call.arguments) for call in actual], score
        )
        pairing = Pairing(expected, actual, pairs, matcher)
        unused, partial = set(pairing.extra), 0.0
        for left in pairing.missing:
            best = max(((scores.get((left, right), 0.0), -right) for right in unused), default=(0.0, 0))
            partial += best[0]
            unused -= {-best[1]} if best[0] else set()
        return pairing, partial, compared

    def _similarity(self, expected: ExpectedCall, actual: ToolCall) -> float:
        wanted = expected.arguments or {}
        given = actual.arguments_for(wanted)
        if given is None:
            return 0.0
        similar = [leaf.similarity for leaf in leaves(wanted, given, accepts=_EQUAL.accepts)]
        wrong = len({difference.part for difference in outcome_differences(expected, actual, _EQUAL)})
        agreeing = len(expected.outcome) - wrong
        count = len(similar) + agreeing + wrong + (0 if self.subset else len(given.keys() - wanted.keys()))
        return min(1.0, (sum(similar) + agreeing) / count) if count else 1.0


def explained(compared: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """The first pairs of `first_fitting` in UiPath's words: values as Python prints them, cut if they are long."""
    return {
        key: f"Actual: {_printed(pair['actual'])}, Expected: {_printed(pair['expected'])}, Score: {pair['score']}"
        for key, pair in islice(compared.items(), MAX_EXPLAINED)
    }


def _printed(value: Any) -> str:
    text = str(value)
    return text if len(text) <= MAX_PRINTED else f"{text[:MAX_PRINTED]}..."
