"""Uvicorn's HTTP/1.1: header and beginning of a response in one packet, and header fields of requests bounded."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: text/plain; charset=utf-8\r\n"
    b"content-length: 42\r\nconnection: close\r\n\r\nThe request's header fields are too large."
)


class BoundedProtocol(HttpToolsProtocol):
    """Uvicorn's protocol with two changes.

    Uvicorn writes header and body apart: two system calls and two packets for what the agent sent as one. Joining
    them saves a tenth of what a request costs (tests/bench), and a client sees what it would see directly.

    Its parser keeps whatever comes before the end of a header or trailer section, without limit: ten times its size
    in memory, from anybody who can connect. Here `max_unread_bytes` is the most that may come without completing a
    header section or carrying body; more is answered with 431.
    """

    def __init__(self, *arguments: Any, max_unread_bytes: int, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._max_unread_bytes = max_unread_bytes
        self._unread = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(_Joining(transport, self.loop))  # type: ignore[arg-type]  # it is one, but in name

    def data_received(self, data: bytes) -> None:
        self._unread += len(data)
        super().data_received(data)
        if self._unread > self._max_unread_bytes and not self.transport.is_closing():
            if self.cycle is None or self.cycle.response_complete:
                self.transport.write(_TOO_LARGE)
            self.transport.close()

    def on_headers_complete(self) -> None:
        self._unread = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._unread = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._unread = 0
        super().on_message_complete()


class _Joining:
    """A transport that keeps a response's header back until the next piece, at most to the end of this loop turn."""

    __slots__ = ("_head", "_loop", "_transport", "_write")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._write = transport.write
        self._loop = loop
        self._head = b""

    def write(self, data: bytes) -> None:
        if self._head:
            data, self._head = self._head + data, b""
        elif data.startswith(b"HTTP/1.1 "):
            self._head = data
            self._loop.call_soon(self._flush)
            return
        self._write(data)

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._head:
            head, self._head = self._head, b""
            self._write(head)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)
