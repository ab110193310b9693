"""Agents whose tool calls no source could see, before everything that judges calls: nothing passes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from a2a_eval_proxy.capture.visibility import NOT_ASKED, CallVisibility
from a2a_eval_proxy.cli.turn_lines import turn_line
from a2a_eval_proxy.otlp.spans import spans_from_proto
from a2a_eval_proxy.scoring.case_book import CaseBook
from a2a_eval_proxy.scoring.scorer import Scorer
from a2a_eval_proxy.testing import assert_tool_calls
from a2a_eval_proxy.traces.merge import TraceEvidence
from a2a_eval_proxy.turn import Turn
from a2a_tool_capture import Finding, Severity, ToolCall
from a2a_tool_capture.models import CALLS_UNKNOWN_BY
from a2a_tool_capture.spans.model import Span
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from tool_call_evaluators import Measurement, SyncEvaluator, get_evaluator
from tool_call_evaluators.evaluator import EvaluatorBase
from tool_call_evaluators.outcomes.conversations import follow, run_verdict
from tool_call_evaluators.outcomes.recording import record_case
from tool_call_evaluators.registry import evaluator_class, evaluator_names
from tool_call_evaluators.suite import parse_suite

GOLDEN = Path(__file__).parents[2] / "golden/spans"
HTTP = {"http.request.method": "POST", "http.route": "/", "http.response.status_code": 200}
CHAT = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.output.messages": "[]"}


def closed(
    *findings: Finding, declared: bool = True, calls: int = 0, state: str | None = "TASK_STATE_COMPLETED"
) -> Turn:
    turn = Turn("t", "r", "http://agent", "JSONRPC", "1.0", 0.0, case_id="negative", user_text="Delete nothing")
    turn.state, turn.findings, turn.status, turn.ended_at = state, list(findings), "done", 1.0
    turn.conversation_id, turn.capture.declared = "c", declared
    turn.tool_calls = [ToolCall(f"tool-{number}") for number in range(calls)]
    CallVisibility(negotiate="declared", dialects=False, logs=lambda: False).judge(turn)
    return turn


def traced(*attributes: dict[str, Any], scope: str = "") -> Turn:
    spans = [Span("1" * 32, f"{number:016x}", scope=scope, attributes=own) for number, own in enumerate(attributes)]
    return TraceEvidence(spans).added_to(closed(declared=False))


def recorded(name: str) -> Turn:
    request = ExportTraceServiceRequest()
    request.ParseFromString((GOLDEN / f"{name}.pb").read_bytes())
    return TraceEvidence(spans_from_proto(request)).added_to(closed(declared=False))


def warning(code: str) -> Finding:
    return Finding(code, "as the agent answered")


INVISIBLE = {
    "no extension and no spans": closed(declared=False),
    "not asked for the extension": closed(warning(NOT_ASKED)),
    "a dialect that is not read": closed(warning("dialect_not_read")),
    "HTTP spans only": traced(HTTP, {**HTTP, "url.full": "http://tool"}),
    "spans of a model without tools": traced(HTTP, CHAT),
    "spans of an agent without its tools": traced({"gen_ai.operation.name": "invoke_agent"},
                                                  scope="opentelemetry.instrumentation.crewai.instrumentation"),
    **{f"recorded: {name}": recorded(name) for name in (
        "a2a-sdk--native", "crewai--openinference", "crewai--openllmetry", "mcp--v1-openinference",
        "smolagents--otel-genai", "smolagents--otel-genai-content")},
    **{f"{code}, {calls} read": closed(warning(code), calls=calls) for code in CALLS_UNKNOWN_BY for calls in (0, 1)},
    "an answer that is not A2A": closed(warning("malformed_response"), state=None),
    "the client left": closed(warning("client_gone"), state="TASK_STATE_WORKING"),
    "no end": closed(warning("incomplete"), state="TASK_STATE_WORKING"),
    "an error": closed(Finding("agent_error", "HTTP status 500", Severity.ERROR), state=None),
    "a failed task": closed(state="TASK_STATE_FAILED"),
}  # fmt: skip
SHOWN = {
    "extension": closed(),
    "tool spans": traced({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "(merged tools)"},
                         {"gen_ai.operation.name": "invoke_agent"}),
    "an agent's span": traced({"gen_ai.operation.name": "invoke_agent"}),
    "a model that was offered tools": traced({**CHAT, "gen_ai.tool.definitions": "[{}]"}),
}  # fmt: skip


class NeverDeletes(SyncEvaluator):
    """An author's own negative metric, which knows nothing of visibility."""

    name = "never_deletes"

    def measure(self, case: Any) -> Measurement:
        return Measurement(float(all(call.name != "delete_all" for call in case.tool_calls)), "never deletes")


