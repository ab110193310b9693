"""Who said what to whom, and what must not have happened. Pure: agent and clients report, the round asks for findings.

Findings that need no knowledge of the end (foreign bytes, a request on a connection in doubt) are reported at once;
those that do (loss, duplication) when the round is settled.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum

from .values import Exchange, Fate, tokens_in

_SAFE = frozenset({b"GET", b"HEAD", b"OPTIONS"})
"""Methods whose requests a proxy may send again where no answer came (RFC 9110, section 9.2.2)."""


class Fault(StrEnum):
    CROSSED = "crossed"
    """Bytes of one exchange in another, or a request that no client sent."""
    ALTERED = "altered"
    """A request or an answer that is not what was sent."""
    LOST = "lost"
    """The agent answered, or was never asked, and the client has nothing."""
    DUPLICATED = "duplicated"
    """The agent got a request twice that may be sent once only."""
    DOUBTFUL = "reused in doubt"
    """A request on a connection that answered or closed unasked before."""
    HUNG = "hung"
    """An exchange without an end."""
    DIFFERENT = "different"
    """What a side sees through the proxy is not what it sees without."""
    PROCESS = "process"
    """What the process shows from outside: memory, descriptors, log, health."""


@dataclass(frozen=True)
class Finding:
    fault: Fault
    message: str
    tokens: tuple[bytes, ...] = ()
    """The exchanges that took part, the one that suffered first."""


class End(StrEnum):
    """How an exchange ended for its client."""

    ANSWERED = "answered"
    """With the agent's answer, to its end."""
    REFUSED = "refused"
    """With an error of the proxy's own."""
    CUT = "cut"
    """Inside an answer."""
    NOTHING = "nothing"
    """Without a byte of an answer."""
    LEFT = "left"
    """The client did not want it any more."""
    HUNG = "hung"


@dataclass
class Arrival:
    """An exchange's request, as one connection to the agent got it."""

    connection: AgentConnection
    whole: bool = False
    begun: bool = False
    answered: bool = False


@dataclass
class AgentConnection:
    """What the agent knows of one connection."""

    number: int
    arrivals: list[tuple[bytes, Arrival]] = field(default_factory=list)
    doubted: str = ""
    """Why no further request may come; empty while one may."""

    @property
    def tokens(self) -> list[bytes]:
        return [token for token, _ in self.arrivals]


@dataclass
class _Entry:
    exchange: Exchange
    stays: bool
    arrivals: list[Arrival] = field(default_factory=list)
    end: End | None = None
    status: int = 0
    excused: bool = False


