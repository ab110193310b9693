"""HTTP/2 as streams, on h2, for either side: what arrives, and what waits for the peer's windows. Sans-io.

A stream hands out what arrives as `Headers`, `Data` and `Reset`. Received bytes are acknowledged when their reader says
that they are gone (`Http2Stream.taken`); until then the peer may send no more than `WINDOW_BYTES` of that stream.
h2 checks no fields, because it would end the connection for them: they are the business of who reads them.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import deque
from collections.abc import Callable
from itertools import chain
from typing import NamedTuple

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    DataReceived,
    RemoteSettingsChanged,
    RequestReceived,
    ResponseReceived,
    StreamReset,
    TrailersReceived,
    WindowUpdated,
)
from h2.events import (
    Event as H2Event,
)
from h2.exceptions import NoAvailableStreamIDError, ProtocolError
from h2.settings import SettingCodes, Settings
from hpack import NeverIndexedHeaderTuple
from hyperframe.exceptions import HyperframeError
from hyperframe.frame import GoAwayFrame, SettingsFrame

from . import http2_gate as gate
from .http2_gate import FrameGate, Http2Error

logging.getLogger("hpack").setLevel(logging.WARNING)  # it logs header fields, with credentials

Fields = list[tuple[bytes, bytes]]
"""Header fields in their order, pseudo-headers first."""

WINDOW_BYTES = 65_535
"""How much of a stream may be on its way, or wait here: the initial window of the protocol."""

MAX_STREAMS = 250
"""Streams that a client may have open on a connection."""

_ALL_STREAMS_BYTES = 2**30
"""The window of a connection: streams are held back each by their own, so that none waits for another's reader."""

_LAST_STREAM = 2**31 - 1

_MAX_QUEUED = 256 * 1024
"""Bytes of bodies in one piece of output: what waits beyond belongs to its stream, and shows whether its peer reads."""

_FOLLOWED: dict[int, int] = {
    SettingCodes.ENABLE_PUSH: 2**32,
    SettingCodes.HEADER_TABLE_SIZE: 4096,  # of the table of HPACK that is kept for a peer
    SettingCodes.INITIAL_WINDOW_SIZE: 2**32,
    SettingCodes.MAX_CONCURRENT_STREAMS: 2**32,
    SettingCodes.MAX_FRAME_SIZE: 2**32,
}
"""The settings of a peer that are followed, up to these values."""

_NAMES = re.compile(rb"(?:(?::[^\n]*|[!#$%&'*+\-.^_`|~0-9a-z]+)\n)*")
"""Of fields, or of anything that is to be a pseudo-header, one on each line."""

_SECRETS = re.compile(rb"(?<!:)auth|cookie|key|secret|token")
"""In names of fields that no table of HPACK is to hold: the size of what is sent would say what others have in it."""

_NO_VALUE = re.compile(rb"[\0\r\n]")


class Headers(NamedTuple):
    """A header section: the head, or after it the trailers, of a request or response. `ended`: nothing follows."""

    fields: Fields
    ended: bool


class Data(NamedTuple):
    """Part of a body. `size` is what it takes of the window, with padding; `ended`: nothing follows."""

    content: bytes
    size: int
    ended: bool


class Reset(NamedTuple):
    """The stream has ended early: by this error code of the peer, or (`reason`) with its connection."""

    code: int
    reason: str = ""
    ended: bool = True


Event = Headers | Data | Reset


