"""Values are changed in the text of a suite file: everything else stays as it is, byte for byte."""

from __future__ import annotations

import difflib
import json
from typing import Any

import pytest
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st
from tool_call_evaluators.model import ExpectedCall
from tool_call_evaluators.suite import Case, CaseTurn, Expectation, SuiteError, parse_suite
from tool_call_evaluators.suite.editing import case_text, with_case, with_values
from tool_call_evaluators.suite.yaml_document import Path, read_document

SUITE = """\
# Orders, by the team of Ann.
suite: orders   # the name
shared: &calls
  - {name: look_up, arguments: {id: ORD-1}}   # the usual one
cases:
  - id: a   # the first
    turns:
      - user: >
          Where is
          my order?

        expect:
          tool_calls: # these
            - name: look_up   # with the id
              arguments: {id: "ORD-1", n: 1}
            # then the money
            - name: refund
              arguments:
                id: 'ORD-2'
                why: |
                  broken
                  mug
          response_contains: sent
  - id: b
    turns:
      - user: hi
        expect: {tool_calls: *calls}
  - id: c
    turns:
      - user: hi
        expect:
          tool_calls: *calls
  - id: d
    turns: [{user: hi, expect: {tool_calls: []}}]
"""
REFUND = {"name": "refund", "arguments": {"id": "ORD-2", "why": "broken\nmug\n"}}
LOOK_UP = {"name": "look_up", "arguments": {"id": "ORD-1", "n": 1}}


def calls(case: int) -> Path:
    return "cases", case, "turns", 0, "expect", "tool_calls"


def changed(before: str, after: str) -> list[str]:
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), n=0, lineterm="")
    return [line for line in lines if line[0] in "+-" and line[:3] not in ("+++", "---")]


@pytest.mark.parametrize(
    ("values", "lines"),
    [
        (
            {(*calls(0), 0, "arguments", "id"): "ORD-9"},
            [
                '-              arguments: {id: "ORD-1", n: 1}',
                "+              arguments: {id: ORD-9, n: 1}",
            ],
        ),
        ({(*calls(0), 1, "arguments", "id"): "it's"}, ["-                id: 'ORD-2'", '+                id: "it\'s"']),
        ({calls(0): [LOOK_UP, REFUND | {"succeeded": True}]}, ["+              succeeded: true"]),
        (
            {calls(0): [LOOK_UP, REFUND, {"name": "mail", "arguments": {"to": "ann"}}]},
            ["+            - {name: mail, arguments: {to: ann}}"],
        ),
        (
            {calls(0): [REFUND]},  # the comments in a list whose items are others go
            [
                "-            - name: look_up   # with the id",
                '-              arguments: {id: "ORD-1", n: 1}',
                "-            # then the money",
                "-                id: 'ORD-2'",
                "+                id: ORD-2",
            ],
        ),
        (
            {calls(1): [{"name": "look_up", "arguments": {"id": "ORD-7"}}]},  # the alias alone
            [
                "-        expect: {tool_calls: *calls}",
                "+        expect: {tool_calls: [{name: look_up, arguments: {id: ORD-7}}]}",
            ],
        ),
        (
            {calls(3): [{"name": "mail"}]},
            [
                "-    turns: [{user: hi, expect: {tool_calls: []}}]",
                "+    turns: [{user: hi, expect: {tool_calls: [{name: mail}]}}]",
            ],
        ),
        ({("cases", 2, "expect", "tool_calls"): []}, ["+    expect: {tool_calls: []}"]),
        ({calls(0): [LOOK_UP | {"arguments": {"n": 1.0, "id": "ORD-1"}}, REFUND]}, []),
    ],
)
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_only_the_lines_of_a_changed_value_differ(values: dict[Path, Any], lines: list[str], line_end: str) -> None:
    before = SUITE.replace("\n", line_end)
    after = with_values(before, values)
    assert changed(before, after) == lines
    for path, value in values.items():
        found = read_document(after).value
        for step in path:
            found = found[step]
        assert found == value


def test_json_stays_json() -> None:
    before = json.dumps(read_document(SUITE).value, indent=2)
    after = with_values(before, {(*calls(0), 0, "arguments", "id"): "ORD-9"})
    assert json.loads(after)["cases"][0]["turns"][0]["expect"]["tool_calls"][0]["arguments"]["id"] == "ORD-9"
    assert len(changed(before, after)) == 2


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        (("shared", 0, "arguments", "id"), "change them by hand"),  # others share it
        (("cases", 7, "expect"), "has no 7 where one is to be changed"),
    ],
)
def test_what_cannot_be_changed_is_refused(path: Path, problem: str) -> None:
    with pytest.raises(SuiteError, match=problem):
        with_values(SUITE, {path: "ORD-2"})


CASE = Case(
    id="new",
    turns=(CaseTurn("Where is it?\nNow?", Expectation(tool_calls=(ExpectedCall("lookup", {"id": "ORD-1", "n": 2}),))),),
)
COMMENTS = ["recorded 2 times"]


def added(before: str, after: str) -> str:
    """What `after` has more than `before`: one piece, in one place."""
    start = next((i for i, (one, other) in enumerate(zip(before, after, strict=False)) if one != other), len(before))
    more = len(after) - len(before)
    places = [i for i in range(start + 1) if before == after[:i] + after[i + more :]]
    assert places, "nothing was removed or changed"
    return after[places[0] : places[0] + more]


