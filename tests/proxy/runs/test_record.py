"""`record`: a suite from stored turns, which the same agent then passes."""

from __future__ import annotations

from pathlib import Path

import pytest
from a2a_eval_proxy.ids import new_run_name
from support.commands import run as command
from support.stored_runs import store_turns
from support.turn_samples import call, turn
from tool_call_evaluators import load_suite
from tool_call_evaluators.suite import parse_suite


def test_a_suite_on_standard_output(tmp_path: Path) -> None:
    store = tmp_path / "turns.db"
    store_turns(store, [turn("1", "Where is it?", [call("lookup", key="4f1d2c3b4a5968778695a4b3c2d1e0f9")])], "good")
    store_turns(store, [turn("2", "Something else")], "other")
    done = command("record", "--store", store, "--run", "good")
    assert (done.returncode, done.stderr) == (0, "recorded 1 case\n")
    (tmp_path / "suite.yaml").write_text(done.stdout)
    (case,) = load_suite(tmp_path / "suite.yaml").cases
    (expected,) = case.turns[0].expect.tool_calls or ()
    assert (case.id, expected.name) == ("where-is-it", "lookup")
    assert expected.arguments == {"key": {"$regex": "[0-9a-fA-F]{16,}"}}
    store_turns(store, [turn("3", state="TASK_STATE_FAILED")], "bad")
    left_out = "Left out, failed conversations: 1.\n"
    assert command("record", "--store", store).stderr == f"{left_out}recorded 2 cases\n"


def test_an_unchanged_agent_is_recorded_as_the_same_file(tmp_path: Path) -> None:
    """Whatever the order of a protobuf Struct is, and of conversations at the same time."""
    forwards = {"city": "Paris", "box": [{"y": 2.0, "x": 1}], "pay": {"b": 1, "a": 2}, "filter": {"$regex": "x"}}
    backwards = {"filter": {"$regex": "x"}, "pay": {"a": 2, "b": 1}, "box": [{"x": 1.0, "y": 2}], "city": "Paris"}
    recorded = []
    for cases, arguments in (("ab", forwards), ("ba", backwards)):
        store, run = tmp_path / f"{cases}.db", new_run_name("orders")
        turns = [turn(f"1{case}", f"Book {case}", [call("book", **arguments)], case=case) for case in cases]
        store_turns(store, turns, run)
        recorded.append(command("record", "--store", store, "--run", run).stdout)
    assert "$literal" in recorded[0]
    assert recorded[0] == recorded[1]
    assert parse_suite(recorded[0]).name == "orders"


KNOWN = """
suite: shop
agent: {url: "http://agent:1", headers: {Authorization: "Bearer ${TOKEN}"}}
evaluators: [contains, tool_error]
gates: {contains: {mean: 0.5}}
cases:
  - id: status
    tags: [smoke]
    turns:
      - user: Where is it?
        expect: {response_contains: tomorrow, tool_calls: [{name: old_tool}]}
  - id: other
    turns: [{user: Not recorded, expect: {tool_calls: [{name: kept}]}}]
  - id: changed
    turns: [{user: New words, expect: {tool_calls: [{name: kept}]}}]
"""


def test_what_a_suite_says_beside_calls_is_kept(tmp_path: Path) -> None:
    store, known = tmp_path / "turns.db", tmp_path / "shop.yaml"
    known.write_text(KNOWN)
    turns = [
        turn("1", "Where is it?", [call("lookup", order="A-1")], case="status"),
        turn("2", "Old words", [call("lookup")], case="changed"),
        turn("3", "Something new", [call("fails", error="no")], case="new"),
    ]
    store_turns(store, turns, "monday")
    done = command("record", "--store", store, "--suite", known)
    assert "conversations with other messages than their case: 1" in done.stderr
    before, after = load_suite(known), parse_suite(done.stdout)
    assert [case.id for case in after.cases] == ["status", "other", "changed", "new"]
    assert after.cases[1:3] == before.cases[1:3]
    status = after.cases[0]
    assert [one.name for one in status.turns[0].expect.tool_calls or ()] == ["lookup"]
    assert status.turns[0].expect.response_contains == "tomorrow"
    assert (status.tags, after.name, after.agent, after.gates) == (("smoke",), "shop", before.agent, before.gates)
    assert "${TOKEN}" in done.stdout
    assert [spec.name for spec in after.evaluators] == ["contains", "tool_error", "tool_trajectory"]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--store", "no-such.db"], "no-such.db"),
        (["--store", "{store}", "--run", "nope"], "the store has bad"),
        (
            ["--store", "{store}"],
            "no conversation of 2 turns can be recorded. Left out, conversations with a message that a suite cannot "
            "send: empty, not kept, or for some waiting calls only: 1. Left out, failed conversations: 1.",
        ),
    ],
)
def test_nothing_to_record(arguments: list[str], named: str, tmp_path: Path) -> None:
    store = tmp_path / "turns.db"
    store_turns(store, [turn("1", state="TASK_STATE_FAILED"), turn("2", user="")], "bad")
    done = command("record", *(text.format(store=store) for text in arguments))
    assert (done.returncode, done.stdout) == (2, "")
    assert named in done.stderr
