"""HTTP/2 of both sides on h2: frames of any size, padded or not, as the windows of the peer allow."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random

import h2.events
from h2.exceptions import ProtocolError
from support.raw_http2 import unchecked_connection

from .http1 import cut
from .script import AUTHORITY, AnyStep, Break, Data, End, Exchange, Fields, Head, Interim, Meeting, Side

_CANCEL = 8
_OF_HTTP1 = frozenset(
    {
        b"connection",
        b"expect",
        b"host",
        b"http2-settings",
        b"keep-alive",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"upgrade",
    }
)

OnRequest = Callable[["Http2Connection", int, bytes, list[tuple[bytes, bytes]]], Meeting | None]


class Http2Connection(asyncio.Protocol):
    """One connection: streams are separated, and what arrives is noted in their meetings."""

    def __init__(self, side: Side, authority: bytes, dice: Random, on_request: OnRequest | None = None) -> None:
        """`side`: whose connection it is. `on_request`: of an agent."""
        self._side = side
        self.authority = authority
        self.dice = dice
        self._on_request = on_request
        self._meetings: dict[int, Meeting] = {}
        window = dice.choice((65_535, 65_535, 1 << 20, 4_000))
        settings = {4: window, 5: dice.choice((16_384, 16_384, 100_000))}  # INITIAL_WINDOW_SIZE, MAX_FRAME_SIZE
        is_client = side is Side.CLIENT
        self.h2 = unchecked_connection(client_side=is_client, settings=settings if is_client else None)
        if not is_client:  # a client may begin before it knows them
            self.h2.update_settings(settings)
        self._arrival = asyncio.Event()
        self.is_going = False
        """Whether no more streams may begin."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.write()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_going = True
        for meeting in self._meetings.values():
            if self._is_open(meeting):
                meeting.seen[self._side].end = "cut"
            meeting.changed()
        self._wake()

    def _is_open(self, meeting: Meeting) -> bool:
        """Whether the peer may still end the exchange early."""
        if self._side is Side.AGENT:
            return not meeting.is_answered and not meeting.seen[Side.AGENT].end.startswith("reset")
        return meeting.seen[Side.CLIENT].end == ""

    def data_received(self, data: bytes) -> None:
        for event in self.h2.receive_data(data):
            self._take(event)
        self.write()
        self._wake()

    def _take(self, event: h2.events.Event) -> None:
        match event:
            case h2.events.ConnectionTerminated():
                self.is_going = True
                return
            case h2.events.RequestReceived():
                self._take_request(event)
                return
        meeting = self._meetings.get(getattr(event, "stream_id", None) or 0)
        if isinstance(event, h2.events.DataReceived):
            self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        if meeting is None:
            return
        seen = meeting.seen[self._side]
        match event:
            case h2.events.ResponseReceived():
                (_, seen.start), *seen.fields = event.headers
            case h2.events.InformationalResponseReceived():
                seen.interim.append(event.headers[0][1])
            case h2.events.DataReceived():
                seen.body += event.data
            case h2.events.TrailersReceived():
                seen.trailers = [*event.headers]
            case h2.events.StreamEnded():
                seen.end = "whole"
            case h2.events.StreamReset() if self._is_open(meeting):
                seen.end = f"reset {int(event.error_code)}"
            case _:
                return
        meeting.changed()

    def _take_request(self, event: h2.events.RequestReceived) -> None:
        assert self._on_request is not None
        fields = [*event.headers]
        pseudo = dict(fields)
        start = b"%b %b" % (pseudo[b":method"], pseudo[b":path"])
        rest = [field for field in fields if field[0] not in (b":method", b":path")]
        meeting = self._on_request(self, event.stream_id, start, rest)
        if meeting is not None:
            self._meetings[event.stream_id] = meeting
            seen = meeting.seen[Side.AGENT]
            seen.start, seen.fields = start, rest
            meeting.changed()

    # ── sending ─────────────────────────────────────────────────────────────────────────────────────────

    def left(self, stream_id: int) -> None:
        """The own side has ended a stream."""
        if self._side is Side.CLIENT:
            self._meetings[stream_id].seen[Side.CLIENT].end = "left"

    def open(self, meeting: Meeting) -> int:
        """The stream of a new request."""
        stream_id = self.h2.get_next_available_stream_id()
        self._meetings[stream_id] = meeting
        return stream_id

    def write(self) -> None:
        """Send what h2 has to say."""
        if data := self.h2.data_to_send():
            self.transport.write(data)

    async def room(self, stream_id: int) -> int:
        """Bytes that the stream may send, once it may send any. Raises ProtocolError where it is over."""
        while (room := self.h2.local_flow_control_window(stream_id)) <= 0:
            if self.transport.is_closing():
                raise ProtocolError("the connection has ended")
            await self._arrival.wait()
        return min(room, self.h2.max_outbound_frame_size)

    def _wake(self) -> None:
        self._arrival.set()
        self._arrival = asyncio.Event()


