"""A raw HTTP/1.1 server that answers with prepared bytes, and keeps the bytes it received.

Real SDK servers show that agents work through the proxy; this one shows that not a byte changes on the way.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agents.raw_server import RawServer
from support.patience import PATIENCE_S

CARD_PATH = b"/.well-known/agent-card.json"


@dataclass(frozen=True)
class Received:
    """One request as it came in. `body` is without chunk framing."""

    head: bytes
    body: bytes

    @property
    def request_line(self) -> str:
        return self.head.split(b"\r\n")[0].decode("latin-1")

    @property
    def headers(self) -> list[tuple[str, str]]:
        """Names in lower case, in the order received."""
        lines = self.head.decode("latin-1").split("\r\n")[1:]
        pairs = (line.split(":", 1) for line in lines if line)
        return [(name.strip().lower(), value.strip()) for name, value in pairs]


@dataclass(frozen=True)
class Answer:
    """Bytes to write, piece by piece. `cut` closes the connection afterwards, even in the middle of a response.

    With `paced`, each piece after the first waits for `ReplayAgent.release`.
    """

    pieces: Sequence[bytes]
    cut: bool = False
    paced: bool = False


class ReplayAgent(RawServer):
    """Answers card requests with `card`, everything else with `answer`."""

    def __init__(self) -> None:
        self.card = Answer([_plain(b"{}", b"application/json")])
        self.prepare(Answer([_plain(b"nothing prepared", b"text/plain")]))

    def prepare(self, answer: Answer) -> None:
        """Sets the answer to the next requests and forgets what was received."""
        self.answer = answer
        self._received: list[Received] = []
        self._released = asyncio.Semaphore(0)

    def release(self) -> None:
        """Lets a paced answer write its next piece."""
        self.loop.call_soon_threadsafe(self._released.release)

    @property
    def received(self) -> list[Received]:
        """Requests since `prepare`, without those for the card (the proxy fetches it on its own account)."""
        return [request for request in self._received if CARD_PATH not in request.head.split(b"\r\n")[0]]

    @property
    def card_request(self) -> Received:
        """The last request for the card."""
        return [request for request in self._received if CARD_PATH in request.head.split(b"\r\n")[0]][-1]

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            self._received.append(Received(head.removesuffix(b"\r\n\r\n"), await _body(reader, head.lower())))
            answer = self.card if CARD_PATH in head.split(b"\r\n")[0] else self.answer
            for number, piece in enumerate(answer.pieces):
                if answer.paced and number:
                    await asyncio.wait_for(self._released.acquire(), PATIENCE_S)
                writer.write(piece)
                await writer.drain()
            if answer.cut:
                return


async def _body(reader: asyncio.StreamReader, head: bytes) -> bytes:
    fields = dict(line.split(b":", 1) for line in head.split(b"\r\n")[1:] if b":" in line)
    if b"chunked" not in fields.get(b"transfer-encoding", b""):
        return await reader.readexactly(int(fields.get(b"content-length", b"0")))
    body = b""
    while size := int((await reader.readline()).split(b";")[0] or b"0", 16):
        body += await reader.readexactly(size)
        await reader.readline()
    await reader.readline()
    return body


def json_answer(value: Any) -> Answer:
    return Answer([_plain(json.dumps(value).encode(), b"application/json")])


def _plain(body: bytes, kind: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n%b" % (kind, len(body), body)
