"""`exact_match`, `contains` and `json_similarity`: compare the answer, or another part of the case."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from ..evaluator import Measurement, SkipEvaluation, field_text
from ..judged.base import MeaningEvaluator
from ..matching.arguments import ArgumentMatcher, is_text
from ..matching.similarity import MISSING, leaves
from ..model import EvalCase
from ..registry import register
from ..texts import contrast, counted, from_json, in_json, json_excerpt, json_text, sentence
from .comparing import AnswerEvaluator, NothingThereError, expected_part


@dataclass(frozen=True, kw_only=True)
class _ExpectedAnswer(AnswerEvaluator):
    """Compares with the case's expected response, else with an option."""

    reads = ("expected_response",)
    criterion = "expected"
    spellings: ClassVar[Mapping[str, str]] = {"expected_output": "expected"}

    expected: Any = None
    """The expected value, for cases without `expect: {response: ...}`."""

    def _expected_answer(self, case: EvalCase) -> Any:
        """The one or the other. Raises SkipEvaluation without any."""
        expected = self.expected if case.expected_response is None else case.expected_response
        if expected is None:
            raise SkipEvaluation(f"not given: {field_text('expected_response')}, or the option expected")
        return expected


@register
class ExactMatch(_ExpectedAnswer, MeaningEvaluator):
    """Whether the answer equals the expected one: 1 or 0.

    The expected value is that of the case (`expect: {response: ...}`), else the option `expected`; without both the
    result is skipped. Two strings compare without case unless `case_sensitive`. If the expected value is no string and
    no placeholder for one, the answer is parsed as JSON and compares by value. Expected values may contain
    placeholders. If `field` does not exist, the score is 0, `negated` or not.

    Details: `expected`, `actual`. Source: UiPath.

    Example:

        evaluators:
          - exact_match: {field: response_text.status, expected: sent}
    """

    version = "2"

    case_sensitive: bool = False
    """True: upper and lower case differ."""
    negated: bool = False
    """True: passes where it would fail, and fails where it would pass."""

    def measure(self, case: EvalCase) -> Measurement:
        expected = self._expected_answer(case)
        try:
            expected = expected_part(expected, self.target_output_key)
            actual = self.actual_part(case)
        except NothingThereError as error:
            return Measurement(0.0, f"{error}.", {"expected": expected, "actual": None})
        if not is_text(expected):
            actual = from_json(actual)
        matcher = ArgumentMatcher(case_insensitive=not self.case_sensitive)
        equal = matcher({"value": expected}, {"value": actual})
        verdict = f"{self.field} is as expected"
        if not equal:
            verdict = f"{self.field}: {contrast(in_json(expected), in_json(actual))}"
        return Measurement(float(equal is not self.negated), f"{verdict}.", {"expected": expected, "actual": actual})


@register
class Contains(AnswerEvaluator):
    """Whether the answer contains a text: 1 or 0.

    The text is that of the case (`expect: {response_contains: ...}`), else the option `search_text`; without both the
    result is skipped. Values other than strings are searched as JSON. If `field` does not exist, the score is 0,
    `negated` or not. "It was not sent" contains "sent": to compare the meaning, use a judge.

    Details: `search_text`, `found`. Source: UiPath.

    Example:

        evaluators:
          - contains: {search_text: I am sorry, negated: true}
    """

    reads = ("response_contains",)
    criterion = "search_text"

    search_text: str | None = None
    """The text that the answer contains, for cases without `expect: {response_contains: ...}`."""
    case_sensitive: bool = False
    """True: upper and lower case differ."""
    negated: bool = False
    """True: passes where it would fail, and fails where it would pass."""

    def measure(self, case: EvalCase) -> Measurement:
        wanted = self.search_text if case.response_contains is None else case.response_contains
        if wanted is None:
            raise SkipEvaluation("not given: response_contains, or the option search_text")
        try:
            text = json_text(self.actual_part(case)) or ""
        except NothingThereError as error:
            return Measurement(0.0, f"{error}.", {"search_text": wanted, "found": False})
        found = wanted in text if self.case_sensitive else wanted.casefold() in text.casefold()
        verdict = "contains" if found else "does not contain"
        return Measurement(
            float(found is not self.negated),
            f"{self.field} {verdict} {json_excerpt(wanted)}.",
            {"search_text": wanted, "found": found},
        )


@register
class JsonSimilarity(_ExpectedAnswer):
    """How similar the answer is to the expected JSON.

    The score is the sum of the similarities of the expected leaves / number of expected leaves; 1 without leaves.

    - Numbers: 1 - |e - a| / |e|, at least 0; for e = 0 only 0 is similar.
    - Strings: 1 - Levenshtein distance / greater length; longer ones than 100,000 characters are equal or not.
    - True, false and null are equal or not; a value of another type counts 0 for each leaf under it.

    Only expected keys count. Lists compare by index: missing elements score 0, and extra ones do not count. Strings on
    both sides are parsed if they are JSON. The expected value is that of the case (`expect: {response: ...}`), else the
    option `expected`; without both the result is skipped. If `field` does not exist, the score is 0.

    Details: `leaves`; `matched`, the sum of the similarities; `differences`, a list of `{path, expected, actual,
    similarity}`. Source: UiPath.

    Example:

        evaluators:
          - json_similarity: {field: response_text.order, expected: {status: sent}, threshold: 0.9}
    """

    def measure(self, case: EvalCase) -> Measurement:
        expected = self._expected_answer(case)
        try:
            expected = expected_part(expected, self.target_output_key)
            actual = from_json(self.actual_part(case))
        except NothingThereError as error:
            return Measurement(0.0, f"{error}.", {"leaves": None, "matched": 0.0, "differences": []})
        compared = list(leaves(from_json(expected), actual))
        matched = sum(leaf.similarity for leaf in compared)
        differing = [leaf for leaf in compared if leaf.similarity < 1.0]
        return Measurement(
            min(1.0, matched / len(compared)) if compared else 1.0,
            sentence(
                f"{matched:g} of {counted(len(compared), 'expected value')} matched",
                [str(leaf) for leaf in differing],
            ),
            {
                "leaves": len(compared),
                "matched": matched,
                "differences": [
                    {
                        "path": leaf.path,
                        "expected": leaf.expected,
                        "actual": None if leaf.actual is MISSING else leaf.actual,
                        "similarity": leaf.similarity,
                    }
                    for leaf in differing
                ],
            },
        )
