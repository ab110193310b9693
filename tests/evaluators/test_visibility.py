"""Whether the tool calls of a turn are known: none made needs evidence, and what is unknown is never scored."""

from __future__ import annotations

from typing import Any

import pytest
from a2a_tool_capture.models import CALLS_UNKNOWN_BY, Finding, Severity
from support.turn_samples import call, finding, turn
from tool_call_evaluators import EvalCase, evaluate, get_evaluator
from tool_call_evaluators.model import EvalResult, Status
from tool_call_evaluators.outcomes.conversations import follow, run_verdict
from tool_call_evaluators.registry import evaluator_names
from tool_call_evaluators.suite import parse_suite
from tool_call_evaluators.visibility import turn_failure_of, turn_result, visibility_in, visibility_of

COMPLETED, WORKING, FAILED = "TASK_STATE_COMPLETED", "TASK_STATE_WORKING", "TASK_STATE_FAILED"
ERROR = Finding("agent_error", "HTTP status 500", Severity.ERROR)
NO_CAPTURE = Finding("no_capture", "the card does not declare it")


@pytest.mark.parametrize(
    ("state", "calls", "findings", "shown_by", "known"),
    [
        (COMPLETED, 0, [], "", ("unknown", "no_capture")),
        (COMPLETED, 0, [], "extension", ("none_made", "extension")),
        (None, 0, [], "spans", ("none_made", "spans")),
        (COMPLETED, 1, [], "", ("seen", "tool_calls")),
        (COMPLETED, 0, [NO_CAPTURE], "", ("unknown", "no_capture")),
        (COMPLETED, 1, [NO_CAPTURE], "", ("seen", "tool_calls")),
        (COMPLETED, 2, [Finding("repaired_entry", "", Severity.INFO)], "", ("seen", "tool_calls")),
        *((COMPLETED, number, [Finding(code, "")], "extension", ("unknown", code))
          for code in CALLS_UNKNOWN_BY for number in (0, 2)),
        (None, 0, [Finding("malformed_response", "not JSON")], "extension", ("unknown", "malformed_response")),
        (COMPLETED, 0, [Finding("malformed_response", "", Severity.INFO)], "extension", ("none_made", "extension")),
        (COMPLETED, 2, [Finding("malformed_event", "", Severity.INFO)], "extension", ("seen", "tool_calls")),
        (None, 0, [ERROR, Finding("malformed_response", "not JSON")], "extension", ("unknown", "agent_error")),
        (WORKING, 2, [Finding("client_gone", "the client left")], "extension", ("unknown", "client_gone")),
        ("TASK_STATE_INPUT_REQUIRED", 0, [Finding("client_gone", "")], "extension", ("none_made", "extension")),
        (WORKING, 0, [Finding("client_gone", "the client left")], "spans", ("unknown", "client_gone")),
        (None, 0, [ERROR], "extension", ("unknown", "agent_error")),
        (None, 2, [ERROR], "extension", ("unknown", "agent_error")),
        (WORKING, 1, [Finding("incomplete", "closed")], "extension", ("unknown", "incomplete")),
        (FAILED, 0, [], "extension", ("unknown", "task_failed")),
        (FAILED, 1, [], "extension", ("seen", "tool_calls")),
        (FAILED, 1, [ERROR], "extension", ("seen", "tool_calls")),
        ("TASK_STATE_REJECTED", 0, [], "extension", ("none_made", "extension")),
        ("TASK_STATE_REJECTED", 0, [], "", ("unknown", "no_capture")),
    ],
)  # fmt: skip
def test_what_is_known_of_calls(
    state: str | None, calls: int, findings: list[Finding], shown_by: str, known: tuple[str, str]
) -> None:
    found = visibility_of(state, calls, findings, shown_by)
    assert (found.calls, found.evidence) == known
    assert (found.unknown is None) is (found.calls != "unknown")


@pytest.mark.parametrize(
    ("fields", "known"),
    [
        ({"calls": "none_made", "calls_evidence": "spans"}, "none_made"),
        ({"calls": "none_made", "calls_evidence": "spans", "findings": [finding("uri_not_listed")]}, "unknown"),
        ({"calls": "unknown", "calls_evidence": "no_capture"}, "unknown"),
        ({"calls": "seen", "calls_evidence": "tool_calls", "tool_calls": [call("search")]}, "seen"),
        ({}, "none_made"),
        ({"findings": [finding("no_capture")]}, "unknown"),
    ],
)
def test_a_turn_in_json_states_it(fields: dict[str, Any], known: str) -> None:
    """One without the keys is of an earlier version, whose findings said so."""
    assert visibility_in(turn("1") | fields).calls == known


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
    turns = [turn(f"{number}", evaluations=[one.to_dict()]) for number, one in enumerate(results)]
    found = run_verdict(parse_suite(f"suite: s\nevaluators: [tool_error]\n{suite}"), follow(turns)).reasons
    assert [f"{one.code}: {one.message}" for one in found] == reasons


def test_a_failed_turn_is_one_reason_whatever_result_says_so_live() -> None:
    failed = turn_result(None, "", [ERROR])
    assert failed is not None
    verdict = run_verdict(
        parse_suite("suite: s\nevaluators: [tool_error]"),
        follow(
            [turn("1", evaluations=[failed.to_dict(), SEEN.to_dict()], findings=[ERROR.to_dict()], conversation="c1")]
        ),
    )
    assert [(reason.code, reason.message) for reason in verdict.reasons] == [
        ("failed_turn", "c1: agent_error: HTTP status 500")
    ]
