"""The data port in several processes, as the main process sees them."""

from __future__ import annotations

import asyncio
import itertools
import logging
import socket
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from a2a_tool_capture import Finding

from ..capture.lookups import TaskHistory
from ..capture.records import incomplete_because
from ..clock import CLOCK
from ..errors import BAD_INPUT, ConfigError, ListenError
from ..settings import Settings
from ..telemetry.counters import Metrics
from ..turn import Turn
from .counts import add_counts
from .link import Link, changes_from_message, history_to_message, turn_from_message
from .opted_in import SHARED, OptedInEverywhere
from .questions import ANSWER, OPEN_TURNS, WIRE, Questions
from .serving import ANSWER_S, NewReports

if TYPE_CHECKING:
    from ..telemetry.requests import RequestTelemetry

logger = logging.getLogger(__name__)

_START_S = 30.0


class _OpenTurns:
    """The turns that are open in one serving process (`link`), or in none (None); reported to `reports`."""

    def __init__(
        self, settings: Settings, knows: Callable[[str], bool], new_reports: NewReports, link: Link | None
    ) -> None:
        self._silence = f"no event arrived for {settings.turn_timeout:g} s"
        self._link = link
        self.knows = knows
        self.turns: dict[str, Turn] = {}
        self.reports = new_reports(lambda _: self)

    def found(self, task_id: str, history: TaskHistory, now: float) -> None:
        if self._link is not None:
            if history.open is not None:
                self.turns[history.open.turn_id] = history.open  # it continues there
            self._link.send("found", task_id=task_id, history=history_to_message(history))

    def give_up(self, turn: Turn, now: float, why: str = "") -> None:
        turn.findings.append(incomplete_because(why or self._silence))
        turn.ended_at, turn.status = max(now, turn.started_at), "pending"
        self.reports.closed(turn)

    def process_ended(self, now: float) -> None:
        """Close what was open as incomplete, except for turns in the store, which may continue elsewhere."""
        for turn in self.turns.values():
            if not turn.in_store:
                self.give_up(turn, now, "the process that relayed it ended")
        self.turns.clear()


class _Peer:
    """A serving process."""

    def __init__(self, link: Link, open_turns: _OpenTurns) -> None:
        self.link = link
        self.open = open_turns
        self.pid = 0
        self.ready = False
        self.problems: list[str] = []
        self.said_bye = False
        self.failure: Exception | None = None
        self.settled_to = 0

    def take(self, message: dict[str, Any], metrics: Metrics) -> None:
        """Act on a message of the process."""
        turns, reports = self.open.turns, self.open.reports
        match message["kind"]:
            case "opened":
                turn = turn_from_message(message["turn"])
                turns[turn.turn_id] = turn
                reports.opened(turn)
            case "changed":
                reports.changed(changes_from_message(message["changes"]))
            case "closed":
                turn = turn_from_message(message["turn"])
                turns.pop(turn.turn_id, None)
                reports.closed(turn)
            case "outlives":
                turn = turn_from_message(message["turn"])
                turn.in_store = reports.outlives(turn)
                turns[turn.turn_id] = turn
            case "look_up":
                reports.look_up(message["task_id"], message["again"], message["captured"])
            case "found_late":
                reports.found_late(message["task_id"], Finding.from_dict(message["finding"]))
            case "lost":
                turns.pop(message["turn_id"], None)
            case "counts":
                add_counts(metrics, message)
            case "settled":
                self.settled_to = message["number"]
            case "hello":
                self.pid = message["pid"]
            case "ready":
                self.ready = True
            case "problems":
                self.problems = message["problems"]
            case "failed":
                bad_input = message["exit_code"] == BAD_INPUT
                self.failure = ConfigError(message["error"]) if bad_input else ListenError(0, message["error"])
            case "bye":
                self.said_bye = True


