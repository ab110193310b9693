"""HTTP/1.1 of both sides: bytes that a script says, and what a side sees in bytes, whatever they are."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable, Generator
from random import Random

from .script import AUTHORITY, AnyStep, Break, Data, End, Exchange, Head, Interim, Meeting, Seen, Side

RESET = -2
"""Of `Break`: the connection is reset."""

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
_BODILESS = frozenset({b"204", b"304"})
_MANY_PIECES = 40

Begin = Callable[[bytes, list[tuple[bytes, bytes]]], tuple[Meeting, Side, bool] | None]
"""From start and fields to whose message it is, to which side, and whether it may have a body; None: of no exchange."""


class Http1Reader:
    """The messages of one direction, one after the other. It judges nothing: `script.Seen` is compared."""

    def __init__(self, begin: Begin) -> None:
        self._begin = begin
        self._buffer = bytearray()
        self._target: tuple[Meeting, Seen] | None = None
        """Whose message is being read."""
        self._until_close = False
        self._parsing = self._parse()
        next(self._parsing)

    @property
    def excess(self) -> bytes:
        """What came behind the messages."""
        return bytes(self._buffer)

    def feed(self, data: bytes) -> None:
        self._buffer += data
        self._parsing.send(None)

    def lost(self, end: str) -> None:
        """The connection has ended."""
        if self._target is not None and self._target[0].exchange.leaves:
            self._ended("left")
        elif self._target is not None:
            self._ended("whole" if self._until_close and end == "closed" else "cut")

    def _ended(self, end: str) -> None:
        assert self._target is not None
        meeting, seen = self._target
        self._target = None
        seen.end = end
        meeting.changed()

    def _parse(self) -> Generator[None]:
        while True:
            head = yield from self._through(b"\r\n\r\n")
            line, *lines = head[:-4].split(b"\r\n")
            fields = [_field(one) for one in lines]
            start = line.split(b" ")[1] if line.startswith(b"HTTP/") else line.rpartition(b" ")[0]
            found = self._begin(start, fields)
            if found is None:
                continue  # an interim response, or a request that the agent answers for itself
            meeting, side, has_body = found
            seen = meeting.seen[side]
            self._target = meeting, seen
            seen.start, seen.fields = start, fields
            meeting.changed()
            named = {name.lower(): value for name, value in fields}
            if not has_body or start in _BODILESS:
                pass
            elif named.get(b"transfer-encoding") == b"chunked":
                while size := int((yield from self._through(b"\r\n")).split(b";")[0], 16):
                    yield from self._body(size)
                    yield from self._through(b"\r\n")
                while line := (yield from self._through(b"\r\n"))[:-2]:
                    seen.trailers.append(_field(line))
            elif b"content-length" in named:
                yield from self._body(int(named[b"content-length"]))
            elif side is Side.CLIENT:
                self._until_close = True
                yield from self._body(1 << 60)
            self._ended("whole")

    def _through(self, end: bytes) -> Generator[None, None, bytes]:
        while (at := self._buffer.find(end)) < 0:
            yield
        taken = bytes(self._buffer[: at + len(end)])
        del self._buffer[: at + len(end)]
        return taken

    def _body(self, size: int) -> Generator[None]:
        assert self._target is not None
        meeting, seen = self._target
        while size:
            while not self._buffer:
                yield
            piece = self._buffer[:size]
            del self._buffer[:size]
            size -= len(piece)
            seen.body += piece
            meeting.changed()


def _field(line: bytes) -> tuple[bytes, bytes]:
    name, _, value = line.partition(b":")
    return name, value.strip(b" \t")


class Http1Sender:
    """Writes one side of one exchange. Chunks and pieces are cut by the exchange's own dice."""

    def __init__(
        self,
        transport: asyncio.Transport,
        exchange: Exchange,
        side: Side,
        authority: bytes,
        turn: asyncio.Lock,
        *,
        asked: bool = False,
    ) -> None:
        """`turn`: of those that write on the connection."""
        self._transport = transport
        self._turn = turn
        self._exchange = exchange
        self._side = side
        self._authority = authority
        self._asked = asked
        self._dice = Random(exchange.token + side.encode())
        self._in_pieces = self._dice.random() < 0.3
        self._framing = b""
        self._closes = False
        self._out = bytearray()
        self._over: Break | None = None

    def add(self, step: AnyStep) -> None:
        match step:
            case Head():
                self._out += self._head(step)
            case Interim():
                self._out += b"HTTP/1.1 %b Interim\r\n%b\r\n" % (step.status, self._lines(step.fields))
            case Data():
                self._out += self._data(step.variant(self._asked))
            case End():
                if self._framing == b"transfer-encoding":
                    self._out += b"0\r\n%b\r\n" % self._lines(step.trailers)
                if self._closes:
                    self._over = Break(by=self._side)
            case Break():
                self._over = step

    async def flush(self) -> None:
        pieces = self._pieces(bytes(self._out))
        self._out.clear()
        async with self._turn:
            for piece in pieces:
                if self._transport.is_closing():
                    return
                self._transport.write(piece)
                if self._in_pieces:
                    await asyncio.sleep(0)
        if self._over is not None:
            if self._over.code == RESET:
                reset(self._transport)
            else:
                self._transport.close()
            self._over = None

    def _head(self, head: Head) -> bytes:
        fields = head.asked if self._asked and head.asked is not None else head.fields
        self._framing = head.framing
        if head.by is Side.CLIENT:
            line = b"%b HTTP/1.1" % head.start
        else:
            line = b"HTTP/1.1 %b Said" % head.start
            closing = any(name.lower() == b"connection" and b"close" in value for name, value in fields)
            self._closes = head.framing == b"close" or closing
        if head.framing == b"content-length":
            size = len(self._exchange.body(self._side, asked=self._asked))
            size += self._side is Side.AGENT and self._exchange.breaks  # there is more to come
            fields = (*fields, (b"Content-Length", b"%d" % size))
        elif head.framing == b"transfer-encoding":
            fields = (*fields, (b"Transfer-Encoding", b"chunked"))
        return line + b"\r\n" + self._lines(fields) + b"\r\n"

    def _lines(self, fields: tuple[tuple[bytes, bytes], ...]) -> bytes:
        return b"".join(b"%b: %b\r\n" % (name, value.replace(AUTHORITY, self._authority)) for name, value in fields)

    def _data(self, data: bytes) -> bytes:
        if self._framing != b"transfer-encoding":
            return data
        chunks = []
        for piece in cut(self._dice, data, self._dice.choice((1, 1, 2, 5))):
            extension = self._dice.choice((b"", b"", b"", b";a", b';a=1;b="c;\\"d"'))
            size = self._dice.choice((b"%x", b"%X", b"%04x")) % len(piece)
            chunks.append(b"%b%b\r\n%b\r\n" % (size, extension, piece))
        return b"".join(chunks)

    def _pieces(self, data: bytes) -> list[bytes]:
        if not self._in_pieces:
            return [data] if data else []
        count = len(data) if len(data) < _MANY_PIECES else self._dice.choice((2, 3, 7))
        return cut(self._dice, data, count)


def cut(dice: Random, data: bytes, count: int) -> list[bytes]:
    """Up to `count` pieces that together are `data`, none of them empty."""
    if not data:
        return []
    inner = sorted(dice.sample(range(1, len(data)), min(count - 1, len(data) - 1)))
    return [data[start:end] for start, end in zip([0, *inner], [*inner, len(data)], strict=True)]


def reset(transport: asyncio.Transport) -> None:
    """End a connection with RST."""
    transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    transport.abort()
