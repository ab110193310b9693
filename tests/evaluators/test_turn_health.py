"""A turn that failed never passes, and calls that no source could see are no proof that the agent made no calls."""

from __future__ import annotations

from typing import Any

import pytest
from a2a_tool_capture.models import Finding, Severity
from tool_call_evaluators import EvalCase, get_evaluator
from tool_call_evaluators.gates import TOLERABLE, Outcome
from tool_call_evaluators.model import EvalResult, Status
from tool_call_evaluators.outcomes.conversations import follow, run_verdict
from tool_call_evaluators.registry import evaluator_names
from tool_call_evaluators.report import build_report
from tool_call_evaluators.report.junit import junit_xml
from tool_call_evaluators.suite import parse_suite
from tool_call_evaluators.verdict import gate
from tool_call_evaluators.visibility import turn_failure_of, turn_result

ERROR = Finding("agent_error", "HTTP status 500", Severity.ERROR)
NO_CAPTURE = Finding("no_capture", "the card does not declare it")


@pytest.mark.parametrize(
    ("state", "findings", "code"),
    [
        (None, [ERROR], "agent_error"),
        (None, [Finding("upstream_cut", "it broke off", Severity.ERROR)], "upstream_cut"),
        ("TASK_STATE_WORKING", [Finding("incomplete", "closed")], "incomplete"),
        ("TASK_STATE_FAILED", [], "task_failed"),
        ("TASK_STATE_REJECTED", [], "task_rejected"),
        ("TASK_STATE_CANCELED", [], "task_canceled"),
        ("TASK_STATE_COMPLETED", [Finding("odd", "odd"), NO_CAPTURE], None),
        (None, [], None),
    ],
)
def test_how_a_turn_failed(state: str | None, findings: list[Finding], code: str | None) -> None:
    failure = turn_failure_of(state, "", findings)
    assert (failure and failure.code) == code
    if failure is not None:
        result = turn_result(state, "", findings)
        assert result is not None
        assert (result.status, result.label, result.reason) == (Status.FAILED, code, failure.message)


def test_every_evaluator_of_calls_is_skipped_where_they_could_not_be_seen() -> None:
    case = EvalCase(
        calls_unseen="no source",
        user_text="u",
        response_text="r",
        expected_tool_calls=[],
        tools=[],
        tool_outputs=[],
    )
    readers = [name for name in evaluator_names() if name.startswith("tool_") and "reliability" not in name]
    assert len(readers) >= 10
    for name in readers:
        evaluator = get_evaluator(name)
        assert evaluator.reads_calls, name
        found = evaluator._not_measurable(case)
        assert found is not None
        assert (found.status, found.reason, found.label) == (Status.SKIPPED, "no source", "calls_unseen")
    assert not get_evaluator("exact_match").reads_calls


# ── the verdict ─────────────────────────────────────────────────────────────────────────────────────────────


def turn(number: int, *results: EvalResult, **fields: Any) -> dict[str, Any]:
    return {
        "turn_id": f"t{number}", "run": "r", "case_id": None, "conversation_id": f"c{number}", "task_id": "",
        "agent": "a", "state": "TASK_STATE_COMPLETED", "status": "done", "user_text": "u", "response_text": "",
        "started_at": "2026-01-01T00:00:00Z", "ended_at": "2026-01-01T00:00:01Z", "tool_calls": [],
        "findings": [], "evaluations": [result.to_dict() for result in results],
    } | fields  # fmt: skip


def test_a_run_whose_calls_nobody_could_see_fails_in_one_line_unless_that_is_tolerated() -> None:
    seen = EvalResult("tool_error", 1.0, passed=True, threshold=1.0)
    unseen = EvalResult.unseen("tool_error", "the tool calls are unknown: no card")
    turns = [turn(1, seen), turn(2, unseen), turn(3, unseen)]
    verdict = run_verdict(parse_suite("suite: s\nevaluators: [tool_error]"), follow(turns))
    assert [(reason.code, reason.message) for reason in verdict.reasons] == [
        (
            "calls_unseen",
            "2 of 3 turns and conversations were not scored for tool calls: the tool calls are unknown: no card",
        )
    ]
    assert "calls_unseen" in TOLERABLE
    tolerant = parse_suite("suite: s\nevaluators: [tool_error]\ntolerate: [calls_unseen]")
    assert run_verdict(tolerant, follow(turns)).passed
    nothing = run_verdict(tolerant, follow(turns[1:]))
    assert [(reason.code, reason.message) for reason in nothing.reasons] == [
        ("vacuous", "nothing was measured: no scores; expect tool calls, or score the answers")
    ]
    unscored = parse_suite("suite: s\nevaluators: [tool_error]\ntolerate: [calls_unseen, vacuous]")
    assert run_verdict(unscored, follow(turns[1:])).passed, "it is the suite's choice"
    assert run_verdict(unscored, follow(turns[1:]), allow_no_capture=True).passed
    gated = parse_suite("suite: s\nevaluators: [tool_error]\ntolerate: [calls_unseen]\ngates: {tool_error: 0.9}")
    assert [reason.code for reason in run_verdict(gated, follow(turns[1:])).reasons] == ["unmeasured"]


def test_a_failed_turn_is_one_reason_whatever_result_says_so_live() -> None:
    failed = turn_result(None, "", [ERROR])
    assert failed is not None
    results = [failed, EvalResult("tool_error", 1.0, passed=True, threshold=1.0)]
    turns = [turn(1, *results, findings=[ERROR.to_dict()])]
    verdict = run_verdict(parse_suite("suite: s\nevaluators: [tool_error]"), follow(turns))
    assert [(reason.code, reason.message) for reason in verdict.reasons] == [
        ("failed_turn", "c1: agent_error: HTTP status 500")
    ]
    assert [summary.metric for summary in verdict.metrics] == ["tool_error"]


def test_what_errored_is_named_before_what_was_skipped_everywhere() -> None:
    suite = parse_suite("suite: s\nevaluators: [goal_completion]")
    errored = EvalResult.errored("goal_completion", "JudgeError: connection refused")
    skipped = EvalResult.skipped("goal_completion", "not given: user_goal")
    turns = [turn(1, errored), turn(2, errored), turn(3, skipped)]
    verdict = run_verdict(suite, follow(turns))
    (unmeasured,) = [reason for reason in verdict.reasons if reason.code == "unmeasured"]
    assert unmeasured.message == (
        "goal_completion: errored in 2 of 3 results (JudgeError: connection refused), "
        "skipped in 1 (not given: user_goal)"
    )
    assert "everywhere" not in junit_xml(build_report("r", turns, verdict.to_dict(), suite=suite))
    skipped_only = run_verdict(suite, follow([turn(3, skipped)]))
    assert "every result was skipped (not given: user_goal)" in skipped_only.reasons[-1].message


def test_the_reason_counts_what_could_not_be_seen_and_leaves_failed_turns_to_theirs() -> None:
    def outcome(unseen: str | None, failure: str | None = None) -> Outcome:
        return Outcome("turn", "c", [], failure=failure, unseen=unseen)

    outcomes = [outcome("no card"), outcome("no answer", failure="HTTP status 500"), outcome("no card"), outcome("cut")]
    (reason,) = (one for one in gate(outcomes).reasons if one.code == "calls_unseen")
    assert reason.message == (
        "3 of 4 turns and conversations were not scored for tool calls: no card (2 times); cut (1 times)"
    )
