"""A listening port in the event loop of a test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from a2a_eval_proxy.net.http_server import HttpServer


@asynccontextmanager
async def serving(app: Any, address: str = "127.0.0.1:0", **options: Any) -> AsyncIterator[HttpServer]:
    """`app` on a port of its own. `options`: of `HttpServer`."""
    server = HttpServer(app, address, **options)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


async def hello(scope: Any, receive: Any, send: Any) -> None:
    """An application that says hello."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"x-from", b"app")]})
    await send({"type": "http.response.body", "body": b"hello"})