class ServingProcesses:
    """The data port in `settings.processes` processes; the connection to each new one is received from `links`."""

    def __init__(self, settings: Settings, metrics: Metrics, new_reports: NewReports, links: socket.socket) -> None:
        self.url = f"{'https' if settings.tls_cert else 'http'}://{settings.listen}"
        self.grpc_address = settings.grpc
        self._settings = settings
        self._metrics = metrics
        self._new_reports = new_reports
        self._links_to_come = links
        self._peers: set[_Peer] = set()
        self._ended = self._open_turns(None)
        """For the turns of processes that are no more."""
        self._opted_in = OptedInEverywhere()
        self._questions = Questions()
        self._changed = asyncio.Condition()
        self._failure: Exception | None = None
        self._started = False
        self._stopping = False
        self._serving: set[asyncio.Task[None]] = set()
        self._live = False
        self._numbers = itertools.count(1)

    @property
    def open_turns(self) -> int:
        return sum(len(peer.open.turns) for peer in self._peers)

    @property
    def waiting(self) -> int:
        return sum(turns.reports.continuity.waiting for turns in self._everywhere())

    def problems(self) -> list[str]:
        ready = sum(peer.ready for peer in self._peers)
        wanted = self._settings.processes
        missing = [] if ready >= wanted else [f"{ready} of {wanted} serving processes are ready"]
        return missing + [f"serving process {peer.pid}: {problem}" for peer in self._peers for problem in peer.problems]

    def heads(self) -> list[Turn]:
        return [turn for peer in self._peers for turn in peer.open.turns.values()]

    def watch(self, live: bool) -> None:
        self._live = live
        for peer in self._peers:
            peer.link.send("watch", live=live)

    def prepare(self, stack: AsyncExitStack) -> None:
        """Nothing: serving processes report what they cannot do."""

    async def open(self, stack: AsyncExitStack, requests: RequestTelemetry | None) -> None:
        loop = asyncio.get_running_loop()
        loop.add_reader(self._links_to_come, self._accept)
        stack.callback(loop.remove_reader, self._links_to_come)
        watch = loop.create_task(self._ended.reports.continuity.watch_over())
        stack.callback(watch.cancel)
        stack.push_async_callback(self._stop)
        try:
            async with asyncio.timeout(_START_S):
                await self._until(lambda: self._failure is not None or not self.problems())
        except TimeoutError:
            raise ListenError(0, f"the serving processes did not start within {_START_S:g} s") from None
        if self._failure is not None:
            raise self._failure
        self._started = True

    def retire(self) -> None:
        for peer in self._peers:
            peer.link.send("retire")

    async def wire(self, turn_id: str, tasks: Sequence[str], began: float, ended: float | None) -> list[dict[str, Any]]:
        question = {"turn_id": turn_id, "tasks": list(tasks), "began": began, "ended": ended}
        return await self._questions.ask(self._links(), WIRE, **question)

    async def latest_open(self, most: int, turn_id: str | None = None) -> list[Turn]:
        items = await self._questions.ask(self._links(), OPEN_TURNS, most=most, turn_id=turn_id)
        return [turn_from_message(item) for item in items]

    def _links(self) -> list[Link]:
        return [peer.link for peer in self._peers]

    async def settled(self) -> None:
        number = next(self._numbers)
        asked = set(self._peers)
        for peer in asked:
            peer.link.send("settle", number=number)
        await self._until(lambda: all(peer.settled_to >= number for peer in asked & self._peers))
        while any(turns.reports.continuity.busy for turns in self._everywhere()):  # noqa: ASYNC110  # a store is slow
            await asyncio.sleep(0.1)

    async def close_turns(self, timeout_s: float) -> None:
        """They were closed when the processes stopped."""

    async def close(self) -> None:
        for turns in self._everywhere():
            await turns.reports.continuity.close()

    def _everywhere(self) -> list[_OpenTurns]:
        return [self._ended, *(peer.open for peer in self._peers)]

    def _open_turns(self, link: Link | None) -> _OpenTurns:
        return _OpenTurns(self._settings, self._is_open, self._new_reports, link)

    def _is_open(self, turn_id: str) -> bool:
        return any(turn_id in peer.open.turns for peer in self._peers)

    async def _until(self, condition: Callable[[], bool]) -> None:
        async with self._changed:
            await self._changed.wait_for(condition)

    async def _stop(self) -> None:
        """Have all processes serve their open responses, close their turns, and end."""
        self._stopping = True
        for peer in self._peers:
            peer.link.send("stop")
        try:
            async with asyncio.timeout(2 * self._settings.shutdown_timeout + ANSWER_S):
                await self._until(lambda: not self._peers)
        except TimeoutError:
            logger.error("%d serving process(es) did not stop in time", len(self._peers))

    def _accept(self) -> None:
        """Take the connection to a new serving process from the supervisor."""
        _, files, _, _ = socket.recv_fds(self._links_to_come, 1, 1)
        if not files:  # the supervisor has ended
            asyncio.get_running_loop().remove_reader(self._links_to_come)
        for file in files:
            task = asyncio.get_running_loop().create_task(self._serve(socket.socket(fileno=file)))
            self._serving.add(task)
            task.add_done_callback(self._serving.discard)

    async def _serve(self, connection: socket.socket) -> None:
        """Take the messages of one serving process, until it ends."""
        link = Link(*await asyncio.open_unix_connection(sock=connection))
        peer = _Peer(link, self._open_turns(link))
        self._peers.add(peer)
        self._opted_in.send_all(link)
        if self._live:
            link.send("watch", live=True)
        if self._stopping:
            link.send("stop")
        async for message in link.messages():
            if message["kind"] in SHARED:
                self._opted_in.learn(message)
                for other in self._peers - {peer}:
                    other.link.send(**message)
            if message["kind"] == ANSWER:
                self._questions.answered(message)
            peer.take(message, self._metrics)
            self._failure = self._failure or peer.failure
            if message["kind"] in ("ready", "problems", "settled", "failed"):
                await self._notify()
        continuity = peer.open.reports.continuity
        await continuity.answered(0)
        await continuity.close()
        self._peers.discard(peer)
        if peer.failure is not None and self._started:
            logger.error("the serving process %d cannot serve: %s", peer.pid, peer.failure)
        elif peer.failure is None and not peer.said_bye:
            logger.error("the serving process %d ended unexpectedly; its open turns are incomplete", peer.pid)
        peer.open.process_ended(CLOCK.now())
        await link.close()
        await self._notify()

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()
