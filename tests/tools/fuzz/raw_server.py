"""A server of HTTP/1.1 on loopback whose answers are bytes."""

from __future__ import annotations

import asyncio
import re
from types import TracebackType
from typing import Self


class RawServer:
    """Answers each request as `answer` says, as a context manager."""

    def __init__(self) -> None:
        self.url = ""
        self._writers: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.hang_up()

    def hang_up(self) -> None:
        """End all connections, and take no more."""
        self._server.close()
        for writer in list(self._writers):
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                length = re.search(r"(?i)\r\ncontent-length: *(\d+)", head)
                answer = await self.answer(head, await reader.readexactly(int(length[1]) if length else 0))
                writer.write(answer)
                if not answer.startswith(b"HTTP/1.1 ") or b"connection: close" in answer:
                    break
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # the proxy has left, or sends a body in chunks
        finally:
            self._writers.discard(writer)
            writer.close()

    async def answer(self, head: str, body: bytes) -> bytes:
        """A whole response; the connection ends behind one that says so, and behind what is no response."""
        raise NotImplementedError


def response(body: bytes, status: int = 200, *fields: str, media_type: str = "application/json") -> bytes:
    """A response with this body and these header fields."""
    lines = [f"HTTP/1.1 {status} Said", f"content-type: {media_type}", f"content-length: {len(body)}", *fields]
    return "\r\n".join([*lines, "", ""]).encode() + body
