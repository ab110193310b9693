"""JSON: equal values, limits, and what both readers make of numbers."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from a2a_eval_proxy.protocol.operations import decode_json
from a2a_tool_capture.canonical import canonical, value_key
from a2a_tool_capture.json_limits import MAX_VALUES, READ, has_too_many_values, too_deep
from a2a_tool_capture.json_values import read_json
from hypothesis import assume, given
from hypothesis import strategies as st
from support.junk import plain_json


def as_protobuf(value: Any) -> Any:
    """What a protobuf Struct makes of JSON: every number a float, keys in any order."""
    if isinstance(value, dict):
        return {key: as_protobuf(item) for key, item in reversed(value.items())}
    if isinstance(value, list):
        return [as_protobuf(item) for item in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        (1, 1.0, True),
        (0, -0.0, True),
        (10**20, 1e20, True),
        ({"a": 1, "b": [2]}, {"b": [2.0], "a": 1.0}, True),
        ((1, 2), [1, 2], True),
        (math.nan, math.nan, True),
        (True, 1, False),
        (False, 0, False),
        (1, "1", False),
        (None, "null", False),
        (None, {}, False),
        ([], {}, False),
        (1, 1.5, False),
        ([1, 2], [2, 1], False),
    ],
)
def test_equal_and_different_values(one: Any, other: Any, equal: bool) -> None:
    assert (canonical(one) == canonical(other)) is equal


@given(plain_json)
def test_the_text_is_json_of_the_value_whichever_way_it_came(value: Any) -> None:
    assert canonical(as_protobuf(value)) == canonical(value)
    assert canonical(json.loads(canonical(value))) == canonical(value)


@given(plain_json, plain_json)
def test_different_texts_mean_different_values(one: Any, other: Any) -> None:
    assume(canonical(one) != canonical(other))
    assert json.dumps(one, sort_keys=True) != json.dumps(other, sort_keys=True)


def nested(depth: int, make: str) -> Any:
    value: Any = 0
    for _ in range(depth):
        value = [value] if make == "list" else {"a": value}
    return value


@pytest.mark.parametrize("make", ["list", "object"])
def test_depth(make: str) -> None:
    assert not too_deep(nested(READ, make))
    assert too_deep(nested(READ + 1, make))
    assert too_deep(nested(100_000, "list"))
    canonical(nested(READ, make))


@pytest.mark.parametrize("whole", [2**53 + 1, 1234567890123456789, 10**23, -(10**23)])
def test_a_whole_number_is_by_value_the_double_that_it_is_rounded_to(whole: int) -> None:
    nested = {"a": [whole, {"b": whole}]}
    rounded = {"a": [float(whole), {"b": float(whole)}]}
    assert value_key(nested) == value_key(rounded)
    assert hash(value_key(nested)) == hash(value_key(rounded))
    assert value_key({"a": whole}) != value_key({"a": whole + 1})
    assert value_key({"a": whole}) != value_key({"a": float(whole) * 2})


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
    text = json.dumps(value) + " " * 300_000  # shorter texts are not looked into
    assert has_too_many_values(text, 5) == has_too_many_values(text.encode(), 5) == (marks(value) > 5)


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


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1234567890123456788", 1234567890123456788),
        ("18446744073709551616", 1.8446744073709552e19),
        ("2.50", 2.5),
        ("1e400", "inf"),
        ("-1e400", "-inf"),
        ("NaN", "nan"),
        ("-Infinity", "-inf"),
        ("1e-400", 0.0),
        ("9" * 400, int("9" * 400)),
    ],
)
def test_a_number_is_the_same_for_both_readers_and_stays_json(text: str, value: object) -> None:
    assert read_json(f"[{text}]") == decode_json(f"[{text}]".encode()) == [value]
    assert json.dumps(value, allow_nan=False)