BLOCK = """\
# Orders, by the team of Ann.
suite: orders   # the name

evaluators: [tool_error]
cases:
  # the first one
  - id: status
    turns:
      - user: |
          Where is my order?

          Thanks

      # - user: not yet
# the end of the cases
tools: []
"""


@pytest.mark.parametrize(
    "before",
    [
        BLOCK,
        BLOCK.replace("\n", "\r\n"),
        "suite: a\ncases:\n- id: x\n  turns: [{user: hi}]  # inline",
        "suite: a\ncases:\n",
        "suite: a\ncases: []\nevaluators: []\n",
        "suite: a  # no cases yet",
        "suite: a\n...\n",
        "---\nsuite: a\ncases:\n    - id: x\n      turns: [{user: 'hi 😀'}]\n...\n",
        "  suite: a\n  cases:\n  - id: x\n    turns: [{user: hi}]\n",
        "suite: a\ncases: [{id: x, turns: [{user: hi}]}, ]\n",
        "suite: a\ncases: [\n  {id: x, turns: [{user: hi}]},  # one\n]\n",
        "suite: a\ncases:\n  - &x {id: x, turns: [{user: hi}]}\nother: 1\n",
        "suite: a\ntools: &t []\ncases:\n  - id: x\n    turns: [{user: hi}]\n    tools: *t\n",
        '{"suite": "a", "cases": []}',
        '{"suite": "a", "cases": [{"id": "x", "turns": [{"user": "hi"}]}]}',
        json.dumps({"suite": "a", "cases": [{"id": "x", "turns": [{"user": "hi"}]}], "tools": []}, indent=2),
        '{"suite": "a"}',
    ],
)
def test_a_case_is_added_and_nothing_else_changes(before: str) -> None:
    after = with_case(before, CASE, COMMENTS)
    piece = added(before, after)
    assert "lookup" in piece
    old, new = read_document(before).value, read_document(after).value
    assert {**new, "cases": new["cases"][:-1]} == {**old, "cases": old.get("cases") or []}
    assert new["cases"][-1]["id"] == "new"
    assert ("\r\n" in before) == ("\r\n" in piece)


def test_the_suite_with_the_case_is_read() -> None:
    text = with_case(BLOCK, CASE, COMMENTS)
    places = [text.index(part) for part in ("Thanks", "  # recorded 2 times\n  - id: new\n", "# the end of the cases")]
    assert places == sorted(places)
    assert [case.id for case in parse_suite(text).cases] == ["status", "new"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        *((text, "orders.yaml") for text in ("[1]", "hi", "cases: 5", "")),
        (with_case(BLOCK, CASE), r"orders.yaml: has a case 'new' already; choose another id"),
    ],
)
def test_what_is_no_suite_and_an_id_that_is_taken_are_refused(text: str, problem: str) -> None:
    with pytest.raises(SuiteError, match=problem):
        with_case(text, CASE, filename="orders.yaml")


def test_a_case_alone_fits_below_cases() -> None:
    assert parse_suite("suite: a\ncases:\n" + case_text(CASE, COMMENTS)).cases[0].turns == CASE.turns


words = st.text("abc :#-'\"\n{}[]é😀|>", max_size=12)
keys = st.text("abc", min_size=1, max_size=3)
values: st.SearchStrategy[Any] = st.recursive(
    words | st.integers() | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=6,
)
cases = st.lists(st.fixed_dictionaries({"id": st.text("xyz", min_size=1), "more": values}), max_size=3)
suites = st.fixed_dictionaries({"suite": words, "cases": cases}, optional={"tools": values, "zebra": values})
comment_lines = st.lists(
    st.tuples(st.integers(0, 40), st.sampled_from(["# a comment", "", "   # indented"])), max_size=6
)


@given(suites, st.permutations(range(4)), comment_lines, st.data())
def test_any_commented_suite_keeps_its_text(
    suite: dict[str, Any], order: list[int], comments: list[tuple[int, str]], data: st.DataObject
) -> None:
    style = data.draw(st.sampled_from(["block", "flow", "mixed", "json"]))
    value = {key: suite[key] for _, key in sorted(zip(order, suite, strict=False))}
    if style == "json":
        text = json.dumps(value, indent=data.draw(st.sampled_from([None, 2])), ensure_ascii=data.draw(st.booleans()))
    else:
        flow = {"block": False, "flow": True, "mixed": None}[style]
        indent = data.draw(st.sampled_from([2, 4]))
        options = {"sort_keys": False, "default_flow_style": flow, "allow_unicode": True, "indent": indent}
        text = yaml.dump(value, Dumper=yaml.CSafeDumper, **options)
        lines = text.splitlines()
        for position, comment in comments:
            lines.insert(position, comment)
        text = data.draw(st.sampled_from(["\n", "\r\n"])).join([*lines, *data.draw(st.sampled_from([[], [""]]))])
    try:
        before = read_document(text).value
    except SuiteError:
        assume(False)  # a comment was put into a string
    after = with_case(text, CASE, COMMENTS)
    assert "lookup" in added(text, after)
    new = read_document(after).value
    assert new["cases"][-1]["id"] == "new"
    assert {**new, "cases": new["cases"][:-1]} == {**before, "cases": before.get("cases") or []}
