"""Values are changed in the text of a suite file: everything else stays as it is, byte for byte."""

from __future__ import annotations

import difflib
import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from tool_call_evaluators.suite import SuiteError
from tool_call_evaluators.suite.editing import with_values
from tool_call_evaluators.suite.writing import block
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


def test_equal_values_change_nothing() -> None:
    assert with_values(SUITE, {calls(0): [LOOK_UP | {"arguments": {"n": 1.0, "id": "ORD-1"}}, REFUND]}) == SUITE


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


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-9, 9),
    st.text("ab: #-'\"\n\t{}[]é", max_size=6),
    st.sampled_from(["no", "1"]),
)
KEYS = st.sampled_from(["name", "id", "a", "b c", "1", "null", "x: y", "- d"])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


def paths(value: Any, path: Path = ()) -> list[Path]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(found for step, item in inner for found in paths(item, (*path, step)))]


@st.composite
def edits(draw: st.DrawFn) -> tuple[str, dict[Path, Any]]:
    """A document, some of whose values are aliases, in one of many formats, and new values."""
    shared = draw(VALUES)
    value = {"shared": shared, **draw(st.dictionaries(KEYS, VALUES | st.just(shared), min_size=1, max_size=4))}
    form = draw(st.sampled_from(["ours", "json", "block", "flow", "wide"]))
    if form == "ours":
        text = "\n".join(block(value)) + "\n"
    elif form == "json":
        text = json.dumps(value, indent=draw(st.sampled_from([None, 2])))
    else:
        flow = {"block": False, "flow": True, "wide": None}[form]
        style = draw(st.sampled_from([None, "'", '"', "|", ">"]))
        text = yaml.dump(value, default_flow_style=flow, default_style=style, allow_unicode=True, sort_keys=False)
    document = read_document(text).value
    chosen = draw(st.lists(st.sampled_from(paths(document)), min_size=1, max_size=3, unique=True))
    outer = [path for path in chosen if not any(path[: len(other)] == other for other in chosen if other != path)]
    return text, {path: draw(VALUES) for path in outer}


@given(edits())
def test_the_new_document_has_the_new_values_and_no_others(edit: tuple[str, dict[Path, Any]]) -> None:
    text, values = edit
    wanted = json.loads(json.dumps(read_document(text).value))  # nothing shared
    for path, value in values.items():
        if not path:
            wanted = value
            continue
        inner = wanted
        for step in path[:-1]:
            inner = inner[step]
        inner[path[-1]] = value
    try:
        after = read_document(with_values(text, values)).value
    except SuiteError:
        assert "&" in text, "a value that others share may have to be changed by hand"
        return
    assert json.dumps(after, sort_keys=True) == json.dumps(wanted, sort_keys=True)
