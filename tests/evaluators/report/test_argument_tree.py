"""The differences of a call in the tree of its arguments."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tool_call_evaluators.matching.arguments import ArgumentMatcher
from tool_call_evaluators.report.argument_tree import MAX_EQUAL, argument_tree, steps
from tool_call_evaluators.report.shorten import Shortener


def tree(expected: Any, actual: Any, limit: int = 1_000) -> list[dict[str, Any]]:
    return argument_tree(actual, ArgumentMatcher().differences(expected, actual), Shortener(limit))


def test_differences_stand_at_their_places() -> None:
    expected = {"id": "A", "lines": [{"sku": "x", "qty": 1}, {"sku": "y", "qty": 2}], "note": "n"}
    actual = {"id": "A", "lines": [{"sku": "x", "qty": 1}, {"sku": "y", "qty": 3}, {"sku": "z"}], "urgent": True}
    assert tree(expected, actual) == [
        {"key": "id", "value": "A"},
        {
            "key": "lines",
            "parts": [
                {"key": 0, "value": {"sku": "x", "qty": 1}},
                {
                    "key": 1,
                    "parts": [
                        {"key": "sku", "value": "y"},
                        {"key": "qty", "problem": "different", "expected": 2, "actual": 3},
                    ],
                },
                {"key": 2, "problem": "unexpected", "actual": {"sku": "z"}},
            ],
        },
        {"key": "urgent", "problem": "unexpected", "actual": True},
        {"key": "note", "problem": "missing", "expected": "n"},
    ]


def test_arguments_that_differ_as_a_whole_are_one_difference_without_a_key() -> None:
    differences = ArgumentMatcher().differences({"n": 1}, None)
    assert argument_tree({}, differences, Shortener(100)) == [{"problem": "unknown", "expected": {"n": 1}}]


def test_what_is_as_expected_is_counted_beyond_a_few_parts_and_never_hides_a_difference() -> None:
    numbers = list(range(1_000))
    (node,) = tree({"n": numbers}, {"n": [*numbers[:-1], 7]})
    assert [part for part in node["parts"] if "problem" in part] == [
        {"key": 999, "problem": "different", "expected": 999, "actual": 7}
    ]
    assert len(node["parts"]) == MAX_EQUAL + 2
    assert node["parts"][-1] == {"equal": 999 - MAX_EQUAL}


def test_long_values_are_cut() -> None:
    (node,) = tree({"t": "x"}, {"t": "y" * 500}, limit=100)
    assert "more characters" in node["actual"]


keys = st.text(max_size=4)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(keys, values, max_size=4), st.dictionaries(keys, values, max_size=4))
def test_each_difference_is_in_the_tree_once(expected: dict[str, Any], actual: dict[str, Any]) -> None:
    differences = ArgumentMatcher().differences(expected, actual)

    def problems(nodes: list[dict[str, Any]]) -> list[str]:
        found = [[node["problem"]] if "problem" in node else problems(node.get("parts", [])) for node in nodes]
        return [problem for one in found for problem in one]

    found = problems(argument_tree(actual, differences, Shortener(1_000)))
    assert sorted(found) == sorted(difference.problem for difference in differences)


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("a", ["a"]),
        ("items[0].qty", ["items", 0, "qty"]),
        ('["a.b"][2]["c]"].d', ["a.b", 2, "c]", "d"]),
        ('[""]', [""]),
        ("", []),
        ("[broken", ["[broken"]),
    ],
)
def test_steps_of_a_path(path: str, found: list[Any]) -> None:
    assert steps(path) == found
