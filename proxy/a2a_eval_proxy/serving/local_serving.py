"""The data port in the process that stores and scores."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from ..capture.forwarding import ForwardingBook
from ..capture.turn_book import TurnBook
from ..clock import CLOCK
from ..net.browser_guard import HostNames
from ..net.file_watcher import FileWatch
from ..privacy.policy import Privacy
from ..push.registry import WebhookRegistry
from ..settings.settings import TrafficSettings
from ..telemetry.counters import Metrics
from ..turn import Turn
from .data_port import DataPort
from .replicas import Replicas
from .reports import ScoringReports
from .turn_capture import TurnCapture

if TYPE_CHECKING:
    from ..telemetry.requests import RequestTelemetry


class _Announcements:
    """Reports the turns that need no other proxy."""

    def __init__(self, reports: ScoringReports) -> None:
        self.opened = reports.announced
        self.changed = reports.changed
        self.closed = reports.closed_elsewhere


class LocalServing(DataPort):
    """The data port in the process that stores and scores."""

    def __init__(
        self,
        settings: TrafficSettings,
        privacy: Privacy,
        names: HostNames,
        files: FileWatch,
        metrics: Metrics,
        requests: RequestTelemetry | None,
        reports: ScoringReports,
        webhooks: WebhookRegistry | None,
        replicas: Replicas | None,
    ) -> None:
        """`webhooks` None: they are not relayed. `replicas` None: no other proxy sees the same tasks."""
        self._replicas = replicas
        self._captures = [reports.capture]
        book: TurnBook | ForwardingBook = reports.capture.book
        if replicas is not None:
            own = TurnCapture(reports.capture.rules, metrics, _Announcements(reports))
            self._captures.append(own)
            book = ForwardingBook(own.book, replicas.observed, replicas.proxy)
        notified, push = reports.notified, settings.push_listen
        super().__init__(settings, privacy, names, files, metrics, requests, book, notified, push, webhooks)

    def watch(self, live: bool) -> None:
        """Start or stop to report changes of open turns."""
        for capture in self._captures:
            capture.watch(live)

    async def open(self, stack: AsyncExitStack) -> None:
        if self._replicas is not None:
            await self._replicas.open(stack)
            stack.callback(self._forward_all)
        await super().open(stack)

    async def latest_open(self, most: int, turn_id: str | None = None) -> list[Turn]:
        """Copies of the latest open turns, at most `most` of each process, or of the one with this id, as far as they
        are known."""
        return [turn for capture in self._captures for turn in capture.book.latest_open(most, turn_id)]

    async def settled(self) -> None:
        """Returns when what was captured so far is in the turns of the proxies that fold them."""
        await self._captures[-1].answered_closed()
        if self._replicas is not None:
            await self._replicas.settled()

    def _forward_all(self) -> None:
        """No more requests come: what was captured reaches the replicas."""
        self._book.close_all(CLOCK.now())
        self._captures[-1].close()
