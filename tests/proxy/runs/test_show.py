"""`runs` and `show`: what of a store is printed."""

from __future__ import annotations

import io

from a2a_eval_proxy.runs.tables import runs_table
from a2a_eval_proxy.store.base import RunSummary
from rich.console import Console
from support.turn_samples import call, finding, result, turn
from tool_call_evaluators.report.text_forms import turn_text

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
