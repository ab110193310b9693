"""The terminal tables: what they say of each turn and metric, and that they stay readable with little room."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from a2a_eval_proxy.cli.options import EvaluateOptions
from a2a_eval_proxy.cli.run_display import show_result
from a2a_eval_proxy.runs.run_plan import RunPlan
from a2a_eval_proxy.runs.run_result import judge_turns
from a2a_eval_proxy.runs.tables import finding_lines, gate_table, runs_table, turn_table
from a2a_eval_proxy.store.base import RunSummary, RunVerdict
from rich.console import Console
from support.turn_samples import call, finding, result, turn
from tool_call_evaluators import EvalResult
from tool_call_evaluators.outcomes.conversations import follow, run_verdict
from tool_call_evaluators.report import build_report
from tool_call_evaluators.report.text_forms import turn_text
from tool_call_evaluators.suite import parse_suite


def shown(turns, width=80):
    """The lines of the table, below its header."""
    return printed(turn_table(judge_turns(None, turns, {}, "r").report), width)[1:]


def printed(table, width=80):
    out = io.StringIO()
    Console(file=out, width=width).print(table)
    return [line.rstrip() for line in out.getvalue().splitlines()]


GOOD, BAD = [result("tool_error", 1.0)], [result("tool_error", 0.0)]


def reported(suite_text, *turns):
    suite = parse_suite(f"suite: s\nevaluators: [tool_error]\n{suite_text}")
    return build_report("r", turns, run_verdict(suite, follow(turns, suite)).to_dict(), suite=suite)


def test_a_row_tells_case_calls_verdict_and_what_is_worth_a_remark():
    said = [*GOOD, result("args", 0.5), result("grade", 0.7, threshold=None), result("order", None)]
    found = [finding("odd"), finding("odd"), finding("late")]
    made = [turn("t", "Hi", [call("lookup", order=7)], said, case="status", findings=found)]
    rows = shown(made)
    assert [row.split() for row in rows] == [
        ["status", "lookup(order=7)", "failed", "args", "0.50"],
        ["grade", "0.70"],
        ["odd"],
        ["late"],
    ]
    told = finding_lines(judge_turns(None, made, {}, "r").report)
    assert told == [f"[dim]{code}: {finding(code)['message']}[/]" for code in ("late", "odd")]


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ({"state": "TASK_STATE_FAILED"}, "failed task failed"),
        ({"findings": [finding("agent_error", severity="error")]}, "failed agent_error"),
        ({"evaluations": [result("tool_error", 0.0)]}, "failed tool_error 0.00"),
        ({"evaluations": []}, "unscored no score"),
        ({"evaluations": [result("tool_error", None)]}, "none unscored"),
        ({"evaluations": [EvalResult("tone", label="[red]").to_dict()]}, "none passed tone [red]"),
        ({"evaluations": [], "status": "pending"}, "excluded pending"),
    ],
)
def test_what_broke_off_or_was_not_scored_has_not_passed(broken, said):
    (row, *_) = shown([{**turn("t", "Hi", [], GOOD, case="status"), **broken}])
    assert said.split() == row.split()[-len(said.split()) :]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_verdict_is_whole_however_many_results_failed(width):
    said = [result(f"metric_{number}", 0.5) for number in range(20)]
    rows = shown([turn("t", "Hi", [call("lookup_order", order_id="ORD-1001")], said, case="order-status")], width)
    assert rows[0].startswith("order-status  lookup_order(")
    assert "  failed    metric_0 0.50" in rows[0]
    assert sum(row.count("0.50") for row in rows) == 20


def test_a_long_id_of_a_case_is_cut_within():
    rows = shown([turn("t", calls=[call("lookup")], evaluations=GOOD, case="order-a-17-the-lamp-came" + "-broken" * 9)])
    assert [row.split() for row in rows] == [["order-a-17-the-…en-broken-broken", "lookup()", "passed"]]


@pytest.mark.parametrize(
    ("calls", "said"), [([], "none of its own passed"), ([call("lookup")], "lookup() passed and those of asked agents")]
)
def test_it_is_said_where_calls_of_asked_agents_count(calls, said):
    suite = parse_suite("{suite: s, depth: all, evaluators: [tool_error], cases: [{id: status, turns: [{user: Hi}]}]}")
    turns = [turn("t", "Hi", calls, case="status", evaluations=GOOD)]
    rows = printed(turn_table(judge_turns(suite, turns, {}, "run").report))[1:]
    assert " ".join(rows).split() == ["status", *said.split()]


def test_what_an_agent_says_neither_steers_the_terminal_nor_fills_it():
    hostile = {"text": "\x1b[2J\n::error::\x9b" + "long " * 1_000}
    made = {**call("erase\x1b[31m"), "arguments": hostile}
    [row] = shown([turn("t", "Hi", [made], [result("tool_error", 0.0)], case="a\x07")], width=200)
    assert row.startswith("a\N{REPLACEMENT CHARACTER}    erase\N{REPLACEMENT CHARACTER}[31m(")
    assert r"\u001b[2J\n::error::" in row
    assert row.isprintable()
    assert len(row) < 160


@pytest.mark.parametrize(
    ("least", "verdict"),
    [
        (0.5, "tolerated"),
        (1.0, "gate not met"),
    ],
)
def test_the_rows_say_what_the_verdict_of_the_gates_says(least, verdict):
    report = reported(f"gates: {{tool_error: {least}}}", turn("a", evaluations=GOOD), turn("b", evaluations=BAD))
    rows = [" ".join(row.split()) for row in printed(turn_table(report), 120)[1:]]
    assert rows == [f"no case none {verdict} tool_error 0.00", "no case none passed"]
    assert [report.status(item) for item in report.conversations] == ["passed", "failed"]


def test_gates_are_listed_with_their_actual_values():
    gates = "gates: {tool_error: {mean: 0.5, pass_rate: 0.9}, pass_rate: 0.4}"
    report = reported(gates, turn("a", evaluations=GOOD), turn("b", evaluations=BAD))
    assert printed(gate_table(report.verdict["gates"])) == [
        "gate                                 actual",
        "✓ pass rate of conversations ≥ 0.40    0.50",
        "✓ tool_error: mean ≥ 0.50              0.50",
        "✕ tool_error: pass rate ≥ 0.90         0.50",
    ]


KINDS = [first + second for first in "abcdef" for second in "klmno"]
LONG = {f"argument_{number}": "word " * 20 for number in range(5)}


@pytest.mark.parametrize(
    ("repetitions", "calls", "causes"),
    [
        (1, [call("lookup", order=1)] * 3, 5),
        (1, [call("lookup", **LONG)] * 3, 5),
        (1, [call("lookup", order=number) for number in range(151)], 5),
        (5, [call("lookup", order=1)], 5),
        (2, [call("lookup", order=1)], 30),
    ],
    ids=["plain", "long calls", "151 calls", "repetitions", "causes"],
)
def test_a_long_run_prints_sixty_lines_and_every_distinct_failure(tmp_path, capsys, repetitions, calls, causes):
    cases = [f"{{id: case-{number}, repeat: {repetitions}, turns: [{{user: hi {number}}}]}}" for number in range(200)]
    suite = parse_suite(f"suite: s\nevaluators: [tool_error]\ncases: [{', '.join(cases)}]")
    wrong = [{**result("tool_error", 0.0), "reason": f"tool {kind} is broken"} for kind in KINDS[:causes]]
    turns = [
        turn(f"t{number}-{time}", f"hi {number}", calls, case=f"case-{number}", conversation=f"c{number}-{time}",
             evaluations=GOOD if number < 100 else [wrong[number % causes]])
        for number in range(200)
        for time in range(repetitions)
    ]  # fmt: skip
    options = EvaluateOptions(suite=("suite.yaml",), store=str(tmp_path / "turns.db"))
    assert not show_result(judge_turns(suite, turns, {}, "r"), RunPlan({"suite.yaml": suite}, None, None), options)
    lines = capsys.readouterr().out.splitlines()
    assert 30 < len(lines) <= 60
    assert lines[1].startswith("case-100")
    for kind in KINDS[:causes]:
        assert sum(f"tool {kind} is broken" in line for line in lines) == 1
    assert f"conversations: {100 * repetitions:,} failed, {100 * repetitions:,} passed" in lines


MONDAY = RunSummary("monday", 3, 0, 4, 1, 0, 0, "2026-11-22T16:13:36.000001Z", "2026-11-22T16:14:00.000001Z")


def test_a_run_is_a_row():
    judged = replace(MONDAY, errored=2, verdict=RunVerdict("shop", "failed", "9 of 12 (75%)"))
    rows = printed(runs_table([judged, MONDAY, RunSummary("[b]\x1bno", 0, 0, 0, 0, 0, 0, None, None)]), 120)
    assert [" ".join(row.split()) for row in rows[1:]] == [
        "monday 2026-11-22 16:13 failed, 2 errors 9 of 12 (75%) 3 shop",
        "monday 2026-11-22 16:13 no suite – 3 –",
        "[b]\N{REPLACEMENT CHARACTER}no – no suite – 0 –",
    ]


def test_everything_of_a_turn_is_on_a_line():
    calls = [call("lookup", order="A-1"), call("mail", result=None, error="no address\x07")]
    shown = turn(
        "t-1",
        "Where is it?",
        calls,
        [
            result("tool_error", 0.5),
            result("grade", None, label="vague"),
            result("tone", 2.0, threshold=3.0, scale=[1.0, 5.0]),
        ],
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
    for begins, ends in (
        ("", ", input required"),
        ('→ lookup(order="A-1")   (a2a_protocol)', ""),
        ("tool_error 0.50 failed: tool_error said so", ""),
        ("grade skipped (vague): grade said so", ""),
        ("tone 2.00 (1 to 5) failed: tone said so", ""),
        ("annotated right: the turn", ""),
        ("annotated wrong: grade by ann", ": it is clear"),
        ("warning: odd: ", ""),
    ):
        assert any(line.startswith(begins) and line.endswith(ends) for line in lines), begins
    assert "… (--output json shows all)" in "".join(lines)
    assert "\x07" not in "".join(lines)
