"""Wiring: the parts of a running proxy put together, started and stopped in order."""

from __future__ import annotations

import asyncio
import heapq
import logging
import socket
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from prometheus_client import CollectorRegistry
from tool_call_evaluators.importers import ImportedSuites, import_suites
from tool_call_evaluators.judge import JudgeNotConfiguredError
from tool_call_evaluators.suite import Case

from .admin.agent_status import AgentWatch
from .admin.api import admin_app
from .admin.control import MAX_OPEN
from .admin.timeline import Observed
from .capture.visibility import CallVisibility
from .clock import CLOCK, JumpGuard
from .net.browser_guard import HostNames
from .net.file_watcher import FileWatch
from .net.http_server import HttpServer, reachable
from .net.ports import Ports
from .one_at_a_time import OneAtATime
from .otlp.receivers import receive_traces
from .otlp.trace_service import Tracing
from .push.registry import WebhookRegistry
from .scoring.case_book import CaseBook
from .scoring.pipeline import Pipeline
from .scoring.scorer import Scorer
from .scoring.suite_file import add_to_suite
from .serving.processes import ServingProcesses
from .serving.replicas import Replicas
from .serving.reports import ScoringReports
from .serving.serving import LocalServing, Serving
from .settings import Settings
from .store import StoreError, TurnQuery, every_turn, marked_in_use, open_store
from .telemetry.counters import Metrics
from .telemetry.event_bus import EventBus
from .telemetry.instruments import COUNTED, OPEN, STORE, Source
from .telemetry.prometheus import BacklogWatch, process_registry
from .telemetry.scoring_times import ScoringTimes
from .telemetry.start import start_telemetry
from .telemetry.turn_events import TurnEvents
from .telemetry.turn_listener import TurnListener, TurnListeners
from .ui.check.agent_check import AgentCheck
from .ui.site import Site

logger = logging.getLogger(__name__)

_SHARED_FILE = (
    "another proxy uses it, and may score turns of this one again; give each proxy its own --store, or use PostgreSQL"
)
_EXPIRE_EVERY_S = 0.5
_PRUNE_EVERY_S = 600.0
_ANSWER_S = 3.0
"""What the store has to answer questions about tasks when the proxy stops."""

_STORE_WAIT_S = 2.0
"""How long the start waits for the store. One that is there opens in much less; one that is away is tried on."""

_CLOSE_STORE_S = 1.0
"""For a last attempt to write, where the time for scoring is used up."""


