"""Finds the matching pairs of many actual and expected calls without comparing all pairs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from typing import Any

from a2a_tool_capture.canonical import LARGEST_EXACT, value_key
from a2a_tool_capture.models import ToolCall

from ..model import ExpectedCall, ExpectedCalls
from .arguments import ArgumentMatcher, Matcher, arguments_match, outcome_differences, rule_for
from .pairing import items
from .placeholders import contains_placeholder, inner_values


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


def match_table(expected: Sequence[ExpectedCall], actual: Sequence[ToolCall], matcher: Matcher) -> list[int]:
    """For each expected call the actual calls that match it, as bits (see `pairing`).

    The result equals `call_matches` of each pair. Calls of equal arguments are compared once, and where these are
    expected without placeholders they are looked up, so that long trajectories stay cheap. Raises PlaceholderError for
    an invalid placeholder.
    """
    alike: dict[str, dict[Hashable, int]] = defaultdict(dict)
    for index, call in enumerate(actual):
        rule, groups = rule_for(matcher, call.name), alike[call.name]
        key: Hashable = index  # apart: what matches depends on what is expected, or on a function
        if isinstance(rule, ArgumentMatcher) and call.arguments is not None and not call.default_arguments:
            key = rule.value_key(call.arguments)
        groups[key] = groups.get(key, 0) | 1 << index
    table = []
    for wanted in expected:
        rule, groups = rule_for(matcher, wanted.name), alike[wanted.name]
        if isinstance(rule, ArgumentMatcher) and rule.mode == "exact" and not _must_be_compared(wanted.arguments):
            equal = rule.value_key(wanted.arguments)
            groups = {key: bits for key, bits in groups.items() if type(key) is int or key == equal}
        row = 0
        for bits in groups.values():
            given = actual[next(items(bits))].arguments_for(wanted.arguments)
            row |= bits if arguments_match(wanted.arguments, given, rule) else 0
        if wanted.outcome:
            found = [made for made in items(row) if not outcome_differences(wanted, actual[made], rule)]
            row = sum(1 << made for made in found)
        table.append(row)
    return table


def _must_be_compared(value: Any) -> bool:
    """Whether an expected value may accept values that are not equal to each other: of numbers beyond 2**53, one that
    is a float equals several integers."""
    if value is None or contains_placeholder(value):
        return True
    return _has_large_number(value)


def _has_large_number(value: Any) -> bool:
    kind = type(value)
    if kind is int or kind is float:
        return bool(abs(value) > LARGEST_EXACT)
    return kind is not str and any(map(_has_large_number, inner_values(value)))
