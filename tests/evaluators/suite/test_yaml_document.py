"""Reading YAML and JSON from strangers: values, positions, limits."""

from __future__ import annotations

import json
from contextlib import suppress
from unittest.mock import ANY

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tool_call_evaluators.suite.yaml_document import MAX_BYTES, SuiteError, read_document


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: no", {"a": "no"}),
        ("a: [yes, on, off, y, NO]", {"a": ["yes", "on", "off", "y", "NO"]}),
        ("a: [true, False, null, ~, ]", {"a": [True, False, None, None]}),
        ("a: 2026-01-31", {"a": "2026-01-31"}),
        ("a: 12:30", {"a": "12:30"}),
        ("a: [1, -2, +3, 010, 0x1F, 0o17, 1_000]", {"a": [1, -2, 3, 10, 31, 15, "1_000"]}),
        ("a: [1.5, .5, 1e3, -2.5E-1, 5.]", {"a": [1.5, 0.5, 1000.0, -0.25, 5.0]}),
        ("a: ['.nan', '.inf', '1', \"2\", !!str 3, !!int 4]", {"a": [".nan", ".inf", "1", "2", "3", 4]}),
        ("a:\nb: ''", {"a": None, "b": ""}),
        ("a: &x [1]\nb: *x", {"a": [1], "b": [1]}),
        ("- |\n  two\n  lines\n", ["two\nlines\n"]),
        ("plain text", "plain text"),
        ('{"a": "\\ud83d\\ude00", "b":1, "c":\t[]}', {"a": "😀", "b": 1, "c": []}),
        ("{a: 1, b: [x]}", {"a": 1, "b": ["x"]}),
    ],
)
def test_values(text, value):
    assert read_document(text).value == value


CASES = "suite: x\ncases:\n  - id: a\n    turns: [hi,\n      ho]\n"
SHARED = "a:\n  - b: 1\nc: &x {d: 1}\ne: *x\n"


@pytest.mark.parametrize(
    ("text", "path", "position"),
    [
        (CASES, (), (1, 1)),
        (CASES, ("suite",), (1, 1)),
        (CASES, ("cases", 0), (3, 5)),
        (CASES, ("cases", 0, "turns"), (4, 5)),
        (CASES, ("cases", 0, "turns", 1), (5, 7)),
        (SHARED, ("a", 0, "nope", "deeper"), (2, 5)),  # the nearest around it
        (SHARED, ("e", "d"), (4, 1)),
        ('{\n\t"a": 1,\n\t"\\ud83d\\ude00": [\n\t\ttrue]}', ("a",), (2, 2)),
        ('{"x": "\\ud83d\\ude00", "y": {"z": 1}}', ("y", "z"), (1, 29)),  # as an editor counts
    ],
)
def test_positions_are_those_of_keys_and_items(text, path, position):
    assert read_document(text).position(path) == position


BOMB = "a0: &a0 [1,1,1,1,1,1,1,1,1]\n" + "".join(
    f"a{i + 1}: &a{i + 1} [{','.join([f'*a{i}'] * 9)}]\n" for i in range(9)
)


@pytest.mark.parametrize(
    ("text", "problem", "position"),
    [
        ("", "is empty", None),
        ("# only a comment\n", "is empty", None),
        ("a: [1,\nb", "expected .*,", (3, 1)),
        ("a: 1\n\tb: 2", "tab|token", (2, 1)),
        ("a: 1\na: 2", "key 'a' is repeated", (2, 1)),
        ('{"a": 1, "a": 2}', "key 'a' is repeated", (1, 10)),
        ("1: a", "key 1 must be a string; put it in quotes", (1, 1)),
        ("? [a]\n: b", "a key must be a string", (1, 3)),
        ("a: &x 1\n*x : 2", "a key must be a string, not an alias", (2, 1)),
        ("a: 1\n---\nb: 2", "holds more than one document", (2, 1)),
        ("a: &a [*a]", "alias \\*a contains itself", (1, 8)),
        ("a: &a\n  b:\n    c: *a", "alias \\*a contains itself", (3, 8)),
        ("a: *b", "alias \\*b has no anchor", (1, 4)),
        ("a: !!python/object/apply:os.system [id]", "tag .*python.* is not supported", (1, 4)),
        ("a: !!timestamp 2026-01-01", "tag .* is not supported", (1, 4)),
        ("[" * 200, "nests deeper than 100 levels", (1, 101)),
        ("[" * 100_000, "nests deeper than 100 levels", ANY),
        ("[" * 200 + "]" * 200, "nests deeper than 100 levels", None),
        ("- " * 200, "nests deeper than 100 levels", (1, 201)),
        ("a:\n\t- b", "cannot start any token: a tab; indent with spaces", (2, 1)),
        ("a: @b", "cannot start any token: '@'; put the string in quotes", (1, 4)),
        ("a: Note: b", "a string with ': ' needs quotes", (1, 8)),
        (BOMB, "holds more than 200,000 values", (6, 22)),
        ("a: \x00", "control characters are not allowed", None),
        ('{"a": NaN, "b": [}', "expected", (1, 18)),
        ("x" * (MAX_BYTES + 1), "is longer than 5,000,000 characters", None),
    ],
)
def test_what_is_not_a_document(text, problem, position):
    with pytest.raises(SuiteError, match=problem) as caught:
        read_document(text)
    assert (caught.value.line, caught.value.column) == (position or (None, None))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(json_values, st.booleans(), st.sampled_from([None, 2, "\t"]))
def test_json_is_read_as_json(value, ensure_ascii, indent):
    text = json.dumps({"value": value}, ensure_ascii=ensure_ascii, indent=indent)
    document = read_document(text)
    assert document.value == {"value": value}


@given(st.text(alphabet="ab:[]{}-&*!|>'\"#%@, \n\t01.~?", max_size=40))
def test_any_text_is_read_or_refused_with_one_kind_of_error(text):
    with suppress(SuiteError):
        read_document(text)
