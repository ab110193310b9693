"""Finds the matching pairs of many actual and expected calls without comparing all pairs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, TypeAlias

from a2a_tool_capture.canonical import LARGEST_EXACT
from a2a_tool_capture.models import ToolCall

from ..model import ExpectedCall
from .arguments import ArgumentMatcher, Arguments, Matcher, arguments_match, outcome_differences, rule_for
from .pairing import items
from .placeholders import contains_placeholder, inner_values, is_optional, is_placeholder

_Calls: TypeAlias = Sequence[tuple[int, Arguments | None]]
"""The calls of one tool: the bit of each, and its arguments."""


def match_table(expected: Sequence[ExpectedCall], actual: Sequence[ToolCall], matcher: Matcher) -> list[int]:
    """For each expected call the actual calls that match it, as bits (see `pairing`).

    The result equals `call_matches` of each pair; calls are indexed by their arguments, so that long trajectories stay
    cheap. Raises PlaceholderError for an invalid placeholder.
    """
    by_name: dict[str, list[tuple[int, Arguments | None]]] = defaultdict(list)
    with_defaults: dict[str, list[tuple[int, ToolCall]]] = defaultdict(list)
    for index, call in enumerate(actual):
        if call.default_arguments:
            with_defaults[call.name].append((1 << index, call))
        else:
            by_name[call.name].append((1 << index, call.arguments))
    by_arguments: dict[str, dict[Hashable, int]] = {}
    indexes: dict[str, _ArgumentIndex] = {}
    table = []
    for wanted in expected:
        name, arguments = wanted.name, wanted.arguments
        candidates = by_name.get(name, ())
        rule = rule_for(matcher, name)
        if not candidates:
            table.append(0)
        elif not isinstance(rule, ArgumentMatcher) or is_placeholder(arguments):
            accepted = [bit for bit, given in candidates if arguments_match(arguments, given, rule)]
            table.append(sum(accepted))
        elif arguments is None or rule.mode == "ignore":
            table.append(sum([bit for bit, _ in candidates]))
        elif rule.mode == "exact" and not _must_be_compared(arguments):
            if name not in by_arguments:
                by_arguments[name] = _by_arguments(candidates, rule)
            table.append(by_arguments[name].get(rule.value_key(arguments), 0))
        else:
            if name not in indexes:
                indexes[name] = _ArgumentIndex(candidates, rule)
            table.append(indexes[name].matching(arguments))
        if name in with_defaults:  # which of them count depends on what is expected
            compared = [(bit, call.arguments_for(arguments)) for bit, call in with_defaults[name]]
            table[-1] += sum([bit for bit, given in compared if arguments_match(arguments, given, rule)])
        if wanted.outcome:
            found = [made for made in items(table[-1]) if not outcome_differences(wanted, actual[made], rule)]
            table[-1] = sum(1 << made for made in found)
    return table


def _by_arguments(calls: _Calls, rule: ArgumentMatcher) -> dict[Hashable, int]:
    found: dict[Hashable, int] = defaultdict(int)
    for bit, arguments in calls:
        if arguments is not None:
            found[rule.value_key(arguments)] |= bit
    return found


def _must_be_compared(value: Any) -> bool:
    """Whether an expected value may accept values that are not equal to each other."""
    return contains_placeholder(value) or _has_large_number(value)


def _has_large_number(value: Any) -> bool:
    """Whether `value` contains a number beyond 2**53: as a float, it equals several integers."""
    kind = type(value)
    if kind is int or kind is float:
        return bool(abs(value) > LARGEST_EXACT)
    return kind is not str and any(map(_has_large_number, inner_values(value)))


class _ArgumentIndex:
    """Indexes the calls of one tool by the entries of their arguments; calls with unknown arguments are omitted."""

    def __init__(self, calls: _Calls, rule: ArgumentMatcher) -> None:
        self._rule = rule
        self._of_size: dict[int, int] = defaultdict(int)
        self._by_key: dict[str, int] = defaultdict(int)
        self._by_entry: dict[str, dict[Hashable, tuple[Any, int]]] = defaultdict(dict)
        """By key and value: the value, and the calls that contain it."""
        self._accepted: dict[tuple[str, Hashable, int], int] = {}
        for bit, arguments in calls:
            if arguments is not None:
                self._of_size[len(arguments)] |= bit
                for key, value in arguments.items():
                    self._by_key[key] |= bit
                    of_value = rule.value_key(value)
                    _, others = self._by_entry[key].get(of_value, (value, 0))
                    self._by_entry[key][of_value] = value, others | bit

    def matching(self, expected: Arguments) -> int:
        """The calls whose arguments the rule accepts for `expected`. The rule must not be `ignore`."""
        mode = self._rule.mode
        optional = expected.keys() if mode == "superset" else {key for key in expected if is_optional(expected[key])}
        of_one_size = mode == "exact" and not optional
        found = self._of_size.get(len(expected), 0) if of_one_size else sum(self._of_size.values())
        for key, value in expected.items():
            if not found:
                break
            fitting = self._with_entry(key, value, found)
            found &= fitting | ~self._by_key.get(key, 0) if key in optional else fitting
        if mode != "subset" and not of_one_size:
            for key in self._by_key.keys() - expected.keys():
                found &= ~self._by_key[key]
        return found

    def _with_entry(self, key: str, value: Any, among: int) -> int:
        """The calls (at least those in `among`) with an entry `key` that the rule accepts for `value`."""
        entries = self._by_entry.get(key, {})
        wanted = self._rule.value_key(value)
        goes_deeper = self._rule.deep and isinstance(value, Mapping | list | tuple)
        if not goes_deeper and not _must_be_compared(value):
            return entries[wanted][1] if wanted in entries else 0
        asked = key, wanted, among
        if asked not in self._accepted:
            fitting = [bits for given, bits in entries.values() if bits & among and self._rule.accepts(value, given)]
            self._accepted[asked] = sum(fitting)
        return self._accepted[asked]
