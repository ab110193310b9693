"""The limit of values in a JSON text counts values, and neither text nor what only looks like values."""

from __future__ import annotations

import json
from typing import Any

import pytest
from a2a_tool_capture import json_density
from a2a_tool_capture.json_density import MAX_VALUES, is_dense, may_be_dense
from hypothesis import given
from hypothesis import strategies as st

json_values = st.recursive(
    st.none() | st.integers() | st.text(alphabet='a,[{"\\\n'),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(alphabet='a,[{"\\'), inner),
    max_leaves=40,
)


def marks(value: Any) -> int:
    """The commas and opening brackets of `value` as JSON, those in strings aside."""
    if isinstance(value, dict | list):
        items = list(value.values()) if isinstance(value, dict) else value
        return 1 + max(len(items) - 1, 0) + sum(map(marks, items))
    return 0


@given(value=json_values)
def test_only_marks_outside_strings_count(value: Any) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_density, "MAX_VALUES", 5)
        patch.setattr(json_density, "_SMALL", 0)
        text = json.dumps(value)
        assert is_dense(text) == is_dense(text.encode()) == (marks(value) > 5)
        assert may_be_dense(text) or not is_dense(text)


@pytest.mark.parametrize("row", ["1,2,3,4\n", '[{"nested": "json"}]', "\\"])
def test_a_long_text_is_one_value(row: str) -> None:
    text = json.dumps({"text": row * 1_000_000})
    assert not is_dense(text)
    assert not is_dense(text.encode())


def test_values_behind_a_string_without_an_end_are_never_parsed() -> None:
    assert not is_dense('{"text": "' + "[]," * MAX_VALUES)


def test_strings_that_are_not_json_cost_a_bounded_number_of_steps() -> None:
    text = b'["' + b"," * MAX_VALUES + b'"' + b'""' * 10_000_000 + b"]"
    assert is_dense(text + b"," * MAX_VALUES + b",")
    assert not is_dense(text)


@pytest.mark.parametrize("codec", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_other_encodings_are_judged_by_the_upper_bound(codec: str) -> None:
    assert is_dense(json.dumps(["," * (MAX_VALUES + 1)]).encode(codec))
