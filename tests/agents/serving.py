"""Runs an ASGI application on a free loopback port: in a thread of the tests, or as a script."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

import uvicorn

AppFactory = Callable[[str], Any]
"""Builds the application from the base URL it will be reached at."""


class _ThreadServer(uvicorn.Server):
    """Ends at once when asked to, where uvicorn looks every 0.1 s whether it is, and lets clients have 0.1 s more."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = threading.Event()

    async def main_loop(self) -> None:
        self._loop, self._ending = asyncio.get_running_loop(), asyncio.Event()
        await self.on_tick(0)
        self.ready.set()
        await self._ending.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()

    def end(self) -> None:
        """Drops open connections. To be called from another thread, once it is ready."""
        with suppress(RuntimeError):  # it has ended
            self._loop.call_soon_threadsafe(self._ending.set)


def _bind() -> socket.socket:
    listener = socket.socket(proto=socket.IPPROTO_TCP)  # else asyncio leaves Nagle on
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", 0))
    listener.listen(2048)  # hundreds of streams connect at once
    return listener


def _config(app: Any, tls: ssl.SSLContext | None = None) -> uvicorn.Config:
    # Cut connections are logged as errors of the application, which is what they are; nobody needs to read them.
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
    # A connection that nobody uses stays: closed after uvicorn's 5 s, it may be just when a busy client uses it again.
    config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="auto", ws="none", timeout_keep_alive=600)
    config.load()
    config.ssl = tls
    return config


class ServerThread:
    """Context manager: the application behind `url` while inside, over HTTPS with `tls`. Leaving it drops open
    connections."""

    def __init__(self, factory: AppFactory, tls: ssl.SSLContext | None = None) -> None:
        self._listener = _bind()
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self._listener.getsockname()[1]}"
        self._server = _ThreadServer(_config(factory(self.url), tls))
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._listener]}, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._server.ready.wait(60):
            raise RuntimeError(f"the agent at {self.url} did not start")
        return self

    def end(self) -> None:
        """Drops open connections, and takes no more."""
        self._server.end()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()
        self._thread.join(60)
        self._listener.close()


def serve_forever(factory: AppFactory) -> None:
    """Prints `listening on URL` and serves until interrupted."""
    listener = _bind()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    server = uvicorn.Server(_config(factory(url)))
    print(f"listening on {url}", flush=True)
    server.run(sockets=[listener])
