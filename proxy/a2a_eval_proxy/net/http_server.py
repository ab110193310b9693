"""Listening ports: uvicorn inside our own event loop, with our own protocol, and without its signal handlers."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from ..errors import ListenError
from ..settings.parsing import split_address
from .client_connection import ClientConnection
from .client_limits import ClientLimits, Clients
from .http1_connection import Http1Connection

logger = logging.getLogger(__name__)

BACKLOG = 2048

logging.getLogger("uvicorn.error").setLevel(logging.WARNING)  # the proxy itself logs that a server started


class HttpServer(uvicorn.Server):
    """One listening port. `start` returns when it accepts connections; `stop` lets open responses finish.

    Clients are held to `limits` (default: those of `ClientLimits`). With `tls` it speaks HTTPS only.
    """

    def __init__(
        self,
        app: Any,
        address: str,
        *,
        shutdown_timeout_s: float,
        limits: ClientLimits | None = None,
        tls: ssl.SSLContext | None = None,
        speaks: Callable[[Any, Clients], ClientConnection] = Http1Connection,
    ) -> None:
        """`speaks` makes the protocol of a connection, which gives what arrives to `app`."""
        config = uvicorn.Config(
            app,
            http=self._new_connection,  # type: ignore[arg-type]  # uvicorn but calls it
            lifespan="off",
            ws="none",
            log_config=None,
            callback_notify=self._check_clients,
            timeout_notify=0,
            timeout_graceful_shutdown=max(1, round(shutdown_timeout_s)),
        )
        config.load()
        config.ssl = tls
        super().__init__(config)
        self._app = app
        self._speaks = speaks
        self._limits = limits or ClientLimits()
        self._clients = Clients(self._limits, self.server_state.connections, self.server_state.tasks)
        self._socket = bound(address)
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
        self._clients.retiring = True

    def close(self) -> None:
        """Refuse connections, and take no further request; `stop` waits until open ones have finished."""
        self.should_exit = True
        self._socket.close()  # which would keep those who connect waiting

    async def stop(self) -> None:
        self.close()
        try:
            if self._serving is not None:
                await asyncio.wait({self._serving})
        finally:
            self._limits.close()

    @property
    def connections(self) -> int:
        """Client connections that are open now."""
        return len(self.server_state.connections)

    def _new_connection(self, **_: Any) -> asyncio.Protocol:
        return self._speaks(self._app, self._clients)

    async def _check_clients(self) -> None:
        """Called about once a second, first when connections are accepted."""
        now = asyncio.get_running_loop().time()
        for connection in list(self._clients.connections):
            try:
                connection.check(now)
            except Exception:
                logger.exception("the connection of a client could not be checked, and is cut off")
                connection.abort()
        self._ready.set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield  # the owner of the process handles its signals


def reachable(url: str) -> str:
    """`url`, with the loopback address in place of one that means every address of this machine."""
    return url.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")


def bound(address: str) -> socket.socket:
    """A socket that is bound to `address`. Raises ListenError."""
    host, port = split_address(address)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # asyncio sets TCP_NODELAY only on such
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise ListenError(error.errno, f"cannot listen on {address}: {error.strerror or error}") from error
    return listener


def address_of(listener: socket.socket) -> str:
    """Its HOST:PORT."""
    host, port = listener.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
