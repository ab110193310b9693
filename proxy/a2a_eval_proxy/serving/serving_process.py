"""A serving process: relays and captures, and reports to the main process."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import signal
import socket
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from a2a_tool_capture import Finding, Severity

from ..capture.forwarding import ForwardingBook
from ..capture.observations import Observation, encoded, turn_to_message
from ..capture.turn_changes import TurnChanges
from ..clock import CLOCK
from ..errors import ConfigError
from ..net.browser_guard import HostNames
from ..net.file_watcher import FileWatch
from ..privacy.policy import Privacy, PrivacyOfAll
from ..push.capture import NotifiedTasks
from ..push.registry import WebhookRegistry
from ..relay.opted_in_tasks import Callers
from ..settings import Settings
from ..settings.settings import Agent, agent_of
from ..store import push_tables_at
from ..store.reads import StoreReads
from ..telemetry.counters import Metrics, take_counts
from ..telemetry.start import start_telemetry
from ..turn import Turn
from .agent_relay import AgentRelay
from .data_port import DataPort
from .link import ASK, Link, Reports, changes_to_message
from .pools import SharedPools
from .shared_opted_in_tasks import SHARED, OptedInByAgent
from .turn_capture import CaptureRules, TurnCapture

if TYPE_CHECKING:
    from ..telemetry.requests import RequestTelemetry

logger = logging.getLogger(__name__)

_COUNT_EVERY_S = 1.0


_MAIN_TOO_SLOW = Finding(
    "capture_error", "the main process was too far behind; part of the answer was not read", Severity.ERROR, "capture"
)


class _ForwardedNotifiedTasks(NotifiedTasks):
    """Those of this process, which the main process learns."""

    def __init__(self, link: Link, agent_name: str) -> None:
        super().__init__()
        self._link = link
        self._agent_name = agent_name

    def add(self, key: str) -> None:
        super().add(key)
        self._link.send("notified", agent=self._agent_name, task_id=key, expected=True)

    def discard(self, key: str) -> None:
        super().discard(key)
        self._link.send("notified", agent=self._agent_name, task_id=key, expected=False)


class _LinkReports:
    """Sends what is captured of one agent to the main process."""

    def __init__(self, sent: Reports, agent_name: str, metrics: Metrics, *, all_calls: bool) -> None:
        """`all_calls`: changes of a turn are sent with its other calls, which redaction by path needs."""
        self._sent = sent
        self._agent_name = agent_name
        self._all_calls = all_calls
        self._metrics = metrics
        self._cut: set[str] = set()
        """Exchanges of which the main process does not get everything."""

    def _send(self, kind: str, **values: Any) -> None:
        self._sent.send(kind, agent=self._agent_name, **values)

    def opened(self, turn: Turn) -> None:
        self._send("opened", turn=turn_to_message(turn))

    def changed(self, changes: TurnChanges) -> None:
        if not self._sent.is_full:
            self._send("changed", changes=changes_to_message(changes, all_calls=self._all_calls))

    def closed(self, turn: Turn) -> None:
        if self._sent.is_full:
            self._metrics.turns_dropped += 1
            self._send("lost", turn_id=turn.turn_id)
        else:
            self._send("closed", turn=turn_to_message(turn))

    def observed(self, at: float, observation: Observation) -> None:
        """Send an observation, whose place among those of other processes is at the time `at`."""
        exchange, kind = observation["exchange"], observation["kind"]
        if self._sent.is_full and kind == "event":
            self._cut.add(exchange)
            return
        if kind == "ended" and exchange in self._cut:
            self._cut.discard(exchange)
            observation = {**observation, "findings": [*observation["findings"], _MAIN_TOO_SLOW.to_dict()]}
        observation = {**observation, "at": CLOCK.steady(observation["at"])}
        self._send("observed", at=CLOCK.steady(at), observation=encoded(observation).decode())


class _AgentHere(NamedTuple):
    """One agent in this process."""

    capture: TurnCapture
    book: ForwardingBook
    relay: AgentRelay
    files: FileWatch
    sent: Reports

    def close(self) -> None:
        """No more requests come: what was captured is reported."""
        self.book.close_all(CLOCK.now())
        self.capture.close()
        self.sent.leave()


class ServingProcess:
    """Serves clients until the main process says to stop, or ends."""

    def __init__(
        self,
        settings: Settings,
        privacy: Privacy,
        of_all: PrivacyOfAll,
        link: Link,
        caller_key: bytes,
        push: socket.socket | None,
    ) -> None:
        """`of_all`: gets the rules of all agents. `push`: where this process receives notifications; None where another
        one does."""
        self._settings = settings
        self._privacy = privacy
        self._of_all = of_all
        self._link = link
        self._callers = Callers(caller_key)
        self._push = push
        self._metrics = Metrics()
        self._source = secrets.token_hex(6)
        """What the ids of exchanges begin with."""
        self._agents: dict[str, _AgentHere] = {}
        """By the keys that the messages of the main process have for them."""
        self._changed = asyncio.Condition()
        self._announced: list[list[str]] = []
        """Key, name and settings of each agent."""
        self._told = asyncio.Event()
        """Set once the main process has announced agents, or has ended."""
        self._at_start = True
        """Whether the whole proxy starts, so that a mistake in the settings of an agent ends it."""
        self._opted_in = OptedInByAgent(link)
        self._port: DataPort | None = None
        self._stop = asyncio.Event()
        self._under_way: set[asyncio.Task[None]] = set()
        self._leaving: set[str] = set()
        self._live = False
        self._pools = SharedPools.of(settings)
        self._requests: RequestTelemetry | None = None
        self._tables: StoreReads | None = None
        self._files: FileWatch

    async def run(self) -> None:
        """Open the data port and serve. An error of the start is reported to the main process, which ends with it."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._stop.set)
        loop.add_signal_handler(signal.SIGINT, lambda: None)  # Ctrl-C reaches the supervisor too, which decides
        self._link.send("hello", pid=os.getpid(), source=self._source, at=CLOCK.steady(CLOCK.now()))
        obeying = loop.create_task(self._obey())
        async with AsyncExitStack() as stack:
            try:
                await self._open(stack)
            except Exception as error:  # noqa: BLE001  # the main process reports it
                self._link.send("failed", error=str(error), exit_code=getattr(error, "exit_code", 1))
                return
            self._link.send("ready")
            counting = loop.create_task(self._send_counts())
            stack.callback(counting.cancel)
            await self._stop.wait()
        for agent in self._agents.values():
            agent.close()
        self._link.send("counts", **take_counts(self._metrics))
        self._link.send("bye")
        obeying.cancel()
        await self._link.close()

    async def _open(self, stack: AsyncExitStack) -> None:
        settings, each = self._settings, self._settings.processes
        telemetry = start_telemetry(self._privacy if settings.upstream else self._of_all)
        if telemetry is not None:
            stack.push_async_callback(telemetry.close)
        self._requests = None if telemetry is None else telemetry.requests
        self._tables = None
        if settings.push_mode == "relay":
            self._tables = stack.enter_context(push_tables_at(settings.store))
        self._files = FileWatch()
        await self._told.wait()
        announced, relays = self._announced, self._add_announced(may_fail=self._at_start or bool(settings.upstream))
        port = DataPort(
            replace(settings, max_client_connections=-(-settings.max_client_connections // each)),
            HostNames(settings.host_names),
            self._files,
            self._metrics,
            relays,
            self._push,
            shared=True,
            on_problems=lambda problems: self._link.send("problems", problems=problems),
        )
        await port.open(stack)
        self._port = port
        self._files.start()
        stack.push_async_callback(self._files.close)
        if self._announced is not announced:
            self._serve_announced()

    def _add(self, key: str, agent: Agent) -> _AgentHere:
        """Capture the traffic of an agent. Raises ConfigError."""
        settings, privacy = agent.settings, agent.settings.privacy() if agent.name else self._privacy
        self._of_all.add(privacy)
        sent = Reports(self._link, self._pools.reports)
        reports = _LinkReports(sent, key, self._metrics, all_calls=privacy.redactor.has_paths)
        capture = TurnCapture(CaptureRules.of(settings, self._pools.open_turns), self._metrics, reports)
        book = ForwardingBook(capture.book, reports.observed, self._source)
        files = self._files.part()
        webhooks = None
        if settings.push_mode == "relay" and self._tables is not None:
            webhooks = WebhookRegistry(self._tables, agent, privacy.identifier)
        relay = AgentRelay(
            agent._replace(
                settings=replace(settings, max_connections=-(-settings.max_connections // settings.processes))
            ),
            privacy,
            files,
            self._metrics,
            None if self._requests is None else self._requests.to(settings.upstream),
            book,
            _ForwardedNotifiedTasks(self._link, key),
            webhooks,
            self._pools,
            opted_in=self._opted_in[agent.name],
            callers=self._callers,
        )
        added = self._agents[key] = _AgentHere(capture, book, relay, files, sent)
        capture.watch(self._live)
        return added

    def _add_announced(self, *, may_fail: bool = False) -> list[AgentRelay]:
        """Capture the traffic of the agents that are announced now. `may_fail`: raises ConfigError;
        otherwise these are logged."""
        added, settings = [], self._settings
        for key, name, own in self._announced:
            if key in self._agents:
                continue
            try:
                added.append(self._add(key, agent_of(settings, name, own) if name else settings.each_agent[name]).relay)
            except ConfigError as error:
                if may_fail:
                    raise
                logger.error("agent %s cannot be served: %s", name, error)
        return added

    def _serve_announced(self) -> None:
        """Serve the agents that the main process has announced last, once the port is open."""
        if self._port is None:
            return
        for relay in self._add_announced():
            self._port.put(relay)
        wanted = {key for key, _, _ in self._announced}
        for key in self._agents.keys() - wanted - self._leaving:
            self._leaving.add(key)
            self._run(self._drain(key))

    async def _drain(self, key: str) -> None:
        """Serve an agent no longer, once no request for it is under way."""
        agent = self._agents[key]
        assert self._port is not None  # noqa: S101  # it was served there
        await self._port.take_out(agent.relay)
        agent.close()
        self._files.drop(agent.files)
        async with self._changed:
            del self._agents[key]
            self._leaving.discard(key)
            if all(other.relay.agent.name != agent.relay.agent.name for other in self._agents.values()):
                self._opted_in.pop(agent.relay.agent.name, None)
            self._changed.notify_all()

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _obey(self) -> None:
        """Take the messages of the main process."""
        async for message in self._link.messages():
            match message["kind"]:
                case "mark":
                    self._link.send("mark", at=CLOCK.steady(CLOCK.now()))
                case kind if kind in SHARED:
                    self._opted_in[message["agent"]].learn(message)
                case kind if kind == ASK:
                    self._run(self._answer(message))
                case "agents":
                    self._announced, self._at_start = message["agents"], message["at_start"]
                    self._told.set()
                case "watch":
                    self._live = message["live"]
                    for agent in self._agents.values():
                        agent.capture.watch(message["live"])
                case "retire" if self._port is not None:
                    self._port.retire()
                case "stop":
                    self._stop.set()
        self._stop.set()  # the main process has ended
        self._told.set()

    async def _answer(self, asked: dict[str, Any]) -> None:
        """Answer a question, whose subject is a method of `ServingProcesses`."""
        answer: list[dict[str, Any]] = []
        match asked["subject"]:
            case "wire" if self._port is not None:
                answer = await self._port.wire(**asked["question"])
            case "latest_open":
                books = (agent.capture.book for agent in self._agents.values())
                turns = (turn for book in books for turn in book.latest_open(**asked["question"]))
                answer = list(map(turn_to_message, turns))
            case "agents":
                self._announced = asked["question"]["agents"]
                self._serve_announced()
            case "drained":
                async with self._changed:
                    await self._changed.wait_for(lambda: asked["question"]["key"] not in self._agents)
            case "settled":
                for agent in self._agents.values():
                    await agent.capture.answered_closed()
        self._link.answer(asked, answer)

    async def _send_counts(self) -> None:
        while True:
            await asyncio.sleep(_COUNT_EVERY_S)
            self._link.send("counts", **take_counts(self._metrics))