class Http2Stream:
    """A request and its response, on one side of one connection. What is sent after its end is ignored.

    Its events and its progress can be awaited, each by one task.
    """

    __slots__ = (
        "_arrival",
        "_checked",
        "_connection",
        "_progress",
        "_untold",
        "arrived",
        "has_begun",
        "has_ended",
        "held",
        "id",
        "is_over",
        "last",
        "missing",
        "on_reset",
        "on_silent",
        "on_unread",
        "peer_has_ended",
        "sent",
        "unsent",
    )

    def __init__(self, connection: Http2Streams, stream_id: int) -> None:
        self._connection = connection
        self.id = stream_id
        self.arrived: deque[Event] = deque()
        """What has arrived and was not taken out yet; the stream's owner takes it from the left."""
        self.unsent = bytearray()
        """What waits for the peer's windows."""
        self.last: Fields | None = None
        """What follows that, and ends the stream: trailers, or an empty list."""
        self.sent = 0
        """Bytes that its windows have let through."""
        self.is_over = False
        """Whether both sides have sent all, it was reset, by either side, or its connection has ended."""
        self.has_begun = False
        """Whether this side has sent the head."""
        self.has_ended = self.peer_has_ended = False
        """Whether this side, or the peer, has sent all."""
        self.missing = 0
        """How many bytes of a request of a known length have not arrived."""
        self.held = 0
        """Bytes that have arrived and whose reader has not said that they are gone."""
        self._untold = 0
        self._arrival: asyncio.Future[None] | None = None
        self._progress: asyncio.Future[None] | None = None
        self._checked: tuple[object, float] = None, 0.0
        self.on_reset: Callable[[], object] | None = None
        """Called when the peer, or the end of the connection, ends the stream early."""
        self.on_unread: Callable[[], None] | None = None
        """Called when the peer has read nothing for too long."""
        self.on_silent: Callable[[], None] | None = None
        """Called when the peer has sent nothing for too long, while it is waited for."""

    @property
    def is_read(self) -> bool:
        """Whether all that the peer sends was taken out."""
        return (self.peer_has_ended or self.is_over) and not self.arrived

    async def next(self) -> Event:
        """What arrives next. Nothing follows an event that says `ended`, nor `Reset`."""
        while not self.arrived:
            self._arrival = asyncio.get_running_loop().create_future()
            await self._arrival
        return self.arrived.popleft()

    async def drained(self) -> None:
        """Wait until all that was sent has gone through the peer's windows, or never will."""
        while self.unsent:
            self._progress = asyncio.get_running_loop().create_future()
            await self._progress

    def send_headers(self, fields: Fields, *, end: bool) -> None:
        """Send a header section: the head, or trailers, which follow what waits."""
        if self.unsent:
            self.last = fields
        elif not (self.is_over or self.has_ended):
            self._connection.write_headers(self, fields, end=end)

    def send_data(self, content: bytes, *, end: bool = False) -> None:
        """Send part of a body, as far as the peer's windows let it; the rest waits."""
        if self.is_over or self.has_ended:
            return
        if end:
            self.last = []
        self.unsent += content
        self._connection.pump(self)

    def reset(self, code: int) -> None:
        """End it in both directions, unless it has ended."""
        if not self.is_over:
            self._connection.reset(self, code)

    def taken(self, size: int) -> None:
        """`size` bytes that arrived are not held any more: the peer may send as many."""
        self.held -= size
        self._untold += size
        if self._untold >= WINDOW_BYTES // 4 and not (self.is_over or self.peer_has_ended):
            self._connection.open_window(self, self._untold)
            self._untold = 0

    def drop_unsent(self) -> None:
        """Forget what waits to be sent."""
        self.unsent.clear()
        self.last = None
        self.progressed()

    def idle_s(self, now: float) -> float:
        """For how long the peer has read nothing of what waits, or else sent nothing of what is waited for: as far as
        was looked, at `now` and before."""
        awaited = None if self._arrival is None or self._arrival.done() else self._arrival
        how_far: object = self.sent if self.unsent else awaited
        if how_far is None or how_far != self._checked[0]:
            self._checked = how_far, now
        return now - self._checked[1]

    # ── for the connection ──────────────────────────────────────────────────────────────────────────────

    def received(self, event: Event) -> None:
        """Something has arrived."""
        self.arrived.append(event)
        if self._arrival is not None and not self._arrival.done():
            self._arrival.set_result(None)
        if type(event) is Reset and self.on_reset is not None:
            self.on_reset()

    def progressed(self) -> None:
        """Waiting bytes were sent, or never will be."""
        if self._progress is not None and not self._progress.done():
            self._progress.set_result(None)


class _Connection(H2Connection):
    MAX_CLOSED_STREAMS = 1024  # remembered of each connection, for what comes late: h2's own number takes megabytes


