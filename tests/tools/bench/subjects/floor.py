"""The least that a proxy in this language costs: uvicorn, a raw ASGI application, and a raw client on httptools.

Run as `python floor.py PORT UPSTREAM_URL`. It decodes the body of each request, of each response and of each event,
as any proxy must that reads A2A, and does nothing with them.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import urlsplit

import httptools
import orjson
import uvicorn

Message = MutableMapping[str, Any]
HOP_BY_HOP = {b"connection", b"keep-alive", b"te", b"trailer", b"transfer-encoding", b"upgrade"}  # RFC 9110, 7.6.1


class Connection(asyncio.Protocol):
    """A kept connection to the agent; one request at a time."""

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._received: list[bytes] = []
        self.headers: list[tuple[bytes, bytes]] = []
        self.headers_complete = self.complete = self.lost = False

    async def request(self, content: bytes) -> int:
        """Send a request; returns the status once the header of the response has arrived."""
        self.headers, self.headers_complete, self.complete = [], False, False
        assert self._transport is not None
        self._transport.write(content)
        while not self.headers_complete:
            await self._more()
        status: int = self._parser.get_status_code()
        return status

    async def read(self) -> bytes:
        """What has arrived of the body; b"" at its end."""
        while not self._received and not self.complete:
            await self._more()
        data = self._received[0] if len(self._received) == 1 else b"".join(self._received)
        self._received.clear()
        return data

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    async def _more(self) -> None:
        if self.lost:
            raise ConnectionResetError("the agent closed the connection")
        self._waiter = asyncio.get_running_loop().create_future()
        await self._waiter

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # create_connection makes a Transport

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        self._wake()

    # httptools

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        self.headers_complete = True

    def on_body(self, data: bytes) -> None:
        self._received.append(data)

    def on_message_complete(self) -> None:
        self.complete = True


class Floor:
    """The ASGI application, in front of the agent at `upstream`."""

    def __init__(self, upstream: str) -> None:
        self._agent = urlsplit(upstream)
        self._idle: list[Connection] = []

    async def __call__(
        self,
        scope: Message,
        receive: Callable[[], Awaitable[Message]],
        send: Callable[[Message], Awaitable[None]],
    ) -> None:
        body = b""
        more = True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        if body:
            orjson.loads(body)
        connection = self._idle.pop() if self._idle else await self._connect()
        try:
            status = await connection.request(_head(scope) + body)
            headers = [item for item in connection.headers if item[0] not in HOP_BY_HOP]
            await send({"type": "http.response.start", "status": status, "headers": headers})
            relay = _relay_events if (b"content-type", b"text/event-stream") in _media(headers) else _relay_whole
            await relay(connection, send)
        except BaseException:
            connection.close()
            raise
        if not connection.lost:
            self._idle.append(connection)

    async def _connect(self) -> Connection:
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(Connection, self._agent.hostname, self._agent.port)
        return connection


def _head(scope: Message) -> bytes:
    lines = [b"%b %b HTTP/1.1" % (scope["method"].encode(), scope["raw_path"])]
    lines += [b"%b: %b" % item for item in scope["headers"] if item[0] not in HOP_BY_HOP]
    return b"\r\n".join(lines) + b"\r\n\r\n"


def _media(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    return [(name, value.partition(b";")[0]) for name, value in headers if name == b"content-type"]


async def _relay_whole(connection: Connection, send: Callable[[Message], Awaitable[None]]) -> None:
    body = await connection.read()
    while not connection.complete:
        body += await connection.read()
    if body:
        orjson.loads(body)
    await send({"type": "http.response.body", "body": body})


async def _relay_events(connection: Connection, send: Callable[[Message], Awaitable[None]]) -> None:
    rest = b""
    while data := await connection.read():
        await send({"type": "http.response.body", "body": data, "more_body": True})
        *events, rest = (rest + data).split(b"\r\n\r\n")
        for event in events:
            orjson.loads(event.removeprefix(b"data: "))
    await send({"type": "http.response.body", "body": b""})


if __name__ == "__main__":
    uvicorn.run(
        Floor(sys.argv[2]),
        host="127.0.0.1",
        port=int(sys.argv[1]),
        http="httptools",
        loop="uvloop",
        lifespan="off",
        access_log=False,
        log_level="error",
        server_header=False,
        date_header=False,
    )
