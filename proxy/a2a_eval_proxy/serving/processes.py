"""The data port in several processes, as the main process sees them."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Sequence
from contextlib import AsyncExitStack
from typing import Any, NamedTuple

from ..capture.observations import ObservedTurns, decoded, turn_from_message
from ..clock import CLOCK
from ..errors import BAD_INPUT, ConfigError, ListenError
from ..settings.settings import Agent, TrafficSettings
from ..telemetry.counters import Metrics, add_counts
from ..turn import Turn
from .link import Link, changes_from_message
from .replicas import Replicas
from .reports import ScoringReports
from .shared_opted_in_tasks import SHARED, OptedInByAgent

logger = logging.getLogger(__name__)

_START_S = 30.0
_ANSWER_S = 5.0
"""How long a process may take to say what it shows; after that, it is not shown."""
_EXPIRE_EVERY_S = 0.5
_STOP_S = 3.0

_MAX_WAIT_S = 2.0
"""Longest time that an observation waits for processes that do not say whether they have an earlier one."""


class ReportedAgent(NamedTuple):
    """Where the main process takes what serving processes report of one agent."""

    key: str
    """What messages call it: another one of the same name may end while this one begins."""
    agent: Agent
    reports: ScoringReports
    observed: ObservedTurns
    """`Replicas` where other proxies see the same tasks."""


def _announcement(agents: Iterable[ReportedAgent]) -> list[list[str]]:
    """What serving processes are to know of the agents that they serve: key, name and own settings of each."""
    return [[agent.key, agent.agent.name, agent.agent.own] for agent in agents]


class _Agent:
    """What the main process knows of one agent."""

    def __init__(self, agent: ReportedAgent) -> None:
        self.reports = agent.reports
        self.observed = agent.observed
        self.name = agent.agent.name
        self.stack = AsyncExitStack()

    async def open(self, ask_for_marks: Callable[[], None]) -> None:
        """Take reports, until `close`."""
        if isinstance(self.observed, Replicas):
            await self.observed.open(self.stack, ask_for_marks)

    async def settled(self) -> None:
        """Returns when what was reported so far is in turns."""
        while self.observed.waiting:  # noqa: ASYNC110  # for at most `_MAX_WAIT_S`
            await asyncio.sleep(_EXPIRE_EVERY_S / 10)
        if isinstance(self.observed, Replicas):
            await self.observed.settled()


class _Peer:
    """A serving process."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self.source = ""
        """What the ids of its exchanges begin with; "" before it has said so."""
        self.own: defaultdict[str, set[str]] = defaultdict(set)
        """Ids of the turns that it folds itself, by the key of their agent."""
        self.asked = False
        """Whether it was asked for a mark, and has not answered."""
        self.pid = 0
        self.ready = False
        self.problems: list[str] = []
        self.said_bye = False
        self.failure: Exception | None = None


