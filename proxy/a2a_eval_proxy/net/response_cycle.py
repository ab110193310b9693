"""How a response is written: uvicorn's cycle of request and response, with a shorter way for the usual messages."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

WHOLE_RESPONSE = "http.response.whole"
"""An ASGI message of our server: status, headers that frame the body (if the response has one), and the whole body."""


class ResponseCycle(RequestResponseCycle):
    """Writes a whole response, or a piece of a chunked body, at once. Uvicorn writes all others."""

    async def send(self, message: MutableMapping[str, Any]) -> None:  # type: ignore[override]  # it has one kind more
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        kind = message["type"]
        if kind == WHOLE_RESPONSE:
            if not self.disconnected:
                self._send_whole(message["status"], message["headers"], message["body"])
        elif kind == "http.response.body" and self.chunked_encoding and message.get("more_body"):
            if message["body"] and not self.disconnected and self.scope["method"] != "HEAD":
                self.transport.write(b"%x\r\n%b\r\n" % (len(message["body"]), message["body"]))
        else:
            await super().send(message)  # type: ignore[arg-type]  # one of uvicorn's

    def _send_whole(self, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
        lines = [name + b": " + value + b"\r\n" for name, value in [*self.default_headers, *headers]]
        if self.default_headers and (b"connection", b"close") in self.default_headers:
            self.keep_alive = False
        elif not self.keep_alive:
            lines.append(b"connection: close\r\n")
        head = b"".join(lines)
        if head.count(b"\n") != len(lines) or head.count(b"\r") != len(lines) or b"\0" in head:
            raise RuntimeError("a header of the response holds a line break or a NUL")
        self.response_started = self.response_complete = True
        self.waiting_for_100_continue = False
        content = b"" if self.scope["method"] == "HEAD" else body
        self.transport.write_whole(STATUS_LINE[status] + head + b"\r\n" + content)  # type: ignore[attr-defined]  # ours
        self.message_event.set()
        if not self.keep_alive:
            self.transport.close()
        self.on_response()


class OldResponseCycle(ResponseCycle):
    """A request of HTTP/1.0: where its response has no length, the close ends the body (RFC 9112, section 6.1)."""

    _until_close = False

    async def send(self, message: MutableMapping[str, Any]) -> None:  # type: ignore[override]  # as above
        if message["type"] == "http.response.start":
            self._until_close = all(name.lower() != b"content-length" for name, _ in message.get("headers", ()))
            if self._until_close:
                self.chunked_encoding = False
                self.transport.close_ends_body = True  # type: ignore[attr-defined]  # ours
        elif message["type"] == "http.response.body" and self._until_close:
            self.expected_content_length = len(message.get("body", b""))  # no length to compare with
            self.transport.close_ends_body = message.get("more_body", False)  # type: ignore[attr-defined]
        await super().send(message)
