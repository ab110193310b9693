"""Agents and clients that play scripts over real sockets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from types import TracebackType
from typing import Self

from a2a_tool_capture import URI

from .http1 import Http1Reader, Http1Sender
from .http2 import Http2Connection, Http2Sender
from .script import TOKEN, Break, Data, End, Exchange, Meeting, Side

_EXTENSIONS = frozenset({b"a2a-extensions", b"x-a2a-extensions"})
_CARD = b"GET /.well-known/"

Sender = Http1Sender | Http2Sender

RawFields = Sequence[tuple[bytes, bytes]]


@dataclass(frozen=True)
class ConnectionPlan:
    """A connection of a client. The exchanges of a batch are under way at once; over HTTP/1.1 they are pipelined."""

    protocol: str
    """`http/1.1` or `h2` (HTTP/2) with the data port, or `grpc`."""
    batches: tuple[tuple[Exchange, ...], ...]


def asks(fields: RawFields) -> bool:
    """Whether a request asks for tool calls."""
    return any(name.lower() in _EXTENSIONS and URI.encode() in value for name, value in fields)


async def perform(side: Side, meeting: Meeting, sender: Sender, *, requested: bool) -> None:
    """Take the steps of one side, each in its turn. `requested`: the client itself asks for tool calls."""
    sizes = dict.fromkeys(Side, 0)
    steps = meeting.exchange.steps
    for index, step in enumerate(steps):
        if step.by is side:
            sender.add(step)
        if step.by is side is Side.AGENT and all(isinstance(later, End) for later in steps[index + 1 :]):
            meeting.is_answered = True  # before it is sent: the proxy may be done with its connection at once
        if isinstance(step, Data):
            sizes[step.by] += len(step.variant(requested))
        if not step.seen and (step.by is side or not isinstance(step, End)):
            continue
        await sender.flush()
        ends = isinstance(step, Break)
        await meeting.until(lambda: meeting.has(step, sizes[step.by]) or (meeting.is_over and not ends))  # noqa: B023
    await sender.flush()


# ── the agent ───────────────────────────────────────────────────────────────────────────────────────────────


class Agent:
    """Plays the agent's side on one way: what reaches its two ports."""

    def __init__(self, dice: Random) -> None:
        self._dice = dice
        self.meetings: dict[bytes, Meeting] = {}
        self.strays: list[str] = []
        """Requests that no client sent, or that came again."""
        self.connections: set[asyncio.Transport] = set()

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._servers = [
            await loop.create_server(lambda: _Http1(self), "127.0.0.1", 0),
            await loop.create_server(self._http2, "127.0.0.1", 0),
        ]
        self.port, self.grpc_port = [server.sockets[0].getsockname()[1] for server in self._servers]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.hang_up()

    def hang_up(self) -> None:
        """End all connections, and take no more."""
        for server in self._servers:
            server.close()
        for transport in list(self.connections):
            transport.abort()

    def card(self) -> bytes:
        """Names both ports."""
        interfaces = [
            {"url": f"http://127.0.0.1:{self.port}/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
            {"url": f"127.0.0.1:{self.grpc_port}", "protocolBinding": "GRPC", "protocolVersion": "1.0"},
        ]
        capabilities = {"streaming": True, "extensions": [{"uri": URI}]}
        card = {"name": "fuzz", "capabilities": capabilities, "supportedInterfaces": interfaces}
        return json.dumps(card).encode()

    def expect(self, exchange: Exchange) -> Meeting:
        meeting = self.meetings[exchange.token] = Meeting(exchange)
        return meeting

    def arrived(self, start: bytes, fields: RawFields) -> Meeting | None:
        """Whose request this is; None where it must not have come."""
        token = next((value for name, value in fields if name.lower() == TOKEN), b"")
        meeting = self.meetings.get(token)
        if meeting is None or meeting.arrivals:
            self.strays.append(f"{'no client sent' if meeting is None else 'came again:'} {start!r} {fields!r}")
            return None
        meeting.arrivals += 1
        return meeting

    def _http2(self) -> Http2Connection:
        dice = Random(self._dice.random())
        return _Http2(self, dice, f"127.0.0.1:{self.grpc_port}".encode())


class _Http1(asyncio.Protocol):
    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._reader = Http1Reader(self._begin)
        self._playing: list[Meeting] = []
        self._turn = asyncio.Lock()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._agent.connections.add(transport)

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._agent.connections.discard(self._transport)
        self._reader.lost("closed")
        for meeting in self._playing:
            if not meeting.is_answered:
                meeting.seen[Side.AGENT].end = "cut"
                meeting.changed()

    def _begin(self, start: bytes, fields: list[tuple[bytes, bytes]]) -> tuple[Meeting, Side, bool] | None:
        if start.startswith(_CARD):
            card = self._agent.card()
            self._transport.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(card), card))
            return None
        meeting = self._agent.arrived(start, fields)
        if meeting is None:
            self._transport.abort()
            return None
        authority = f"127.0.0.1:{self._agent.port}".encode()
        exchange, asked = meeting.exchange, asks(fields)
        sender = Http1Sender(self._transport, exchange, Side.AGENT, authority, self._turn, asked=asked)
        before = self._playing[-1].agent if self._playing else None
        self._playing.append(meeting)
        meeting.agent = asyncio.get_running_loop().create_task(_play_after(before, meeting, sender))
        return meeting, Side.AGENT, True


