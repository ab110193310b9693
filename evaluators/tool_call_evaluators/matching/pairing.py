"""Algorithms that pair calls: maximum matching in any order, longest common subsequence, and the first that fits.

The first two take a table: for each left item the right items that it may be paired with. They are optimal for any such
relation, also one that is not an equality, as with placeholders. Sets of right items are integers with bit j for item
j, so that a step of either algorithm is a few operations on whole rows.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

Table = Sequence[int]
"""For each left item, the right items it may be paired with, as bits."""
Pair = Callable[[Table, int], list[tuple[int, int]]]
"""Picks pairs of left and right items from a table; the number is that of the right items."""


def items(bits: int) -> Iterator[int]:
    """The items in a set, ascending."""
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest


def maximum_matching(table: Table, right_size: int) -> list[tuple[int, int]]:
    """Pair as many left with right items as possible, each used at most once; pairs by left index.

    Augmenting paths, shortest first, O(len(table) * right_size) steps at most. The same table always gives the same
    pairs. Raises IndexError for an item of `right_size` or more.
    """
    if any(row >> right_size for row in table):
        raise IndexError(f"the table pairs with items beyond the {right_size} there are")
    right_of: dict[int, int] = {}
    left_of: dict[int, int] = {}
    free = hopeful = (1 << right_size) - 1
    for start in range(len(table)):
        reached_from: dict[int, int] = {}
        reached = 0
        queue = [start]
        for left in queue:
            options = table[left] & hopeful & ~reached
            if options & free:
                right = next(items(options & free))
                free ^= 1 << right
                _hand_on(left, right, reached_from, right_of, left_of)
                break
            reached |= options
            for right in items(options):
                reached_from[right] = left
                queue.append(left_of[right])
        else:
            hopeful &= ~reached  # no path through these items reaches a free one
    return sorted(right_of.items())


def first_fitting(
    expected: Sequence[tuple[str, Any]], actual: Sequence[tuple[str, Any]], score: Callable[[int, int], float]
) -> tuple[list[tuple[int, int]], dict[str, Any]]:
    """Pair each expected (name, value), in order, with the first unused actual one of that name with `score` 1.

    Returns also every attempt as `{expected, actual, score}`, those of a name under `<name>_0`, `<name>_1`, ...
    """
    unused: dict[str, list[int]] = defaultdict(list)
    for right, (name, _) in enumerate(actual):
        unused[name].append(right)
    pairs, attempts, tried = [], {}, Counter[str]()
    for left, (name, wanted) in enumerate(expected):
        for right in unused[name]:
            scored = float(score(left, right))
            attempts[f"{name}_{tried[name]}"] = {"expected": wanted, "actual": actual[right][1], "score": scored}
            tried[name] += 1
            if scored == 1.0:
                pairs.append((left, right))
                unused[name].remove(right)
                break
    return pairs, attempts


def longest_common_subsequence(table: Table, right_size: int) -> list[tuple[int, int]]:
    """Pair as many items as possible so that both sides keep their order; pairs ascending on both sides.

    Hyyrö's bit-parallel form of the dynamic programme, O(len(table) * right_size / 64) in time and space. The same
    table always gives the same pairs.
    """
    # Mirrored, bit k of a row being the k-th right item from the end. Zeros in the k lowest bits of rows[i]: the
    # most pairs among the left items from i on and the last k right items.
    every = (1 << right_size) - 1
    rows = [every]
    for options in reversed(table):
        above, mirrored = rows[-1], int(f"{options:0{right_size}b}"[::-1], 2)
        rows.append((above + (above & mirrored) | above & ~mirrored) & every)
    rows.reverse()
    to_find = right_size - rows[0].bit_count()
    pairs, i, j = [], 0, 0
    while to_find:
        if table[i] >> j & 1:
            pairs.append((i, j))
            i, j, to_find = i + 1, j + 1, to_find - 1
        elif right_size - j - (rows[i + 1] & (every >> j)).bit_count() == to_find:
            i += 1
        else:
            j += 1
    return pairs


def _hand_on(
    left: int, right: int, reached_from: dict[int, int], right_of: dict[int, int], left_of: dict[int, int]
) -> None:
    """Flip the augmenting path: pair `left` with `right`, its previous partner with its predecessor, and so on."""
    while True:
        given_up = right_of.get(left)
        right_of[left], left_of[right] = right, left
        if given_up is None:
            return
        left, right = reached_from[given_up], given_up
