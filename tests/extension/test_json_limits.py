"""The limit of values in a JSON text counts values, and neither text nor what only looks like values."""

from __future__ import annotations

import json
from typing import Any

import pytest
from a2a_tool_capture import json_limits
from a2a_tool_capture.json_limits import MAX_VALUES, has_too_many_values, may_have_too_many_values
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
        patch.setattr(json_limits, "MAX_VALUES", 5)
        patch.setattr(json_limits, "_SMALL", 0)
        text = json.dumps(value)
        assert has_too_many_values(text) == has_too_many_values(text.encode()) == (marks(value) > 5)
        assert may_have_too_many_values(text) or not has_too_many_values(text)


@pytest.mark.parametrize("row", ["1,2,3,4\n", '[{"nested": "json"}]', "\\"])
def test_a_long_text_is_one_value(row: str) -> None:
    text = json.dumps({"text": row * 1_000_000})
    assert not has_too_many_values(text)
    assert not has_too_many_values(text.encode())


def test_values_behind_a_string_without_an_end_are_never_parsed() -> None:
    assert not has_too_many_values('{"text": "' + "[]," * MAX_VALUES)


def test_strings_that_are_not_json_cost_a_bounded_number_of_steps() -> None:
    text = b'["' + b"," * MAX_VALUES + b'"' + b'""' * 10_000_000 + b"]"
    assert has_too_many_values(text + b"," * MAX_VALUES + b",")
    assert not has_too_many_values(text)


@pytest.mark.parametrize("codec", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_other_encodings_are_judged_by_the_upper_bound(codec: str) -> None:
    assert has_too_many_values(json.dumps(["," * (MAX_VALUES + 1)]).encode(codec))
