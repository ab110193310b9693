"""Who said what to whom, and what must not have happened. Pure: agent and clients report, the round asks for findings.

Findings that need no knowledge of the end (foreign bytes, a request on a connection in doubt) are reported at once;
those that do (loss, duplication) when the round is settled.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum

from .values import Exchange, Fate

_SAFE = frozenset({b"GET", b"HEAD", b"OPTIONS"})
"""Methods whose requests a proxy may send again where no answer came (RFC 9110, section 9.2.2)."""


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
    """An exchange's request, as the agent got it, and its answer."""

    whole: bool = False
    begun: bool = False
    answered: bool = False


@dataclass
class _Entry:
    exchange: Exchange
    stays: bool
    arrivals: list[Arrival] = field(default_factory=list)
    end: End | None = None
    status: int = 0
    excused: bool = False

    def __str__(self) -> str:
        return f"{self.exchange.name}, which ended as {self.end} ({self.status or 'no status'}), {self.arrivals},"


class Ledger:
    """The book of one round, which adds to its findings."""

    def __init__(self, findings: list[str]) -> None:
        self.findings = findings
        self._entries: dict[bytes, _Entry] = {}
        self.unsaid_closes = 0
        """Times the agent closed a connection that it had said it would keep."""
        self.ends: Counter[str] = Counter()

    def open(self, exchange: Exchange, *, stays: bool = True) -> None:
        """An exchange that is about to be; `stays`: its client waits for the answer. An unknown token names none."""
        self._entries[exchange.token] = _Entry(exchange, stays)

    def exchange(self, token: bytes) -> Exchange | None:
        entry = self._entries.get(token)
        return entry.exchange if entry else None

    def report(self, message: str) -> None:
        self.findings.append(message)

    # ── told by the agent ───────────────────────────────────────────────────────────────────────────────

    def arrived(self, token: bytes) -> Arrival | None:
        """A request's head has come; None where no client sent it, but perhaps hid it in the body of another."""
        entry = self._entries.get(token)
        if entry is None:
            self.report(f"the agent got a request that no client sent: {token.decode()}")
            return None
        entry.arrivals.append(Arrival())
        return entry.arrivals[-1]

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
            self.report(f"{entry} has no end")

    # ── the reckoning ───────────────────────────────────────────────────────────────────────────────────

    def settle(self) -> None:
        """All findings, once nothing more will happen."""
        unasked = 0
        for entry in self._entries.values():
            if entry.end is None:
                continue
            request, answered = entry.exchange.request, sum(arrival.answered for arrival in entry.arrivals)
            if len(entry.arrivals) > 1 and (request.method not in _SAFE or answered > 1):
                self.report(f"{entry} came more than once")
            if request.fate is Fate.REFUSED:
                if any(arrival.whole for arrival in entry.arrivals):
                    self.report(f"{entry} is broken, and came as a whole request")
            elif entry.end in (End.REFUSED, End.CUT, End.NOTHING) and entry.stays:
                unasked += self._settle_unanswered(entry)
        if unasked > self.unsaid_closes:
            self.report(
                f"{unasked} requests never came to the agent; it closed {self.unsaid_closes} connections unsaid"
            )

    def _settle_unanswered(self, entry: _Entry) -> int:
        """Reports a loss without a reason. 1 where the request never came: the agent's closes must account for it."""
        request, answer = entry.exchange.request, entry.exchange.answer
        if entry.arrivals:
            if answer.delivers and any(arrival.answered for arrival in entry.arrivals):
                self.report(f"{entry} was answered by the agent")
            return 0
        if request.fate is Fate.EITHER or entry.excused:
            return 0
        if entry.end is not End.REFUSED or entry.status < 500:
            self.report(f"{entry} is good, and never reached the agent")
        return int(entry.status in (502, 504))
