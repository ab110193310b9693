"""Canonical JSON: the same text for equal values, with numbers compared by value."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MAX_DEPTH = 100
"""Maximum nesting of arguments, the limit of protobuf's JSON parser."""

LARGEST_EXACT = 2**53 - 1
"""Largest integer up to which every integer has its own double."""

_CONTAINERS = (dict, list)
_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str).encode


def canonical(value: Any) -> str:
    """JSON text that is equal if and only if two values are equal.

    Keys are sorted, 1 and 1.0 are the same number (protobuf turns integers into floats), -0.0 is 0, and true
    is never 1. Tuples equal lists; NaN equals itself. A value that is not JSON is represented by its
    `str`. Raises RecursionError far beyond `MAX_DEPTH`; check untrusted data with `too_deep` first.
    """
    return _encode(_by_value(value))


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
    large: list[int | float] = []
    doubles = _rounded(value, large)
    if not large:
        return ByValue(exact, exact, False)
    return ByValue(exact, canonical(doubles), any(isinstance(number, float) for number in large))


def signature(name: str, arguments: Mapping[str, Any]) -> tuple[str, ByValue]:
    """Key of a call by name and argument values: equal for the same call made twice."""
    return name, by_value(arguments)


def as_double(value: int) -> int | float:
    """An integer as the double that protobuf converts it to; unchanged if it exceeds all doubles."""
    try:
        return float(value) if abs(value) > LARGEST_EXACT else value
    except OverflowError:
        return value


def too_deep(value: Any, limit: int = MAX_DEPTH) -> bool:
    """Whether lists and objects in `value` nest deeper than `limit`. Not recursive."""
    level = [value] if isinstance(value, _CONTAINERS) else []
    for _ in range(limit):
        if not level:
            return False
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, _CONTAINERS)
        ]
    return bool(level)


def _by_value(value: Any) -> Any:
    if isinstance(value, float):
        return int(value) if math.isfinite(value) and value.is_integer() else value
    if isinstance(value, Mapping):
        return {str(key): _by_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_by_value(item) for item in value]
    return value


def _rounded(value: Any, large: list[int | float]) -> Any:
    """`value` with integers beyond 2**53 as doubles; appends all numbers beyond it to `large`."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        if abs(value) > LARGEST_EXACT:
            large.append(value)
        return as_double(value) if isinstance(value, int) else value
    if isinstance(value, Mapping):
        return {key: _rounded(item, large) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(item, large) for item in value]
    return value
