"""Matching and LCS against oracles that try everything, and the difference of two sequences of calls."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import pairwise, permutations

import pytest
from a2a_tool_capture import ToolCall
from hypothesis import given
from hypothesis import strategies as st
from tool_call_evaluators import EvalCase, get_evaluator
from tool_call_evaluators.matching import pairing
from tool_call_evaluators.matching.arguments import ArgumentMatcher, as_matcher
from tool_call_evaluators.matching.explain import MAX_DIFFED, Pairing, diff_calls
from tool_call_evaluators.matching.overlaps import in_some_order, overlapping_calls
from tool_call_evaluators.model import CallsUnseenError, ExpectedCall, expected_calls


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


START = datetime(2026, 11, 21, 9, 0, tzinfo=UTC)


def ran(name, begin, end):
    return ToolCall(name, {}, started_at=START + timedelta(seconds=begin), ended_at=START + timedelta(seconds=end))


def seen(name, first, result):
    return ToolCall(name, {}, first_seen_at=first, result_seen_at=result)


def allows(order, free):
    return all(left < right or free[left] >> right & 1 for at, left in enumerate(order) for right in order[at + 1 :])


def common(expected, names):
    table = [sum(1 << j for j, name in enumerate(names) if name == wanted) for wanted in expected]
    return table, len(pairing.longest_common_subsequence(table, len(names)))


TIMES = st.integers(0, 5)
spans = st.builds(lambda name, begin, length: ran(name, begin, begin + length), st.sampled_from("ab"), TIMES, TIMES)


@given(st.lists(spans, max_size=5), st.text("ab", max_size=5))
def test_the_best_order_is_found_and_no_other(made, expected):
    made.sort(key=lambda call: call.started_at)
    free = overlapping_calls(made)
    table, _ = common(expected, [call.name for call in made])
    pairs = in_some_order(pairing.longest_common_subsequence, free)(table, len(made))
    assert all(table[left] >> right & 1 for left, right in pairs)
    assert allows([right for _, right in pairs], free)
    orders = (order for order in permutations(range(len(made))) if allows(order, free))
    best = max(common(expected, [made[index].name for index in order])[1] for order in orders)
    assert len(pairs) == best or best < len(expected)


@pytest.mark.parametrize(
    ("made", "right", "wrong"),
    [
        ([ran("a", 0, 3), ran("b", 1, 2)], ["ab", "ba"], []),
        ([ran("a", 0, 1), ran("b", 1, 2)], ["ab"], ["ba"]),
        (
            [ran("long", 0, 9), ran("a", 1, 2), ran("b", 3, 4)],
            [["a", "long", "b"], ["a", "b", "long"]],
            [["long", "b", "a"]],
        ),
        ([ran("a", 0, 9), ran("a", 1, 2), ran("c", 3, 4)], ["aca", "aac"], ["caa"]),
        ([seen("a", 1.0, 4.0), seen("b", 2.0, 3.0)], ["ab", "ba"], []),
        ([seen("a", 1.0, 1.0), seen("b", 1.0, 1.0)], ["ab"], ["ba"]),
        ([ran("a", 0, 3), seen("b", 1.0, 2.0)], ["ab"], ["ba"]),
        ([ToolCall("a", {}), ToolCall("b", {})], ["ab"], ["ba"]),
    ],
)
def test_every_evaluator_of_order_accepts_any_order_of_overlapping_calls(made, right, wrong):
    for expected in [*map(list, right), *map(list, wrong)]:
        calls = [ExpectedCall(name) for name in expected]
        case = EvalCase(tool_calls=made, expected_tool_calls=calls, tool_calls_order=expected)
        scores = {
            get_evaluator(name, **options).evaluate(case).score
            for name, options in [
                ("tool_trajectory", {}),
                ("tool_trajectory", {"mode": "strict"}),
                ("tool_correctness", {"mode": "names_and_order"}),
                ("tool_call_order", {}),
                ("tool_call_order", {"strict": True}),
            ]
        }
        kinds = {change.kind for change in diff_calls(calls, made)}
        if expected in list(map(list, right)):
            assert (scores, kinds) == ({1.0}, {"same"})
        else:
            assert 1.0 not in scores
            assert "moved" in kinds


# ── the difference ───────────────────────────────────────────────────────────────────────────────────────────────────


def calls(*texts: str) -> list[ToolCall]:
    """`name` or `name:value`."""
    return [ToolCall(text.partition(":")[0], {"x": text.partition(":")[2]}) for text in texts]


def lines(left: list[ToolCall], right: list[ToolCall], **options) -> list[tuple[str, int | None, int | None]]:
    return [(change.kind, change.left, change.right) for change in diff_calls(expected_calls(left), right, **options)]


def test_changed_arguments_say_where():
    (change,) = diff_calls(
        [ExpectedCall("refund", {"id": "A", "amount": 1})], [ToolCall("refund", {"id": "A", "amount": 2})]
    )
    assert change.kind == "changed"
    assert [str(difference) for difference in change.differences] == ["amount: expected 1, got 2"]
    assert change.to_dict() == {
        "kind": "changed",
        "left": 0,
        "right": 0,
        "differences": [{"path": "amount", "problem": "different", "expected": 1, "actual": 2}],
    }


NUMBERED = [ToolCall("f", {"id": {"$regex": "[0-9]+"}})]
VERBOSE = [ToolCall("f", {"id": "12", "verbose": True})]


@pytest.mark.parametrize(
    ("left", "right", "options", "found"),
    [
        # the call that differs least is the changed one
        (
            [ToolCall("f", {"a": 1, "b": 2})],
            [ToolCall("f", {"a": 8, "b": 9}), ToolCall("f", {"a": 1, "b": 9})],
            {},
            [("added", None, 0), ("changed", 0, 1)],
        ),
        (calls("a", "b"), calls("b", "a"), {}, [("same", 1, 0), ("moved", 0, 1)]),
        (calls("a:1", "a:2"), calls("a:9"), {}, [("changed", 0, 0), ("removed", 1, None)]),
        (NUMBERED, [ToolCall("f", {"id": "12"})], {}, [("same", 0, 0)]),
        (NUMBERED, VERBOSE, {}, [("changed", 0, 0)]),
        (NUMBERED, VERBOSE, {"matcher": ArgumentMatcher("subset")}, [("same", 0, 0)]),
    ],
)
def test_what_became_of_each_call(left, right, options, found):
    assert lines(left, right, **options) == found


def test_a_pairing_names_calls_by_their_positions_and_refuses_unknown_arguments():
    pairing = Pairing(
        [ExpectedCall("a"), ExpectedCall("b")], [ToolCall("b"), ToolCall("c")], [(1, 0)], as_matcher("exact")
    )
    assert pairing.details() == {
        "matched": [{"name": "b", "expected": 2, "actual": 1}],
        "missing": [{"name": "a", "expected": 1}],
        "extra": [{"name": "c", "actual": 2}],
        "near_misses": [],
    }
    unseen = Pairing([ExpectedCall("a", {"x": 1})], [ToolCall("a", None)], [], as_matcher("exact"))
    with pytest.raises(CallsUnseenError, match=r"the arguments of call 1 \(a\): not seen"):
        unseen.problems()


def test_only_the_first_calls_are_looked_at():
    many = calls(*["a"] * (MAX_DIFFED + 5))
    assert len(diff_calls(expected_calls(many), many)) == MAX_DIFFED


SEQUENCES = st.lists(st.sampled_from(["a:1", "a:2", "b:1", "c:1"]), max_size=7).map(lambda texts: calls(*texts))


@given(SEQUENCES, SEQUENCES)
def test_every_call_is_in_exactly_one_line(left, right):
    changes = diff_calls(expected_calls(left), right)
    assert sorted(change.left for change in changes if change.left is not None) == list(range(len(left)))
    assert [change.right for change in changes if change.right is not None] == list(range(len(right)))
    for change in changes:
        if change.kind in ("same", "moved"):
            assert left[change.left] == right[change.right]
        if change.kind == "changed":
            assert left[change.left].name == right[change.right].name
            assert change.differences
    assert (left == right) == all(change.kind == "same" for change in changes)
