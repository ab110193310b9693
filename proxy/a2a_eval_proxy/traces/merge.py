"""Completes a turn with the calls in its traces. Pure."""

from __future__ import annotations

from dataclasses import replace

from a2a_tool_capture import Finding, Severity, reconcile
from a2a_tool_capture.dialects import DIALECT_NOT_READ
from a2a_tool_capture.spans.tool_calls import tool_calls
from a2a_tool_capture.spans.work_evidence import shows_genai_work
from tool_call_evaluators.visibility import NO_CAPTURE, NOT_RECORDED

from ..turn import Turn
from .trace_records import Evidence
from .usage import usage_of


def merge_traces(turn: Turn, evidence: Evidence, *, late: bool = False, absorb_all: bool = False) -> Turn:
    """Returns `turn`, captured from the protocol, with trace calls merged in; `turn` itself without evidence.

    `late`: the turn was scored before without these spans.
    """
    if evidence.contested:
        message = (
            f"{evidence.contested} trace(s) of work name no turn and fit this one and another that was open; "
            "their calls count for neither. Let the agent continue the trace context it is sent"
        )
        turn = replace(turn, findings=[*turn.findings, Finding("trace_contested", message, Severity.WARNING, "traces")])
    if not evidence.spans and not evidence.logs:
        return turn
    conversion = tool_calls(evidence.spans, logs=evidence.logs)
    joined = reconcile(turn.tool_calls, conversion.tool_calls, absorb_all=absorb_all)
    shows_work = shows_genai_work(evidence.spans)
    answered = {NO_CAPTURE, NOT_RECORDED} if shows_work else set()
    answered |= {NO_CAPTURE, DIALECT_NOT_READ} if joined.tool_calls else set()
    known = [finding for finding in turn.findings if finding.code not in answered]
    findings = [*known, *conversion.findings, *joined.findings]
    if evidence.by_time and conversion.tool_calls:
        message = (
            f"{len(evidence.by_time)} trace(s) were taken to be this turn's only because no other turn was open then; "
            "let the agent continue the trace context it is sent"
        )
        findings.append(Finding("correlated_by_time", message, Severity.INFO, "traces"))
    if late:
        message = "spans came after the turn was scored; it was merged and scored again"
        findings.append(Finding("late_spans", message, Severity.INFO, "traces"))
    capture = replace(
        turn.capture,
        matched_by_id=joined.matched_by_id,
        matched_by_signature=joined.matched_by_signature,
        protocol_only=joined.protocol_only,
        trace_only=joined.trace_only,
    )
    usage = usage_of(evidence.spans) or turn.usage
    merged = replace(turn, tool_calls=joined.tool_calls, findings=findings, capture=capture, usage=usage)
    return replace(merged, shown_by=turn.shown_by or ("spans" if shows_work else ""))
