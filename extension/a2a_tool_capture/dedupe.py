"""Protocol calls and trace calls reconciled: every call counted once, whoever saw it."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, replace

from .canonical import canonical
from .models import Finding, Severity, ToolCall


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """The calls of both sources, each once, and how they met."""

    tool_calls: list[ToolCall]
    findings: list[Finding]
    matched_by_id: int
    matched_by_signature: int
    protocol_only: int
    trace_only: int


def reconcile(
    protocol_calls: Sequence[ToolCall], trace_calls: Sequence[ToolCall], *, absorb_all: bool = False
) -> Reconciliation:
    """Match each trace call with the protocol call it is; keep what only one side saw.

    The same non-empty id and name is one call. Then the same signature (name, arguments with numbers by value),
    pairwise: each protocol call absorbs one trace call, so a repeat that only the trace saw survives;
    `absorb_all` drops every trace call whose signature the protocol knows. Trace calls with unknown arguments
    (None) match by name, in order. The protocol's call wins; a result, error or time it lacks is filled from
    the trace's. An empty id never matches. Order: by start time where every call has one, else protocol order,
    then the trace's own calls by start time. Pure; the inputs are not changed.
    """
    return _Reconciler(protocol_calls, trace_calls).run(absorb_all)


class _Reconciler:
    def __init__(self, protocol_calls: Sequence[ToolCall], trace_calls: Sequence[ToolCall]) -> None:
        self.protocol = list(protocol_calls)
        self.trace = list(trace_calls)
        self.free_protocol = dict.fromkeys(range(len(self.protocol)))
        self.free_trace = dict.fromkeys(range(len(self.trace)))
        self.findings: list[Finding] = []

    def run(self, absorb_all: bool) -> Reconciliation:
        mismatches = self._count_mismatches()
        by_id = self._match_ids()
        by_signature = self._match_signatures() + self._match_unknown_arguments()
        if absorb_all:
            by_signature += self._absorb_known_signatures()
        else:
            self.findings += mismatches
        return Reconciliation(
            tool_calls=self._ordered(),
            findings=self.findings,
            matched_by_id=by_id,
            matched_by_signature=by_signature,
            protocol_only=len(self.free_protocol),
            trace_only=len(self.free_trace),
        )

    def _match(self, protocol: int, trace: int) -> None:
        self.protocol[protocol] = _fill(self.protocol[protocol], self.trace[trace])
        self.free_protocol.pop(protocol, None)
        del self.free_trace[trace]

    def _match_ids(self) -> int:
        by_id: dict[str, list[int]] = defaultdict(list)
        for position, call in enumerate(self.protocol):
            if call.id:
                by_id[call.id].append(position)
        matched: set[int] = set()
        for trace in list(self.free_trace):
            call = self.trace[trace]
            candidates = by_id.get(call.id, []) if call.id else []
            same_name = [position for position in candidates if self.protocol[position].name == call.name]
            if same_name:
                self._match(same_name[0], trace)
                matched.add(same_name[0])
            elif candidates:
                other = self.protocol[candidates[0]].name
                message = f"id {call.id!r} is {other!r} in the protocol and {call.name!r} in the trace; both are kept"
                self.findings.append(Finding("id_conflict", message, Severity.WARNING, "traces"))
        return len(matched)

    def _match_signatures(self) -> int:
        waiting: dict[tuple[str, str], deque[int]] = defaultdict(deque)
        for protocol in self.free_protocol:
            key = _signature(self.protocol[protocol])
            if key is not None:
                waiting[key].append(protocol)
        matched = 0
        for trace in list(self.free_trace):
            key = _signature(self.trace[trace])
            if key is not None and waiting.get(key):
                self._match(waiting[key].popleft(), trace)
                matched += 1
        return matched

    def _match_unknown_arguments(self) -> int:
        """By name and order, where either side does not know the arguments."""
        matched = 0
        for trace in list(self.free_trace):
            call = self.trace[trace]
            for protocol in self.free_protocol:
                other = self.protocol[protocol]
                if other.name == call.name and (call.arguments is None or other.arguments is None):
                    self._match(protocol, trace)
                    matched += 1
                    break
        return matched

    def _absorb_known_signatures(self) -> int:
        known = {_signature(call) for call in self.protocol} - {None}
        absorbed = [trace for trace in self.free_trace if _signature(self.trace[trace]) in known]
        for trace in absorbed:
            del self.free_trace[trace]
        return len(absorbed)

    def _count_mismatches(self) -> list[Finding]:
        protocol = Counter(key for call in self.protocol if (key := _signature(call)) is not None)
        trace = Counter(key for call in self.trace if (key := _signature(call)) is not None)
        return [
            Finding(
                "count_mismatch",
                f"{key[0]!r} with the same arguments: {protocol[key]} in the protocol, {trace[key]} in the trace",
                Severity.WARNING,
                "traces",
            )
            for key in protocol
            if key in trace and protocol[key] != trace[key]
        ]

    def _ordered(self) -> list[ToolCall]:
        trace_only = [self.trace[position] for position in self.free_trace]
        calls = self.protocol + sorted(trace_only, key=_start_or_last)
        if all(call.started_at is not None for call in calls):
            calls.sort(key=_start_or_last)
        return calls


def _start_or_last(call: ToolCall) -> tuple[bool, float]:
    return (call.started_at is None, call.started_at.timestamp() if call.started_at else 0.0)


def _signature(call: ToolCall) -> tuple[str, str] | None:
    return None if call.arguments is None else (call.name, canonical(call.arguments))


def _fill(winner: ToolCall, loser: ToolCall) -> ToolCall:
    return replace(
        winner,
        arguments=winner.arguments if winner.arguments is not None else loser.arguments,
        result=winner.result if winner.result is not None else loser.result,
        error=winner.error if winner.error is not None else loser.error,
        started_at=winner.started_at or loser.started_at,
        ended_at=winner.ended_at or loser.ended_at,
    )
