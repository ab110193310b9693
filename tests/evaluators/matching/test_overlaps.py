"""Overlapping calls in any order, against an oracle that tries every order."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import permutations

import pytest
from a2a_tool_capture import ToolCall
from hypothesis import given
from hypothesis import strategies as st
from tool_call_evaluators import EvalCase, get_evaluator
from tool_call_evaluators.matching.explain import diff_calls
from tool_call_evaluators.matching.overlaps import in_some_order, overlapping_calls
from tool_call_evaluators.matching.pairing import longest_common_subsequence
from tool_call_evaluators.model import ExpectedCall

START = datetime(2026, 11, 21, 9, 0, tzinfo=UTC)


def ran(name, begin, end):
    return ToolCall(name, {}, started_at=START + timedelta(seconds=begin), ended_at=START + timedelta(seconds=end))


def seen(name, first, result):
    return ToolCall(name, {}, first_seen_at=first, result_seen_at=result)


def allows(order, free):
    return all(left < right or free[left] >> right & 1 for at, left in enumerate(order) for right in order[at + 1 :])


def common(expected, names):
    table = [sum(1 << j for j, name in enumerate(names) if name == wanted) for wanted in expected]
    return table, len(longest_common_subsequence(table, len(names)))


TIMES = st.integers(0, 5)
spans = st.builds(lambda name, begin, length: ran(name, begin, begin + length), st.sampled_from("ab"), TIMES, TIMES)


@given(st.lists(spans, max_size=5), st.text("ab", max_size=5))
def test_the_best_order_is_found_and_no_other(made, expected):
    made.sort(key=lambda call: call.started_at)
    free = overlapping_calls(made)
    table, _ = common(expected, [call.name for call in made])
    pairs = in_some_order(longest_common_subsequence, free)(table, len(made))
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
