"""The data port in the process that stores and scores."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import NamedTuple

from ..capture.forwarding import ForwardingBook
from ..capture.turn_book import TurnBook
from ..clock import CLOCK
from ..net.browser_guard import HostNames
from ..net.file_watcher import FileWatch
from ..settings import Settings
from ..telemetry.counters import Metrics
from ..turn import Turn
from .agent_relay import AgentRelay
from .data_port import DataPort
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
    """What captures the turns of one agent in the process that stores and scores."""

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
    """An agent whose traffic is relayed in the process that stores and scores."""

    relay: AgentRelay
    captured: CapturedHere


class LocalServing(DataPort):
    """The data port in the process that stores and scores."""

    def __init__(
        self,
        settings: Settings,
        names: HostNames,
        files: FileWatch,
        metrics: Metrics,
        agents: Sequence[RelayedHere],
    ) -> None:
        self._captured = [agent.captured for agent in agents]
        self._live = False
        super().__init__(settings, names, files, metrics, [agent.relay for agent in agents])

    def watch(self, live: bool) -> None:
        """Start or stop to report changes of open turns."""
        self._live = live
        for captured in self._captured:
            for capture in captured.captures:
                capture.watch(live)

    async def open(self, stack: AsyncExitStack) -> None:
        stack.push_async_callback(self._close_captured)
        for captured in self._captured:
            await captured.open()
        await super().open(stack)

    async def _close_captured(self) -> None:
        for captured in self._captured:
            await captured.close()

    async def add(self, agent: RelayedHere) -> None:
        """Serve an agent, in place of an earlier one of its name."""
        await agent.captured.open()
        for capture in agent.captured.captures:
            capture.watch(self._live)
        self._captured.append(agent.captured)
        self.put(agent.relay)

    async def remove(self, agent: RelayedHere) -> None:
        """Serve an agent no longer; returns when no request for it is under way."""
        await self.take_out(agent.relay)
        await agent.captured.close()
        self._captured.remove(agent.captured)

    async def latest_open(self, most: int, turn_id: str | None = None) -> list[Turn]:
        """Copies of the latest open turns, at most `most` of each agent and process, or of the one with this id, as far
        as they are known."""
        captures = dict.fromkeys(capture for captured in self._captured for capture in captured.captures)
        return [turn for capture in captures for turn in capture.book.latest_open(most, turn_id)]

    async def settled(self) -> None:
        """See `CapturedHere.settled`."""
        for captured in self._captured:
            await captured.settled()
