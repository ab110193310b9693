"""What the application needs of the data port, and the data port in its own process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Protocol

from ..capture.lookups import OpenTurns
from ..clock import CLOCK
from ..net.file_watcher import FileWatch
from ..push.registry import WebhookRegistry
from ..settings import Settings
from ..telemetry.counters import Metrics
from ..turn import Turn
from .data_port import DataPort
from .reports import ScoringReports, TurnReports

if TYPE_CHECKING:
    from ..telemetry.requests import RequestTelemetry

NewReports = Callable[[Callable[[TurnReports], OpenTurns]], ScoringReports]
"""Makes the reports of one data port, from what makes its open turns."""

ANSWER_S = 3.0
"""What the store has to answer questions about tasks when the proxy stops."""

_LOOK_EVERY_S = 0.1


class Serving(Protocol):
    """The data port, wherever it is."""

    @property
    def url(self) -> str:
        """Where clients connect."""

    @property
    def grpc_address(self) -> str | None:
        """HOST:PORT where clients connect that speak gRPC; None where there is no such port."""

    @property
    def open_turns(self) -> int:
        """Number of turns not yet closed."""

    @property
    def waiting(self) -> int:
        """Number of turns that have their answer and are not closed, or are closed and wait for the store."""

    def heads(self) -> list[Turn]:
        """The open turns as they were opened: later calls and text may be missing."""

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
        """Returns when nothing is `waiting`."""

    async def close_turns(self, timeout_s: float) -> None:
        """No more requests come: close the turns that no other process continues."""

    async def close(self) -> None:
        """End what waits for the store."""


class LocalServing:
    """The data port in the process that stores and scores."""

    def __init__(
        self,
        settings: Settings,
        files: FileWatch,
        metrics: Metrics,
        new_reports: NewReports,
        webhooks: WebhookRegistry | None,
    ) -> None:
        """`webhooks` None: they are not relayed."""

        self._settings = settings

        def new_port(reports: TurnReports) -> OpenTurns:
            self._port = DataPort(settings, files, metrics, reports, webhooks=webhooks)
            return self._port.book

        self._continuity = new_reports(new_port).continuity
        self.book = self._port.book

    @property
    def url(self) -> str:
        return self._port.url

    @property
    def grpc_address(self) -> str | None:
        return self._port.grpc_address

    @property
    def open_turns(self) -> int:
        return len(self.book.open_turns)

    @property
    def waiting(self) -> int:
        return self.book.answered + self._continuity.waiting

    def heads(self) -> list[Turn]:
        return self.book.open_turns

    def watch(self, live: bool) -> None:
        self._port.live.watch(live)

    def problems(self) -> list[str]:
        return self._port.ports.problems()

    def prepare(self, stack: AsyncExitStack) -> None:
        self._port.prepare(stack)

    async def open(self, stack: AsyncExitStack, requests: RequestTelemetry | None) -> None:
        watch = asyncio.get_running_loop().create_task(self._continuity.watch_over())
        stack.callback(watch.cancel)
        await self._port.open(stack, requests, push=self._settings.push_listen)

    def retire(self) -> None:
        self._port.retire()

    async def latest_open(self, most: int, turn_id: str | None = None) -> list[Turn]:
        return self._port.latest_open(most, turn_id)

    async def wire(self, turn_id: str, tasks: Sequence[str], began: float, ended: float | None) -> list[dict[str, Any]]:
        return self._port.wire(turn_id, tasks, began, ended)

    async def settled(self) -> None:
        # A stream lingers until `expire` ends it within seconds; a store is slow to answer.
        while self.book.answered or self._continuity.busy:  # noqa: ASYNC110  # the book is sans-io
            await asyncio.sleep(_LOOK_EVERY_S)

    async def close_turns(self, timeout_s: float) -> None:
        await self._continuity.answered(min(ANSWER_S, timeout_s))
        self.book.close_all(CLOCK.now())

    async def close(self) -> None:
        await self._continuity.close()
