"""Proves at low cost that every call was made as expected: most turns of a working agent need no other comparison."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from a2a_tool_capture.canonical import value_key
from a2a_tool_capture.models import ToolCall

from ..model import ExpectedCall, ExpectedCalls
from .arguments import ArgumentMatcher, Matcher
from .placeholders import contains_placeholder


def made_exactly(expected: ExpectedCalls, actual: Sequence[ToolCall], matcher: Matcher) -> bool:
    """Whether the calls are equal one by one, so that `matcher` accepts each pair. False proves nothing.

    Also False for expectations with placeholders, results or errors, for matchers with functions or `typed_lists`, and
    for some equal values (an integer beyond 2**53 and its double).
    """
    if len(expected) != len(actual) or not isinstance(matcher, ArgumentMatcher) or not matcher.accepts_equal:
        return False
    if matcher.mode == "ignore" and not matcher.per_tool:
        return [(call.name, {}) for call in actual] == [(call.name, call.outcome) for call in expected]
    for wanted, made in zip(expected, actual, strict=True):
        if wanted.name != made.name or wanted.arguments != made.arguments:
            return False  # most others are seen here; for Python true equals 1, so that this does not prove equality
    try:
        keys = expected.keys
    except AttributeError:
        keys = expected.keys = _keys(expected)
    return keys is not None and keys == [value_key(call.arguments) for call in actual]


def _keys(expected: Sequence[ExpectedCall]) -> list[Hashable] | None:
    """Of the arguments; None if equal arguments are not all that is expected."""
    if any(call.outcome or contains_placeholder(call.arguments) for call in expected):
        return None
    return [value_key(call.arguments) for call in expected]
