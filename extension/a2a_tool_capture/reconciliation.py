"""Reconciles protocol calls with trace calls: every call counts once, whichever source shows it."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace

from .canonical import value_key
from .models import Finding, Severity, ToolCall
from .same_call import agreement, signature

MAX_COMPARED = 30
"""Maximum number of calls of a tool with which a call is compared whose arguments no other call has."""


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """The calls of both sources, each once, and how they were matched."""

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

    The same non-empty id and name is one call; where either side uses an id more than once, calls with equal arguments
    first, and one that then finds none left is a call of its own (finding `id_reused`). Then the same signature (name,
    arguments with numbers by value), pairwise: each protocol call absorbs one trace call, so a repeat that only the
    trace saw survives; `absorb_all` drops every trace call whose signature the protocol knows. Then the same name, in
    order, where the arguments agree that both sides have (finding `paired_by_order`): frameworks fill in defaults
    before or after they trace. Calls with unknown arguments (None) match by name, in order. Calls with different ids
    match so only where no id is on both sides (finding `paired_across_ids`): where the sides share their ids, these
    are different calls.

    The protocol's call wins; a result, error, time or argument it lacks is filled from the trace's, and arguments that
    one side lacks become `default_arguments`. An empty id never matches.
    Order: by start time where every call has one, else protocol order, then the trace's own calls by start time. Pure;
    the inputs are not changed.
    """
    return _Reconciler(protocol_calls, trace_calls).run(absorb_all)


class _Reconciler:
    def __init__(self, protocol_calls: Sequence[ToolCall], trace_calls: Sequence[ToolCall]) -> None:
        self.protocol = list(protocol_calls)
        self.trace = list(trace_calls)
        self.free_protocol = dict.fromkeys(range(len(self.protocol)))
        self.free_trace = dict.fromkeys(range(len(self.trace)))
        self.findings: list[Finding] = []
        self.across: list[tuple[ToolCall, str]] = []
        """Protocol calls matched with a trace call of another id, and that id."""

    def run(self, absorb_all: bool) -> Reconciliation:
        mismatches = self._count_mismatches()
        by_id = self._match_ids()
        ids_meet = by_id > 0
        by_signature = self._match_signatures(ids_meet)
        by_signature += self._match_agreeing(ids_meet) + self._match_unknown_arguments(ids_meet)
        self._report_across()
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
        ours: dict[str, list[int]] = defaultdict(list)
        theirs: dict[tuple[str, str], list[int]] = defaultdict(list)
        for position, call in enumerate(self.protocol):
            if call.id:
                ours[call.id].append(position)
        for trace, call in enumerate(self.trace):
            if call.id in ours:
                theirs[call.id, call.name].append(trace)
        matched: set[int] = set()
        for (call_id, name), traces in theirs.items():
            same_name = [position for position in ours[call_id] if self.protocol[position].name == name]
            if same_name:
                matched.update(self._match_same_id(same_name, traces))
            else:
                other = self.protocol[ours[call_id][0]].name
                message = f"id {call_id!r} is {other!r} in the protocol and {name!r} in the trace; both are kept"
                self._report("id_conflict", message)
        return len(matched)

    def _match_same_id(self, protocols: list[int], traces: list[int]) -> set[int]:
        """Match the calls that share an id and a name; returns the positions of the protocol's that were matched."""
        by_arguments: dict[Hashable, deque[int]] = defaultdict(deque)
        for protocol in protocols:
            by_arguments[value_key(self.protocol[protocol].arguments)].append(protocol)
        matched: dict[int, None] = {}
        others = []
        for trace in traces:
            same = by_arguments.get(value_key(self.trace[trace].arguments))
            if same is None:
                others.append(trace)
            else:
                matched[same[0]] = None
                self._match(same[0], trace)
                if len(same) > 1:  # the last one takes what is left: it is the same call, seen twice
                    same.popleft()
        left = deque(protocol for protocol in protocols if protocol not in matched)
        for trace in others:
            if left or self.trace[trace].arguments is None:
                protocol = left.popleft() if left else protocols[-1]
                matched[protocol] = None
                self._match(protocol, trace)
            else:
                call = self.trace[trace]
                message = f"id {call.id!r} of {call.name!r} is on calls with different arguments; each is kept"
                self._report("id_reused", message)
        return set(matched)

    def _match_signatures(self, ids_meet: bool) -> int:
        names = {self.trace[trace].name for trace in self.free_trace}
        waiting: dict[tuple[str, Hashable], list[int]] = defaultdict(list)
        for protocol in self.free_protocol:
            call = self.protocol[protocol]
            if call.name in names and call.arguments is not None:
                waiting[signature(call)].append(protocol)
        ours = {key: key for key in waiting}  # two of theirs may equal one of ours, and not each other
        wanting: dict[tuple[str, Hashable], list[int]] = defaultdict(list)
        for trace in self.free_trace if ours else ():
            key = signature(self.trace[trace])
            if key in ours:
                wanting[ours[key]].append(trace)
        return sum(self._pair_off(waiting[key], traces, ids_meet) for key, traces in wanting.items())

    def _match_agreeing(self, ids_meet: bool) -> int:
        """By name and order, where the arguments agree that both sides have: the most agreeing one of the first few."""
        matched: list[ToolCall] = []
        waiting = _by_name(self.protocol, self.free_protocol)
        for trace in list(self.free_trace):
            theirs, protocols = self.trace[trace], waiting[self.trace[trace].name]
            agreeing = {
                protocol: agreement(self.protocol[protocol], theirs)
                for protocol in protocols[:MAX_COMPARED]
                if not (ids_meet and theirs.id and self.protocol[protocol].id)
            }
            best = max(agreeing, key=agreeing.__getitem__, default=None)
            if best is None or not agreeing[best]:
                continue
            protocols.remove(best)
            matched.append(self.protocol[best])
            if self.protocol[best].id and theirs.id:
                self.across.append((self.protocol[best], theirs.id))
            self.protocol[best] = _united(self.protocol[best], theirs)
            self._match(best, trace)
        if matched:
            message = (
                f"{len(matched)} call(s) were taken to be the same in protocol and trace although one side has further "
                f"arguments (the first: {matched[0].name!r}); a framework may have filled in the tool's defaults"
            )
            self._report("paired_by_order", message, Severity.INFO)
        return len(matched)

    def _match_unknown_arguments(self, ids_meet: bool) -> int:
        """By name and order, where either side does not know the arguments."""
        matched = 0
        waiting = _by_name(self.protocol, self.free_protocol)
        for name, traces in _by_name(self.trace, self.free_trace).items():
            protocols = waiting[name]
            unknown = [trace for trace in traces if self.trace[trace].arguments is None]
            known = [trace for trace in traces if self.trace[trace].arguments is not None]
            matched += self._pair_off(protocols, unknown, ids_meet)
            left = [p for p in protocols if p in self.free_protocol and self.protocol[p].arguments is None]
            matched += self._pair_off(left, known, ids_meet)
        return matched

    def _pair_off(self, protocols: Sequence[int], traces: Sequence[int], ids_meet: bool) -> int:
        """Match each trace call with a protocol call, in order; where `ids_meet`, never two that have ids."""
        if not ids_meet:
            pairs = list(zip(protocols, traces, strict=False))
        else:
            named, nameless = _by_id(self.protocol, protocols)
            named_traces, nameless_traces = _by_id(self.trace, traces)
            pairs = [*zip(nameless, named_traces, strict=False), *zip(named, nameless_traces, strict=False)]
            pairs += zip(nameless[len(named_traces) :], nameless_traces[len(named) :], strict=False)
        for protocol, trace in pairs:
            if self.protocol[protocol].id and self.trace[trace].id:
                self.across.append((self.protocol[protocol], self.trace[trace].id))
            self._match(protocol, trace)
        return len(pairs)

    def _report_across(self) -> None:
        if self.across:
            call, other = self.across[0]
            message = (
                f"{len(self.across)} call(s) were taken to be the same in protocol and trace although their ids differ "
                f"(the first: {call.name!r}, {call.id!r} and {other!r}); no id is on both sides"
            )
            self._report("paired_across_ids", message, Severity.INFO)

    def _report(self, code: str, message: str, severity: Severity = Severity.WARNING) -> None:
        self.findings.append(Finding(code, message, severity, "traces"))

    def _absorb_known_signatures(self) -> int:
        known = {signature(call) for call in self.protocol if call.arguments is not None}
        absorbed = [trace for trace in self.free_trace if signature(self.trace[trace]) in known]
        for trace in absorbed:
            del self.free_trace[trace]
        return len(absorbed)

    def _count_mismatches(self) -> list[Finding]:
        ours, theirs = (
            [signature(call) for call in calls if call.arguments is not None] for calls in (self.protocol, self.trace)
        )
        protocol, known = Counter(ours), {key: key for key in ours}
        trace = Counter(known.get(key, key) for key in theirs)
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


