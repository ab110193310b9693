"""What captures the turns of one agent."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import NamedTuple

from ..capture.forwarding import ForwardingBook
from ..capture.turn_book import TurnBook
from ..clock import CLOCK
from ..telemetry.counters import Metrics
from .agent_relay import AgentRelay
from .replicas import Replicas
from .reports import ScoringReports
from .turn_capture import TurnCapture


class _Announcements:
    """Reports the turns that need no other proxy."""

    def __init__(self, reports: ScoringReports) -> None:
        self.opened = reports.announced
        self.changed = reports.changed
        self.closed = reports.closed_elsewhere


class CapturedHere:
    """What captures the turns of one agent."""

    def __init__(self, reports: ScoringReports, metrics: Metrics, replicas: Replicas | None) -> None:
        """`replicas` None: no other proxy sees the same tasks."""
        self._stack = AsyncExitStack()
        self.notified = reports.notified
        self._replicas = replicas
        self.captures = [reports.capture]
        self.book: TurnBook | ForwardingBook = reports.capture.book
        if replicas is not None:
            own = TurnCapture(reports.capture.rules, metrics, _Announcements(reports))
            self.captures.append(own)
            self.book = ForwardingBook(own.book, replicas.observed, replicas.proxy)

    async def open(self) -> None:
        if self._replicas is not None:
            await self._replicas.open(self._stack)
            self._stack.callback(self._forward_all)

    async def close(self) -> None:
        """No more requests come."""
        await self._stack.aclose()

    async def settled(self) -> None:
        """Returns when what was captured so far is in the turns of the proxies that fold them."""
        await self.captures[-1].answered_closed()
        if self._replicas is not None:
            await self._replicas.settled()

    def _forward_all(self) -> None:
        """No more requests come: what was captured reaches the replicas."""
        self.book.close_all(CLOCK.now())
        self.captures[-1].close()


class RelayedHere(NamedTuple):
    """An agent: what relays its traffic, and what captures it."""

    relay: AgentRelay
    captured: CapturedHere
