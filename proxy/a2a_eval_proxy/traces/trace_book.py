"""Assigns traces to turns: by trace id, by attributes of the spans, or by time. Sans-io.

The proxy sends W3C trace context with every request, so an agent whose server is instrumented answers in the turn's
own trace. Other traces are assigned by the attributes of their spans (conversation, task). A trace with neither is
assigned only if exactly one turn was open at its time, and if it shows an agent's work: an instrumented server also
traces every request for its card. Spans may arrive before the turn is known, in many batches, and long after.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import takewhile

from a2a_tool_capture import reconcile
from a2a_tool_capture.models import calls_unknown_by
from a2a_tool_capture.spans.conventions import shows_work
from a2a_tool_capture.spans.model import LogEvent, Span
from a2a_tool_capture.spans.tool_calls import tool_calls

from ..turn import Turn
from .merge import TraceEvidence
from .trace_records import (
    HINTS,
    SKEW_S,
    Correlation,
    Key,
    TraceEntry,
    TurnEntry,
    keys_named,
    latest_before,
    root_ended,
    shares_of,
)

_TRACE_BYTES, _SPAN_BYTES, _GROWTH = 1_000, 1_000, 2
"""Memory of a trace, of a span in it, and of each byte of a span on the wire: about what CPython takes."""

_MAX_CONTESTED = 100
"""Maximum number of contested traces counted for a turn, and of turns whose calls are compared with them."""

_NOTHING = TraceEvidence()

RECENT_S = 16.0
"""For this time after the end of a turn its spans are on their way: exporters send every five seconds, and again."""

KEEP_S, UNKNOWN_S = 600.0, 60.0
MAX_TURNS = 20_000


class TraceBook:
    """Joins spans to turns. Times are seconds since the epoch.

    `on_changed` receives a turn whose evidence grew, and whether the new evidence shows an agent's work. The book
    keeps spans of about `max_bytes` in memory, at most `MAX_TURNS` turns, closed ones for `KEEP_S`, and spans of
    unknown traces for `UNKNOWN_S`; it counts spans that it drops (`take_dropped`). `conversation_attributes` are names
    of span attributes that hold the contextId, in addition to those of known libraries.
    """

    def __init__(
        self,
        on_changed: Callable[[Turn, bool], None],
        *,
        max_bytes: int = 128 * 1024 * 1024,
        conversation_attributes: Iterable[str] = (),
    ) -> None:
        self._on_changed = on_changed
        self._max_bytes = max_bytes
        self._hints = {**HINTS, **dict.fromkeys(conversation_attributes, "conversation_id")}
        self._turns: OrderedDict[str, TurnEntry] = OrderedDict()
        self._by_key: dict[Key, list[TurnEntry]] = {}
        self._open: dict[str, TurnEntry] = {}
        self._ended: OrderedDict[str, TurnEntry] = OrderedDict()
        """In the order in which they ended."""
        self._traces: OrderedDict[str, TraceEntry] = OrderedDict()
        self._unknown: OrderedDict[str, TraceEntry] = OrderedDict()
        self._naming: dict[Key, dict[str, TraceEntry]] = {}
        """Traces whose turns are not certain, by what they name, by trace id."""
        self._waiting: dict[str, TraceEntry] = {}
        """Traces that name a turn that ended before they began, while another open turn may yet get that name."""
        self._bytes = 0
        self._dropped = 0
        self.heard: set[str | None] = set()
        """The names of the agents to whose turns a span was ever joined: then more are expected."""

    # ── turns ───────────────────────────────────────────────────────────────────────────────────────────

    def opened(self, turn: Turn) -> None:
        """A turn began; its trace id is known from the start, task and conversation where the client names them."""
        if turn.turn_id in self._turns:
            return
        known = TurnEntry(turn)
        self._turns[turn.turn_id] = self._open[turn.turn_id] = known
        self._index(known)
        trace = self._traces.get(turn.trace_id)
        if trace is not None:
            self._attach(trace, self._by_key["trace_id", turn.trace_id], Correlation.TRACE_ID)
        if len(self._turns) > MAX_TURNS:
            self._forget(next(iter(self._turns.values())))

    def closed(self, turn: Turn, now: float) -> None:
        """A turn ended; now its task and conversation are known, so traces may find it by these."""
        known = self._turns.get(turn.turn_id)
        if known is None:
            return
        known.closed_at = now
        calls = [replace(call, result=None, error=None) for call in turn.tool_calls]
        known.turn = replace(turn, user_text="", response_text="", tool_calls=calls, findings=[])  # kept for long
        self._open.pop(turn.turn_id, None)
        self._ended[turn.turn_id] = known
        self._index(known)
        named = [trace for key in known.keys for trace in self._naming.get(key, {}).values()]
        waiting, self._waiting = self._waiting, {}
        for trace in {**waiting, **{trace.trace_id: trace for trace in named}}.values():
            self._locate(trace)
        self._tell_contesting(known)

    def _tell_contesting(self, known: TurnEntry) -> None:
        """More is known of a turn, and so of whose the calls are in the traces that may be of it or of others."""
        contested = (self._traces[trace_id] for trace_id in known.contested if trace_id in self._traces)
        for other in dict.fromkeys(other for trace in contested for other in trace.contested_by if other is not known):
            self._on_changed(other.turn, True)

    def lost(self, reason: str, now: float, turn_id: str | None = None) -> None:
        """Spans did not arrive, of this turn or (None) of whichever turns: all that have them on their way."""
        for known in self._recent(now) if turn_id is None else filter(None, [self._turns.get(turn_id)]):
            known.lost = known.lost or reason
            self._on_changed(known.turn, True)

    def evidence(self, turn_id: str) -> TraceEvidence:
        """The evidence for a turn so far; empty for an unknown turn."""
        known = self._turns.get(turn_id)
        if known is None or not (known.traces or known.contested or known.lost):
            return _NOTHING
        spans, logs = self._shown(known)
        by_time = frozenset(trace.trace_id for trace in known.traces if trace.by is Correlation.TIME)
        return TraceEvidence(spans, logs, by_time, len(known.contested) if self._misses(known) else 0, known.lost)

    @staticmethod
    def _shown(known: TurnEntry) -> tuple[list[Span], list[LogEvent]]:
        spans: list[Span] = []
        logs: list[LogEvent] = []
        for trace in known.traces:
            share = shares_of(trace) if len(trace.turns) > 1 else None
            spans += [span for span in trace.spans.values() if share is None or share[span.span_id] is known]
            logs += [log for log in trace.logs if share is None or share.get(log.span_id, known) is known]
        return spans, logs

    def _misses(self, known: TurnEntry) -> bool:
        """Whether a contested trace may have a call of this turn that nothing else has shown, of any turn it fits."""
        if not 0 < len(known.contested) < _MAX_CONTESTED:
            return bool(known.contested)
        traces = [self._traces[trace_id] for trace_id in known.contested if trace_id in self._traces]
        found = [trace.converted for trace in traces]
        if len(traces) < len(known.contested) or any(calls_unknown_by(one.findings) for one in found):
            return True
        calls = [call for one in found for call in one.tool_calls]
        candidates = {other for trace in traces for other in trace.contested_by}
        if not calls or len(candidates) > _MAX_CONTESTED:
            return bool(calls)
        reported = [call for other in candidates for call in other.turn.tool_calls]
        if reconcile(reported, calls).trace_only:
            return True
        own = list({trace.trace_id: trace for other in candidates for trace in other.traces}.values())

        def beside_reported(members: Iterable[TraceEntry]) -> int:
            spans = [span for trace in members for span in trace.spans.values()]
            read = tool_calls(spans, [log for trace in members for log in trace.logs])
            return reconcile(reported, read.tool_calls).trace_only

        # A server may show in its own trace a call that the agent shows, too.
        return beside_reported([*own, *traces]) > beside_reported(own)

    def complete(self, turn_id: str) -> bool:
        """Whether the agent's root span of the turn has arrived, so that no more spans are expected."""
        known = self._turns.get(turn_id)
        if known is None:
            return False
        continues = any(trace.by is Correlation.TRACE_ID for trace in known.traces)
        parents = [known.turn.parent_span_id] if continues and known.turn.parent_span_id else []
        return root_ended(self._shown(known)[0], parents)

    # ── spans ───────────────────────────────────────────────────────────────────────────────────────────

    def add(self, records: Sequence[Span | LogEvent], size_bytes: int, now: float) -> None:
        """Take records of one trace, in any order, perhaps repeated. `size_bytes` is what they took on the wire."""
        trace_id = records[0].trace_id
        trace = self._traces.get(trace_id)
        if trace is None:
            trace = self._traces[trace_id] = self._unknown[trace_id] = TraceEntry(trace_id, now)
            self._grow(trace, _TRACE_BYTES)
        held = len(trace.spans) + len(trace.logs)
        shows = self._take(trace, records)
        new = len(trace.spans) + len(trace.logs) - held
        self._grow(trace, new * (_SPAN_BYTES + _GROWTH * size_bytes // len(records)))
        self._locate(trace)
        for known in trace.turns:
            self._on_changed(known.turn, shows)
            if shows:
                self._tell_contesting(known)
        while self._bytes > self._max_bytes and self._drop_oldest():
            pass

    def take_dropped(self) -> int:
        """Number of spans dropped since the last call."""
        dropped, self._dropped = self._dropped, 0
        return dropped

    def expire(self, now: float) -> None:
        """Forget closed turns after `KEEP_S`, unknown traces after `UNKNOWN_S`."""
        while self._unknown:
            trace = next(iter(self._unknown.values()))
            if now - trace.first_seen <= UNKNOWN_S:
                break
            self._drop(trace)
        while self._ended:
            known = next(iter(self._ended.values()))
            if now - known.closed_at <= KEEP_S:
                break
            self._forget(known)

    # ── inside ──────────────────────────────────────────────────────────────────────────────────────────

    def _index(self, known: TurnEntry) -> None:
        turn = known.turn
        for key in (
            ("trace_id", turn.trace_id),
            ("task_id", turn.task_id),
            ("conversation_id", turn.conversation_id),
        ):
            if key[1] and key not in known.keys:
                self._by_key.setdefault(key, []).append(known)
                known.keys.add(key)

    def _grow(self, trace: TraceEntry, size: int) -> None:
        trace.size += size
        self._bytes += size

    def _locate(self, trace: TraceEntry) -> None:
        """Find the turns of a trace, unless they are known for certain already."""
        if trace.certain:
            return
        if named := self._by_key.get(("trace_id", trace.trace_id)):
            self._attach(trace, named, Correlation.TRACE_ID)
        elif hinted := self._hinted(trace):
            if len(hinted) == 1:
                self._attach(trace, hinted, Correlation.ATTRIBUTES)
            elif trace.by is None and trace.shows_work:
                self._contest(trace, hinted)
        elif trace.by is None and trace.shows_work:
            fitting = self._open_at(trace.start_s)
            if len(fitting) == 1:
                self._attach(trace, fitting, Correlation.TIME)
            else:
                self._contest(trace, fitting or self._recent(trace.first_seen))

    def _contest(self, trace: TraceEntry, candidates: list[TurnEntry]) -> None:
        """Note that a trace may be of several turns, or, where its time fits none, of any that is not long over."""
        for known in candidates:
            if len(known.contested) < _MAX_CONTESTED:  # with more it is unknown, whatever is in them
                trace.contested_by[known] = None
                known.contested.add(trace.trace_id)
                self._on_changed(known.turn, True)

    def _recent(self, now: float) -> list[TurnEntry]:
        """The turns that are open, or ended a moment ago."""
        return [*self._open.values(), *self._ended_since(now - RECENT_S)]

    def _ended_since(self, moment_s: float) -> Iterator[TurnEntry]:
        return takewhile(lambda known: known.closed_at >= moment_s, reversed(self._ended.values()))

    def _take(self, trace: TraceEntry, records: Sequence[Span | LogEvent]) -> bool:
        """Add new spans and logs to the trace, and the ids they name. Returns whether they show an agent's work."""
        spans = [record for record in records if isinstance(record, Span)]
        logs = [record for record in records if isinstance(record, LogEvent)]
        for span in spans:
            trace.spans.setdefault(span.span_id, span)
        trace.logs.update(dict.fromkeys(logs))
        shows = bool(logs) or any(map(shows_work, spans))
        trace.shows_work = trace.shows_work or shows
        trace.conversion = None
        if not trace.certain:
            for key in keys_named(spans, self._hints):
                trace.named.add(key)
                self._naming.setdefault(key, {})[trace.trace_id] = trace
        return shows

    def _unname(self, trace: TraceEntry) -> None:
        for key in trace.named:
            others = self._naming.get(key, {})
            others.pop(trace.trace_id, None)
            if not others:
                self._naming.pop(key, None)

    def _hinted(self, trace: TraceEntry) -> list[TurnEntry]:
        """The turn whose task or conversation the trace names, of each agent that has one; none where another may
        follow."""
        for name in ("task_id", "conversation_id"):
            found = [known for key in trace.named if key[0] == name for known in self._by_key.get(key, ())]
            if not found:
                continue
            start_s = trace.start_s
            on = [known for known in found if known.was_on(start_s, SKEW_S)]
            if on:
                return self._latest_of_agents(on, start_s)
            if any(known.was_on(start_s, SKEW_S) and not known.turn.conversation_id for known in self._open.values()):
                self._waiting[trace.trace_id] = trace
                return []
            return self._latest_of_agents(found, start_s)
        return []

    @staticmethod
    def _latest_of_agents(turns: list[TurnEntry], moment_s: float) -> list[TurnEntry]:
        """For each agent, its turn that had begun last: agents may have the same ids."""
        of_agents: dict[str | None, list[TurnEntry]] = {}
        for known in turns:
            of_agents.setdefault(known.turn.agent_name, []).append(known)
        return [latest_before(own, moment_s) for own in of_agents.values()]

    def _open_at(self, moment_s: float) -> list[TurnEntry]:
        """The turns that were open at that time; of two that follow each other closely, the one within which it is."""
        nearly = [
            known
            for known in (*self._open.values(), *self._ended_since(moment_s - SKEW_S))
            if known.was_on(moment_s, SKEW_S)
        ]
        return [known for known in nearly if known.was_on(moment_s)] or nearly

    def _attach(self, trace: TraceEntry, turns: list[TurnEntry], by: Correlation) -> None:
        for known in trace.turns:
            if known not in turns:
                known.traces.remove(trace)
        trace.turns = list(turns)
        trace.by = by
        contested_by, trace.contested_by = trace.contested_by, {}
        for known in contested_by:
            known.contested.discard(trace.trace_id)
            if known not in turns:
                self._on_changed(known.turn, True)
        if trace.certain:
            self._unname(trace)
            self._waiting.pop(trace.trace_id, None)
        self._unknown.pop(trace.trace_id, None)
        self.heard.update(known.turn.agent_name for known in turns)
        for known in turns:
            if trace not in known.traces:
                known.traces.append(trace)

    def _drop_oldest(self) -> bool:
        """Make room: unknown traces first, then turns that are closed. False if nothing can be dropped."""
        closed = (known for known in self._ended.values() if known.traces)
        if not self._unknown and (known := next(closed, None)):
            self._dropped += sum(len(trace.spans) for trace in known.traces)
            self._forget(known)
            return True
        oldest = next(iter((self._unknown or self._traces).values()), None)  # with only open turns left, of those
        if oldest is not None:
            self._drop(oldest)
        return oldest is not None

    def _drop(self, trace: TraceEntry) -> None:
        self._dropped += len(trace.spans)
        for known in trace.contested_by:
            if not self._misses(known):
                known.contested.discard(trace.trace_id)
        self._remove(trace)

    def _remove(self, trace: TraceEntry) -> None:
        self._traces.pop(trace.trace_id, None)
        self._unknown.pop(trace.trace_id, None)
        self._unname(trace)
        self._waiting.pop(trace.trace_id, None)
        self._bytes -= trace.size
        for known in trace.turns:
            known.traces.remove(trace)

    def _forget(self, known: TurnEntry) -> None:
        for turns in (self._turns, self._open, self._ended):
            turns.pop(known.turn.turn_id, None)
        for key in known.keys:
            self._by_key[key].remove(known)
            if not self._by_key[key]:
                del self._by_key[key]
        for trace in list(known.traces):
            trace.turns.remove(known)
            known.traces.remove(trace)
            if not trace.turns:
                self._remove(trace)