class Http2Streams:
    """One connection. What it has to send is in `output`; that may be more after any call, also on a stream.

    h2 does not see the GOAWAY of either side: it would take and send nothing afterwards, but open streams continue.
    """

    def __init__(self, *, is_client: bool, max_header_bytes: int, on_output: Callable[[], None]) -> None:
        """`on_output` is called when there may be something in `output`, and once more when the peer is going."""
        self._is_client = is_client
        self._on_output = on_output
        self.gate = FrameGate(b"" if is_client else gate.PREFACE, max_header_bytes)
        """What has arrived, as far as `feed` has not read it."""
        self._goaway = b""
        self._queued = 0
        self._is_cut_off = False
        self._untold = 0
        self._is_retired = False
        self.streams: dict[int, Http2Stream] = {}
        """Those that are open, by their ids."""
        self.opened: list[Http2Stream] = []
        """Those that the peer has opened since this list was emptied."""
        self.is_paused = False
        """Whether no bodies are sent: the connection's own buffer is full."""
        self.is_ready = False
        """Whether the peer has said what it accepts."""
        self.is_going = False
        """Whether no further stream may be opened."""
        self._h2 = h2 = _Connection(
            H2Configuration(
                client_side=is_client,
                validate_inbound_headers=False,
                normalize_inbound_headers=False,
                validate_outbound_headers=False,
                normalize_outbound_headers=False,
            )
        )
        settings = {SettingCodes.MAX_HEADER_LIST_SIZE: max_header_bytes}
        settings |= {SettingCodes.ENABLE_PUSH: 0} if is_client else {SettingCodes.MAX_CONCURRENT_STREAMS: MAX_STREAMS}
        h2.local_settings = Settings(client=is_client, initial_values=settings)
        h2.decoder.max_header_list_size = gate.max_section_bytes(max_header_bytes)
        h2.initiate_connection()
        h2.increment_flow_control_window(_ALL_STREAMS_BYTES - WINDOW_BYTES)
        if not is_client:
            h2.receive_data(gate.PREFACE)  # the gate has seen to it

    def output(self) -> bytes:
        """What is to be sent to the peer; it is forgotten here. Where that is much, more follows."""
        if self._is_cut_off:
            self._is_cut_off = False
            self.pump()
        output, self._goaway = self._h2.data_to_send() + self._goaway, b""
        if self._queued >= _MAX_QUEUED:
            self._is_cut_off = True
            self._on_output()
        self._queued = 0
        return output

    def held(self) -> int:
        """Bytes of requests that nobody has taken: of header sections, and of bodies."""
        return self.gate.held() + sum(stream.held for stream in self.streams.values())

    def is_full(self) -> bool:
        """Whether the peer accepts no further stream now."""
        return len(self.streams) >= self._h2.remote_settings.max_concurrent_streams

    def open(self, fields: Fields, *, end: bool) -> Http2Stream:
        """Begin a request. Raises Http2Error where the connection takes no more."""
        try:
            stream_id = self._h2.get_next_available_stream_id()
        except NoAvailableStreamIDError:
            self.is_going = True
            raise Http2Error("the connection has had all the streams that it can have") from None
        stream = self.streams[stream_id] = Http2Stream(self, stream_id)
        self.write_headers(stream, fields, end=end)
        return stream

    def go_away(self, code: int = ErrorCodes.NO_ERROR) -> None:
        """Announce to the peer that no further stream is accepted, or why the connection ends."""
        if not self.is_going or code:
            self.is_going = True
            self._say_goodbye(self._h2.highest_inbound_stream_id, code)

    def retire(self) -> None:
        """Ask the peer once to open further streams elsewhere; those that it opens here are served."""
        if not (self._is_retired or self.is_going):
            self._is_retired = True
            self._say_goodbye(_LAST_STREAM, ErrorCodes.NO_ERROR)

    def _say_goodbye(self, last: int, code: int) -> None:
        self._goaway += goaway(code, last)
        self._on_output()

    def end(self, reason: str) -> None:
        """The connection has ended, and with it every stream."""
        self.is_going = True
        for stream in [*self.streams.values()]:
            self._over(stream, Reset(ErrorCodes.CANCEL, reason))

    # ── what arrives ────────────────────────────────────────────────────────────────────────────────────

    def feed(self, data: bytes, now: float) -> None:
        """Hand what arrived to its streams, or a part of it: see `FrameGate.has_more`. `now`: in seconds.

        Raises Http2Error.
        """
        self.gate.feed(data, now)
        try:
            for kind, frame in self.gate.frames():
                if kind == gate.GOAWAY:
                    self._going(frame)
                    continue
                for event in self._h2.receive_data(self._settings(frame) if kind == gate.SETTINGS else frame):
                    self._happened(event)
        except ProtocolError as error:  # h2 has its own GOAWAY
            self.is_going = True
            raise Http2Error(str(error), error.error_code) from None
        except Http2Error as error:
            self.go_away(error.code)
            raise
        self._on_output()

    def _settings(self, frame: bytes) -> bytes:
        """A SETTINGS frame with what is followed. Raises Http2Error."""
        sent = SettingsFrame(0)
        try:
            sent.parse_body(memoryview(frame)[9:])
        except HyperframeError:
            return frame  # h2 says why
        if frame[4] & gate.ACK or frame[5:9] != bytes(4):
            return frame
        followed = {code: min(value, _FOLLOWED[code]) for code, value in sent.settings.items() if code in _FOLLOWED}
        if SettingCodes.INITIAL_WINDOW_SIZE in followed:
            self.gate.count(len(self.streams) // 4)  # h2 goes through all of them
        return SettingsFrame(0, settings=followed).serialize()

    def _happened(self, event: H2Event) -> None:
        """Raises Http2Error."""
        match event:
            case RequestReceived() | ResponseReceived() | TrailersReceived():
                self._headers(event)
            case DataReceived():
                self._data(event)
            case WindowUpdated(stream_id=stream_id):  # 0: that of the connection
                self.pump(self.streams.get(stream_id or 0))
            case StreamReset(stream_id=stream_id, error_code=code):
                if (stream := self.streams.get(stream_id)) is not None:  # else this side has ended it
                    self._reset(stream, ErrorCodes.CANCEL if code is None else code)
            case RemoteSettingsChanged():
                self.is_ready = True
                self.pump()

    def _headers(self, event: RequestReceived | ResponseReceived | TrailersReceived) -> None:
        if isinstance(event, RequestReceived):
            if self._is_client:
                raise Http2Error("the peer opens a stream")
            stream = self.streams[event.stream_id] = Http2Stream(self, event.stream_id)
            stream.missing = int(dict(event.headers).get(b"content-length", b"0"))
            self.opened.append(stream)
        else:
            stream = self.streams[event.stream_id]
        ended = event.stream_ended is not None
        if ended and stream.missing > 0:  # h2 compares where a body ends with DATA
            self._h2.reset_stream(stream.id, ErrorCodes.PROTOCOL_ERROR)
            self._reset(stream, ErrorCodes.PROTOCOL_ERROR)
        else:
            stream.received(Headers([*event.headers], ended))
            self._ended(stream, by_peer=ended)

    def _data(self, event: DataReceived) -> None:
        size, ended = event.flow_controlled_length, event.stream_ended is not None
        self._untold += size
        if self._untold >= _ALL_STREAMS_BYTES // 4:
            self._h2.increment_flow_control_window(self._untold)
            self._untold = 0
        stream = self.streams.get(event.stream_id)
        if stream is None:
            return
        content = event.data
        stream.missing -= len(content)
        stream.held += size
        last = stream.arrived[-1] if stream.arrived else None
        if type(last) is Data:  # parts may have a byte, and each takes a hundred besides
            stream.arrived[-1] = Data(last.content + content, last.size + size, ended)
        elif content or ended:
            stream.received(Data(content, size, ended))
        else:
            stream.taken(size)
        self._ended(stream, by_peer=ended)

    def _ended(self, stream: Http2Stream, *, by_peer: bool = False, by_us: bool = False) -> None:
        """One side has sent all, or neither has."""
        stream.peer_has_ended |= by_peer
        stream.has_ended |= by_us
        if stream.peer_has_ended and stream.has_ended:
            self._over(stream)

    def _over(self, stream: Http2Stream, event: Reset | None = None) -> None:
        """Nothing is sent any more on either side, after `event` where there is one."""
        self.streams.pop(stream.id, None)
        stream.is_over = True
        stream.drop_unsent()
        if event is not None:
            stream.received(event)

    def _reset(self, stream: Http2Stream, code: int) -> None:
        """By the peer, or by h2 where the peer broke the protocol within a stream. Raises Http2Error."""
        self._over(stream, Reset(code))
        self.gate.count(0 if stream.has_begun else gate.CUT_REQUEST)

    def _going(self, frame: bytes) -> None:
        """The peer takes no further stream: the client may repeat those that it has not taken. Raises Http2Error."""
        if len(frame) < len(goaway(0)):
            raise Http2Error("a GOAWAY is too short", ErrorCodes.FRAME_SIZE_ERROR)
        self.is_going = True
        last = int.from_bytes(frame[9:13], "big") & _LAST_STREAM
        for stream in [*self.streams.values()] if self._is_client else ():
            if stream.id > last:
                self._over(stream, Reset(ErrorCodes.REFUSED_STREAM))

    # ── what streams send ───────────────────────────────────────────────────────────────────────────────

    def write_headers(self, stream: Http2Stream, fields: Fields, *, end: bool) -> None:
        self.gate.idle -= gate.IDLE_PER_FRAME if stream.has_begun else gate.CUT_REQUEST
        stream.has_begun = True
        if fields:
            kept_apart = [NeverIndexedHeaderTuple(*field) if _SECRETS.search(field[0]) else field for field in fields]
            self._h2.send_headers(stream.id, kept_apart, end_stream=end)
        else:
            self._h2.end_stream(stream.id)
        self._ended(stream, by_us=end)
        self._on_output()

    def reset(self, stream: Http2Stream, code: int) -> None:
        self._h2.reset_stream(stream.id, code)
        self._over(stream)
        self._on_output()

    def open_window(self, stream: Http2Stream, size: int) -> None:
        self._h2.increment_flow_control_window(size, stream.id)
        self._on_output()

    def pump(self, stream: Http2Stream | None = None) -> None:
        """Send what the windows let through: a frame of each stream in turn, or all of one."""
        waiting = [one for one in self.streams.values() if one.unsent] if stream is None else [stream]
        while waiting:
            waiting = [one for one in waiting if self._send(one)]
        self._on_output()

    def _send(self, stream: Http2Stream) -> bool:
        """Send one frame; whether it has let something through and more waits."""
        h2, unsent = self._h2, stream.unsent
        if unsent:  # the end alone need not wait
            size = min(len(unsent), h2.local_flow_control_window(stream.id), h2.max_outbound_frame_size)
            if size <= 0 or self.is_paused or self._queued >= _MAX_QUEUED:
                return False
            ends = stream.last == [] and size == len(unsent)
            h2.send_data(stream.id, bytes(unsent[:size]), end_stream=ends)
            del unsent[:size]
            self.streams[stream.id] = self.streams.pop(stream.id)  # others are first the next time
            stream.sent += size
            self._queued += size
            self.gate.idle -= gate.IDLE_PER_FRAME
            if unsent:
                return True
            self._ended(stream, by_us=ends)
            stream.progressed()
        if stream.last is not None and not stream.has_ended:
            self.write_headers(stream, stream.last, end=True)
        return False


def goaway(code: int, last_stream_id: int = 0) -> bytes:
    """What ends a connection, after this stream of the peer."""
    return GoAwayFrame(0, last_stream_id=last_stream_id, error_code=code).serialize()


def regular(fields: Fields) -> Fields:
    """The fields without pseudo-headers."""
    return [field for field in fields if field[0][:1] != b":"]


def size_of(fields: Fields) -> int:
    """The size of a header section (RFC 9113, section 6.5.2)."""
    return sum(map(len, chain.from_iterable(fields))) + 32 * len(fields)


def are_valid(fields: Fields) -> bool:
    """Whether a recipient may take the fields (RFC 9113, section 8.2.1): it may end its whole connection otherwise."""
    names, values = zip(*fields, strict=True) if fields else ((), ())
    lines = b"\n".join((*names, b""))
    is_valid = lines.count(b"\n") == len(names) and _NAMES.fullmatch(lines) is not None
    return is_valid and not _NO_VALUE.search(b"".join(values))
