"""Serves an agent of a2a-sdk in this process."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager

from a2a.server.request_handlers import RequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.types import AgentCard
from a2a_tool_capture import CapturingRequestHandler
from starlette.applications import Starlette
from starlette.routing import BaseRoute
from starlette.types import ASGIApp

from .http_server import HttpServer

for _name in ("a2a.server.routes", "a2a.utils.error_handlers"):
    logging.getLogger(_name).setLevel(logging.CRITICAL)  # errors of requests are in the responses

REST_PREFIX = "/rest"


@asynccontextmanager
async def sdk_server(
    build: Callable[[str], tuple[CapturingRequestHandler, AgentCard]],
    address: str,
    guarded: Callable[[ASGIApp], ASGIApp] = lambda app: app,
) -> AsyncIterator[str]:
    """Serve what `build` makes for the URL of this address: JSON-RPC at `/`, HTTP+JSON under `/rest`, each also for A2A
    0.3. Yields the URL. Raises ListenError."""
    app = Starlette()
    server = HttpServer(guarded(app), address)
    handler, card = build(server.url)
    app.routes.extend(sdk_routes(handler, card))
    async with aclosing(handler):
        await server.start()
        try:
            yield server.url
        finally:
            await server.stop()


def sdk_routes(handler: RequestHandler, card: AgentCard) -> list[BaseRoute]:
    """See `sdk_server`."""
    return [
        *create_agent_card_routes(card),
        *create_jsonrpc_routes(handler, "/", enable_v0_3_compat=True),
        *create_rest_routes(handler, path_prefix=REST_PREFIX, enable_v0_3_compat=True),
    ]
