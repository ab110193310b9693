"""Serves the pages and the admin API over a store."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from prometheus_client import CollectorRegistry
from tool_call_evaluators.suite import Suite

from ...admin.api import admin_app
from ...admin.control import Control
from ...net.browser_guard import HostNames
from ...net.http_server import HttpServer
from ...net.ports import Ports
from ...runs.stored_turns import open_existing_store
from ...scoring.case_book import CaseBook
from ..check import check_page
from ..screens import SCREENS
from ..site import Site
from .store_watch import StoreWatch


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
        cases = CaseBook(suite)
        control = Control(store=store, cases=cases, suite=suite, suite_file=suite_file, trace_url=trace_url)
        screens = [screen for screen in SCREENS if screen is not check_page.SCREEN]
        site = Site(control, token=token, screens=screens)
        app = admin_app(control, CollectorRegistry(), token, HostNames(), site.routes, site.access)
        address = f"127.0.0.1:{port}"
        server = await Ports(stack).open(lambda: HttpServer(app, address, shutdown_timeout_s=1.0), "--port")
        watch = asyncio.create_task(StoreWatch(store, control.bus).run())
        stack.callback(watch.cancel)
        stack.callback(control.bus.close)  # first: pages that listen would keep the server
        yield Served(site.address(server.url), token)
