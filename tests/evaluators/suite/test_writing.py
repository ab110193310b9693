"""A suite as text, and back."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from pathlib import Path
from unittest.mock import ANY

import jsonschema
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tool_call_evaluators import parse_suite
from tool_call_evaluators.suite.schema import suite_schema
from tool_call_evaluators.suite.writing import EDITOR_LINE, block, flow, scalar, suite_text
from tool_call_evaluators.suite.yaml_document import MAX_BYTES, SuiteError, read_document

DEMO = Path(__file__).parents[3] / "proxy/a2a_eval_proxy/features/demo/suite.yaml"

EVERYTHING = """
suite: everything
agent: {url: "http://127.0.0.1:9", headers: {A: b}, binding: JSONRPC, streaming: false, timeout: 3, concurrency: 2}
judge: {model: small, votes: 3, extra_body: {seed: 7}}
simulated_user: {model: small, seed: 7, temperature: 0.5, prompt: "Want {{goal}}."}
repeat: {times: 3, pass: 2}
depth: all
tool_classes: {reads: [get_*], writes: [book]}
prices: {gpt-4o: {input: 10, output: 0}}
quarantine: {two: {reason: the search index is down, until: 2099-01-01}}
evaluators:
  - tool_error
  - tool_trajectory: {mode: precision, id: precision, matcher: {mode: subset, per_tool: {f: ignore}}}
  - tool_trajectory: {scope: conversation, id: journey}
tools: [{name: f, description: "No: thing", parameters: {type: object, properties: {a: {type: string}}}, strict: true}]
gates:
  tool_error: 0.9
  precision: {pass_rate: 0.5, conversation_mean: 0.25, mean: 0.1, forbid: [a label]}
  findings: {error: 0, warning: 3}
  captured: 1
  pass_rate: 0.5
tolerate: [unmeasured, errored]
cases:
  - id: "1"
    tags: [smoke, "no"]
    repeat: 3
    user_goal: |
      Two
      lines.
    knowledge: k
    tasks: []
    constraints: [be brief]
    tools: []
    evaluators: []
    turns:
      - user: "Where: is # it?"
        expect:
          tool_calls: [{name: f, arguments: {a: {$regex: "ORD-[0-9]+"}, n: 1.5}}, {name: g, arguments: null}, {name: h}]
          tool_calls_order: [f, g]
          tool_calls_count: {f: [">=", 1]}
          tool_outputs: [{name: f, output: '{"a": 1}'}]
          response: {status: sent, list: [1, null, true]}
          response_contains: sent
          behavior: Looks first.
          state_of_world: {http: {url: "http://127.0.0.1:9/{case_id}", method: POST, headers: {A: b}, body: {a: 1}},
                           timeout: 2, equals: {status: {$any: true}}}
      - user: and then?
        expect: {tool_calls: []}
      - user: bye
  - id: two
    expect: {tool_calls: [{name: f}], state_of_world: {command: [ls, -l], folder: /tmp, equals: null}}
    evaluators: [{tool_trajectory: {scope: conversation}}]
    given: [hello, {user: and?, agent: orders}, {user: {approve: true}}]
    turns: [{user: hi, agent: orders}]
  - {id: four, given: {run: nightly, case: two}, turns: [{user: hi}]}
  - {id: five, given: {context_id: c-7}, turns: [{user: hi}]}
  - {id: six, given: [{user: hi, answer: Hello.}], turns: [{user: hi}]}
  - id: three
    given: {simulate: {goal: Small talk}}
    simulate:
      {goal: g, profile: p, knowledge: [a, b], context: c, opening: o, max_turns: 3, stop: s, conversations: 2}
"""


@pytest.mark.parametrize("text", [EVERYTHING, DEMO.read_text("utf-8"), "suite: empty\n", "suite: x\ntools: []"])
def test_a_suite_is_read_back_as_it_was(text):
    suite = parse_suite(text)
    written = suite_text(suite, ["A comment\nof two lines."])
    assert parse_suite(written) == suite
    jsonschema.Draft7Validator(suite_schema()).validate(read_document(written).value)
    assert written.startswith(f"{EDITOR_LINE}\n# A comment\n# of two lines.\nsuite: ")
    assert suite_text(parse_suite(written)) == suite_text(suite)


def test_plugins_are_named_by_their_whole_path(tmp_path):
    (tmp_path / "mine.py").write_text("")
    suite = parse_suite("suite: x\nplugins: [mine.py]", str(tmp_path / "s.yaml"))
    assert parse_suite(suite_text(suite), "elsewhere/s.yaml", allow_plugins=True) == suite


def test_half_a_surrogate_pair_is_replaced_wherever_it_stands():
    half = "\\ud83d"
    expect = f'{{"response": {{"{half}": ["{half}"]}}, "tool_calls": [{{"name": "{half}"}}], "behavior": "{half}"}}'
    text = f'{{"suite": "{half}", "cases": [{{"id": "a", "turns": [{{"user": "{half}", "expect": {expect}}}]}}]}}'
    again = parse_suite(suite_text(parse_suite(text)))
    assert again.name == again.cases[0].turns[0].user == "\N{REPLACEMENT CHARACTER}"
    assert again.cases[0].turns[0].expect.tool_calls[0].name == "\N{REPLACEMENT CHARACTER}"


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


# ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────────────


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
