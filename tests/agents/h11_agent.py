"""An agent that reads HTTP with h11: whatever the proxy puts on a connection, it is split into requests by the book."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

import h11
from agents.raw_server import RawServer

CARD_PATH = b"/.well-known/agent-card.json"
CARD = (
    '{"name":"h11","version":"1","protocolVersion":"1.0","capabilities":{},"skills":[],"supportedInterfaces":'
    '[{"url":"%s","protocolBinding":"JSONRPC","protocolVersion":"1.0"}]}'
)


@dataclass
class Request:
    """One request as h11 read it. `whole` is false where the connection ended inside its body."""

    method: bytes
    target: bytes
    headers: list[tuple[bytes, bytes]]
    connection: int
    body: bytes = b""
    whole: bool = False

    def header(self, name: bytes) -> list[bytes]:
        """All values of a header, by lower-case name."""
        return [value for key, value in self.headers if key == name]


@dataclass
class Wire:
    """A connection of the agent, for behaviours that do more than answer."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    http: h11.Connection
    number: int

    async def next_event(self) -> h11.Event | type[h11.PAUSED]:
        """The next thing that arrived. Raises h11.RemoteProtocolError, and ConnectionError at the end."""
        while (event := self.http.next_event()) is h11.NEED_DATA:
            self.http.receive_data(await self.reader.read(65_536))
        if event is h11.PAUSED or not isinstance(event, type):
            return event
        raise ConnectionResetError("the proxy has closed the connection")

    async def read_body(self, request: Request) -> None:
        """Read the body of a request to its end."""
        while True:
            event = await self.next_event()
            if isinstance(event, h11.Data):
                request.body += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                request.whole = True
                return

    def send(self, *events: h11.Event) -> None:
        """Write events."""
        for event in events:
            self.writer.write(self.http.send(event) or b"")

    def answer(self, body: bytes, status: int = 200, content_type: bytes = b"application/json") -> None:
        """A whole response."""
        fields = [(b"content-type", content_type), (b"content-length", b"%d" % len(body))]
        self.send(h11.Response(status_code=status, headers=fields), h11.Data(data=body), h11.EndOfMessage())


Behaviour = Callable[[Wire, Request], Awaitable[None]]


async def echo(wire: Wire, request: Request) -> None:
    """Answers with the target and the length of the body."""
    await wire.read_body(request)
    wire.answer(b"%s %d" % (request.target, len(request.body)), content_type=b"text/plain")


@dataclass
class H11Agent(RawServer):
    """`behave` answers all requests but those for the card."""

    behave: Behaviour = echo
    requests: list[Request] = field(default_factory=list)
    """As they came, without those for the card."""
    card_requests: list[Request] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    """What was no HTTP on a connection."""
    connections: int = 0

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        wire = Wire(reader, writer, h11.Connection(h11.SERVER), self.connections)
        try:
            with suppress(h11.LocalProtocolError):  # a behaviour broke off
                await self._one(wire)
                while h11.MUST_CLOSE not in (wire.http.our_state, wire.http.their_state):
                    wire.http.start_next_cycle()
                    await self._one(wire)
        except h11.RemoteProtocolError as error:
            self.errors.append(str(error))

    async def _one(self, wire: Wire) -> None:
        event = await wire.next_event()
        if not isinstance(event, h11.Request):
            raise ConnectionResetError("no request")
        request = Request(event.method, event.target, list(event.headers), wire.number)
        if request.target == CARD_PATH:
            self.card_requests.append(request)
            await wire.read_body(request)
            fields = [(b"cache-control", b"public, max-age=60"), (b"transfer-encoding", b"chunked")]
            card = h11.Data(data=(CARD % self.url).encode())
            wire.send(h11.Response(status_code=200, headers=fields), card, h11.EndOfMessage())
        else:
            self.requests.append(request)
            await self.behave(wire, request)
        await wire.writer.drain()
