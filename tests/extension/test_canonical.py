"""Canonical JSON: equal texts for equal values, and for no others."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from a2a_tool_capture.canonical import canonical, value_key
from a2a_tool_capture.json_limits import READ, too_deep
from hypothesis import assume, given
from support.junk import plain_json


def as_protobuf(value: Any) -> Any:
    """What a protobuf Struct makes of JSON: every number a float, keys in any order."""
    if isinstance(value, dict):
        return {key: as_protobuf(item) for key, item in reversed(value.items())}
    if isinstance(value, list):
        return [as_protobuf(item) for item in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 1.0),
        (0, -0.0),
        (10**20, 1e20),
        ({"a": 1, "b": [2]}, {"b": [2.0], "a": 1.0}),
        ((1, 2), [1, 2]),
        (math.nan, math.nan),
    ],
)
def test_equal_values(one: Any, other: Any) -> None:
    assert canonical(one) == canonical(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [(True, 1), (False, 0), (1, "1"), (None, "null"), (None, {}), ([], {}), (1, 1.5), ([1, 2], [2, 1])],
)
def test_different_values(one: Any, other: Any) -> None:
    assert canonical(one) != canonical(other)


@given(plain_json)
def test_the_way_through_protobuf_changes_nothing(value: Any) -> None:
    assert canonical(as_protobuf(value)) == canonical(value)


@given(plain_json)
def test_the_text_is_json_of_the_value(value: Any) -> None:
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
