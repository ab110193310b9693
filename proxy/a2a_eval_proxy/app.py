"""The composition root: the parts of a proxy, built and started from the first to the last, stopped in reverse.

`run_proxy` builds what all agents share, `AgentLine` what each has of its own.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
import time
from collections.abc import AsyncIterator, Collection, Coroutine, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from tool_call_evaluators.suite import SuiteError

from .admin.agent_report import AgentReport, AgentWatch, recent_turns
from .admin.api import admin_app
from .admin.control import MAX_OPEN, Control
from .admin.guard import AdminTokens, Pages
from .body_memory import BodyMemory
from .capture.visibility import CallVisibility
from .clock import CLOCK, JumpGuard
from .errors import ConfigError
from .feature import provided
from .memory import share
from .net.browser_guard import HostNames
from .net.client_limits import Capacity, connections_possible, operator_limits
from .net.file_watcher import FileWatch
from .net.http_server import HttpServer, reachable
from .net.tls import TlsFiles, server_tls
from .otlp.receivers import receive_traces
from .otlp.trace_service import Tracing
from .privacy.policy import Privacy, together
from .relay.opted_in_tasks import Callers
from .relay.webhooks import WebhookPort
from .relay.wire_log import WireRecord
from .runs.live_runs import LiveRuns
from .scoring.agent_scoring import Scoring, Scorings, judge_budget
from .scoring.pipeline import QUEUE_BYTES, Pipeline
from .serving.agent_capture import AgentCapture
from .serving.agent_relay import AgentRelay
from .serving.data_port import DataPort
from .settings.settings import Agent, Settings
from .store import Store, StoreError, TurnQuery, every_turn, open_store
from .store.base import Limits
from .telemetry.counters import COUNTED, OPEN, STORE, Metrics, Source
from .telemetry.event_bus import EventBus
from .telemetry.prometheus import BacklogWatch, process_registry
from .telemetry.start import start_telemetry
from .telemetry.turn_events import TurnEvents
from .telemetry.turn_listener import TurnListener, TurnListeners

if TYPE_CHECKING:
    from .telemetry.provider import Telemetry

logger = logging.getLogger(__name__)

_SHARED_FILE = (
    "another proxy uses it, and may score turns of this one again; give each proxy its own --store, or use PostgreSQL"
)
_EXPIRE_EVERY_S = 0.5
_PRUNE_EVERY_S = 600.0
_STORE_WAIT_S = 2.0
"""How long the start waits for the store. One that is there opens in much less; one that is away is tried on."""

_CLOSE_STORE_S = 1.0
"""For a last attempt to write, where the time for scoring is used up."""


@asynccontextmanager
async def run_proxy(
    settings: Settings,
    *listeners: TurnListener,
    keeps_open_turns: bool = True,
    privacy: Privacy | None = None,
) -> AsyncIterator[RunningProxy]:
    """Run a proxy in the current event loop for the time of the block.

    `listeners` receive every turn. `keeps_open_turns`: turns that outlive their exchange are stored as open, for a
    later process to continue; otherwise they are closed as incomplete at the end. `privacy` None: that of the settings.

    At its end, open responses may finish, what is open is closed, and what is closed is scored. Raises StoreError,
    SuiteError or ListenError (an OSError) where it cannot start; nothing is left behind then.
    """
    privacy = privacy or settings.privacy()
    agents = settings.each_agent.values()
    async with AsyncExitStack() as stack:
        metrics, bus, files, names = Metrics(), EventBus(), FileWatch(), HostNames(settings.host_names)
        bodies = BodyMemory(max(share(8), 2 * max(agent.settings.limits.body_bytes for agent in agents)))
        capacity = Capacity(connections_possible(settings.limits.client_connections), bodies=bodies)

        # Traces, and the proxy's own telemetry, which may be sent to its own receiver.
        tracing, otlp_url = await receive_traces(stack, settings, metrics, files, capacity)
        telemetry = start_telemetry(together([privacy, *(agent.settings.privacy() for agent in agents if agent.name)]))
        if telemetry is not None:
            stack.push_async_callback(telemetry.close)

        # What captures turns, stores and scores them; of each agent a line.
        store = open_store(settings.store, for_workers=not settings.evaluate, patient=True)
        scorings = Scorings(judges=settings.evaluate)
        common = scorings.of(settings, privacy)
        proxy = RunningProxy(settings=settings, store=store, common=common, bus=bus, tracing=tracing, otlp_url=otlp_url)
        make = provided(lambda feature: feature.webhooks)
        webhooks = None if make is None else make(settings, files)
        new_line = partial(
            AgentLine,
            parts=len(agents),
            store=store,
            metrics=metrics,
            bus=bus,
            files=files,
            bodies=bodies,
            callers=Callers(),
            tracing=tracing,
            telemetry=telemetry,
            listeners=(*listeners, proxy.live_runs),
            traces_at=otlp_url or settings.otlp_grpc,
            webhooks=webhooks,
            keeps_open_turns=keeps_open_turns,
        )
        for agent in agents:
            with _naming(agent):
                line = proxy.lines[agent.name] = new_line(agent, scorings.of(agent.settings))
            stack.callback(line.status.close)
        lines = [*proxy.lines.values()]
        proxy.agent = lines[0].status if settings.upstream else None
        proxy.serving = DataPort(settings, names, files, metrics, capacity, [line.relay for line in lines], webhooks)
        bus.on_recording = proxy.watch_turns

        # Files and ports are opened: no setting is wrong any more. First that of operators, then those of traffic.
        shared_file = stack.enter_context(store.marked_in_use())
        stack.push_async_callback(proxy.close_store)
        await _open_to_operators(stack, proxy, names, metrics, files, capacity)
        stack.push_async_callback(proxy.finish)
        if shared_file:
            logger.warning("store %s: %s", settings.store, _SHARED_FILE)
        await _open(store, [line.pipeline for line in lines], stack)
        _warn_of_unknown_agents(proxy.lines)
        _run_in(stack, _expire(proxy, metrics))
        _run_in(stack, _prune(store, settings))
        for line in lines:
            line.start(stack)
        await proxy.serving.open(stack)
        files.start()
        stack.push_async_callback(files.close)
        stack.callback(proxy.not_ready_any_more)
        proxy.ready()
        yield proxy


class AgentLine:
    """Captures the turns of one agent, stores and scores them. All its parts share one event loop."""

    def __init__(
        self,
        agent: Agent,
        scoring: Scoring,
        *,
        parts: int,
        store: Store,
        metrics: Metrics,
        bus: EventBus,
        files: FileWatch,
        bodies: BodyMemory,
        callers: Callers,
        tracing: Tracing | None,
        telemetry: Telemetry | None,
        listeners: Sequence[TurnListener],
        traces_at: str | None,
        webhooks: WebhookPort | None,
        keeps_open_turns: bool,
    ) -> None:
        """`scoring` is that of the agent, what follows that of all. `parts`: into how many the limits of memory are
        divided, but for that of `bodies`. `traces_at`: where traces are received. Reads the files of TLS. Raises
        ConfigError."""
        settings, name, privacy = agent.settings, agent.name or None, scoring.privacy
        self.agent = agent
        self.scoring = scoring
        self.status = AgentWatch(settings, files, traces_at)
        budget = judge_budget(settings.judge_budget, agent.name)
        scorer = scoring.scorer(store, budget) if settings.evaluate else None
        self.events = TurnEvents(bus, privacy, scoring.cases.case_of)
        evaluations = None if telemetry is None else telemetry.evaluations
        heard = TurnListeners(*listeners, self.events, *filter(None, (tracing, evaluations)))
        if tracing is not None and name is not None:
            tracing.expect(name, wait_s=settings.trace_wait, expected=settings.expect_traces)
        self.pipeline = Pipeline(
            store,
            scoring.cases,
            scorer,
            heard,
            metrics,
            [tracing] if tracing is not None else [],
            privacy,
            agent_name=name,
            memory=QUEUE_BYTES // parts,
        )
        self._webhooks = None if webhooks is None else webhooks.of(agent, store, privacy.identifier)
        visibility = CallVisibility(
            negotiate=settings.negotiate,
            dialects=bool(settings.dialects),
            logs=lambda: tracing is None or not tracing.heard(name),
        )
        self.capture = AgentCapture(
            agent,
            store,
            self.pipeline,
            heard,
            visibility,
            privacy,
            metrics,
            awaits=None if self._webhooks is None else self._webhooks.keeps_open,
            keeps_open_turns=keeps_open_turns,
            parts=parts,
        )
        self.relay = AgentRelay(
            agent,
            privacy,
            files,
            metrics,
            None if telemetry is None else telemetry.requests_to(settings.upstream),
            self.capture.book,
            self._webhooks,
            bodies,
            wire_bytes=share(32) // parts,
            callers=callers,
        )

    def start(self, stack: AsyncExitStack) -> None:
        """Requests may come; see to what earlier processes left, until `stack` ends."""
        self.capture.start()
        if self._webhooks is not None:
            self._webhooks.start(stack)

    async def settled(self) -> None:
        """Returns when every turn captured so far is done."""
        await self.capture.settled()
        await self.pipeline.drained()

    async def close(self) -> None:
        """What is not scored stays pending."""
        await self.pipeline.close()
        await self.events.close()


@dataclass(eq=False, kw_only=True)
class RunningProxy(Control):
    """A proxy in this process. `run_proxy` makes one; all its parts share one event loop."""

    settings: Settings
    tracing: Tracing | None
    otlp_url: str | None
    """Where traces are received over HTTP; None where they are not."""
    lines: dict[str, AgentLine] = field(init=False, default_factory=dict)
    """By the name of the agent; that of `--upstream` has none."""
    trace_url: str | None = field(init=False)
    serving: DataPort = field(init=False)
    admin_url: str = field(init=False)
    pages: Pages | None = field(init=False)
    _problems: list[str] = field(default_factory=lambda: ["the proxy is starting"])
    _finish_by: float = 0.0

    def __post_init__(self) -> None:
        self.trace_url = self.settings.trace_url
        self.live_runs = LiveRuns(self.store, self.judges_live, self.judged_by)

    @property
    def url(self) -> str:
        """Where clients connect."""
        return self.serving.url

    @property
    def run(self) -> str:
        return self.settings.run

    def _agents_of(self, run: str) -> set[str | None]:
        return {name or None for name, line in self.lines.items() if line.agent.settings.run == run}

    @cached_property
    def scorings(self) -> Mapping[str, Scoring]:
        return {name: line.scoring for name, line in self.lines.items() if name}

    async def agent_reports(self, names: Collection[str] | None = None, *, wait: bool = True) -> list[AgentReport]:
        wanted = {name: line for name, line in self.lines.items() if names is None or name in names}
        statuses, recent = await asyncio.gather(
            asyncio.gather(*(line.status.status(wait=wait) for line in wanted.values())),
            asyncio.gather(*(recent_turns(self.store, name) for name in wanted)),
        )
        tracing = self.tracing
        return [
            AgentReport(
                name=name,
                status=status,
                address=f"{self.proxy_url}{line.agent.path}",
                run=line.agent.settings.run,
                scoring=line.scoring,
                traces=None if tracing is None else tracing.has_sent(name or None),
                open_turns=len(line.capture.open_turns),
                queue_depth=line.pipeline.depth,
                turns=turns,
            )
            for (name, line), status, turns in zip(wanted.items(), statuses, recent, strict=True)
        ]

    @property
    def allow_plugins(self) -> bool:
        return self.settings.allow_plugins

    @property
    def proxy_url(self) -> str:
        return self.settings.public_url or reachable(self.url)

    @property
    def grpc_address(self) -> str | None:
        """HOST:PORT where clients connect that speak gRPC; None where there is no such port."""
        return self.serving.grpc_address

    def page_address(self) -> str | None:
        """Where a browser opens the pages, if there are any; with an admin token, a new link that works once."""
        return self.pages.address(reachable(self.admin_url)) if self.pages else None

    @property
    def queue_depth(self) -> int:
        """Turns waiting to be scored."""
        return sum(line.pipeline.depth for line in self.lines.values())

    @property
    def open_turns(self) -> int:
        """Number of turns not yet closed."""
        return sum(len(line.capture.open_turns) for line in self.lines.values())

    @property
    def agent_queue_depth(self) -> dict[str, int]:
        """Of each of several agents: turns waiting to be scored."""
        return {name: line.pipeline.depth for name, line in self.lines.items() if name}

    @property
    def agent_open_turns(self) -> dict[str, int]:
        """Of each of several agents: turns not yet closed."""
        return {name: len(line.capture.open_turns) for name, line in self.lines.items() if name}

    async def flush(self, timeout_s: float) -> dict[str, int]:
        """Wait until every turn captured so far is done, at most `timeout_s`; what is left `pending` and `open`."""
        unfolded = 0
        try:
            async with asyncio.timeout(timeout_s):
                await asyncio.gather(*(line.settled() for line in self.lines.values()))
                await self.live_runs.drained()
        except TimeoutError:
            unfolded = sum(line.capture.behind for line in self.lines.values())
        answered = sum(line.capture.answered for line in self.lines.values())
        return {"pending": self.queue_depth + answered + unfolded, "open": self.open_turns}

    async def turns(self, run: str | None = None) -> list[dict[str, Any]]:
        """Every stored turn (of a run), oldest first, in the JSON form of /api/turns."""
        return [turn async for turn in every_turn(self.store, TurnQuery(run=run))]

    async def turns_in_progress(self, most: int = MAX_OPEN, turn_id: str | None = None) -> list[dict[str, Any]]:
        found = [turn for line in self.lines.values() for turn in line.capture.latest_open(most, turn_id)]
        newest = heapq.nlargest(most, found, key=lambda turn: turn.started_at)
        shown: dict[str, dict[str, Any]] = {}
        for name, line in self.lines.items():
            turns = [turn for turn in newest if (turn.agent_name or "") == name]
            shown |= {turn["turn_id"]: turn for turn in await line.events.open_turns(turns)}
        return [shown[turn.turn_id] for turn in newest if turn.turn_id in shown]

    def wire(
        self, agent_name: str, turn_id: str, tasks: Sequence[str], began: float, ended: float | None
    ) -> list[WireRecord]:
        line = self.lines.get(agent_name)
        return [] if line is None else line.relay.wire(turn_id, tasks, began, ended)

    def evaluates(self, turn: Mapping[str, Any]) -> bool:
        return self.settings.evaluate and (turn.get("agent_name") or "") in self.lines

    def bind(self, turn: dict[str, Any], case_id: str) -> None:
        self.lines[turn.get("agent_name") or ""].pipeline.revise(turn, case_id=case_id)

    def remarks(self) -> list[str]:
        """Problems that do not stop traffic."""
        return self.store.health.remarks

    def problems(self) -> list[str]:
        """Why the proxy is not ready to serve; [] when it is."""
        return self._problems

    def watch_turns(self, live: bool) -> None:
        """Report the changes of open turns while a client listens to them."""
        for line in self.lines.values():
            line.capture.report_changes(live)

    def ready(self) -> None:
        """Clients may come."""
        self._problems = []

    def not_ready_any_more(self) -> None:
        """The proxy serves, but no client is to begin to use it."""
        self._problems = ["the proxy is shutting down"]

    async def drain(self) -> None:
        """Be not ready for `timeouts.drain` s, and serve all the same: whoever sends traffic here is to notice."""
        self.not_ready_any_more()
        self.serving.retire()
        await asyncio.sleep(self.settings.timeouts.drain)

    async def finish(self) -> None:
        """No more requests come: close the open turns that no other process continues, score the closed ones."""
        timeout_s = self.settings.timeouts.shutdown
        self._finish_by = asyncio.get_running_loop().time() + timeout_s
        await asyncio.gather(*(line.capture.close(timeout_s) for line in self.lines.values()))
        await self.flush(timeout_s)
        await asyncio.gather(*(line.close() for line in self.lines.values()))
        self.bus.close()

    async def close_store(self) -> None:
        """In what `finish` left of the time for turns to be scored."""
        left_s = self._finish_by - asyncio.get_running_loop().time()
        await asyncio.to_thread(self.store.close, max(left_s, _CLOSE_STORE_S))


def _run_in(stack: AsyncExitStack, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """Do this in the background, until `stack` ends it."""
    task = asyncio.get_running_loop().create_task(work)
    stack.callback(task.cancel)
    return task


@contextmanager
def _naming(agent: Agent) -> Iterator[None]:
    """An error in what one of several agents has of its own names it."""
    try:
        yield
    except (ConfigError, SuiteError) as error:
        if agent.name:
            raise ConfigError(f"agent {agent.name}: {error}") from error
        raise


async def _open_to_operators(
    stack: AsyncExitStack,
    proxy: RunningProxy,
    names: HostNames,
    metrics: Metrics,
    files: FileWatch,
    capacity: Capacity,
) -> None:
    """Open the port of operators: the admin API, the metrics and the pages. Raises ListenError, ConfigError."""
    settings, store = proxy.settings, proxy.store
    tokens = AdminTokens(settings.admin_token, settings.metrics_token) if settings.admin_token else None
    make = provided(lambda feature: feature.pages)
    proxy.pages = make and make(proxy, tokens)
    sources = [Source(COUNTED, lambda: metrics), Source(OPEN, lambda: proxy), Source(STORE, lambda: store.health)]
    if store.work is not None:
        backlog = BacklogWatch(store.work.backlog)
        sources.append(backlog.source)
        _run_in(stack, backlog.watch())
    registry = process_registry(*sources)
    admin = admin_app(proxy, registry, tokens, names, proxy.pages)
    tls = server_tls(TlsFiles.of(*settings.tls_of("admin")), files, "TLS of the admin port")
    limits = operator_limits()
    server = HttpServer(admin, settings.admin, setting="--admin", limits=limits, capacity=capacity, tls=tls)
    await server.open(stack)
    proxy.admin_url = server.url


def _warn_of_unknown_agents(lines: Mapping[str, AgentLine]) -> None:
    """Log cases that no turn can be of: they name an agent that is not behind this proxy."""
    books = {} if "" in lines else dict.fromkeys(line.scoring.cases for line in lines.values())
    named = {(case.id, name) for book in books if book.suite for case in book.suite.cases for name in case.agents}
    for case_id, name in sorted(named, key=str):
        if name is not None and name not in lines:
            logger.warning(
                "case %s of the suite names the agent %s, which is not behind this proxy; it has no turns",
                case_id,
                name,
            )


async def _open(store: Store, pipelines: Sequence[Pipeline], stack: AsyncExitStack) -> None:
    """Open the store, and score what an earlier process left. Traffic does not wait for one that is away.

    Raises StoreError for what will not pass: a folder that is missing, a store of a later version.
    """
    loop = asyncio.get_running_loop()
    opened = asyncio.Event()
    store.start(partial(loop.call_soon_threadsafe, opened.set))
    error = await asyncio.to_thread(store.first_attempt, _STORE_WAIT_S)
    if error is not None and not error.may_pass:
        raise error
    resuming = _run_in(stack, _resume(pipelines, opened))
    if error is None and store.health.problem is None:
        await resuming


async def _resume(pipelines: Sequence[Pipeline], opened: asyncio.Event) -> None:
    """Once the store is open, score what an earlier process left."""
    await opened.wait()
    try:
        resumed = sum([await pipeline.resume() for pipeline in pipelines])
    except StoreError as error:
        logger.error("what an earlier process left pending is not scored: %s", error)
    else:
        if resumed:
            logger.info("%d turn(s) left pending by an earlier process are being scored", resumed)


async def _prune(store: Store, settings: Settings) -> None:
    """Have the store delete turns beyond the retention limits of the proxy and of its agents, periodically."""
    guard, held = JumpGuard(), False
    of_agents = {agent.key: agent.settings for name, agent in settings.each_agent.items() if name}
    while True:
        held, was_held = not guard.may_delete(time.time(), time.monotonic()), held
        if held and not was_held and any(one.retain_days is not None for one in (settings, *of_agents.values())):
            logger.error("the system's clock was set far ahead: for a day nothing is deleted for its age")
        now = None if held else time.time()
        of_all = Limits.of(settings.retain_days, settings.retain_mb, now)
        each = [Limits.of(one.retain_days, one.retain_mb, now, key) for key, one in of_agents.items()]
        others = tuple(one.agent for one in each if one.agent is not None)
        found = (*each, of_all._replace(max_bytes=None, but=others), of_all._replace(before=None))
        if limits := [one for one in found if one[:2] != (None, None)]:
            store.prune(*limits)
        await asyncio.sleep(_PRUNE_EVERY_S)


async def _expire(proxy: RunningProxy, metrics: Metrics) -> None:
    """Close turns and forget exchanges whose time is over, and follow the system's clock, periodically."""
    now = asyncio.get_running_loop().time
    while True:
        due = now() + _EXPIRE_EVERY_S
        await asyncio.sleep(_EXPIRE_EVERY_S)
        metrics.loop_delay_s.observe(max(0.0, now() - due))
        CLOCK.align(busy=bool(proxy.open_turns))
        for line in proxy.lines.values():
            line.relay.expire(CLOCK.now())
        if proxy.tracing is not None:
            proxy.tracing.expire(CLOCK.now())