class Http2Sender:
    """One side of one stream."""

    def __init__(
        self, connection: Http2Connection, stream_id: int, exchange: Exchange, side: Side, *, asked: bool = False
    ) -> None:
        self._connection = connection
        self._stream_id = stream_id
        self._exchange = exchange
        self._asked = asked
        self._dice = Random(exchange.token + side.encode())
        self._steps: list[AnyStep] = []

    def add(self, step: AnyStep) -> None:
        self._steps.append(step)

    async def flush(self) -> None:
        steps, self._steps = self._steps, []
        try:
            while steps:
                step = steps.pop(0)
                ends = bool(steps) and isinstance(steps[0], End) and not steps[0].trailers and self._dice.random() < 0.7
                if ends:
                    steps.pop(0)
                await self._send(step, ends=ends)
                self._connection.write()
        except ProtocolError:
            pass  # the peer has ended the stream: what it did instead is compared

    async def _send(self, step: AnyStep, *, ends: bool) -> None:
        h2, stream_id = self._connection.h2, self._stream_id
        match step:
            case Head():
                h2.send_headers(stream_id, self._head(step), end_stream=ends)
            case Interim():
                h2.send_headers(stream_id, [(b":status", step.status), *step.fields])
            case Data():
                await self._data(step.variant(self._asked), ends=ends)
            case End() if step.trailers:
                h2.send_headers(stream_id, self._own(step.trailers), end_stream=True)
            case End():
                h2.send_data(stream_id, b"", end_stream=True)
            case Break():
                h2.reset_stream(stream_id, step.code if step.code >= 0 else _CANCEL)
                self._connection.left(stream_id)

    def _head(self, head: Head) -> list[tuple[bytes, bytes]]:
        fields = head.asked if self._asked and head.asked is not None else head.fields
        if head.by is Side.AGENT:
            return [(b":status", head.start), *self._own(fields)]
        method, _, path = head.start.partition(b" ")
        if (b"host", AUTHORITY) in ((name.lower(), value) for name, value in fields):
            fields = self._as_http2(head, fields)
        pseudo = ((b":method", method), (b":scheme", b"http"), (b":path", path), (b":authority", AUTHORITY))
        return self._own((*pseudo, *fields))

    def _as_http2(self, head: Head, fields: Fields) -> Fields:
        """The fields of a request of HTTP/1.1, without those that concern its connection."""
        hops = {name.lower() for name, _ in fields if name.lower() in _OF_HTTP1}
        named = [value.lower().split(b",") for name, value in fields if name.lower() == b"connection"]
        hops |= {name.strip() for names in named for name in names} - {b"content-type", b"authorization"}
        length = ()
        if head.framing == b"content-length" and self._dice.random() < 0.7:
            length = ((b"content-length", b"%d" % len(self._exchange.body(Side.CLIENT))),)
        return (*((name.lower(), value) for name, value in fields if name.lower() not in hops), *length)

    def _own(self, fields: Fields) -> list[tuple[bytes, bytes]]:
        return [(name, value.replace(AUTHORITY, self._connection.authority)) for name, value in fields]

    async def _data(self, data: bytes, *, ends: bool) -> None:
        """In frames of any size, padded or not, as the peer's windows allow."""
        pieces = cut(self._dice, data, self._dice.choice((1, 1, 1, 2, 9)))
        for left in range(len(pieces) - 1, -1, -1):
            piece = pieces[~left]
            while piece:
                room = await self._connection.room(self._stream_id)
                padding = self._dice.choice((None, None, None, 0, 7, 255))
                if padding is not None and room <= padding + 1:
                    padding = None
                size = min(len(piece), room - (0 if padding is None else padding + 1))
                last = ends and left == 0 and size == len(piece)
                self._connection.h2.send_data(self._stream_id, piece[:size], end_stream=last, pad_length=padding)
                self._connection.write()
                if last:
                    return
                piece = piece[size:]
        if ends:
            self._connection.h2.send_data(self._stream_id, b"", end_stream=True)
