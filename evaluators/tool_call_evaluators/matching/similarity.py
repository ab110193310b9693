"""The similarity of JSON values, leaf by leaf: the rule of UiPath's JSON similarity evaluator."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rapidfuzz.distance import Levenshtein

from ..texts import contrast, in_json, json_excerpt
from .placeholders import equal_values, is_number, is_optional, is_placeholder

MAX_TEXT_LENGTH = 100_000
"""Longer strings are only compared for equality: the distance takes time in the product of both lengths."""

MISSING: Any = object()
"""The actual value of a leaf that does not exist."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """An expected value that is neither list nor object, and the similarity of the actual value, 0 to 1."""

    path: str
    expected: Any
    actual: Any
    similarity: float

    def __str__(self) -> str:
        where = self.path or "the value"
        if self.actual is MISSING:
            return f"{where} is missing (expected {json_excerpt(self.expected)})"
        return f"{where}: {contrast(in_json(self.expected), in_json(self.actual))}"


def leaves(
    expected: Any, actual: Any, path: str = "", accepts: Callable[[Any, Any], bool] | None = None
) -> Iterator[Leaf]:
    """The leaves of `expected`. Lists compare by index; keys and elements that only `actual` has do not count.

    Numbers: 1 - |e - a| / |e|, at least 0; for e = 0 only 0 is similar. Strings: 1 - Levenshtein distance /
    greater length. Booleans and null: equal or not. Another type: 0 for every leaf under it. With `accepts`, a
    placeholder in `expected` is a leaf that it accepts or not.
    """
    if accepts is not None and is_placeholder(expected):
        yield Leaf(path, expected, actual, float(actual is not MISSING and accepts(expected, actual)))
    elif isinstance(expected, Mapping):
        there = actual if isinstance(actual, Mapping) else {}
        for key, value in expected.items():
            if accepts is not None and key not in there and is_optional(value):
                continue
            yield from leaves(value, there.get(key, MISSING), f"{path}.{key}" if path else str(key), accepts)
    elif isinstance(expected, list | tuple):
        items = actual if isinstance(actual, list | tuple) else ()
        for index, value in enumerate(expected):
            yield from leaves(value, items[index] if index < len(items) else MISSING, f"{path}[{index}]", accepts)
    else:
        yield Leaf(path, expected, actual, 0.0 if actual is MISSING else _similarity(expected, actual))


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
