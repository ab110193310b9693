"""A turn that failed never passes, and calls that no source could see are no proof that the agent made no calls."""

from __future__ import annotations

from typing import Any

import pytest
from a2a_tool_capture.models import Finding, Severity
from tool_call_evaluators import EvalCase, evaluate, get_evaluator
from tool_call_evaluators.model import EvalResult, Status
from tool_call_evaluators.outcomes.conversations import follow, run_verdict
from tool_call_evaluators.registry import evaluator_names
from tool_call_evaluators.suite import parse_suite
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


async def test_every_evaluator_of_calls_is_skipped_where_they_could_not_be_seen() -> None:
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
    results = await evaluate(case, [*map(get_evaluator, readers)])
    assert {(found.status, found.reason, found.label) for found in results} == {
        (Status.SKIPPED, "no source", "calls_unseen")
    }


# ── the verdict ─────────────────────────────────────────────────────────────────────────────────────────────


def turn(number: int, *results: EvalResult, **fields: Any) -> dict[str, Any]:
    return {
        "turn_id": f"t{number}", "run": "r", "case_id": None, "conversation_id": f"c{number}", "task_id": "",
        "agent": "a", "state": "TASK_STATE_COMPLETED", "status": "done", "user_text": "u", "response_text": "",
        "started_at": "2026-01-01T00:00:00Z", "ended_at": "2026-01-01T00:00:01Z", "tool_calls": [],
        "findings": [], "evaluations": [result.to_dict() for result in results],
    } | fields  # fmt: skip


SEEN = EvalResult("tool_error", 1.0, passed=True, threshold=1.0)
UNSEEN = EvalResult.unseen("tool_error", "the tool calls are unknown: no card")
ERRORED, SKIPPED = EvalResult.errored("tool_error", "JudgeError: refused"), EvalResult.skipped("tool_error", "no goal")


@pytest.mark.parametrize(
    ("results", "suite", "reasons"),
    [
        (
            [SEEN, UNSEEN, UNSEEN],
            "",
            [
                "calls_unseen: 2 of 3 turns and conversations were not scored for tool calls: "
                "the tool calls are unknown: no card"
            ],
        ),
        ([SEEN, UNSEEN, UNSEEN], "tolerate: [calls_unseen]", []),
        (
            [UNSEEN],
            "tolerate: [calls_unseen]",
            ["vacuous: nothing was measured: no scores; expect tool calls, or score the answers"],
        ),
        ([UNSEEN], "tolerate: [calls_unseen, vacuous]", []),
        (
            [UNSEEN],
            "tolerate: [calls_unseen]\ngates: {tool_error: 0.9}",
            ["unmeasured: tool_error: every result was skipped (the tool calls are unknown: no card)"],
        ),
        (
            [ERRORED, ERRORED, SKIPPED],
            "tolerate: [errored]",
            [
                "unmeasured: tool_error: errored in 2 of 3 results (JudgeError: refused), skipped in 1 (no goal)",
            ],
        ),
        ([SKIPPED], "", ["unmeasured: tool_error: every result was skipped (no goal)"]),
    ],
)
def test_a_run_whose_calls_nobody_could_see_or_that_nobody_scored_does_not_pass(
    results: list[EvalResult], suite: str, reasons: list[str]
) -> None:
    turns = [turn(number, one) for number, one in enumerate(results)]
    found = run_verdict(parse_suite(f"suite: s\nevaluators: [tool_error]\n{suite}"), follow(turns)).reasons
    assert [f"{one.code}: {one.message}" for one in found] == reasons


def test_a_failed_turn_is_one_reason_whatever_result_says_so_live() -> None:
    failed = turn_result(None, "", [ERROR])
    assert failed is not None
    verdict = run_verdict(
        parse_suite("suite: s\nevaluators: [tool_error]"), follow([turn(1, failed, SEEN, findings=[ERROR.to_dict()])])
    )
    assert [(reason.code, reason.message) for reason in verdict.reasons] == [
        ("failed_turn", "c1: agent_error: HTTP status 500")
    ]
