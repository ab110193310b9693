"""Values are changed in the text of a suite file: everything else stays as it is, byte for byte."""

from __future__ import annotations

import difflib
import json
from typing import Any

import pytest
from tool_call_evaluators.suite import SuiteError
from tool_call_evaluators.suite.editing import with_values
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
