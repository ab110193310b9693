"""Listening ports: they accept connections, see regularly that clients keep their limits, and end."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from contextlib import AsyncExitStack

from ..errors import ListenError
from ..settings.parsing import split_address
from .client_connection import ClientConnection
from .client_limits import Capacity, ClientLimits
from .http1_connection import Http1Connection
from .http2_server import Http2Connection, StreamHandler
from .served_request import Application

logger = logging.getLogger(__name__)

_BACKLOG = 2048
_CHECK_EVERY_S, _HURRIED_S = 1.0, 0.1
"""How often clients are looked at, and how often where others wait for memory that they may take."""

_LOOK_EVERY_S = 0.05
"""While the server stops."""


class HttpServer:
    """One listening port. `start` returns when it accepts connections; `stop` lets open responses finish.

    Clients are held to `limits` (default: those of `ClientLimits`). With `tls` it speaks HTTPS only.
    """

    def __init__(
        self,
        app: Application | None,
        address: str,
        *,
        setting: str = "",
        shutdown_timeout_s: float = 1.0,
        streams: StreamHandler | None = None,
        limits: ClientLimits | None = None,
        capacity: Capacity | None = None,
        reserved_part: int | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`app` answers requests over HTTP/1.1, `streams` those over HTTP/2; None: this version is not spoken.

        `setting` chooses the address. `capacity` is shared with other ports, `reserved_part` as of `Capacity.port`.
        Raises ListenError.
        """
        self._app = app
        self._streams = streams
        self._tls = tls
        self._shutdown_timeout_s = shutdown_timeout_s
        self._limits = limits or ClientLimits()
        self._socket = _bound(address, setting)
        self._socket.listen(_BACKLOG)
        self._socket.setblocking(False)
        self.address = _address_of(self._socket)
        """HOST:PORT of the listening socket."""
        self.clients = (capacity or Capacity()).port(self._limits, reserved_part)
        self._listener: asyncio.Server | None = None
        self._checking: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://{self.address}"

    @property
    def connections(self) -> int:
        """Client connections that are open now."""
        return len(self.clients.connections)

    async def open(self, stack: AsyncExitStack) -> None:
        """Accept connections, until `stack` ends."""
        stack.push_async_callback(self.stop)
        await self.start()

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(
            self._new_connection, sock=self._socket, ssl=self._tls, backlog=_BACKLOG
        )
        self._checking = loop.create_task(self._check_clients())

    def _new_connection(self) -> ClientConnection:
        if self._app is not None:
            return Http1Connection(self._app, self.clients, self._streams)
        if self._streams is None:
            raise RuntimeError("a port answers requests over HTTP/1.1, over HTTP/2, or both")
        return Http2Connection(self._streams, self.clients)

    def retire(self) -> None:
        """Keep serving, and ask clients with every further response (`Connection: close`) to connect again.

        So no connection is closed while a request on it is on its way.
        """
        self.clients.retiring = True

    def close(self) -> None:
        """Refuse connections, and take no further request; `stop` waits until open ones have finished."""
        if self._listener is None:
            self._socket.close()
            return
        self._listener.close()
        for connection in list(self.clients.connections):
            connection.shutdown()

    async def stop(self) -> None:
        """Let open responses finish, within `shutdown_timeout_s`; then cut them off."""
        self.close()
        clients = self.clients
        for _ in range(round(self._shutdown_timeout_s / _LOOK_EVERY_S)):
            if not clients.connections and not clients.tasks:
                break
            await asyncio.sleep(_LOOK_EVERY_S)
        if clients.tasks:
            logger.warning("%s: %d request(s) were still being answered and are cut off", self.url, len(clients.tasks))
            for task in clients.tasks:
                task.cancel()
            await asyncio.wait(clients.tasks, timeout=_CHECK_EVERY_S)
        if self._checking is not None:
            self._checking.cancel()
        for connection in [*clients.connections]:
            connection.transport.close()
        self._limits.close()

    async def _check_clients(self) -> None:
        checked_at, capacity = 0.0, self.clients.capacity
        while True:
            await asyncio.sleep(_HURRIED_S)
            now = asyncio.get_running_loop().time()
            if now - checked_at < _CHECK_EVERY_S and not capacity.bodies_wait:
                continue
            checked_at = now
            self._check_once(now)

    def _check_once(self, now: float) -> None:
        """In a call of its own, which holds no connection until the next one."""
        for connection in [*self.clients.connections, *self.clients.capacity.leaving]:
            try:
                connection.check(now)
            except Exception:  # one client ends no listener
                logger.exception("the connection of a client could not be checked, and is cut off")
                connection.abort()


def reachable(url: str) -> str:
    """`url`, with the loopback address in place of one that means every address of this machine."""
    return url.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")


def _bound(address: str, setting: str) -> socket.socket:
    """A socket that is bound to `address`. Raises ListenError."""
    host, port = split_address(address)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # asyncio sets TCP_NODELAY only on such
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        advice = f"; choose another address with {setting}" if setting else ""
        raise ListenError(error.errno, f"cannot listen on {address}: {error.strerror or error}{advice}") from error
    return listener


def _address_of(listener: socket.socket) -> str:
    """Its HOST:PORT."""
    host, port = listener.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