class RunningProxy:
    """A proxy in this process. `run_proxy` makes one; all its parts share one event loop."""

    def __init__(
        self,
        settings: Settings,
        imported: ImportedSuites | None,
        listeners: Sequence[TurnListener],
        *,
        keeps_open_turns: bool,
        serving_processes: socket.socket | None,
    ) -> None:
        """Put the parts together; `start` starts them. Called on the event loop. See `run_proxy`."""
        self.settings = settings
        self.suite = suite = imported.suite if imported else None
        self.suite_file = imported.file if imported else None
        self.run: str | None = settings.run
        self.trace_url = settings.trace_url
        self.metrics = Metrics()
        self.work = OneAtATime()
        self.bus = EventBus()
        self.files = FileWatch()
        self.privacy = settings.privacy()
        self.cases = CaseBook(suite, redactor=self.privacy.redactor)
        self.store = open_store(settings.store, for_workers=not settings.evaluate, patient=True)
        self._webhooks = WebhookRegistry.of(settings, self.store, self.privacy.identifier)
        self._tracing = self._traces()
        self._events = TurnEvents(self.bus, self.privacy, lambda turn: self.cases.case_of(turn, self.privacy))
        self._scoring_times = ScoringTimes()
        self._listeners = TurnListeners(
            *listeners, self._events, self._scoring_times, *([self._tracing] if self._tracing else [])
        )
        self.pipeline = self._pipeline()
        self._visibility = CallVisibility(
            negotiate=settings.negotiate,
            dialects=bool(settings.dialects),
            logs=lambda: self._tracing is None or not self._tracing.heard,
        )
        self._reports = ScoringReports(
            settings,
            self.store,
            self.pipeline,
            self._listeners,
            self._visibility,
            self.privacy,
            self.metrics,
            keeps_open_turns=keeps_open_turns,
            webhooks=self._webhooks,
        )
        replicas = None
        if self.store.shared and not self.privacy.changes_turns:  # what replicas exchange is not redacted
            replicas = Replicas(self.store.shared_tasks, self._reports, settings.upstream)
        self.serving: Serving = (
            LocalServing(settings, self.files, self.metrics, self._reports, self._webhooks, replicas)
            if serving_processes is None
            else ServingProcesses(settings, self.metrics, self._reports, serving_processes, replicas)
        )
        self.bus.on_live = self._watch
        self._sources = Source(COUNTED, lambda: self.metrics), Source(OPEN, lambda: self)
        self._ports: Ports
        self._admin: HttpServer
        self._site: Site
        self._otlp: HttpServer | None = None
        self._problems = ["the proxy is starting"]
        self._finish_by = 0.0

    @property
    def url(self) -> str:
        """Where clients connect."""
        return self.serving.url

    @property
    def grpc_address(self) -> str | None:
        """HOST:PORT where clients connect that speak gRPC; None where there is no such port."""
        return self.serving.grpc_address

    @property
    def admin_url(self) -> str:
        return self._admin.url

    def page_address(self) -> str:
        """Where a browser opens the pages; with an admin token, a new link that works once."""
        return self._site.address(reachable(self.admin_url))

    @property
    def otlp_url(self) -> str | None:
        """Where traces are received over HTTP; None where they are not."""
        return self._otlp.url if self._otlp is not None else None

    @property
    def queue_depth(self) -> int:
        """Turns waiting to be scored."""
        return self.pipeline.depth

    @property
    def open_turns(self) -> int:
        """Number of turns not yet closed."""
        return len(self._reports.open_turns)

    async def flush(self, timeout_s: float) -> dict[str, int]:
        """Wait until every turn captured so far is done, at most `timeout_s`; what is left `pending` and `open`."""
        try:
            async with asyncio.timeout(timeout_s):
                await self.serving.settled()
                await self._reports.settled()
                await self.pipeline.drained()
        except TimeoutError:
            pass  # the returned numbers show it
        return {"pending": self.queue_depth + self._reports.waiting, "open": self.open_turns}

    async def turns(self, run: str | None = None) -> list[dict[str, Any]]:
        """Every stored turn (of a run), oldest first, in the JSON form of /api/turns."""
        return [turn async for turn in every_turn(self.store, TurnQuery(run=run))]

    async def turns_in_progress(self, most: int = MAX_OPEN, turn_id: str | None = None) -> list[dict[str, Any]]:
        """See `Control`."""
        found = await self.serving.latest_open(most, turn_id)
        return await self._events.open_turns(heapq.nlargest(most, found, key=lambda turn: turn.started_at))

    async def wire(self, turn_id: str, tasks: Sequence[str], began: float, ended: float | None) -> list[dict[str, Any]]:
        """The exchanges of a turn that are in memory, see `relay.wire_log.WireLog.of_turn`."""
        return await self.serving.wire(turn_id, tasks, began, ended)

    def observed(self, turn_id: str) -> Observed:
        """What this process knows about the times of a turn: spans only if rules can be applied to their names."""
        traced = self._tracing is not None and self.privacy.covers_texts
        return Observed(
            self._scoring_times.of(turn_id), self._tracing.spans(turn_id) if self._tracing and traced else ()
        )

    @property
    def evaluates(self) -> bool:
        """Whether this process scores turns."""
        return self.settings.evaluate

    def bind(self, turn: dict[str, Any], case_id: str) -> None:
        """Score a stored turn, which is done, again as a turn of this case."""
        self.pipeline.bind(turn, case_id)

    async def add_case(self, case: Case, comments: Sequence[str]) -> None:
        """Append it to the suite file and to the suite. Raises SuiteError or SuiteFileError."""
        plugins = self.settings.allow_plugins
        self.suite = await add_to_suite(self.suite, self.suite_file, self.cases, case, comments, allow_plugins=plugins)

    def remarks(self) -> list[str]:
        """Problems that do not stop traffic."""
        return ["store: unavailable, turns wait in memory"] if self.store.health.problem else []

    def problems(self) -> list[str]:
        """Why the proxy is not ready to serve; [] when it is."""
        return self._problems or [*self.serving.problems(), *self._ports.problems()]

    async def drain(self) -> None:
        """For `drain_delay` seconds be not ready, and serve all the same: whoever sends traffic here is to notice."""
        self._not_ready_any_more()
        self.serving.retire()
        await asyncio.sleep(self.settings.drain_delay)

    async def start(self, stack: AsyncExitStack) -> None:
        """Start every part; `stack` stops them in the opposite order, also where a later one cannot start."""
        settings = self.settings
        loop = asyncio.get_running_loop()
        mark = stack.enter_context(ExitStack())
        stack.push_async_callback(self._close_store)
        self.serving.prepare(stack)
        names = HostNames(settings.host_names)
        agent = AgentWatch(settings, self.files, lambda: self.otlp_url)
        stack.callback(agent.close)
        self._site = Site(
            self,
            agent,
            settings.admin_token,
            lambda: settings.public_url or reachable(self.url),
            check=AgentCheck.of(settings),
        )
        registry = self._registry(stack)
        admin = admin_app(self, registry, settings.admin_token, names, self._site.routes, self._site.access)
        self._ports = Ports(stack)
        self._admin = await self._ports.open(
            lambda: HttpServer(admin, settings.admin, shutdown_timeout_s=1.0), "--admin"
        )
        self._otlp = await receive_traces(self._ports, settings, self._tracing, self.metrics)
        redact = self.privacy.text if self.privacy.changes_turns else None
        telemetry = start_telemetry(settings.upstream, self._sources, redact)
        if telemetry is not None:
            stack.push_async_callback(telemetry.close)
            self._listeners.add(telemetry.evaluations)
        stack.push_async_callback(self._finish)
        if mark.enter_context(marked_in_use(settings.store)):
            logger.warning("store %s: %s", settings.store, _SHARED_FILE)
        await self._open_store(stack)
        works = [self._expire, self._prune, self._reports.watch_over]
        for work in works if self._webhooks is None else [*works, self._webhooks.watch]:
            stack.callback(loop.create_task(work()).cancel)
        await self.serving.open(stack, telemetry.requests if telemetry is not None else None)
        stack.callback(self._not_ready_any_more)
        self._problems = []

    def _watch(self, live: bool) -> None:
        """Report the changes of open turns while a client listens to them."""
        self._events.watch(self._reports.open_turns if live else ())
        self.serving.watch(live)

    def _registry(self, stack: AsyncExitStack) -> CollectorRegistry:
        """What `/metrics` reports."""
        sources = [*self._sources, Source(STORE, lambda: self.store.health)]
        work = getattr(self.store, "work", None)  # of a store that workers share
        if work is not None:
            backlog = BacklogWatch(work.backlog)
            sources.append(backlog.source)
            stack.callback(asyncio.get_running_loop().create_task(backlog.watch()).cancel)
        return process_registry(*sources)

    def _pipeline(self) -> Pipeline:
        judge_cache = self.privacy.judge_cache(self.store.judge_cache)
        scorer = Scorer(self.cases, self.suite, judge_cache) if self.settings.evaluate else None
        return Pipeline(self.store, self.cases, scorer, self._listeners, self.metrics, self._tracing, self.privacy)

    def _traces(self) -> Tracing | None:
        """Where received traces go; None where none are received."""
        settings = self.settings
        if not settings.otlp and not settings.otlp_grpc:
            return None
        return Tracing(
            lambda turn, has_work: self.pipeline.spans_changed(turn, has_work),
            self.metrics,
            wait_s=settings.trace_wait,
            expected=settings.expect_traces,
            conversation_attributes=settings.conversation_attributes,
        )

    async def _open_store(self, stack: AsyncExitStack) -> None:
        """Open the store, and score what an earlier process left. Traffic does not wait for one that is away.

        Raises StoreError for what will not pass: a folder that is missing, a store of a later version.
        """
        loop = asyncio.get_running_loop()
        opened = asyncio.Event()
        self.store.start(partial(loop.call_soon_threadsafe, opened.set))
        error = await asyncio.to_thread(self.store.first_attempt, _STORE_WAIT_S)
        if error is not None and not error.may_pass:
            raise error
        resuming = loop.create_task(self._resume(opened))
        stack.callback(resuming.cancel)
        if error is None and self.store.health.problem is None:
            await resuming

    async def _resume(self, opened: asyncio.Event) -> None:
        await opened.wait()
        try:
            resumed = await self.pipeline.resume()
        except StoreError as error:
            logger.error("what an earlier process left pending is not scored: %s", error)
        else:
            if resumed:
                logger.info("%d turn(s) left pending by an earlier process are being scored", resumed)

    async def _close_store(self) -> None:
        """In what `_finish` left of the time for turns to be scored."""
        left_s = self._finish_by - asyncio.get_running_loop().time()
        await asyncio.to_thread(self.store.close, max(left_s, _CLOSE_STORE_S))

    def _not_ready_any_more(self) -> None:
        self._problems = ["the proxy is shutting down"]

    async def _finish(self) -> None:
        """No more requests come: close the open turns that no other process continues, score the closed ones."""
        self._finish_by = asyncio.get_running_loop().time() + self.settings.shutdown_timeout
        await self.serving.close()
        await self._reports.close_turns(self.settings.shutdown_timeout)
        await self.flush(self.settings.shutdown_timeout)
        await self._reports.close()
        await self.pipeline.close()
        await self._events.close()
        self.bus.close()

    async def _prune(self) -> None:
        """Have the store delete turns beyond the retention limits, periodically."""
        days, megabytes = self.settings.retain_days, self.settings.retain_mb
        guard, held = JumpGuard(), False
        while days is not None or megabytes is not None:
            held, was_held = not guard.may_delete(time.time(), time.monotonic()), held
            if held and days is not None and not was_held:
                logger.error("the system's clock was set far ahead: for a day nothing is deleted for its age")
            before = None if days is None or held else datetime.now(UTC) - timedelta(days=days)
            self.store.prune(before, None if megabytes is None else megabytes * 1_000_000)
            await asyncio.sleep(_PRUNE_EVERY_S)

    async def _expire(self) -> None:
        while True:
            await asyncio.sleep(_EXPIRE_EVERY_S)
            CLOCK.align(busy=bool(self.open_turns))
            if self._tracing is not None:
                self._tracing.expire(CLOCK.now())


