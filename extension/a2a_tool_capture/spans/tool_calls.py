"""The spans of a turn as tool calls: read, grouped, completed from LLM messages, in order of start."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from ..models import Finding, Severity, ToolCall
from .call_assembly import Draft, DraftCompletion
from .grouping import Lineage, group
from .message_sources import transcripts
from .model import CutText, LogEvent, Span
from .observations import read_span
from .requested_calls import RequestedCalls


class Conversion(NamedTuple):
    """The calls in spans, and findings about them."""

    tool_calls: list[ToolCall]
    findings: list[Finding]


def tool_calls(spans: Iterable[Span], logs: Iterable[LogEvent] = ()) -> Conversion:
    """The tool calls that the spans and GenAI log events of one turn record, by start time.

    The spans may be of several traces, in any order, and delivered repeatedly: a span counts once by trace and
    span id. Every call is there once however many spans and instrumentations saw it, and as often as the agent
    made it. What spans do not say (id, arguments, result) is taken from the turn's LLM messages by id, else by
    name and arguments in order. In a trace without any tool span of the agent (MCP's show only what went over
    MCP) the calls in its messages are calls too; they have no times. A failed call has `error` and no
    result, unless all that is known of the error is its type. Pure, and total: never raises, whatever the spans
    hold.
    """
    distinct = _once(spans)
    lineage = Lineage(distinct)
    read = [(span, read_span(span)) for span in distinct]
    observations = [observation for _, observation in read if observation is not None]
    others = [span for span, observation in read if observation is None]
    groups, findings = group(observations, lineage)
    drafts = [Draft.of(found) for found in groups]
    traces = {observation.span.trace_id for observation in observations if not observation.transport}
    if any(not draft.complete for draft in drafts) or any(span.trace_id not in traces for span in others) or logs:
        asked = RequestedCalls(lineage.related).of(transcripts(others, logs))
        unmatched = DraftCompletion(drafts, asked).run()
        drafts += [Draft.asked(place, call) for place, call in unmatched if traces.isdisjoint(call.traces)]
    drafts.sort(key=lambda draft: (draft.at_ns, draft.place))  # stable
    calls = [draft.call if draft.call.id else replace(draft.call, id=draft.tool_id) for draft in drafts]
    return Conversion(calls, findings + _unknown_arguments(calls) + _cut_results(calls))


def _once(spans: Iterable[Span]) -> list[Span]:
    """Each span once, in an order that does not depend on that of arrival.

    Of two versions of one span the later and fuller one is taken.
    """
    known: dict[tuple[str, str], Span] = {}
    for span in spans:
        other = known.setdefault(span.key, span)
        if other is not span and other != span and _fullness(span) > _fullness(other):
            known[span.key] = span
    return sorted(known.values(), key=lambda span: (span.start_ns, span.trace_id, span.span_id))


def _fullness(span: Span) -> tuple[int, int, int, str]:
    return span.end_ns, len(span.attributes), len(span.events), repr(span)


def _unknown_arguments(calls: list[ToolCall]) -> list[Finding]:
    unknown = sum(call.arguments is None for call in calls)
    if not unknown:
        return []
    message = (
        f"{unknown} of {len(calls)} tool calls in the traces have no arguments: "
        "turn on content capture in the agent's instrumentation"
    )
    return [Finding("trace_arguments_unknown", message, Severity.INFO, "traces")]


def _cut_results(calls: list[ToolCall]) -> list[Finding]:
    return [
        Finding("trace_result_cut", f"the result of {call.name!r} was too large and is cut", Severity.INFO, "traces")
        for call in calls
        if isinstance(call.result, CutText)
    ]
