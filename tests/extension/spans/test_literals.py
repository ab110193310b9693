"""Text is parsed as JSON or a Python literal, within bounds, and never evaluated."""

from __future__ import annotations

import json
from typing import Any

import pytest
from a2a_tool_capture.spans.content import MAX_REPR, as_text, parse, parse_object, repr_fields
from a2a_tool_capture.spans.model import CutText
from hypothesis import given
from hypothesis import strategies as st

json_text = st.text(st.characters(exclude_categories=["Cs"]))
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | json_text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(json_text, inner, max_size=4),
    max_leaves=10,
)


@given(st.dictionaries(json_text, json_values, min_size=1))
def test_json_and_python_spell_the_same_object(value: dict[str, Any]) -> None:
    assert parse(json.dumps(value)) == value
    assert parse(repr(value)) == value


@given(st.text() | st.binary() | json_values)
def test_anything_is_parsed(value: Any) -> None:
    parse(value)
    parse_object(value)
    as_text(value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "__REDACTED__",
        "<not specified>",
        "[Scrubbed due to 'password']",
        '{"query": {"from": "PAR", "to": "N',
        "{'a': datetime.now()}",
        "{'a': __import__('os').system('true')}",
        "{'a': [x for x in ().__class__.__bases__]}",
        "{1: 2}",
        "{'a': {1, 2}}",
        "{'a': b'bytes'}",
        "{'a': 1j}",
        "{'a': '\\ud800'}",
        '{"a": "\\uD800"}',
        '{"a": NaN}',
        "{'a': 1" + "0" * 400 + "}",
        "Paris",
    ],
)
def test_what_spells_no_value_is_unknown(text: str) -> None:
    assert parse(text) is None


@pytest.mark.parametrize(
    "bomb",
    [
        "[" * 100_000,
        "[" * 150 + "]" * 150,
        "{'a': " * 150 + "1" + "}" * 150,
        '{"a": ' * 500 + "1" + "}" * 500,
        "{'a': " + "-" * 30_000 + "1}",
        "{'a': " + "1+" * 30_000 + "1}",
        "{'a': '" + "x" * MAX_REPR + "'}",
    ],
    ids=lambda bomb: bomb[:12],
)
def test_bombs_are_unknown(bomb: str) -> None:
    assert parse(bomb) is None


def test_a_backslash_in_a_literal_warns_nobody() -> None:
    assert parse(r"{'path': 'C:\data'}") == {"path": r"C:\data"}


def test_tuples_are_lists_and_huge_integers_floats() -> None:
    assert parse("{'a': (1, 2), 'b': 36893488147419103232}") == {"a": [1, 2], "b": 2.0**65}
    assert repr(parse('[36893488147419103232, 18446744073709551615, "\\ud83d\\ude00"]')) == repr(
        [2.0**65, 2**64 - 1, "😀"]
    )


def test_an_object_may_be_encoded_twice() -> None:
    assert parse_object(json.dumps(json.dumps({"city": "Paris"}))) == {"city": "Paris"}


@pytest.mark.parametrize("value", ["[]", "1", "null", '"text"', [1], 5, None, True, CutText('{"a": 1}')])
def test_other_values_are_no_object(value: Any) -> None:
    assert parse_object(value) is None


def test_an_object_with_a_withheld_member_is_unknown() -> None:
    assert parse_object('{"city": "__REDACTED__", "units": "metric"}') is None


def test_whole_numbers_of_an_object_are_integers() -> None:
    assert json.dumps(parse_object('{"n": 2.0, "box": [0.0, 0.5]}')) == '{"n": 2, "box": [0, 0.5]}'


def test_structured_values_pass() -> None:
    assert parse_object({"city": "Paris"}) == {"city": "Paris"}
    assert parse_object({}) == {}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        ("", ""),
        ("Sunny", "Sunny"),
        ("{'a': 1}", "{'a': 1}"),
        ({"a": [1, None]}, '{"a": [1, null]}'),
        (21.5, "21.5"),
        (True, "true"),
        (b"\x00", "\"b'\\\\x00'\""),
        ("__REDACTED__", None),
        ({"a": 10**30}, '{"a": 1000000000000000000000000000000}'),
        ({(1, 2): 3}, "{(1, 2): 3}"),
    ],
)
def test_results_are_text(value: Any, text: str | None) -> None:
    assert as_text(value) == text


def test_fields_of_a_repr() -> None:
    text = "content='It\\'s \"sunny\"' name='get_weather' tool_call_id=\"call_1\" artifact=None"

    assert repr_fields(text) == {"content": 'It\'s "sunny"', "name": "get_weather", "tool_call_id": "call_1"}
