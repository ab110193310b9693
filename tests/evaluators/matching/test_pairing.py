"""Matching and LCS against oracles that try everything."""

from __future__ import annotations

from functools import cache
from itertools import pairwise, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tool_call_evaluators.matching import pairing


def bits(table: list[list[int]]) -> list[int]:
    return [sum(1 << right for right in row) for row in table]


def maximum_matching(table: list[list[int]], right_size: int) -> list[tuple[int, int]]:
    return pairing.maximum_matching(bits(table), right_size)


def longest_common_subsequence(table: list[list[int]], right_size: int) -> list[tuple[int, int]]:
    return pairing.longest_common_subsequence(bits(table), right_size)


@st.composite
def tables(draw: st.DrawFn, most: int = 6) -> tuple[list[list[int]], int]:
    right_size = draw(st.integers(0, most))
    row = st.sets(st.integers(0, right_size - 1)).map(sorted) if right_size else st.just([])
    return draw(st.lists(row, max_size=most)), right_size


def largest_by_trying(table: list[list[int]], right_size: int) -> int:
    slots = [*range(right_size), *([None] * len(table))]
    return max(
        sum(right in table[left] for left, right in enumerate(order) if right is not None)
        for order in set(permutations(slots, len(table)))
    )


def longest_by_trying(table: list[list[int]], right_size: int) -> int:
    @cache
    def longest(left: int, right: int) -> int:
        if left == len(table) or right == right_size:
            return 0
        together = longest(left + 1, right + 1) + 1 if right in table[left] else 0
        return max(together, longest(left + 1, right), longest(left, right + 1))

    return longest(0, 0)


@pytest.mark.statement(182)
@given(tables(most=4))
def test_a_matching_is_as_large_as_any(case):
    table, right_size = case
    assert len(maximum_matching(table, right_size)) == largest_by_trying(table, right_size)


@given(tables(most=12))
def test_a_matching_uses_allowed_pairs_and_each_item_once(case):
    table, right_size = case
    pairs = maximum_matching(table, right_size)
    assert all(right in table[left] for left, right in pairs)
    assert len({left for left, _ in pairs}) == len({right for _, right in pairs}) == len(pairs)


@given(tables())
def test_a_common_subsequence_is_as_long_as_any(case):
    table, right_size = case
    assert len(longest_common_subsequence(table, right_size)) == longest_by_trying(table, right_size)


@given(tables(most=12))
def test_a_common_subsequence_ascends_on_both_sides(case):
    table, right_size = case
    pairs = longest_common_subsequence(table, right_size)
    assert all(right in table[left] for left, right in pairs)
    assert all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(pairs))
    assert len(pairs) <= len(maximum_matching(table, right_size))


def test_a_long_chain_of_moves_needs_no_recursion():
    size = 3_000
    table = [[left, left + 1] for left in range(size)] + [[0]]
    assert len(maximum_matching(table, size + 1)) == size + 1
