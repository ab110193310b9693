"""Serves the pages and the admin API over a store."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry
from tool_call_evaluators.suite import Case, Suite

from ...admin.api import admin_app
from ...admin.control import Control
from ...net.browser_guard import HostNames
from ...net.http_server import HttpServer
from ...net.ports import Ports
from ...one_at_a_time import OneAtATime
from ...privacy.policy import NO_PRIVACY, Privacy
from ...runs.stored_turns import open_existing_store
from ...scoring.case_book import CaseBook
from ...scoring.suite_file import add_to_suite
from ...store import Store
from ...store.base import TurnJson
from ...telemetry.event_bus import EventBus
from ..check import check_page
from ..screens import SCREENS
from ..site import Site
from .store_watch import StoreWatch


@dataclass
class StoredControl(Control):
    """A store in place of a running proxy; see `Control`. No turn is ever captured, pending or open here."""

    store: Store
    suite: Suite | None
    suite_file: str | None
    trace_url: str | None = None
    cases: CaseBook = field(init=False)
    bus: EventBus = field(default_factory=EventBus)
    work: OneAtATime = field(default_factory=OneAtATime)
    privacy: Privacy = NO_PRIVACY
    run: str | None = None

    def __post_init__(self) -> None:
        self.cases = CaseBook(self.suite)

    def bind(self, turn: TurnJson, case_id: str) -> None:
        raise NotImplementedError("nothing is scored here")

    async def add_case(self, case: Case, comments: Sequence[str]) -> None:
        self.suite = await add_to_suite(self.suite, self.suite_file, self.cases, case, comments)


@dataclass(frozen=True, slots=True)
class Served:
    """Where a browser opens the pages: a link that works once, and the token for later logins and for the API."""

    link: str
    token: str


@asynccontextmanager
async def store_pages(
    location: str,
    port: int,
    suite: Suite | None = None,
    suite_file: str | None = None,
    trace_url: str | None = None,
) -> AsyncIterator[Served]:
    """Serve the pages over an existing store on a port of loopback (0: any free one) for the time of the block.

    `trace_url`: see `TraceUrlOption`.

    Raises StoreError for a store that is missing or cannot be read, ListenError for a port that is taken.
    """
    token = secrets.token_urlsafe(24)
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(open_existing_store(location))
        control = StoredControl(store, suite, suite_file, trace_url)
        screens = [screen for screen in SCREENS if screen is not check_page.SCREEN]
        site = Site(control, token=token, screens=screens)
        app = admin_app(control, CollectorRegistry(), token, HostNames(), site.routes, site.access)
        address = f"127.0.0.1:{port}"
        server = await Ports(stack).open(lambda: HttpServer(app, address, shutdown_timeout_s=1.0), "--port")
        watch = asyncio.create_task(StoreWatch(store, control.bus).run())
        stack.callback(watch.cancel)
        stack.callback(control.bus.close)  # first: pages that listen would keep the server
        yield Served(site.address(server.url), token)