@asynccontextmanager
async def run_proxy(
    settings: Settings,
    *listeners: TurnListener,
    keeps_open_turns: bool = True,
    serving_processes: socket.socket | None = None,
) -> AsyncIterator[RunningProxy]:
    """Run a proxy in the current event loop for the time of the block.

    `listeners` receive every turn. `keeps_open_turns`: turns that outlive their exchange are stored as open, for a
    later process to continue; otherwise they are closed as incomplete at the end. `serving_processes`: sends
    the connections to the processes that serve clients; None: this process serves them.

    At its end, open responses may finish, what is open is closed, and what is closed is scored. Raises StoreError,
    SuiteError or ListenError (an OSError) where it cannot start; nothing is left behind then.
    """
    imported = import_suites(settings.suite, allow_plugins=settings.allow_plugins) if settings.suite else None
    for note in imported.notes if imported else ():
        logger.warning("suite %s", note)
    for part in imported.parts if imported and settings.evaluate else ():
        try:
            part.check_judges()
        except JudgeNotConfiguredError as error:  # traffic does not depend on it
            logger.warning("suite %s: %s; until then its results are errors", part.name, error)
    proxy = RunningProxy(
        settings,
        imported,
        listeners,
        keeps_open_turns=keeps_open_turns,
        serving_processes=serving_processes,
    )
    async with AsyncExitStack() as stack:
        await proxy.start(stack)
        yield proxy
