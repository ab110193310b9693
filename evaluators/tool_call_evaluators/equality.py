"""When two JSON values are equal: numbers by value, true is never 1, lists by position."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

_TRUE, _FALSE, _NAN = object(), object(), object()
"""Python finds True equal to 1 and NaN equal to nothing; here it is the other way round."""


def equal_values(expected: Any, actual: Any) -> bool:
    """Whether two JSON values are equal; NaN equals itself."""
    if isinstance(expected, str) or isinstance(actual, str):
        return bool(expected == actual)
    return value_key(expected) == value_key(actual)


def value_key(value: Any) -> Hashable:
    """A hashable value that is equal for two JSON values exactly where these are equal.

    Tuples count as lists; a value that is not JSON counts as its `str`. Cheaper than canonical JSON text, and good
    only within a process. Raises RecursionError for values nested too deep for Python.
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
    return value if isinstance(value, str | int | float) else str(value)
