"""HTTP/2 to the agent: streams on shared connections, whose number follows what the agent accepts on each."""

from __future__ import annotations

import asyncio
import ssl

from ..settings.parsing import split_address
from .http2_connection import Http2Side
from .http2_gate import Http2Error
from .http2_streams import Fields, Http2Stream, Http2Streams
from .http_client import UpstreamCutError, UpstreamTimeoutError, UpstreamUnreachableError, refusal

_ENDED = "the connection to the agent ended"


class _SharedConnection(Http2Side):
    """One connection to the agent."""

    def __init__(self, max_header_bytes: int) -> None:
        self.loop = asyncio.get_running_loop()
        self.streams = Http2Streams(is_client=True, max_header_bytes=max_header_bytes, on_output=self.schedule)
        self.ready: asyncio.Future[None] = self.loop.create_future()
        """Done once the agent has said what it accepts."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.schedule()

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        try:
            self.feed(data)
        except Http2Error as error:
            self._end(f"the agent's HTTP/2 cannot be read: {error}")
            self.flush()
            self.close()
            return
        if not self.ready.done() and self.streams.is_ready:
            self.ready.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(f"{_ENDED}: {exc}" if exc else _ENDED)

    def _end(self, reason: str) -> None:
        self.streams.end(reason)
        if not self.ready.done():
            self.ready.set_exception(UpstreamCutError(reason))
            self.ready.exception()  # it may have no reader

    def accepts(self) -> bool:
        """Whether another stream may be opened here."""
        return not self.streams.is_going and not self.streams.is_full()


class Http2Client:
    """Connections to one agent at a time. All methods belong to the event loop it is used in."""

    def __init__(self, *, connect_timeout_s: float, max_header_bytes: int) -> None:
        self._connect_timeout_s = connect_timeout_s
        self._max_header_bytes = max_header_bytes
        self._connections: list[_SharedConnection] = []
        self._origin: tuple[str, ssl.SSLContext | None] = "", None
        self._connecting: asyncio.Task[_SharedConnection] | None = None

    async def open(self, address: str, tls: ssl.SSLContext | None, fields: Fields, *, end: bool) -> Http2Stream:
        """Begin a request at HOST:PORT. Requests to an earlier address, or with earlier certificates, continue.

        Raises UpstreamError. A request is sent at most once.
        """
        if (address, tls) != self._origin:
            self.close()
            self._origin = address, tls
        connection = next((one for one in self._connections if one.accepts()), None)
        while connection is None or not connection.accepts():
            connection = await self._connected()
            if connection.streams.is_full() and not connection.streams.streams:
                raise UpstreamUnreachableError("it accepts no requests (SETTINGS_MAX_CONCURRENT_STREAMS is 0)")
        try:
            return connection.streams.open(fields, end=end)
        except Http2Error as error:
            raise UpstreamUnreachableError(str(error)) from None

    def close(self) -> None:
        """Open no further stream on the present connections."""
        self._connecting = None
        connections, self._connections = self._connections, []
        for connection in connections:
            connection.streams.go_away()  # which closes it once no stream is left

    async def _connected(self) -> _SharedConnection:
        """A new connection; those who wait for one at the same time share it."""
        connecting = self._connecting
        if connecting is None or connecting.done():
            connecting = self._connecting = asyncio.get_running_loop().create_task(self._connect(*self._origin))
            connecting.add_done_callback(lambda done: done.cancelled() or done.exception())  # it may have no reader
        return await asyncio.shield(connecting)

    async def _connect(self, address: str, tls: ssl.SSLContext | None) -> _SharedConnection:
        host, port = split_address(address)
        connection = _SharedConnection(self._max_header_bytes)
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                await asyncio.get_running_loop().create_connection(
                    lambda: connection, host, port, ssl=tls, server_hostname=host if tls else None
                )
                await connection.ready
        except TimeoutError:
            if hasattr(connection, "transport"):
                connection.transport.abort()
            raise UpstreamTimeoutError(f"no connection within {self._connect_timeout_s:g} s") from None
        except OSError as error:
            raise UpstreamUnreachableError(refusal(error)) from error
        if self._origin == (address, tls):
            self._connections = [one for one in self._connections if not one.streams.is_going]
            self._connections.append(connection)
        return connection
