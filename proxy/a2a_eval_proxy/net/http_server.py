"""Uvicorn inside our own event loop: no signal handlers, no lifespan, no log of aborted responses."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import uvicorn

from ..errors import ListenError
from ..settings.parsing import split_address
from .client_limits import ClientLimits
from .uvicorn_protocol import BoundedProtocol

_CHECK_EVERY_TICKS = 10
"""Ticks of uvicorn's main loop, 0.1 s each, between two checks of the clients' time limits."""

BACKLOG = 2048

_CUT = "ASGI callable returned without completing response."


class _PassCutsQuietly(logging.Filter):
    """Drops log records that report no error of the proxy.

    The proxy leaves a response unfinished where the agent aborted it. A response is cancelled where the server stops
    before its end; uvicorn logs their number.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        cancelled = record.exc_info is not None and isinstance(record.exc_info[1], asyncio.CancelledError)
        return record.msg != _CUT and not cancelled


_log = logging.getLogger("uvicorn.error")
_log.addFilter(_PassCutsQuietly())
_log.setLevel(logging.WARNING)  # the proxy itself logs that a server started


Address = str | socket.socket
"""HOST:PORT, or a bound socket."""


class HttpServer(uvicorn.Server):
    """One listening port. `start` returns when it accepts connections; `stop` lets open responses finish.

    Clients are held to `limits` (default: those of `ClientLimits`). With `tls` it speaks HTTPS only.
    """

    def __init__(
        self,
        app: Any,
        address: Address,
        *,
        shutdown_timeout_s: float,
        limits: ClientLimits | None = None,
        tls: ssl.SSLContext | None = None,
        shared: bool = False,
    ) -> None:
        self._limits = limits or ClientLimits()
        super().__init__(server_config(app, self._limits, shutdown_timeout_s))
        self.config.ssl = tls
        self._socket = bound(address, shared=shared) if isinstance(address, str) else address
        self._socket.listen(BACKLOG)
        self._socket.setblocking(False)
        self._ready = asyncio.Event()
        self._serving: asyncio.Task[None] | None = None

    @property
    def address(self) -> str:
        """HOST:PORT of the listening socket."""
        return address_of(self._socket)

    @property
    def url(self) -> str:
        return f"{'https' if self.config.ssl else 'http'}://{self.address}"

    async def start(self) -> asyncio.Task[None]:
        """See `net.ports.Server`."""
        self._ready.clear()
        self._serving = asyncio.get_running_loop().create_task(self._serve_copy(self._socket.dup()))
        ready = asyncio.ensure_future(self._ready.wait())
        await asyncio.wait({ready, self._serving}, return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        if self._serving.done():
            self._serving.result()
        return self._serving

    async def _serve_copy(self, listener: socket.socket) -> None:
        """Serve on a copy of our socket, which keeps the port, and those who connect, for a later start."""
        try:
            await self.serve(sockets=[listener])
        finally:
            for server in self.servers:
                server.close()
            listener.close()

    def retire(self) -> None:
        """Keep serving, and ask clients with every further response (`Connection: close`) to connect again.

        So no connection is closed while a request on it is on its way.
        """
        self.config.encoded_headers = [(b"connection", b"close")]  # uvicorn makes its default headers of these
        self.server_state.default_headers = list(self.config.encoded_headers)
        for connection in self.server_state.connections:
            cycle = connection.cycle if isinstance(connection, BoundedProtocol) else None
            if cycle is not None and not cycle.response_started:
                cycle.keep_alive = False

    async def stop(self) -> None:
        self.should_exit = True
        try:
            if self._serving is not None:
                await asyncio.wait({self._serving})
        finally:
            self._socket.close()
            self._limits.close()

    @property
    def connections(self) -> int:
        """Client connections that are open now."""
        return len(self.server_state.connections)

    async def on_tick(self, counter: int) -> bool:
        """Uvicorn's main loop, every 0.1 s: check the clients' time limits now and then."""
        if counter % _CHECK_EVERY_TICKS == 0:
            now = asyncio.get_running_loop().time()
            for connection in list(self.server_state.connections):
                if isinstance(connection, BoundedProtocol):
                    connection.check(now)
        return await super().on_tick(counter)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready.set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield  # the owner of the process handles its signals


def server_config(app: Any, limits: ClientLimits, shutdown_timeout_s: float = 1) -> uvicorn.Config:
    """Uvicorn's configuration for an application, loaded."""
    config = uvicorn.Config(
        app,
        http=partial(BoundedProtocol, limits=limits),  # type: ignore[arg-type]  # uvicorn but calls it
        lifespan="off",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=max(1, round(shutdown_timeout_s)),
    )
    config.load()
    return config


def reachable(url: str) -> str:
    """`url`, with the loopback address in place of one that means every address of this machine."""
    return url.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")


def bound(address: str, *, shared: bool) -> socket.socket:
    """A socket that is bound to `address`. `shared`: other processes of ours may listen there too; the operating system
    gives each new connection to one of them. Raises ListenError."""
    host, port = split_address(address)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # asyncio sets TCP_NODELAY only on such
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise ListenError(error.errno, f"cannot listen on {address}: {error.strerror or error}") from error
    return listener


def address_of(listener: socket.socket) -> str:
    """Its HOST:PORT."""
    host, port = listener.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
