"""Values as YAML that people like to edit, and that is read back as the same values."""

from __future__ import annotations

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tool_call_evaluators.suite.writing import block, flow, scalar
from tool_call_evaluators.suite.yaml_document import read_document

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)
ODD = [
    "no",
    "12:30",
    "2026-01-31",
    "1e3",
    "0x1f",
    "~",
    "null",
    "- x",
    "...",
    "---",
    "a: b",
    "a #b",
    "@x",
    "x ",
    "\ufeff",
    "= 3",
]


@given(VALUES)
@example(ODD)
@example({text: text for text in ODD})
@example(
    {"a": "one\ntwo\n", "b": ["x\n\ny", " indented\nfirst", "ends with blank \nx", "\n", "tab\tin\nit", "\u2028\n"]}
)
@example([[[]], [{}], {"": {"": [""]}}])
@example(["0\n"])
def test_what_is_written_is_read_back(value):
    assert read_document("".join(f"{line}\n" for line in block(value))).value == value
    assert read_document("x: " + flow(value)).value == {"x": value}


@pytest.mark.parametrize(
    "text", ["ORD-1001", "5 Quay Street", "https", "Österreich", "注文", "$any", "in_order", "a+b (c)"]
)
def test_ordinary_words_need_no_quotes(text):
    assert scalar(text) == text


CALL = {"name": "lookup_order", "arguments": {"order_id": "ORD-1001"}}
ONE_LINE = "{name: lookup_order, arguments: {order_id: ORD-1001}}"


@pytest.mark.parametrize(
    ("value", "lines"),
    [
        ({"calls": [CALL, CALL]}, ["calls:", f"  - {ONE_LINE}", f"  - {ONE_LINE}"]),
        ({"calls": [CALL]}, [f"calls: [{ONE_LINE}]"]),
        ({"user": "one\n\ntwo"}, ["user: |-", "  one", "", "  two"]),
    ],
)
def test_short_things_stand_on_one_line_and_long_texts_as_lines(value, lines):
    assert block(value) == lines


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_yaml_does_not_have(value):
    with pytest.raises(ValueError, match="cannot be written"):
        scalar(value)


@pytest.mark.parametrize("character", "\u202a\u202e\u2066\u2069\u200e\u200f\u061c")
@pytest.mark.parametrize("text", ["a{}b", "{}", "line\na{}b\n"])
def test_what_would_turn_the_text_around_is_escaped(character, text):
    value = text.format(character)
    written = "\n".join(block({"text": value}))
    assert character not in written
    assert read_document(written).value == {"text": value}
