"""What traces show of a turn: calls, tokens and cost, with which it is completed. Pure."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from a2a_tool_capture import Finding, Severity, reconcile
from a2a_tool_capture.dialect import DIALECT_NOT_READ
from a2a_tool_capture.spans.conventions import shows_genai_work, shows_work
from a2a_tool_capture.spans.model import STATUS_ERROR, LogEvent, Span
from a2a_tool_capture.spans.observations import Lineage
from a2a_tool_capture.spans.tool_calls import tool_calls
from tool_call_evaluators.visibility import NO_CAPTURE, NOT_RECORDED

from ..turn import Turn, rfc3339_at

_NONE_SHOWS = "; spans came, and none of them shows a call"


@dataclass(frozen=True, slots=True)
class TraceEvidence:
    """The spans and logs of a turn. `by_time` holds the ids of traces that were assigned by time alone."""

    spans: Sequence[Span] = ()
    logs: Sequence[LogEvent] = ()
    by_time: frozenset[str] = frozenset()
    contested: int = 0
    """Number of traces that may be this turn's or another's: they count for neither. 0 where other sources have shown
    all calls in them."""
    lost: str = ""
    """Why spans that may have been this turn's did not arrive; "" if none are known to be missing."""

    @property
    def size(self) -> int:
        """Number of records that show an agent's work; it only grows."""
        return sum(map(shows_work, self.spans)) + len(self.logs) + self.contested + bool(self.lost)

    def added_to(self, turn: Turn, *, late: bool = False) -> Turn:
        """The turn, as captured from the protocol, with what traces show; the turn itself where they show nothing.

        `late`: the turn was scored before without these spans.
        """
        if self.contested:
            message = (
                f"{self.contested} trace(s) with calls may be of this turn or of another, and neither ids nor times in "
                "them say which; their calls count for none. Let the agent continue the trace context it is sent"
            )
            turn = replace(
                turn, findings=[*turn.findings, Finding("trace_contested", message, Severity.WARNING, "traces")]
            )
        if self.lost:
            message = f"spans did not arrive, which may have been of this turn: {self.lost}"
            turn = replace(
                turn, findings=[*turn.findings, Finding("calls_missed", message, Severity.WARNING, "traces")]
            )
        if not self.spans and not self.logs:
            return turn
        conversion = tool_calls(self.spans, logs=self.logs)
        joined = reconcile(turn.tool_calls, conversion.tool_calls)
        shows_work = not self.contested and not self.lost and shows_genai_work(self.spans)
        answered = {NO_CAPTURE, NOT_RECORDED} if shows_work else set()
        answered |= {NO_CAPTURE, DIALECT_NOT_READ} if joined.tool_calls else set()
        known = [
            replace(finding, message=finding.message.removesuffix(_NONE_SHOWS) + _NONE_SHOWS)
            if finding.code == NO_CAPTURE and self.spans
            else finding
            for finding in turn.findings
            if finding.code not in answered
        ]
        findings = [*known, *conversion.findings, *joined.findings]
        if self.by_time and conversion.tool_calls:
            message = (
                f"{len(self.by_time)} trace(s) were taken to be this turn's only because no other turn was open then; "
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
        usage = _joined(usage_of(self.spans), turn.usage)
        merged = replace(
            turn,
            tool_calls=joined.tool_calls,
            findings=findings,
            capture=capture,
            usage=usage,
            spans=spans_of(self.spans) or turn.spans,
        )
        return replace(merged, shown_by=turn.shown_by or ("spans" if shows_work else ""))


MAX_SPANS = 200  # the first spans of a turn, which it keeps
_MAX_NAME = 200  # characters


def spans_of(spans: Iterable[Span]) -> list[dict[str, Any]]:
    """The spans with times, by start: ids, name, times (RFC 3339), whether it `failed`, and the tokens it states.

    `enters`: its parent is in another process, which sent the request that it is for.
    """
    timed = sorted((span for span in spans if span.start_ns), key=lambda span: span.start_ns)
    return [
        {
            "span_id": span.span_id,
            "parent_span_id": span.parent_span_id,
            "name": span.name[:_MAX_NAME],
            "started_at": rfc3339_at(span.start_ns / 1e9),
            "ended_at": rfc3339_at(max(span.start_ns, span.end_ns) / 1e9),
            "failed": span.status_code == STATUS_ERROR,
            **({"enters": True} if span.enters_process else {}),
            **_stated(span, _TOKENS),
        }
        for span in timed[:MAX_SPANS]
    ]


def _stated(span: Span, names: Mapping[str, Iterable[str]]) -> dict[str, int | float]:
    found = ((name, _number(span.attributes, attributes)) for name, attributes in names.items())
    return {name: value for name, value in found if value is not None}


def _joined(stated: Mapping[str, Any] | None, on_wire: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """What spans state, and without their tokens those on the wire: of two sources, one is used."""
    if not stated:
        return dict(on_wire) if on_wire else None
    if "input_tokens" not in stated and "output_tokens" not in stated:
        return {**(on_wire or {}), **stated}
    return {**stated, "source": "spans"}


_TOKENS: Mapping[str, tuple[str, ...]] = {
    "input_tokens": ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt"),
    "output_tokens": ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.token_count.completion"),
}
_ATTRIBUTES: Mapping[str, tuple[str, ...]] = {
    **_TOKENS,
    "cost": ("gen_ai.usage.cost", "llm.cost.total", "operation.cost"),
}
"""Of OpenTelemetry's conventions and their earlier form, of OpenInference, and of Logfire, in this preference."""

_MODEL = ("gen_ai.response.model", "gen_ai.request.model", "llm.model_name")
_RESPONSE = "gen_ai.response.id"


def usage_of(spans: Iterable[Span]) -> dict[str, Any] | None:
    """`input_tokens`, `output_tokens` and `cost` of the spans of one turn, those that are stated, and the tokens by the
    names of `models`, as far as spans name these; None without any.

    A span of an agent often repeats the sum of its model calls: a span counts if no span below it states the same. Two
    libraries may report one response in spans next to each other: of those with the same id of a response, the spans of
    one library count.
    """
    known = {span.key: span for span in spans}
    usage: dict[str, Any] = {}
    models: dict[str, dict[str, int | float]] = {}
    for name, attributes in _ATTRIBUTES.items():
        for span, value in _counted(known, attributes):
            usage[name] = usage.get(name, 0) + value
            model = next((span.attributes[key] for key in _MODEL if isinstance(span.attributes.get(key), str)), None)
            if model and name in _TOKENS:
                of_model = models.setdefault(model, {})
                of_model[name] = of_model.get(name, 0) + value
    return (usage | ({"models": models} if models else {})) or None


_Counted: TypeAlias = list[tuple[Span, int | float]]


def _counted(known: Mapping[tuple[str, str], Span], attributes: Iterable[str]) -> _Counted:
    """The spans that count, each with its number."""
    numbers = ((key, _number(span.attributes, attributes)) for key, span in known.items())
    values = {key: value for key, value in numbers if value is not None}
    if not values:
        return []
    repeated = _above(values, Lineage(known.values()))
    by_response: dict[Hashable, dict[str, _Counted]] = {}
    for key, value in values.items():
        if key not in repeated:
            response = known[key].attributes.get(_RESPONSE)
            scopes = by_response.setdefault(response if isinstance(response, str) and response else key, {})
            scopes.setdefault(known[key].scope, []).append((known[key], value))
    largest = (
        max(scopes.values(), key=lambda found: sum(value for _, value in found)) for scopes in by_response.values()
    )
    return [one for found in largest for one in found]


def _above(keys: Iterable[tuple[str, str]], lineage: Lineage) -> set[tuple[str, str]]:
    """The spans above any of these."""
    above: set[tuple[str, str]] = set()
    for key in keys:
        for span in lineage.ancestors(key):
            if span.key in above:  # and so are those above it
                break
            above.add(span.key)
    return above


def _number(attributes: Mapping[str, Any], names: Iterable[str]) -> int | float | None:
    for name in names:
        value = attributes.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0:
            return value
    return None
