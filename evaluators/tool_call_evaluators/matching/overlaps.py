"""Calls that overlap in time have no order among themselves: any of their orders may be the expected one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from typing import TypeAlias

from a2a_tool_capture.models import ToolCall

from .pairing import Pair, Table, items, maximum_matching

MAX_REORDERED = 1_000
"""Maximum number of calls whose overlaps are looked for; more keep their order."""

MAX_SEARCHED = 12
"""Maximum number of calls of which all orders are compared; of more, one that is good is found."""

Span: TypeAlias = tuple[float, float]
"""Begin and end, in seconds."""


def overlapping_calls(calls: Sequence[ToolCall]) -> list[int]:
    """For each call the others that ran while it did, as bits.

    By the times at which they ran, else by those at which they and their results were seen. Two calls of which neither
    is known for both, or that are not known to have ended, keep their order.
    """
    ran: list[Span | None] = [None] * len(calls)
    seen = ran.copy()
    for index, call in enumerate(calls):
        if call.started_at is not None and call.ended_at is not None:
            ran[index] = call.started_at.timestamp(), call.ended_at.timestamp()
        elif call.first_seen_at is not None and call.result_seen_at is not None:
            seen[index] = call.first_seen_at, call.result_seen_at
    return [one | other for one, other in zip(overlapping(ran), overlapping(seen), strict=True)]


def overlapping(spans: Sequence[Span | None]) -> list[int]:
    """For each span the others that overlap it, as bits. One without duration, or that is not known, overlaps none."""
    found = [0] * len(spans)
    if not 1 < len(spans) <= MAX_REORDERED:
        return found
    known = sorted((span, index) for index, span in enumerate(spans) if span is not None)
    for position, ((_, end), index) in enumerate(known):
        for (start, later_end), other in known[position + 1 :]:
            if start >= end:
                break
            if start < later_end:
                found[index] |= 1 << other
                found[other] |= 1 << index
    return found


def in_some_order(pair: Pair, free: Sequence[int]) -> Pair:
    """`pair` for right items of which each has no order with its `free` ones: in the order with the most pairs."""
    if not any(free):
        return pair

    def pairs(table: Table, size: int) -> list[tuple[int, int]]:
        order = _order(table, free)
        place = {right: position for position, right in enumerate(order)}
        arranged = [sum(1 << place[right] for right in items(row)) for row in table]
        found = [(left, order[position]) for left, position in pair(arranged, size)]
        return max(pair(table, size), found, key=len)

    return pairs


def _order(table: Table, free: Sequence[int]) -> list[int]:
    """The right items, those that are expected early first, as far as the items that are not `free` allow it."""
    size = len(free)
    wanted = _chain(table, free) if size <= MAX_SEARCHED else _wanted(table, free)
    order: list[int] = []
    left = (1 << size) - 1
    while left:
        first = next(items(left))
        ready = [
            right
            for right in items((free[first] | 1 << first) & left)
            if not left & ((1 << right) - 1) & ~free[right]  # nothing is left that came before it
        ]
        chosen = min(ready, key=lambda right: (wanted.get(right, -1), right))
        order.append(chosen)
        left ^= 1 << chosen
    return order


def _chain(table: Table, free: Sequence[int]) -> dict[int, int]:
    """The left item that each right item is paired with in the best order of all."""
    before: list[int] = []  # of each right item, those that come before it in any order, as bits
    for right, overlaps in enumerate(free):
        earlier = ((1 << right) - 1) & ~overlaps
        for other in items(earlier):
            earlier |= before[other]
        before.append(earlier)

    @cache
    def best(left: int, placed: int) -> tuple[tuple[int, int], ...]:
        if left == len(table):
            return ()
        found = best(left + 1, placed)
        for right in items(table[left] & ~placed):
            pairs = ((left, right), *best(left + 1, placed | before[right] | 1 << right))
            found = max(found, pairs, key=len)
        return found

    return {right: left for left, right in best(0, 0)}


def _wanted(table: Table, free: Sequence[int]) -> dict[int, int]:
    """The left item that each right item is paired with in any order; of equal ones, those that ended first come first.

    More items must come after what ended first."""
    column: dict[int, int] = defaultdict(int)
    for left, row in enumerate(table):
        for right in items(row):
            column[right] |= 1 << left
    alike: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for left, right in maximum_matching(table, len(free)):
        alike[column[right]].append((left, right))
    wanted: dict[int, int] = {}
    for pairs in alike.values():
        lefts, rights = sorted(left for left, _ in pairs), [right for _, right in pairs]
        rights.sort(key=lambda right: ((free[right] >> right).bit_count(), right))
        wanted |= dict(zip(rights, lefts, strict=True))
    return wanted
