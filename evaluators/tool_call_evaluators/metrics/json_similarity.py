"""`json_similarity`: the similarity of the answer to an expected JSON value, leaf by leaf."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from rapidfuzz.distance import Levenshtein

from ..evaluator import Measurement, SkipEvaluation, SyncEvaluator
from ..matching.arguments import json_excerpt
from ..matching.equality import equal_values, is_number
from ..matching.explain import counted, sentence
from ..model import EvalCase
from ..registry import register
from .case_parts import NothingThereError, check_path, from_json, select

MAX_TEXT_LENGTH = 100_000
"""Longer strings are only compared for equality: the distance takes time in the product of both lengths."""


@register
@dataclass(frozen=True, kw_only=True)
class JsonSimilarity(SyncEvaluator):
    """Sum of the similarity of each expected leaf / number of expected leaves; 1 without leaves.

    Numbers: 1 - |e - a| / |e|, at least 0; for e = 0 only 0 is similar. Strings: 1 - Levenshtein distance /
    greater length. Booleans and null: equal or not. Another type: 0 for every leaf under it. Only expected
    keys count; lists compare by index, missing elements score 0 and extra ones do not count.

    The expected value is the case's `expected_response`, else the option `expected`; without both: skipped. Strings on
    both sides are parsed if they are JSON. `field` is a path such as `response_text.order`; if it does not exist, the
    score is 0. Details: `leaves`, `matched` (their sum) and `differences`, a list of
    `{path, expected, actual, similarity}` for leaves below 1.
    """

    name: ClassVar[str] = "json_similarity"
    spellings: ClassVar[Mapping[str, str]] = {"expected_output": "expected"}

    expected: Any = None
    field: str = "response_text"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_path(self.field, self.name)

    def measure(self, case: EvalCase) -> Measurement:
        expected = self.expected if case.expected_response is None else case.expected_response
        if expected is None:
            raise SkipEvaluation("not given: expected_response, or the option expected")
        try:
            actual = from_json(select(case, self.field))
        except NothingThereError as error:
            return Measurement(0.0, f"{error}.", {"leaves": None, "matched": 0.0, "differences": []})
        leaves = list(_leaves(from_json(expected), actual, ""))
        matched = sum(leaf.similarity for leaf in leaves)
        differing = [leaf for leaf in leaves if leaf.similarity < 1.0]
        return Measurement(
            min(1.0, matched / len(leaves)) if leaves else 1.0,
            sentence(
                f"{matched:g} of {counted(len(leaves), 'expected value')} matched",
                [str(leaf) for leaf in differing],
            ),
            {
                "leaves": len(leaves),
                "matched": matched,
                "differences": [
                    {
                        "path": leaf.path,
                        "expected": leaf.expected,
                        "actual": None if leaf.actual is _MISSING else leaf.actual,
                        "similarity": leaf.similarity,
                    }
                    for leaf in differing
                ],
            },
        )


_MISSING: Any = object()


@dataclass(frozen=True, slots=True)
class _Leaf:
    """An expected value that is neither list nor object, and the similarity of the actual value."""

    path: str
    expected: Any
    actual: Any
    similarity: float

    def __str__(self) -> str:
        where = self.path or "the value"
        if self.actual is _MISSING:
            return f"{where} is missing (expected {json_excerpt(self.expected)})"
        return f"{where}: expected {json_excerpt(self.expected)}, got {json_excerpt(self.actual)}"


def _leaves(expected: Any, actual: Any, path: str) -> Iterator[_Leaf]:
    if isinstance(expected, Mapping):
        there = actual if isinstance(actual, Mapping) else {}
        for key, value in expected.items():
            yield from _leaves(value, there.get(key, _MISSING), f"{path}.{key}" if path else str(key))
    elif isinstance(expected, list | tuple):
        items = actual if isinstance(actual, list | tuple) else ()
        for index, value in enumerate(expected):
            yield from _leaves(value, items[index] if index < len(items) else _MISSING, f"{path}[{index}]")
    else:
        yield _Leaf(path, expected, actual, 0.0 if actual is _MISSING else _similarity(expected, actual))


def _similarity(expected: Any, actual: Any) -> float:
    if isinstance(expected, str) and isinstance(actual, str):
        longer = max(len(expected), len(actual))
        if longer > MAX_TEXT_LENGTH or expected == actual:
            return float(expected == actual)
        return 1.0 - Levenshtein.distance(expected, actual) / longer
    if equal_values(expected, actual):
        return 1.0
    if is_number(expected) and is_number(actual):
        return _closeness(expected, actual)
    return 0.0


def _closeness(expected: float, actual: float) -> float:
    """1 - |e - a| / |e| for unequal numbers, at least 0; 0 if that cannot be computed."""
    try:
        distance, size = abs(expected - actual), abs(expected)
    except OverflowError:  # an integer too large for a float
        return 0.0
    # also false for NaN and infinity, which are similar only to themselves
    return 1.0 - distance / size if distance < size < float("inf") else 0.0
