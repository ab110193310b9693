"""The difference between two sequences of calls, one line for each call."""

from __future__ import annotations

import pytest
from a2a_tool_capture import ToolCall
from hypothesis import given
from hypothesis import strategies as st
from tool_call_evaluators.matching.arguments import ArgumentMatcher
from tool_call_evaluators.matching.explain import MAX_DIFFED, diff_calls
from tool_call_evaluators.model import ExpectedCall, expected_calls


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
        (NUMBERED, [ToolCall("f", {"id": "12"})], {}, [("same", 0, 0)]),
        (NUMBERED, VERBOSE, {}, [("changed", 0, 0)]),
        (NUMBERED, VERBOSE, {"matcher": ArgumentMatcher("subset")}, [("same", 0, 0)]),
    ],
)
def test_what_became_of_each_call(left, right, options, found):
    assert lines(left, right, **options) == found


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