async def _play_after(before: asyncio.Task[None] | None, meeting: Meeting, sender: Http1Sender) -> None:
    if before is not None:
        await before
    await perform(Side.AGENT, meeting, sender, requested=asks(meeting.exchange.head.fields))


class _Http2(Http2Connection):
    def __init__(self, agent: Agent, dice: Random, authority: bytes) -> None:
        super().__init__(Side.AGENT, authority, dice, self._begin)
        self._agent = agent

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._agent.connections.add(self.transport)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._agent.connections.discard(self.transport)

    def _begin(
        self, connection: Http2Connection, stream_id: int, start: bytes, fields: list[tuple[bytes, bytes]]
    ) -> Meeting | None:
        meeting = self._agent.arrived(start, fields)
        if meeting is None:
            self.h2.reset_stream(stream_id)
            return None
        sender = Http2Sender(self, stream_id, meeting.exchange, Side.AGENT, asked=asks(fields))
        playing = perform(Side.AGENT, meeting, sender, requested=asks(meeting.exchange.head.fields))
        meeting.agent = asyncio.get_running_loop().create_task(playing)
        return meeting


# ── clients ─────────────────────────────────────────────────────────────────────────────────────────────────


class _Client(asyncio.Protocol):
    """A connection of HTTP/1.1."""

    def __init__(self) -> None:
        self.reader = Http1Reader(self._begin)
        self.expected: list[Meeting] = []
        self.closing = False
        self.turn = asyncio.Lock()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.reader.feed(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.closing = True
        self.reader.lost("closed" if exc is None else "reset")
        for meeting in self.expected:
            meeting.seen[Side.CLIENT].end = "cut"
            meeting.changed()

    def _begin(self, start: bytes, fields: list[tuple[bytes, bytes]]) -> tuple[Meeting, Side, bool] | None:
        meeting = self.expected[0]
        if start.startswith(b"1"):
            meeting.seen[Side.CLIENT].interim.append(start)
            return None
        del self.expected[0]
        self.closing = self.closing or any(
            name.lower() == b"connection" and b"close" in value.lower() for name, value in fields
        )
        return meeting, Side.CLIENT, not meeting.exchange.head.start.startswith(b"HEAD ")


async def converse(plan: ConnectionPlan, agent: Agent, port: int, dice: Random, patience_s: float) -> list[str]:
    """Play a client's connection with whoever listens at `port`; returns what is wrong on this way alone."""
    authority = f"127.0.0.1:{port}".encode()
    wrong: list[str] = []
    connection: _Client | Http2Connection | None = None
    for batch in plan.batches:
        if connection is None or connection.transport.is_closing():
            connection = await _connected(plan.protocol, authority, port, dice)
        meetings = [agent.expect(exchange) for exchange in batch]
        playing = [asyncio.create_task(_play(connection, meeting, authority)) for meeting in meetings]
        if not await _finished(playing, meetings, patience_s):
            wrong += [f"hangs: {_progress(meeting)}" for meeting in meetings if meeting.is_open]
            break
        if isinstance(connection, _Client):
            if connection.reader.excess and not batch[-1].leaves:
                wrong.append(
                    f"{batch[-1].script()}\nbytes behind the last response: {connection.reader.excess[:200]!r}"
                )
            if connection.closing:
                connection.transport.abort()
        elif connection.is_going:
            connection.transport.abort()
    if connection is not None:
        connection.transport.abort()
    return wrong


async def _finished(playing: list[asyncio.Task[None]], meetings: list[Meeting], patience_s: float) -> bool:
    """Whether clients and agents came to an end; False where nothing has moved for `patience_s`."""
    moves = -1
    while any(meeting.is_open for meeting in meetings) or not all(task.done() for task in playing):
        if moves == (moves := sum(meeting.moves for meeting in meetings)):
            for task in playing:
                task.cancel()
            return False
        tasks = [*playing, *(meeting.agent for meeting in meetings if meeting.agent is not None)]
        unfinished = [task for task in tasks if not task.done()]
        if unfinished:
            await asyncio.wait(unfinished, timeout=patience_s)
    for task in (*playing, *(meeting.agent for meeting in meetings if meeting.agent is not None)):
        task.result()
    return True


async def _connected(protocol: str, authority: bytes, port: int, dice: Random) -> _Client | Http2Connection:
    loop = asyncio.get_running_loop()
    made = _Client if protocol == "http/1.1" else lambda: Http2Connection(Side.CLIENT, authority, Random(dice.random()))
    _, connection = await loop.create_connection(made, "127.0.0.1", port)
    return connection


async def _play(connection: _Client | Http2Connection, meeting: Meeting, authority: bytes) -> None:
    exchange = meeting.exchange
    sender: Sender
    if isinstance(connection, _Client):
        connection.expected.append(meeting)
        sender = Http1Sender(connection.transport, exchange, Side.CLIENT, authority, connection.turn)
    else:
        sender = Http2Sender(connection, connection.open(meeting), exchange, Side.CLIENT)
    await perform(Side.CLIENT, meeting, sender, requested=asks(exchange.head.fields))


def _progress(meeting: Meeting) -> str:
    seen = [f"{side} has {one.start!r}, {len(one.body)} bytes, end {one.end!r}" for side, one in meeting.seen.items()]
    return f"{meeting.exchange.script()}\n  {'; '.join(seen)}"