OPTIONS: dict[str, dict[str, Any]] = {
    "tool_call_args": {"expected_tool_calls": []},
    "tool_call_count": {"tool_calls_count": {"delete_all": ["=", 0]}},
    "tool_call_order": {"tool_calls_order": []},
    "tool_call_output": {"tool_outputs": []},
    "forbidden_calls": {"forbidden_calls": [{"name": "delete_all"}]},
    "llm_judge_trajectory": {"expected_behavior": "calls nothing"},
}
SUITE = parse_suite(
    "suite: s\nevaluators: [tool_error]\ntools: [{name: delete_all}]\n"
    "cases: [{id: negative, turns: [{user: Delete nothing, expect: {tool_calls: []}}]}]"
)


def evaluators() -> Sequence[EvaluatorBase]:
    names = [name for name in evaluator_names() if evaluator_class(name).reads_calls]
    assert len(names) >= 12
    of_answers = [get_evaluator(name, field="tool_calls", expected=[], id=f"{name} of calls")
                  for name in ("exact_match", "json_similarity")]  # fmt: skip
    return [*(get_evaluator(name, **OPTIONS.get(name, {})) for name in names), *of_answers, NeverDeletes()]


async def outcomes(turn: Turn, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    monkeypatch.setattr(
        type(SUITE), "build_evaluators", lambda _, scope, *__, **___: evaluators() if scope == "turn" else []
    )
    scorer = Scorer(CaseBook(SUITE), SUITE)
    return [found for found in await scorer.score(turn) if found["evaluator"] != "turn_succeeded"]


@pytest.mark.parametrize("kind", INVISIBLE)
async def test_nothing_passes(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    turn = INVISIBLE[kind]
    found = await outcomes(turn, monkeypatch)
    assert {item["evaluator"]: item["label"] for item in found if item["status"] != "skipped"} == {}
    assert {item["label"] for item in found} == {"calls_unseen"}
    whole = {**turn.to_dict(), "evaluations": found}
    assert (whole["calls"], bool(whole["calls_evidence"])) == ("unknown", True)
    assert Turn.from_dict(whole).visibility == turn.visibility
    with pytest.raises(AssertionError, match="unknown"):
        assert_tool_calls(whole, [])
    with pytest.raises(ValueError, match=r"unknown tool calls|failed conversations"):
        record_case([whole])
    assert not run_verdict(SUITE, follow([whole], SUITE)).passed
    assert "not visible" in turn_line(turn, "unscored")


def test_spans_of_an_agent_show_what_its_recorder_missed() -> None:
    missed = closed(warning("calls_not_recorded"))
    spans = [Span("1" * 32, "1" * 16, attributes={"gen_ai.operation.name": "invoke_agent"})]
    assert missed.to_dict()["calls_evidence"] == "calls_not_recorded"
    assert TraceEvidence(spans).added_to(missed).to_dict()["calls"] == "none_made"
    assert TraceEvidence([Span("1" * 32, "1" * 16, attributes=HTTP)]).added_to(missed).to_dict()["calls"] == "unknown"
    merged_again = TraceEvidence([Span("1" * 32, "1" * 16, attributes=HTTP)]).added_to(traced(HTTP))
    assert merged_again.findings[0].message.endswith("shows tool calls; spans came, and none of them shows a call")


@pytest.mark.parametrize("kind", SHOWN)
async def test_what_would_have_shown_calls_lets_none_be_none(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    turn = SHOWN[kind]
    assert turn.to_dict()["calls"] == "none_made"
    by_status = {item["evaluator"]: item["status"] for item in await outcomes(turn, monkeypatch)}
    for name in ("tool_trajectory", "tool_call_args", "tool_call_count", "never_deletes", "exact_match of calls"):
        assert by_status[name] == "passed"
    assert_tool_calls(turn.to_dict(), [])