class ServingProcesses:
    """The data port in `settings.processes` processes; the connection to each new one is received from `links`.

    See `DataPort` and `LocalServing` for what the methods promise.
    """

    def __init__(
        self,
        settings: TrafficSettings,
        metrics: Metrics,
        agents: Iterable[ReportedAgent],
        links: socket.socket,
    ) -> None:
        self.url = f"{'https' if settings.tls_cert else 'http'}://{settings.listen}"
        self.grpc_address = settings.grpc
        self._settings = settings
        self._metrics = metrics
        self._announced = _announcement(agents := list(agents))
        """What processes that start are to know of the agents."""
        self._agents = {agent.key: _Agent(agent) for agent in agents}
        self._opted_in = OptedInByAgent()
        self._links_to_come = links
        self._peers: set[_Peer] = set()
        self._changed = asyncio.Condition()
        self._failure: Exception | None = None
        self._started = False
        self._stopping = False
        self._serving: set[asyncio.Task[None]] = set()
        self._live = False

    def problems(self) -> list[str]:
        ready = sum(peer.ready for peer in self._peers)
        wanted = self._settings.processes
        missing = [] if ready >= wanted else [f"{ready} of {wanted} serving processes are ready"]
        return missing + [f"serving process {peer.pid}: {problem}" for peer in self._peers for problem in peer.problems]

    def watch(self, live: bool) -> None:
        self._live = live
        for agent in self._agents.values():
            agent.reports.capture.watch(live)
        for peer in self._peers:
            peer.link.send("watch", live=live)

    async def open(self, stack: AsyncExitStack) -> None:
        loop = asyncio.get_running_loop()
        stack.push_async_callback(self._close_agents)
        for agent in self._agents.values():
            await agent.open(self._ask_for_marks)
        loop.add_reader(self._links_to_come, self._accept)
        stack.callback(loop.remove_reader, self._links_to_come)
        stack.callback(loop.create_task(self._expire()).cancel)
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
        return await self._ask("wire", turn_id=turn_id, tasks=list(tasks), began=began, ended=ended)

    async def latest_open(self, most: int, turn_id: str | None = None) -> list[Turn]:
        items = await self._ask("latest_open", most=most, turn_id=turn_id)
        books = dict.fromkeys(agent.reports.capture.book for agent in self._agents.values())
        here = (turn for book in books for turn in book.latest_open(most, turn_id))
        return [*here, *map(turn_from_message, items)]

    async def _ask(self, subject: str, **question: Any) -> list[dict[str, Any]]:
        """The items of all answers that come in time."""
        loop = asyncio.get_running_loop()
        asked = [loop.create_task(peer.link.ask(subject, **question)) for peer in self._peers]
        answered, late = await asyncio.wait(asked, timeout=_ANSWER_S) if asked else (set(), set())
        for one in late:
            one.cancel()
        return [item for one in answered for item in one.result() or ()]

    async def settled(self) -> None:
        await asyncio.gather(*(peer.link.ask("settled") for peer in self._peers))
        for agent in list(self._agents.values()):
            await agent.settled()

    async def _close_agents(self) -> None:
        for agent in self._agents.values():
            await agent.stack.aclose()

    async def add(self, agent: ReportedAgent) -> None:
        """Take reports of an agent, as soon as processes serve it: see `announce`."""
        known, continues = _Agent(agent), any(one.observed is agent.observed for one in self._agents.values())
        self._agents[agent.key] = known
        await known.open(self._ask_for_marks)
        known.reports.capture.watch(self._live)
        now = CLOCK.steady(CLOCK.now())
        for peer in self._peers:
            if peer.source and not continues:
                known.observed.join(peer.source)
                known.observed.mark(peer.source, now)

    async def announce(self, agents: Iterable[ReportedAgent]) -> None:
        """Have the processes serve these agents, and no longer the others."""
        self._announced = _announcement(agents)
        await self._ask("agents", agents=self._announced)

    async def remove(self, agent: ReportedAgent) -> None:
        """Returns when no request for an agent that is not announced any more is under way, and all is reported."""
        await asyncio.gather(*(peer.link.ask("drained", key=agent.key) for peer in self._peers))
        known = self._agents[agent.key]
        await known.settled()
        await known.stack.aclose()
        del self._agents[agent.key]
        if all(other.name != known.name for other in self._agents.values()):
            self._opted_in.pop(known.name, None)
        for peer in self._peers:
            peer.own.pop(agent.key, None)

    async def _expire(self) -> None:
        while True:
            await asyncio.sleep(_EXPIRE_EVERY_S)
            agents = self._agents.values()
            CLOCK.align(busy=any(agent.reports.open_turns for agent in agents))
            for peer in self._peers:
                self._mark(peer, CLOCK.steady(CLOCK.now()) - _MAX_WAIT_S)
            for agent in agents:
                self._ask_for_marks(agent.observed.behind())
                agent.reports.capture.book.expire(CLOCK.now())

    def _mark(self, peer: _Peer, at: float) -> None:
        """The process has reported everything that it observed until `at`, of every agent."""
        for agent in self._agents.values():
            agent.observed.mark(peer.source, at)

    async def _until(self, condition: Callable[[], bool]) -> None:
        async with self._changed:
            await self._changed.wait_for(condition)

    async def _stop(self) -> None:
        """Have all processes serve their open responses, close their turns, and end."""
        self._stopping = True
        for peer in self._peers:
            peer.link.send("stop")
        try:
            async with asyncio.timeout(2 * self._settings.shutdown_timeout + _STOP_S):
                await self._until(lambda: not self._peers)
        except TimeoutError:
            logger.error("%d serving process(es) did not stop in time", len(self._peers))
        for peer in self._peers:
            for agent in self._agents.values():
                agent.observed.leave(peer.source)

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
        link = await Link.over(connection)
        peer = _Peer(link)
        self._peers.add(peer)
        link.send("agents", agents=self._announced, at_start=not self._started)
        for opted_in in self._opted_in.values():
            opted_in.tell(link)
        if self._live:
            link.send("watch", live=True)
        if self._stopping:
            link.send("stop")
        async for message in link.messages():
            if message["kind"] in SHARED:
                self._opted_in[message["agent"]].learn(message)
                for other in self._peers - {peer}:
                    other.link.send(**message)
            self._take(peer, message)
            self._failure = self._failure or peer.failure
            if message["kind"] in ("ready", "problems", "failed"):
                await self._notify()
        self._peers.discard(peer)
        if peer.failure is not None and self._started:
            logger.error("the serving process %d cannot serve: %s", peer.pid, peer.failure)
        elif peer.failure is None and not peer.said_bye:
            logger.error("the serving process %d ended unexpectedly; its open turns are incomplete", peer.pid)
        for key, agent in self._agents.items():
            agent.observed.leave(peer.source)
            agent.reports.process_ended(peer.own[key], CLOCK.now())
            if peer.source:
                agent.observed.source_ended(peer.source, CLOCK.steady(CLOCK.now()))
        await link.close()
        await self._notify()

    def _take(self, peer: _Peer, message: dict[str, Any]) -> None:
        """Act on a message of a serving process."""
        match message["kind"]:
            case "mark":
                peer.asked = False
                self._mark(peer, message["at"])
                for agent in self._agents.values():
                    self._ask_for_marks(agent.observed.behind())
            case "counts":
                add_counts(self._metrics, message, {agent.name for agent in self._agents.values()})
            case "hello":
                peer.pid, peer.source = message["pid"], message["source"]
                for agent in self._agents.values():
                    agent.observed.join(peer.source)
                    agent.observed.mark(peer.source, message["at"])
            case "ready":
                peer.ready = True
            case "problems":
                peer.problems = message["problems"]
            case "failed":
                bad_input = message["exit_code"] == BAD_INPUT
                peer.failure = ConfigError(message["error"]) if bad_input else ListenError(0, message["error"])
            case "bye":
                peer.said_bye = True
            case _ if message["agent"] in self._agents:
                self._take_of(self._agents[message["agent"]], peer, message)

    def _take_of(self, agent: _Agent, peer: _Peer, message: dict[str, Any]) -> None:
        """Act on what a serving process reports of an agent."""
        reports, own = agent.reports, peer.own[message["agent"]]
        match message["kind"]:
            case "observed":
                observation = decoded(message["observation"].encode())
                if observation["kind"] == "sent":
                    own.discard(observation["turn"]["turn_id"])
                agent.observed.mark(peer.source, message["at"])
                agent.observed.put(message["at"], observation)
                self._ask_for_marks(agent.observed.behind())
            case "opened":
                turn = turn_from_message(message["turn"])
                own.add(turn.turn_id)
                reports.announced(turn)
            case "changed":
                reports.changed(changes_from_message(message["changes"]))
            case "closed":
                turn = turn_from_message(message["turn"])
                own.discard(turn.turn_id)
                reports.closed_elsewhere(turn)
            case "lost":
                own.discard(message["turn_id"])
                reports.lost(message["turn_id"])
            case "notified":
                (reports.notified.add if message["expected"] else reports.notified.discard)(message["task_id"])

    def _ask_for_marks(self, sources: Container[str] | None = None) -> None:
        """Have the processes with these sources, or all, say how far they have reported."""
        for peer in self._peers:
            if (sources is None or peer.source in sources) and not peer.asked:
                peer.asked = True
                peer.link.send("mark")

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()
