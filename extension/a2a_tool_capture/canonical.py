"""Canonical JSON: the same text for equal values, with numbers compared by value."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

MAX_DEPTH = 100
"""Maximum nesting of arguments, the limit of protobuf's JSON parser."""

LARGEST_EXACT = 2**53 - 1
"""Largest integer up to which every integer has its own double."""

_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str).encode
_may_exceed_doubles = re.compile(r"[0-9]{16}").search
"""Canonical text without such digits has no number beyond `LARGEST_EXACT`."""


EXACT = frozenset({str, int, bool, type(None)})
LEAVES = EXACT | {float}


def canonical(value: Any) -> str:
    """JSON text that is equal if and only if two values are equal.

    Keys are sorted, 1 and 1.0 are the same number (protobuf turns integers into floats), -0.0 is 0, and true
    is never 1. Tuples equal lists; NaN equals itself. A value that is not JSON is represented by its
    `str`. Raises RecursionError far beyond `MAX_DEPTH`; check untrusted data with `too_deep` first.
    """
    return _encode(_with_numbers(value, _integral))


@dataclass(frozen=True, slots=True, eq=False)
class ByValue:
    """A value as a key; keys are equal if their values are.

    A float beyond 2**53 equals every integer that rounds to it, as protobuf rounds. Two integers must be the same.
    """

    exact: str
    as_doubles: str
    has_large_float: bool

    def __hash__(self) -> int:
        return hash(self.as_doubles)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ByValue):
            return NotImplemented
        rounded = self.has_large_float or other.has_large_float
        return self.exact == other.exact or (rounded and self.as_doubles == other.as_doubles)


def by_value(value: Any) -> ByValue:
    """`value` as a key. Raises RecursionError as `canonical` does."""
    exact = canonical(value)
    if not _may_exceed_doubles(exact):
        return ByValue(exact, exact, False)
    floats: list[float] = []

    def rounded(number: float) -> float:
        if isinstance(number, int):
            return as_double(number)
        if abs(number) > LARGEST_EXACT:
            floats.append(number)
        return number

    return ByValue(exact, canonical(_with_numbers(value, rounded)), bool(floats))


def as_double(value: int) -> int | float:
    """An integer as the double that protobuf converts it to; unchanged if it exceeds all doubles."""
    try:
        return float(value) if abs(value) > LARGEST_EXACT else value
    except OverflowError:
        return value


def with_whole_numbers(value: Any) -> Any:
    """JSON data with each whole double up to `LARGEST_EXACT` as an integer: protobuf turns 2 into 2.0.

    What contains none is not copied. Raises RecursionError as `canonical` does.
    """
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) <= LARGEST_EXACT else value
    if isinstance(value, dict) and not EXACT.issuperset(map(type, value.values())):
        return {key: with_whole_numbers(item) for key, item in value.items()}
    if isinstance(value, list) and not EXACT.issuperset(map(type, value)):
        return [with_whole_numbers(item) for item in value]
    return value


def too_deep(value: Any, limit: int = MAX_DEPTH) -> bool:
    """Whether lists and objects in `value` nest deeper than `limit`. Not recursive."""
    level = [value]
    for _ in range(limit):
        inner: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                inner += item.values()
            elif isinstance(item, list):
                inner += item
        if LEAVES.issuperset(map(type, inner)):
            return False
        level = inner
    return any(isinstance(item, dict | list) for item in level)


def _with_numbers(value: Any, convert: Callable[[float], float]) -> Any:
    """`value` with its numbers converted."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return convert(value)
    if isinstance(value, Mapping):
        return {str(key): _with_numbers(item, convert) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_with_numbers(item, convert) for item in value]
    return value


def _integral(number: float) -> float:
    return int(number) if isinstance(number, float) and math.isfinite(number) and number.is_integer() else number
