"""Canonical JSON: the same text for equal values, with numbers compared by value."""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Mapping
from numbers import Number
from typing import Any

LARGEST_EXACT = 2**53 - 1
"""Largest integer up to which every integer has its own double."""

_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str).encode
EXACT = frozenset({str, int, bool, type(None)})


def canonical(value: Any) -> str:
    """JSON text that is equal if and only if two values are equal.

    Keys are sorted, 1 and 1.0 are the same number (protobuf turns integers into floats), -0.0 is 0, and true
    is never 1. Tuples equal lists; NaN equals itself. A value that is not JSON is represented by its
    `str`. Raises RecursionError far beyond `json_limits.READ`; check untrusted data with `too_deep` first.
    """
    return _encode(_with_integers(value))


def value_key(value: Any) -> Hashable:
    """A hashable key; the keys of two JSON values are equal if and only if the values are.

    As for `canonical`, but a float beyond 2**53 equals every integer that rounds to it, as protobuf rounds. Two
    integers must be the same. A Decimal is a number, any other value that is not JSON its `str`. The key costs less
    than canonical JSON and is valid only within a process. Raises RecursionError for values nested too deeply for
    Python.
    """
    kind = type(value)
    if kind is str or value is None:
        return value  # type: ignore[no-any-return]  # one of these two
    if kind is int:
        return value if -LARGEST_EXACT <= value <= LARGEST_EXACT else _LargeInteger(value)
    if kind is float:
        return value if value == value else _NAN
    if kind is bool:
        return _TRUE if value else _FALSE
    if isinstance(value, list | tuple):
        return tuple([item if type(item) is str else value_key(item) for item in value])
    if kind is dict or isinstance(value, Mapping):
        return frozenset([(key, item if type(item) is str else value_key(item)) for key, item in value.items()])
    return value if isinstance(value, str | Number) else str(value)


_TRUE, _FALSE, _NAN = object(), object(), object()
"""For Python, True equals 1 and NaN equals nothing; here, True differs from 1 and NaN equals itself."""


class _LargeInteger:
    """An integer beyond 2**53."""

    __slots__ = ("_double", "_value")

    def __init__(self, value: int) -> None:
        self._value, self._double = value, as_double(value)

    def __hash__(self) -> int:
        return hash(self._double)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, _LargeInteger):
            return self._value == other._value
        return isinstance(other, float) and self._double == other


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
        return {key: item if type(item) in EXACT else with_whole_numbers(item) for key, item in value.items()}
    if isinstance(value, list) and not EXACT.issuperset(map(type, value)):
        return [with_whole_numbers(item) for item in value]
    return value


def _with_integers(value: Any) -> Any:
    """`value` with whole floats as integers."""
    if isinstance(value, float):
        return int(value) if math.isfinite(value) and value.is_integer() else value
    if isinstance(value, Mapping):
        return {str(key): _with_integers(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_with_integers(item) for item in value]
    return value
