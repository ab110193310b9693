"""`runs` and `show`: what of a store is printed."""

from __future__ import annotations

import asyncio
import io
from pathlib import Path

import pytest
from a2a_eval_proxy.cli import cli
from a2a_eval_proxy.ids import new_run_name
from a2a_eval_proxy.runs.tables import runs_table, stored_runs, turn_text
from a2a_eval_proxy.store.base import RunSummary
from click.testing import CliRunner
from rich.console import Console
from support.stored_runs import store_turns
from support.turn_samples import call, finding, result, turn

MONDAY = RunSummary("monday", 3, 0, 4, 1, 0, 0, "2026-11-22T16:13:36.000001Z", "2026-11-22T16:14:00.000001Z")


def test_a_run_is_a_row() -> None:
    out = io.StringIO()
    empty = RunSummary("[b]\x1bempty", 0, 0, 0, 0, 0, 0, None, None)
    Console(file=out, width=120).print(runs_table([MONDAY, empty]))
    rows = [row.split() for row in out.getvalue().splitlines()]
    assert rows[1] == ["monday", "2026-11-22", "16:13", "3", "no", "suite:", "4", "passed,", "1", "failed"]
    assert rows[2][1:] == ["–", "0", "no", "suite:", "none"]
    assert rows[2][0].startswith("[b]")
    assert "\x1b" not in out.getvalue()


def test_at_80_columns_names_of_runs_are_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `run` and `serve` name them, in any terminal: who copies a name gets the whole."""
    names = [new_run_name("checkout-regression"), new_run_name("serve"), "x" * 100, "case:bug:1"]
    for name in names:
        store_turns(tmp_path / "s.db", [turn("t", evaluations=[result("tool_error", 0.0)])], run=name)
    shown = at_80_columns(["runs", "--store", str(tmp_path / "s.db")], monkeypatch)
    assert sorted(line.split()[0] for line in shown[1:]) == sorted(names)
    without_the_long = [row for row in runs_of(tmp_path / "s.db") if len(row.name) < 80]
    out = io.StringIO()
    Console(file=out, width=80).print(runs_table(without_the_long), crop=False)
    assert max(map(len, out.getvalue().splitlines())) <= 80


def test_at_80_columns_a_run_is_shown_by_conversations_with_reasons(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [f"{number:032x}" for number in range(4)]
    missing = result("tool_trajectory", 0.0, reason="turn 2 expected lookup_order and then refund, but made no call")
    turns = [  # two conversations at a time
        turn(ids[0], "Where is it?", [call("lookup_order", order_id="ORD-1001")], case="a", conversation="c-1"),
        turn(ids[1], "And mine?", case="b", conversation="c-2", start=1),
        turn(ids[2], "Refund it", [], [missing], case="a", conversation="c-1", start=2),
        turn(ids[3], "Bye", case="b", conversation="c-2", start=3),
    ]
    store_turns(tmp_path / "s.db", turns)
    lines = at_80_columns(["show", turns[0]["run"], "--store", str(tmp_path / "s.db")], monkeypatch)
    assert [line.split()[1] for line in lines if line.split()[1:] and line.split()[1] in ids] == [
        ids[i] for i in (0, 2, 1, 3)
    ]
    assert [line for line in lines if "conversation" in line] == ["a, conversation c-1", "b, conversation c-2"]
    assert '    → lookup_order(order_id="ORD-1001")' in lines
    said = " ".join(" ".join(lines).split())
    assert f"failed {ids[2]} Refund it no tool calls tool_trajectory 0.00: {missing['reason']}" in said
    assert max(map(len, lines)) <= 80


def at_80_columns(command: list[str], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The lines that a command prints on a terminal of that width."""
    monkeypatch.setenv("COLUMNS", "80")
    return CliRunner().invoke(cli, command, catch_exceptions=False).stdout.splitlines()


def runs_of(path: Path) -> list[RunSummary]:
    return asyncio.run(stored_runs(str(path)))


def test_everything_of_a_turn_is_on_a_line() -> None:
    calls = [call("lookup", order="A-1"), call("mail", result=None, error="no address\x07")]
    shown = turn(
        "t-1",
        "Where is it?",
        calls,
        [result("tool_error", 0.5), result("grade", None, label="vague")],
        case="status",
        conversation="c-1",
        findings=[finding("odd")],
        annotations=[
            {"assessment": "wrong", "evaluator": "grade", "who": "ann\x07", "note": "it is clear"},
            {"assessment": "right", "evaluator": None, "who": "", "note": ""},
        ],
        response_text="x" * 5_000,
        state="TASK_STATE_INPUT_REQUIRED",
    )
    lines = turn_text(shown).splitlines()
    assert lines[0] == f"turn t-1, case status, run {shown['run']}, conversation c-1"
    assert lines[1].endswith(", input required")
    assert '→ lookup(order="A-1")   (a2a_protocol)' in lines
    assert "tool_error 0.50 failed: tool_error said so" in lines
    assert "grade skipped (vague): grade said so" in lines
    assert "annotated right: the turn" in lines
    assert next(line for line in lines if line.startswith("annotated wrong: grade by ann")).endswith(": it is clear")
    assert any(line.startswith("warning: odd: ") for line in lines)
    assert any("… (--output json shows all)" in line for line in lines)
    assert "\x07" not in "".join(lines)
