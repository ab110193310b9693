"""The pages and the admin API over a store, without an agent and without traffic: `a2a-eval-proxy ui`.

Turns that other processes add to the store are live events.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from prometheus_client import CollectorRegistry
from tool_call_evaluators.suite import Suite

from ...admin.agent_status import AgentStatus, CardStatus, recent_turns
from ...admin.api import admin_app
from ...admin.control import Control
from ...admin.guard import AdminTokens
from ...net.browser_guard import HostNames
from ...net.client_limits import operator_limits
from ...net.http_server import HttpServer
from ...privacy.policy import NO_PRIVACY
from ...runs.stored_turns import open_existing_store
from ...scoring.agent_scoring import Scoring
from ...scoring.case_book import CaseBook
from ...settings.parsing import AGENT_NAME
from ...store import Store, StoreError, TurnQuery
from ...telemetry.event_bus import EventBus
from .site import Site

EVERY_S = 1.0
NEWEST = 200  # turns that a poll reads: what becomes of older ones is seen when a page is loaded
EVENTS = {"open": "turn.opened", "pending": "turn.closed", "done": "turn.done"}

logger = logging.getLogger(__name__)


class StoreControl(Control):
    """Several agents are those that turns in the store name, as far as `agent_statuses` has looked."""

    _names: Sequence[str] = ()

    @property
    def scorings(self) -> Mapping[str, Scoring]:
        return dict.fromkeys(self._names, self.common)

    async def agent_statuses(self, names: Collection[str] | None = None, *, wait: bool = True) -> list[AgentStatus]:
        self._names = [name for name in await self.store.agents() if AGENT_NAME.fullmatch(name)]
        return [await self._report(name) for name in self._names if names is None or name in names]

    async def _report(self, name: str) -> AgentStatus:
        (last,) = (await self.store.turns(TurnQuery(agent=name, limit=1, newest_first=True))).items
        status = CardStatus(last["agent"], "ok", "its card is not read here, where there is only a store")
        return AgentStatus(
            name=name, status=status, address="", run=last["run"], scoring=self.common, traces=None, open_turns=None,
            queue_depth=None, turns=await recent_turns(self.store, name),
        )  # fmt: skip


class StoreWatch:
    """Publishes the changes of `store` on `bus`, at most one poll a second, and none without a listener."""

    def __init__(self, store: Store, bus: EventBus) -> None:
        self._store = store
        self._bus = bus
        self._known: dict[str, tuple[str, str]] | None = None
        """The status and the verdict of the newest turns at the last poll."""
        self._wanted = asyncio.Event()
        bus.on_recording = self._listened

    async def run(self) -> None:
        """Polls until it is cancelled. A store that cannot be read is logged once, and tried again."""
        works = True
        while True:
            await self._wanted.wait()
            try:
                await self.poll()
                works = True
            except StoreError as error:
                if works:
                    logger.warning("the store is not followed: %s", error)
                works = False
            await asyncio.sleep(EVERY_S)

    def _listened(self, recording: bool) -> None:
        self._known = None
        if recording:
            self._wanted.set()
        else:
            self._wanted.clear()

    async def poll(self) -> None:
        """Publish what changed since the last poll; the first one only notes what the store has. Raises StoreError."""
        newest = (await self._store.turns(TurnQuery(limit=NEWEST, newest_first=True, summary=True))).items
        known, self._known = self._known, {turn["turn_id"]: (turn["status"], turn["verdict"]) for turn in newest}
        for turn_id, state in reversed(self._known.items()):
            if known is not None and known.get(turn_id) != state:
                await self._publish(turn_id)

    async def _publish(self, turn_id: str) -> None:
        turn = await self._store.turn(turn_id)
        if turn is not None:  # else it was deleted meanwhile
            self._bus.publish(EVENTS[turn["status"]], turn)


@asynccontextmanager
async def store_pages(
    location: str, port: int, suite: Suite | None = None, suite_file: str | None = None, trace_url: str | None = None
) -> AsyncIterator[tuple[str, str]]:
    """Serve the pages over an existing store on a port of loopback (0: any free one) for the time of the block.

    Yields a link for a browser that works once, and the token for later logins and for the API. `trace_url`: see
    `TraceUrlOption`.

    Raises StoreError for a store that is missing or cannot be read, ListenError for a port that is taken.
    """
    token = secrets.token_urlsafe(24)
    tokens = AdminTokens(token)
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(open_existing_store(location))
        scoring = Scoring(NO_PRIVACY, CaseBook(suite), suite_file)
        control = StoreControl(store=store, common=scoring, trace_url=trace_url)
        await control.agent_statuses(())
        site = Site(control, tokens)
        app = admin_app(control, CollectorRegistry(), tokens, HostNames(), site)
        server = HttpServer(app, f"127.0.0.1:{port}", setting="--port", limits=operator_limits())
        await server.open(stack)
        stack.callback(asyncio.create_task(StoreWatch(store, control.bus).run()).cancel)
        stack.callback(control.bus.close)  # first: pages that listen would keep the server
        yield site.address(server.url), token