class Ledger:
    """The book of one round."""

    def __init__(self) -> None:
        self._entries: dict[bytes, _Entry] = {}
        self._smuggled: dict[bytes, bytes] = {}
        self._connections = 0
        self.unsaid_closes = 0
        """Times the agent closed a connection that it had said it would keep."""
        self.findings: list[Finding] = []
        self.ends: Counter[End] = Counter()

    # ── reported by the round ───────────────────────────────────────────────────────────────────────────

    def open(self, exchange: Exchange, *, stays: bool = True) -> None:
        """An exchange that is about to be; `stays`: its client waits for the answer. An unknown token names none."""
        self._entries[exchange.token] = _Entry(exchange, stays)
        for token in exchange.request.smuggled:
            self._smuggled[token] = exchange.token

    def exchange(self, token: bytes) -> Exchange | None:
        entry = self._entries.get(token)
        return entry.exchange if entry else None

    def report(self, fault: Fault, message: str, *tokens: bytes) -> None:
        self.findings.append(Finding(fault, message, tokens))

    # ── told by the agent ───────────────────────────────────────────────────────────────────────────────

    def agent_connection(self) -> AgentConnection:
        self._connections += 1
        return AgentConnection(self._connections)

    def came(self, data: bytes, connection: AgentConnection) -> bool:
        """Bytes of a next request have come: whether that is right."""
        if not connection.doubted:
            return True
        tokens = list(dict.fromkeys([*tokens_in(data), *reversed(connection.tokens)]))
        message = f"bytes came on agent connection {connection.number}, which {connection.doubted}: {data[:120]!r}"
        self.report(Fault.DOUBTFUL, message, *tokens)
        return False

    def arrived(self, token: bytes, connection: AgentConnection) -> Arrival | None:
        """A request's head has come; None where no client sent it."""
        entry = self._entries.get(token)
        if entry is None:
            owner = self._smuggled.get(token)
            what = f"a request hidden in the body of {owner.decode()}" if owner else "a request that no client sent"
            self.report(Fault.CROSSED, f"the agent got {what}: {token.decode()}", *filter(None, [owner]), token)
            return None
        arrival = Arrival(connection)
        entry.arrivals.append(arrival)
        connection.arrivals.append((token, arrival))
        return arrival

    def attempts(self, token: bytes) -> int:
        """How often the request has come."""
        return len(self._entries[token].arrivals)

    def has_answered(self, token: bytes) -> bool:
        """Whether the agent has sent all of its answer."""
        return any(arrival.answered for arrival in self._entries[token].arrivals)

    # ── told by clients ─────────────────────────────────────────────────────────────────────────────────

    def ended(self, token: bytes, end: End, status: int = 0, *, excused: bool = False) -> None:
        """An exchange is over for its client. `excused`: its connection was to end before this answer."""
        entry = self._entries[token]
        if entry.end is not None:
            return
        entry.end, entry.status, entry.excused = end, status, entry.excused or excused
        self.ends[end] += 1
        if end is End.HUNG:
            before = [other for arrival in entry.arrivals for other in arrival.connection.tokens if other != token]
            message = f"{token.decode()} has no end: {_progress(entry)}"
            self.report(Fault.HUNG, message, token, *before[-3:])

    # ── the reckoning ───────────────────────────────────────────────────────────────────────────────────

    def settle(self) -> list[Finding]:
        """All findings, once nothing more will happen."""
        unasked = 0
        for token, entry in self._entries.items():
            if entry.end is None:
                continue
            self._settle_repeats(token, entry)
            if entry.exchange.request.fate is Fate.REFUSED:
                self._settle_refused(token, entry)
            elif entry.end in (End.REFUSED, End.CUT, End.NOTHING) and entry.stays:
                unasked += self._settle_unanswered(token, entry)
        if unasked > self.unsaid_closes:
            message = f"{unasked} requests never reached the agent; it closed {self.unsaid_closes} connections unsaid"
            self.report(Fault.LOST, message)
        return self.findings

    def _settle_repeats(self, token: bytes, entry: _Entry) -> None:
        if len(entry.arrivals) < 2:
            return
        answered = sum(arrival.answered for arrival in entry.arrivals)
        if entry.exchange.request.method in _SAFE and answered < 2:
            return
        came = ", ".join(f"on agent connection {arrival.connection.number}" for arrival in entry.arrivals)
        before = [other for arrival in entry.arrivals for other in arrival.connection.tokens if other != token]
        message = f"{token.decode()} came {len(entry.arrivals)} times, and was answered {answered} times: {came}"
        self.report(Fault.DUPLICATED, message, token, *before[-3:])

    def _settle_refused(self, token: bytes, entry: _Entry) -> None:
        if any(arrival.whole for arrival in entry.arrivals):
            self.report(Fault.ALTERED, f"the agent got the broken request {token.decode()} as a whole one", token)

    def _settle_unanswered(self, token: bytes, entry: _Entry) -> int:
        """Reports a loss without a reason. 1 where the request never came: the agent's closes must account for it."""
        shown = f"{token.decode()} ended as {entry.end} ({entry.status or 'no status'})"
        request, answer = entry.exchange.request, entry.exchange.answer
        if entry.arrivals:
            answered = [item for item in entry.arrivals if item.answered]
            if answered and answer.delivers:
                tokens = [other for item in answered for other in item.connection.tokens if other != token][-3:]
                self.report(Fault.LOST, f"{shown}, though the agent answered it: {_progress(entry)}", token, *tokens)
            return 0
        if request.fate is Fate.EITHER or entry.excused:
            return 0
        if entry.end is not End.REFUSED:
            self.report(Fault.LOST, f"{shown} and never reached the agent", token)
        elif entry.status < 500:
            self.report(Fault.LOST, f"{shown}: a good request was refused", token)
        return int(entry.status in (502, 504))


def _progress(entry: _Entry) -> str:
    if not entry.arrivals:
        return "its request never reached the agent"
    last = entry.arrivals[-1]
    read = "all" if last.whole else "a part"
    wrote = "all of its answer" if last.answered else "a part of its answer" if last.begun else "nothing of its answer"
    return f"the agent had read {read} of its request and sent {wrote} (agent connection {last.connection.number})"
