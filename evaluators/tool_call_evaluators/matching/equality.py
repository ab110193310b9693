"""When two JSON values are equal: numbers by value, true is never 1, lists by position.

An integer and a float are equal if they are the same double: protobuf converts all numbers to doubles, which round
integers beyond 2**53. Two integers are equal only if they are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from a2a_tool_capture.canonical import value_key


def equal_values(expected: Any, actual: Any) -> bool:
    """Whether two JSON values are equal; NaN equals itself."""
    if isinstance(expected, str) or isinstance(actual, str):
        return bool(expected == actual)
    return value_key(expected) == value_key(actual)


def is_number(value: Any) -> bool:
    """Whether `value` is a number in JSON, which true and false are not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


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
