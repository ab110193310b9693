"""The composition root: the parts of a proxy, built and started from the first to the last, stopped in reverse.

`run_proxy` builds what all agents share, `agent_line` what each has of its own.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import Any

from tool_call_evaluators.suite import SuiteError

from .admin.api import admin_app
from .admin.guard import AdminTokens
from .agent_line import AgentLine
from .body_memory import BodyMemory
from .clock import CLOCK, Clock
from .errors import ConfigError
from .feature import provided
from .memory import share
from .net.browser_guard import HostNames
from .net.client_limits import Capacity, connections_possible, operator_limits
from .net.file_watcher import FileWatch
from .net.http_server import HttpServer, reachable
from .net.tls import TlsFiles, server_tls
from .otlp.receivers import receive_traces
from .privacy.policy import Privacy, together
from .proxy_control import ProxyControl
from .relay.opted_in_tasks import Callers
from .scoring.agent_scoring import Scorings
from .scoring.pipeline import Pipeline
from .serving.data_port import DataPort
from .settings.settings import Agent, Settings
from .store import Store, StoreError, TurnQuery, every_turn, open_store
from .store.base import Limits
from .telemetry.counters import COUNTED, OPEN, STORE, Metrics, Source
from .telemetry.event_bus import EventBus
from .telemetry.prometheus import BacklogWatch, process_registry
from .telemetry.start import start_telemetry
from .telemetry.turn_listener import TurnListener

logger = logging.getLogger(__name__)

_EXPIRE_EVERY_S = 0.5
_PRUNE_EVERY_S = 600.0
_STORE_WAIT_S = 2.0
"""How long the start waits for the store. One that is there opens in much less; one that is away is tried on."""


@dataclass(frozen=True, kw_only=True)
class RunningProxy:
    """A proxy in this process; `run_proxy` makes one."""

    url: str
    """Where clients connect."""
    proxy_url: str
    """What clients are given: `public_url` of the settings, or `url`."""
    admin_url: str
    otlp_url: str | None
    """Where traces are received over HTTP; None where they are not."""
    grpc_address: str | None
    """HOST:PORT where clients connect that speak gRPC; None where there is no such port."""
    control: ProxyControl
    """All else, which may change with each version."""

    async def flush(self, timeout_s: float) -> dict[str, int]:
        """Wait until every turn captured so far is done, at most `timeout_s`; what is left `pending` and `open`."""
        return await self.control.flush(timeout_s)

    async def turns(self, run: str | None = None) -> list[dict[str, Any]]:
        """Every stored turn (of a run), as they began, in the JSON form of /api/turns."""
        found = [turn async for turn in every_turn(self.control.store, TurnQuery(run=run))]
        return sorted(found, key=itemgetter("started_at"))

    async def drain(self) -> None:
        """Be not ready for `timeouts.drain` s, and serve all the same: whoever sends traffic here is to notice."""
        self.control.retire()
        self.control.serving.retire()
        await asyncio.sleep(self.control.settings.timeouts.drain)


@asynccontextmanager
async def run_proxy(
    settings: Settings, *listeners: TurnListener, keeps_open_turns: bool = True, privacy: Privacy | None = None
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
        tracing, otlp_url = await receive_traces(stack, settings, metrics, files, capacity)
        telemetry = start_telemetry(together([privacy, *(agent.settings.privacy() for agent in agents if agent.name)]))
        if telemetry is not None:  # it may send to this proxy, which receives traces already
            stack.push_async_callback(telemetry.close)

        # What captures turns, stores and scores them; of each agent a line.
        store = open_store(settings.store, for_workers=not settings.evaluate, patient=True)
        scorings = Scorings(judges=settings.evaluate)
        common = scorings.of(settings, privacy)
        control = ProxyControl(settings=settings, store=store, common=common, bus=bus, tracing=tracing)
        make = provided(lambda feature: feature.webhooks)
        webhooks = None if make is None else make(settings, files)
        new_line = partial(
            AgentLine, parts=len(agents), store=store, metrics=metrics, bus=bus, files=files, bodies=bodies,
            callers=Callers(), tracing=tracing, telemetry=telemetry, listeners=(*listeners, control.live_runs),
            traces_at=otlp_url or settings.otlp_grpc, webhooks=webhooks, keeps_open_turns=keeps_open_turns,
        )  # fmt: skip
        for agent in agents:
            with _naming(agent):
                line = control.lines[agent.name] = new_line(agent, scorings.of(agent.settings))
            stack.callback(line.status.close)
        lines = [*control.lines.values()]
        control.agent = lines[0].status if settings.upstream else None
        control.serving = DataPort(settings, names, files, metrics, capacity, [line.relay for line in lines], webhooks)
        bus.on_recording = control.watch_turns

        # Files and ports are opened: no setting is wrong any more. First that of operators, then those of traffic.
        stack.push_async_callback(control.close_store)
        await _open_to_operators(stack, control, names, metrics, files, capacity)
        stack.push_async_callback(control.finish)
        await _open(store, [line.pipeline for line in lines], stack)
        _warn_of_unknown_agents(control.lines)
        _run_in(stack, _expire(control, metrics))
        _run_in(stack, _prune(store, settings))
        for line in lines:
            line.start(stack)
        await control.serving.open(stack)
        files.start()
        stack.push_async_callback(files.close)
        stack.callback(control.retire)
        url, control.not_ready = control.serving.url, ""
        control.proxy_url = settings.public_url or reachable(url)
        yield RunningProxy(
            url=url,
            proxy_url=control.proxy_url,
            admin_url=control.admin_url,
            otlp_url=otlp_url,
            grpc_address=control.serving.grpc_address,
            control=control,
        )


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
    control: ProxyControl,
    names: HostNames,
    metrics: Metrics,
    files: FileWatch,
    capacity: Capacity,
) -> None:
    """Open the port of operators: the admin API, the metrics and the pages. Raises ListenError, ConfigError."""
    settings, store = control.settings, control.store
    tokens = AdminTokens(settings.admin_token, settings.metrics_token) if settings.admin_token else None
    make = provided(lambda feature: feature.pages)
    control.pages = make and make(control, tokens)
    sources = [Source(COUNTED, lambda: metrics), Source(OPEN, lambda: control), Source(STORE, lambda: store.health)]
    if store.work is not None:
        backlog = BacklogWatch(store.work.backlog)
        sources.append(backlog.source)
        _run_in(stack, backlog.watch())
    registry = process_registry(*sources)
    admin = admin_app(control, registry, tokens, names, control.pages)
    tls = server_tls(TlsFiles.of(*settings.tls_of("admin")), files, "TLS of the admin port")
    limits = operator_limits()
    server = HttpServer(admin, settings.admin, setting="--admin", limits=limits, capacity=capacity, tls=tls)
    await server.open(stack)
    control.admin_url = server.url


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
    """Have the store delete turns beyond the retention limits, periodically."""
    steady = Clock()
    while True:
        now = min(time.time(), steady.now())  # a system clock that is set ahead deletes nothing
        limits = Limits.of(settings.retain_days, settings.retain_mb, now)
        if limits != Limits():
            store.prune(limits)
        await asyncio.sleep(_PRUNE_EVERY_S)


async def _expire(control: ProxyControl, metrics: Metrics) -> None:
    """Close turns and forget exchanges whose time is over, and follow the system's clock, periodically."""
    now = asyncio.get_running_loop().time
    while True:
        due = now() + _EXPIRE_EVERY_S
        await asyncio.sleep(_EXPIRE_EVERY_S)
        metrics.loop_delay_s.observe(max(0.0, now() - due))
        CLOCK.align(busy=bool(control.open_turns))
        for line in control.lines.values():
            line.relay.expire(CLOCK.now())
        if control.tracing is not None:
            control.tracing.expire(CLOCK.now())
