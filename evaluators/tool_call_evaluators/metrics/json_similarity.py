"""`json_similarity`: the similarity of the answer to an expected JSON value, leaf by leaf."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from ..evaluator import Measurement, SkipEvaluation, field_text
from ..matching.similarity import MISSING, leaves
from ..model import EvalCase
from ..registry import register
from ..texts import counted, from_json, sentence
from .case_parts import NothingThereError, expected_part
from .comparing import AnswerEvaluator


@register
@dataclass(frozen=True, kw_only=True)
class JsonSimilarity(AnswerEvaluator):
    """Sum of the similarity of each expected leaf / number of expected leaves; 1 without leaves.

    Numbers: 1 - |e - a| / |e|, at least 0; for e = 0 only 0 is similar. Strings: 1 - Levenshtein distance /
    greater length. Booleans and null: equal or not. Another type: 0 for every leaf under it. Only expected
    keys count; lists compare by index, missing elements score 0 and extra ones do not count.

    The expected value is the case's `expected_response`, else the option `expected`; without both: skipped. Strings on
    both sides are parsed if they are JSON. `field` is a path such as `response_text.order`; if it does not exist, the
    score is 0. `target_output_key` selects a part of both, as in UiPath. Details: `leaves`, `matched` (their sum) and
    `differences`, a list of `{path, expected, actual, similarity}` for leaves below 1.
    """

    name: ClassVar[str] = "json_similarity"
    criterion: ClassVar[str] = "expected"
    spellings: ClassVar[Mapping[str, str]] = {"expected_output": "expected"}

    expected: Any = None
    """The expected value, for cases without `expect: {response: ...}`."""

    def measure(self, case: EvalCase) -> Measurement:
        expected = self.expected if case.expected_response is None else case.expected_response
        if expected is None:
            raise SkipEvaluation(f"not given: {field_text('expected_response')}, or the option expected")
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
