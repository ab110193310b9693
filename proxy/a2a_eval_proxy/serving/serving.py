"""What the application needs of the data port, and the data port in its own process."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Protocol

from ..net.file_watcher import FileWatch
from ..push.registry import WebhookRegistry
from ..settings import Settings
from ..telemetry.counters import Metrics
from ..turn import Turn
from .data_port import DataPort
from .reports import ScoringReports

if TYPE_CHECKING:
    from ..telemetry.requests import RequestTelemetry


class Serving(Protocol):
    """The data port, wherever it is."""

    @property
    def url(self) -> str:
        """Where clients connect."""

    @property
    def grpc_address(self) -> str | None:
        """HOST:PORT where clients connect that speak gRPC; None where there is no such port."""

    def watch(self, live: bool) -> None:
        """Start or stop to report changes of open turns."""

    def problems(self) -> list[str]:
        """Why it cannot serve; [] when it can."""

    def prepare(self, stack: AsyncExitStack) -> None:
        """What can fail for its settings. Raises ConfigError."""

    async def open(self, stack: AsyncExitStack, requests: RequestTelemetry | None) -> None:
        """Serve clients. Raises ListenError."""

    def retire(self) -> None:
        """Keep serving, and ask clients to connect again."""

    async def latest_open(self, most: int, turn_id: str | None = None) -> list[Turn]:
        """Copies of the latest open turns, at most `most` of each process, or of the one with this id, as far as
        they are known."""

    async def wire(self, turn_id: str, tasks: Sequence[str], began: float, ended: float | None) -> list[dict[str, Any]]:
        """The exchanges of a turn in memory, see `relay.wire_log.WireLog.of_turn`."""

    async def settled(self) -> None:
        """Returns when what was captured so far has reached the turn book."""


class LocalServing:
    """The data port in the process that stores and scores."""

    def __init__(
        self,
        settings: Settings,
        files: FileWatch,
        metrics: Metrics,
        reports: ScoringReports,
        webhooks: WebhookRegistry | None,
    ) -> None:
        """`webhooks` None: they are not relayed."""
        self._settings = settings
        self._reports = reports
        self._capture = reports.capture
        self._port = DataPort(settings, files, metrics, reports.capture.book, reports.notified, webhooks=webhooks)

    @property
    def url(self) -> str:
        return self._port.url

    @property
    def grpc_address(self) -> str | None:
        return self._port.grpc_address

    def watch(self, live: bool) -> None:
        self._capture.live.watch(live)

    def problems(self) -> list[str]:
        return self._port.ports.problems()

    def prepare(self, stack: AsyncExitStack) -> None:
        self._port.prepare(stack)

    async def open(self, stack: AsyncExitStack, requests: RequestTelemetry | None) -> None:
        await self._port.open(stack, requests, push=self._settings.push_listen)

    def retire(self) -> None:
        self._port.retire()

    async def latest_open(self, most: int, turn_id: str | None = None) -> list[Turn]:
        return self._capture.book.latest_open(most, turn_id)

    async def wire(self, turn_id: str, tasks: Sequence[str], began: float, ended: float | None) -> list[dict[str, Any]]:
        return self._port.wire(turn_id, tasks, began, ended)

    async def settled(self) -> None:
        """Nothing is on its way."""
