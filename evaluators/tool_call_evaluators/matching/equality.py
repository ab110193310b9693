"""When two JSON values are equal: numbers by value, true is never 1, lists by position.

An integer and a float are equal if they are the same double: protobuf converts all numbers to doubles, which round
integers beyond 2**53. Two integers are equal only if they are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping
from numbers import Number
from typing import Any

from a2a_tool_capture.canonical import LARGEST_EXACT, as_double

_TRUE, _FALSE, _NAN = object(), object(), object()
"""For Python, True equals 1 and NaN equals nothing; here, True differs from 1 and NaN equals itself."""


def equal_values(expected: Any, actual: Any) -> bool:
    """Whether two JSON values are equal; NaN equals itself."""
    if isinstance(expected, str) or isinstance(actual, str):
        return bool(expected == actual)
    if value_key(expected) == value_key(actual):
        return True
    return has_large_number(expected) and value_key(_beside(expected, actual)) == value_key(_beside(actual, expected))


def is_number(value: Any) -> bool:
    """Whether `value` is a number in JSON, which true and false are not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def has_large_number(value: Any) -> bool:
    """Whether `value` contains a number beyond 2**53. Only then may it equal a value with another `value_key`."""
    kind = type(value)
    if kind is int or kind is float:
        return bool(abs(value) > LARGEST_EXACT)
    return any(map(has_large_number, inner_values(value)))


def inner_values(value: Any) -> Collection[Any]:
    """The items of a list, or the values of an object; empty for any other value."""
    if isinstance(value, list | tuple):
        return value
    return value.values() if isinstance(value, Mapping) else ()


def with_inner(value: Any, convert: Callable[[Any], Any]) -> Any:
    """A list or an object with each inner value converted; any other value unchanged."""
    if isinstance(value, list | tuple):
        return [convert(item) for item in value]
    return {key: convert(item) for key, item in value.items()} if isinstance(value, Mapping) else value


def _beside(value: Any, other: Any) -> Any:
    """`value` with large integers as doubles where `other` has a float in the same position."""
    if type(value) is int and type(other) is float:
        return as_double(value)
    if isinstance(value, Mapping) and isinstance(other, Mapping):
        return {key: _beside(item, other.get(key)) for key, item in value.items()}
    if isinstance(value, list | tuple) and isinstance(other, list | tuple) and len(value) == len(other):
        return [_beside(*pair) for pair in zip(value, other, strict=True)]
    return value


def value_key(value: Any) -> Hashable:
    """A hashable key that is equal for equal JSON values only. Exception: an integer beyond 2**53 and an equal float
    have different keys (see `has_large_number`).

    Tuples count as lists, a Decimal as a number, any other value that is not JSON as its `str`. The key costs less than
    canonical JSON and is valid only within a process. Raises RecursionError for values nested too deeply for Python.
    """
    kind = type(value)
    if kind is str or kind is int or value is None:
        return value  # type: ignore[no-any-return]  # one of these three
    if kind is float:
        return value if value == value else _NAN
    if kind is bool:
        return _TRUE if value else _FALSE
    if isinstance(value, list | tuple):
        return tuple([item if type(item) is str else value_key(item) for item in value])
    if kind is dict or isinstance(value, Mapping):
        return frozenset([(key, item if type(item) is str else value_key(item)) for key, item in value.items()])
    return value if isinstance(value, str | Number) else str(value)
