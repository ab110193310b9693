"""Proves at low cost that every call was made as expected: most turns of a working agent need no other comparison."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from a2a_tool_capture.models import ToolCall

from ..model import ExpectedCall, ExpectedCalls
from .arguments import ArgumentMatcher, Matcher
from .placeholders import is_placeholder

_Check: TypeAlias = tuple[int, tuple[str | int, ...], frozenset[type]]
"""A call, the path to a value in its arguments, and the types that this value may have."""

_BOOLEAN, _NUMBER = frozenset({bool}), frozenset({int, float})


def made_exactly(expected: ExpectedCalls, actual: Sequence[ToolCall], matcher: Matcher) -> bool:
    """Whether the calls are equal one by one, so that `matcher` accepts each pair. False proves nothing.

    Costs little more than comparing the names and arguments as Python objects. Also False for expectations with
    placeholders, results or errors, for matchers with functions, and for some equal values (an integer beyond 2**53 and
    its double).
    """
    if len(expected) != len(actual) or not isinstance(matcher, ArgumentMatcher) or matcher.has_functions:
        return False
    if matcher.mode == "ignore" and not matcher.per_tool:
        return [(call.name, {}) for call in actual] == [(call.name, call.outcome) for call in expected]
    for wanted, made in zip(expected, actual, strict=True):
        if wanted.name != made.name or wanted.arguments != made.arguments:
            return False
    try:
        checks = expected.checks
    except AttributeError:
        checks = expected.checks = _checks(expected)
    if checks is None:
        return False
    for index, path, types in checks:
        value: Any = actual[index].arguments
        for step in path:
            value = value[step]
        if type(value) not in types:
            return False
    return True


def _checks(expected: Sequence[ExpectedCall]) -> list[_Check] | None:
    """What remains to be checked of calls that are equal for Python; None if placeholders, values that are not JSON, or
    expected results make that insufficient."""
    if any(call.outcome for call in expected):
        return None
    try:
        return [
            (index, path, types) for index, call in enumerate(expected) for path, types in _doubtful(call.arguments, ())
        ]
    except TypeError:
        return None


def _doubtful(value: Any, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], frozenset[type]]]:
    """The values that equal one of another JSON type for Python: true and 1, false and 0. Raises TypeError."""
    kind = type(value)
    if kind is bool:
        yield path, _BOOLEAN
    elif kind is int or kind is float:
        if value in (0, 1):
            yield path, _NUMBER
    elif kind is dict and not is_placeholder(value):
        for key, item in value.items():
            yield from _doubtful(item, (*path, key))
    elif kind is list:
        for index, item in enumerate(value):
            yield from _doubtful(item, (*path, index))
    elif kind is not str and value is not None:
        raise TypeError
