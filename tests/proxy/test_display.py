"""The terminal table of turns: what it says of each, and that it stays readable where there is little room."""

from __future__ import annotations

import io

import pytest
from a2a_eval_proxy.display import turn_table
from rich.console import Console
from turn_samples import call, finding, result, turn


def shown(turns, metrics=("tool_error",), width=80):
    """The lines of the table, below its header."""
    out = io.StringIO()
    Console(file=out, width=width).print(turn_table(turns, list(metrics)))
    _, _, *rows = out.getvalue().splitlines()
    return [row.rstrip() for row in rows]


GOOD = [result("tool_error", 1.0)]


def test_a_row_tells_case_calls_scores_findings_and_verdict():
    (row, *_) = shown([turn("t", "Hi", [call("lookup", order=7)], GOOD, case="status", findings=[finding("odd")])])
    assert row.split() == ["status", "lookup(7)", "1.00", "1", "passed"]


@pytest.mark.parametrize(
    "broken",
    [
        {"state": "TASK_STATE_FAILED"},
        {"findings": [finding("agent_error", severity="error")]},
        {"evaluations": [result("tool_error", 0.0)]},
        {"evaluations": []},
    ],
)
def test_what_broke_off_or_was_not_scored_has_not_passed(broken):
    (row, *_) = shown([{**turn("t", "Hi", [], GOOD, case="status"), **broken}])
    assert row.split()[-1] == "failed"


def test_many_scores_take_further_lines_and_no_room_from_the_calls():
    metrics = [f"metric_{number}" for number in range(20)]
    said = [result(name, 0.5) for name in metrics]
    rows = shown([turn("t", "Hi", [call("lookup_order", order_id="ORD-1001")], said, case="order-status")], metrics)
    assert rows[0].startswith("order-status  lookup_order(ORD-1001)  0.50 0.50")
    assert rows[0].endswith("failed")
    assert sum(row.count("0.50") for row in rows) == 20