def _by_id(calls: Sequence[ToolCall], positions: Sequence[int]) -> tuple[list[int], list[int]]:
    """Those of these positions whose calls have an id, and the others."""
    return [at for at in positions if calls[at].id], [at for at in positions if not calls[at].id]


def _by_name(calls: Sequence[ToolCall], positions: Iterable[int]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for position in positions:
        found[calls[position].name].append(position)
    return found


def _start_or_last(call: ToolCall) -> tuple[bool, float]:
    return (call.started_at is None, call.started_at.timestamp() if call.started_at else 0.0)


def _united(ours: ToolCall, theirs: ToolCall) -> ToolCall:
    """Our call with the arguments of both; those that one side lacks may be defaults."""
    mine, other = ours.arguments or {}, theirs.arguments or {}
    one_sided = [name for name in (*mine, *other) if name not in mine or name not in other]
    defaults = dict.fromkeys([*ours.default_arguments, *theirs.default_arguments, *one_sided])
    return replace(ours, arguments={**other, **mine}, default_arguments=tuple(defaults))


def _fill(winner: ToolCall, loser: ToolCall) -> ToolCall:
    return replace(
        winner,
        arguments=winner.arguments if winner.arguments is not None else loser.arguments,
        result=winner.result if winner.result is not None else loser.result,
        error=winner.error if winner.error is not None else loser.error,
        default_arguments=winner.default_arguments or loser.default_arguments,
        started_at=winner.started_at or loser.started_at,
        ended_at=winner.ended_at or loser.ended_at,
        first_seen_at=winner.first_seen_at or loser.first_seen_at,
        result_seen_at=winner.result_seen_at or loser.result_seen_at,
    )
