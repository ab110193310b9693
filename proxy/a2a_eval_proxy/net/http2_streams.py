"""HTTP/2 as streams, for either side of a connection: what a peer may do, and what waits for its windows. Pure.

A stream hands out what arrives as `Headers`, `Data` and `Reset`. Received bytes are acknowledged when their reader says
that they are gone (`Http2Stream.taken`); until then the peer may send no more than `WINDOW_BYTES` of that stream.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from itertools import chain
from typing import NamedTuple

from . import http2_frames as frames
from .header_compression import NO_TABLE, Fields, HeaderDecoder, encoded
from .http2_frames import FRAME_HEAD, ErrorCodes, Frame, FrameReader, Http2Error, SettingCodes

WINDOW_BYTES = frames.DEFAULT_WINDOW
"""How much of a stream may be on its way, or wait here: the initial window of the protocol."""

_ALL_STREAMS_BYTES = 2**30
"""The window of a connection: streams are held back each by their own, so that none waits for another's reader."""

_MAX_STREAMS = _LAST_STREAM = 2**31 - 1

_MAX_HEADER_BYTES = 256 * 1024
"""Beyond this, and twice what is announced, a header section ends its connection; up to there it is read."""

_MAX_CONTINUATIONS = 64
"""Frames that may continue a header section, since they may be empty."""

_MAX_IDLE, _IDLE_PER_S, _IDLE_PER_FRAME = 10_000, 100.0, 4
"""How many more frames that carry nothing of a request or response (PING, SETTINGS, WINDOW_UPDATE, empty DATA, ...) may
come than are made up for, by time or by frames that do: who gets one may open two windows and send a PING for it."""

_MAX_CUT, _CUT_PER_S = 200, 10.0
"""How many more requests a client may reset before their responses begin than get one, or than time makes up for."""

_SMALL = 1024
"""Parts of a body below this size wait as one: each takes a hundred bytes besides, and a window may hold 65,535."""

_NAMES = re.compile(rb"(?:(?::[^\n]*|[!#$%&'*+\-.^_`|~0-9a-z]+)\n)*")
"""Of fields, or of anything that is to be a pseudo-header, one on each line."""

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


Event = Headers | Data | Reset


class Http2Stream:
    """A request and its response, on one side of one connection. What is sent after its end is ignored."""

    __slots__ = (
        "_connection",
        "_untold",
        "arrived",
        "ends",
        "has_begun",
        "has_ended",
        "has_head",
        "id",
        "is_over",
        "missing",
        "peer_has_ended",
        "receivable",
        "sent",
        "trailers",
        "unsent",
        "waiting",
        "window",
    )

    def __init__(self, connection: Http2Streams, stream_id: int) -> None:
        self._connection = connection
        self.id = stream_id
        self.arrived: deque[Event] = deque()
        """What has arrived and was not taken out yet; the stream's owner takes it from the left."""
        self.unsent = 0
        """Bytes that wait for the peer's windows."""
        self.sent = 0
        """Bytes that its windows have let through."""
        self.is_over = False
        """Whether both sides have sent all, it was reset, by either side, or its connection has ended."""
        self.has_begun = False
        """Whether this side has sent the head."""
        self.has_ended = self.peer_has_ended = False
        """Whether this side, or the peer, has sent all."""
        self.has_head = False
        """Whether the peer has sent the head."""
        self.missing: int | None = None
        """How many bytes of a request of a known length have not arrived."""
        self.window = 0
        """How many bytes the peer takes."""
        self.receivable = WINDOW_BYTES
        """How many bytes the peer may send."""
        self.trailers: Fields | None = None
        """What follows the bytes that wait."""
        self.ends = False
        """Whether nothing follows what was sent last."""
        self.waiting: deque[memoryview] = deque()
        """The bytes that wait."""
        self._untold = 0

    def send_headers(self, fields: Fields, *, end: bool) -> None:
        """Send a header section: the head, or trailers, which follow what waits."""
        if self.unsent:
            self.trailers, self.ends = fields, end
        elif not (self.is_over or self.has_ended):
            self._connection.write_headers(self, fields, end=end)

    def send_data(self, content: bytes, *, end: bool = False) -> None:
        """Send part of a body, as far as the peer's windows let it; the rest waits."""
        if self.is_over or self.has_ended:
            return
        self.ends = end
        if content:
            self.unsent += len(content)
            self.waiting.append(memoryview(content))
        self._connection.pump(self)

    def reset(self, code: int) -> None:
        """End it in both directions, unless it has ended."""
        if not self.is_over:
            self._connection.write_reset(self, code)
            self.close()

    def taken(self, size: int) -> None:
        """`size` bytes that arrived are not held any more: the peer may send as many."""
        self._untold += size
        if self._untold >= WINDOW_BYTES // 4 and not self.is_over:
            self._connection.open_window(self, self._untold)
            self._untold = 0

    def drop_unsent(self) -> None:
        """Forget what waits to be sent."""
        if self.unsent:
            self.waiting.clear()
            self.trailers, self.ends, self.unsent = None, False, 0
            self.progressed()

    # ── for the connection ──────────────────────────────────────────────────────────────────────────────

    def close(self) -> None:
        """Nothing is sent any more."""
        self.is_over = True
        self.drop_unsent()

    def received(self, event: Event) -> None:
        """Something has arrived."""
        self.arrived.append(event)

    def progressed(self) -> None:
        """Waiting bytes were sent, or never will be."""


class Http2Streams:
    """One connection. What it has to send is in `output`; that may be more after any call, also on a stream."""

    def __init__(
        self,
        *,
        is_client: bool,
        max_header_bytes: int,
        new_stream: Callable[[Http2Streams, int], Http2Stream],
        on_output: Callable[[], None],
    ) -> None:
        """`on_output` is called when there is something in `output`, and once more when the peer is going."""
        self._is_client = is_client
        self._new_stream = new_stream
        self._on_output = on_output
        self._output: list[bytes | memoryview] = []
        self._reader = FrameReader(b"" if is_client else frames.PREFACE)
        self._section: list[Frame] = []
        """A header section that is arriving: HEADERS and what continues it."""
        self._max_section = max(2 * max_header_bytes, _MAX_HEADER_BYTES)
        self._decoder = HeaderDecoder(self._max_section)
        self._table_size = NO_TABLE
        self._whole = 0
        """How many frames, or header sections, have arrived."""
        self._fed_at = 0.0
        self._idle = self._cut = 0.0
        self._is_retired = False
        self._last_id = 0
        """Of the streams that the client has opened."""
        self._untold = 0
        self._receivable = _ALL_STREAMS_BYTES
        self._window = self._initial_window = frames.DEFAULT_WINDOW
        self._frame_bytes = frames.DEFAULT_FRAME_BYTES
        self._most_streams = _MAX_STREAMS
        self._blocked: dict[Http2Stream, None] = {}
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
        settings = {SettingCodes.MAX_HEADER_LIST_SIZE: max_header_bytes}
        if is_client:
            self._output.append(frames.PREFACE)
            settings[SettingCodes.ENABLE_PUSH] = 0
        else:
            settings[SettingCodes.MAX_CONCURRENT_STREAMS] = _MAX_STREAMS
        self._write(frames.SETTINGS, 0, 0, frames.settings_payload(settings))
        self._write(frames.WINDOW_UPDATE, 0, 0, frames.number(_ALL_STREAMS_BYTES - WINDOW_BYTES))

    def output(self) -> bytes:
        """What is to be sent to the peer; it is forgotten here."""
        output = b"".join(self._output)
        self._output.clear()
        return output

    @property
    def unfinished(self) -> int | None:
        """Identifies the header section, or the frame other than DATA, of which part has arrived; None: none has."""
        return self._whole if self._section or self._reader.has_begun else None

    def is_full(self) -> bool:
        """Whether the peer accepts no further stream now."""
        return len(self.streams) >= self._most_streams

    def open(self, fields: Fields, *, end: bool) -> Http2Stream:
        """Begin a request. Raises Http2Error where the connection takes no more."""
        if self._last_id + 2 > _LAST_STREAM:
            self.is_going = True
            raise Http2Error("the connection has had all the streams that it can have")
        self._last_id += 2 if self._last_id else 1
        stream = self._begun(self._last_id)
        self.write_headers(stream, fields, end=end)
        return stream

    def _begun(self, stream_id: int) -> Http2Stream:
        stream = self.streams[stream_id] = self._new_stream(self, stream_id)
        stream.window = self._initial_window
        return stream

    def go_away(self, code: int = ErrorCodes.NO_ERROR) -> None:
        """Announce to the peer that no further stream is accepted, or why the connection ends."""
        if not self.is_going or code:
            self.is_going = True
            last = 0 if self._is_client else self._last_id
            self._write(frames.GOAWAY, 0, 0, frames.number(last) + frames.number(code))

    def retire(self) -> None:
        """Ask the peer once to open further streams elsewhere; those that it opens here are served."""
        if not (self._is_retired or self.is_going):
            self._is_retired = True
            self._write(frames.GOAWAY, 0, 0, frames.number(_LAST_STREAM) + frames.number(ErrorCodes.NO_ERROR))

    def end(self, reason: str) -> None:
        """The connection has ended, and with it every stream."""
        self.is_going = True
        for stream in [*self.streams.values()]:
            self._ended(stream, Reset(ErrorCodes.CANCEL, reason))

    # ── what arrives ────────────────────────────────────────────────────────────────────────────────────

    def feed(self, data: bytes, now: float) -> None:
        """Hand what arrived to its streams. `now`: in seconds. Raises Http2Error."""
        elapsed, self._fed_at = now - self._fed_at, now
        self._idle = max(0.0, self._idle - elapsed * _IDLE_PER_S)
        self._cut = max(0.0, self._cut - elapsed * _CUT_PER_S)
        try:
            for frame in self._reader.feed(data):
                kind, _, _, payload = frame
                if self._section and kind != frames.CONTINUATION:
                    raise Http2Error("a header section is interrupted")
                self._idle += -_IDLE_PER_FRAME if payload and kind < frames.PRIORITY else 1
                if kind < len(_HANDLERS):
                    _HANDLERS[kind](self, frame)
                self._whole += not self._section
                if self._idle > _MAX_IDLE:
                    raise Http2Error("too many frames carry nothing", ErrorCodes.ENHANCE_YOUR_CALM)
                if self._cut > _MAX_CUT:
                    raise Http2Error("too many requests end before a response", ErrorCodes.ENHANCE_YOUR_CALM)
        except Http2Error as error:
            self.go_away(error.code)
            raise

    def _check_closed(self, frame: Frame) -> None:
        """Raises Http2Error for a frame whose stream is not open, unless it was."""
        kind, _, stream_id, _ = frame
        if stream_id > self._last_id or not stream_id & 1:
            raise Http2Error(f"a frame of kind {kind} is for a stream that is not open yet")

    def _headers(self, frame: Frame) -> None:
        """HEADERS or CONTINUATION."""
        section = self._section
        kind, flags, stream_id, block = frame
        if kind == frames.CONTINUATION and (not section or stream_id != section[0][2]):
            raise Http2Error("a frame continues no header section")
        if section or not flags & frames.END_HEADERS:
            section.append(frame)
            if not flags & frames.END_HEADERS:
                size = sum(len(part[3]) for part in section)
                if size > self._max_section or len(section) > _MAX_CONTINUATIONS:
                    raise Http2Error("a header section is too long", ErrorCodes.ENHANCE_YOUR_CALM)
                return
            frame, self._section = section[0], []
            flags = frame[1]
            block = b"".join([frames.unpadded(frame), *[part[3] for part in section[1:]]])
        elif flags & frames.HAS_MORE:
            block = frames.unpadded(frame)
        try:
            fields = self._decoder.decode(block)
        except ValueError as error:
            raise Http2Error(str(error), ErrorCodes.COMPRESSION_ERROR) from None
        if not self._is_client and stream_id > self._last_id and stream_id & 1:
            self._last_id = stream_id
            self.opened.append(self._begun(stream_id))
        stream = self.streams.get(stream_id)
        if stream is None:
            self._check_closed(frame)
        else:
            self._section_arrived(stream, fields, ended=bool(flags & frames.END_STREAM))

    def _section_arrived(self, stream: Http2Stream, fields: Fields, *, ended: bool) -> None:
        if stream.has_head:
            if not ended or stream.peer_has_ended:  # trailers come once, and last
                self._broken(stream, ErrorCodes.PROTOCOL_ERROR)
                return
        elif self._is_client:
            if dict(fields).get(b":status", b"").startswith(b"1"):  # the response is yet to come
                if ended:
                    self._broken(stream, ErrorCodes.PROTOCOL_ERROR)
                return
        else:
            length = dict(fields).get(b"content-length")
            if length is not None:
                stream.missing = int(length) if length.isdigit() and len(length) < 20 else -1
        stream.has_head = True
        if ended and stream.missing:
            self._broken(stream, ErrorCodes.PROTOCOL_ERROR)
            return
        stream.received(Headers(fields, ended))
        if ended:
            stream.peer_has_ended = True
            if stream.has_ended:
                self._over(stream)

    def _data(self, frame: Frame) -> None:
        _, flags, stream_id, payload = frame
        stream = self.streams.get(stream_id)
        if stream is None:
            self._check_closed(frame)
        size = len(payload)
        self._receivable -= size
        if self._receivable < 0:
            raise Http2Error("the peer sends more than the window of the connection", ErrorCodes.FLOW_CONTROL_ERROR)
        self._untold += size
        if self._untold >= _ALL_STREAMS_BYTES // 4:
            self._receivable += self._untold
            self._write(frames.WINDOW_UPDATE, 0, 0, frames.number(self._untold))
            self._untold = 0
        if stream is None:
            return
        content = frames.unpadded(frame) if flags & frames.HAS_MORE else payload
        ended = bool(flags & frames.END_STREAM)
        stream.receivable -= size
        if stream.missing is not None:
            stream.missing -= len(content)
        if stream.receivable < 0:
            self._broken(stream, ErrorCodes.FLOW_CONTROL_ERROR)
        elif stream.peer_has_ended:
            self._broken(stream, ErrorCodes.STREAM_CLOSED)
        elif not stream.has_head or (stream.missing and (ended or stream.missing < 0)):
            self._broken(stream, ErrorCodes.PROTOCOL_ERROR)
        elif not (content or ended):
            stream.taken(size)
        else:
            last = stream.arrived[-1] if stream.arrived and len(content) < _SMALL else None
            if type(last) is Data and len(last.content) < _SMALL:
                stream.arrived[-1] = Data(last.content + content, last.size + size, ended)
            else:
                stream.received(Data(content, size, ended))
            if ended:
                stream.peer_has_ended = True
                if stream.has_ended:
                    self._over(stream)

    def _over(self, stream: Http2Stream) -> None:
        """Both sides have sent everything."""
        stream.is_over = True
        self.streams.pop(stream.id, None)

    def _broken(self, stream: Http2Stream, code: ErrorCodes) -> None:
        """The peer broke the protocol within a stream."""
        self._cut += 1
        self.write_reset(stream, code)
        self._ended(stream, Reset(code))

    def _reset(self, frame: Frame) -> None:
        stream = self.streams.get(frame[2])
        code = _number(frame)
        if stream is None:
            self._check_closed(frame)
        else:
            self._cut += not stream.has_begun
            self._ended(stream, Reset(code))

    def _ended(self, stream: Http2Stream, event: Reset) -> None:
        self.streams.pop(stream.id, None)
        self._blocked.pop(stream, None)
        stream.received(event)
        stream.close()

    def _window_update(self, frame: Frame) -> None:
        size = _number(frame) & frames.LARGEST_WINDOW
        stream_id = frame[2]
        if not stream_id:
            self._window += size
            if not size or self._window > frames.LARGEST_WINDOW:
                raise Http2Error("the window of the connection is too large", ErrorCodes.FLOW_CONTROL_ERROR)
            if self._blocked:
                self.pump_all()
            return
        stream = self.streams.get(stream_id)
        if stream is None:
            self._check_closed(frame)
            return
        stream.window += size
        if not size or stream.window > frames.LARGEST_WINDOW:
            self._broken(stream, ErrorCodes.FLOW_CONTROL_ERROR)
        elif stream in self._blocked:
            self.pump(stream)

    def _settings(self, frame: Frame) -> None:
        _of_connection(frame)
        _, flags, _, payload = frame
        if flags & frames.ACK:
            return
        for code, value in frames.read_settings(payload):
            if code == SettingCodes.INITIAL_WINDOW_SIZE:
                if value > frames.LARGEST_WINDOW:
                    raise Http2Error("the initial window is too large", ErrorCodes.FLOW_CONTROL_ERROR)
                for stream in self.streams.values():
                    stream.window += value - self._initial_window
                self._initial_window = value
            elif code == SettingCodes.MAX_FRAME_SIZE:
                if not frames.DEFAULT_FRAME_BYTES <= value <= frames.LARGEST_FRAME_BYTES:
                    raise Http2Error("frames of this size are not allowed")
                self._frame_bytes = value
            elif code == SettingCodes.MAX_CONCURRENT_STREAMS:
                self._most_streams = value
        self._write(frames.SETTINGS, frames.ACK, 0, b"")
        self.is_ready = True
        self.pump_all()

    def _ping(self, frame: Frame) -> None:
        _of_connection(frame, 8)
        _, flags, _, payload = frame
        if not flags & frames.ACK:
            self._write(frames.PING, frames.ACK, 0, payload)

    def _going(self, frame: Frame) -> None:
        """The peer takes no further stream: the client may repeat those that it has not taken."""
        _of_connection(frame)
        self.is_going = True
        last = int.from_bytes(frame[3][:4], "big") & frames.LARGEST_WINDOW
        if self._is_client:
            for stream in [*self.streams.values()]:
                if stream.id > last:
                    self._ended(stream, Reset(ErrorCodes.REFUSED_STREAM))
        self._on_output()

    def _priority(self, frame: Frame) -> None:
        """Streams are equal."""

    def _promise(self, frame: Frame) -> None:
        raise Http2Error("the peer pushes a response")

    # ── what streams send ───────────────────────────────────────────────────────────────────────────────

    def _write(self, kind: int, flags: int, stream_id: int, payload: bytes | memoryview) -> None:
        is_first = not self._output
        self._output += FRAME_HEAD.pack(len(payload) << 8 | kind, flags, stream_id), payload
        if is_first:
            self._on_output()

    def write_headers(self, stream: Http2Stream, fields: Fields, *, end: bool) -> None:
        self._cut -= not stream.has_begun
        self._idle -= _IDLE_PER_FRAME
        stream.has_begun = True
        block = self._table_size + encoded(fields)
        self._table_size = b""
        kind, flags, most = frames.HEADERS, frames.END_STREAM if end else 0, self._frame_bytes
        while len(block) > most:
            self._write(kind, flags, stream.id, block[:most])
            kind, flags, block = frames.CONTINUATION, 0, block[most:]
        self._write(kind, flags | frames.END_HEADERS, stream.id, block)
        if end:
            stream.has_ended = True
            if stream.peer_has_ended:
                self._over(stream)

    def write_reset(self, stream: Http2Stream, code: int) -> None:
        if self.streams.pop(stream.id, None) is not None:
            self._blocked.pop(stream, None)
            self._write(frames.RST_STREAM, 0, stream.id, frames.number(code))

    def open_window(self, stream: Http2Stream, size: int) -> None:
        if stream.id in self.streams and not stream.peer_has_ended:
            stream.receivable += size
            self._write(frames.WINDOW_UPDATE, 0, stream.id, frames.number(size))

    def pump_all(self) -> None:
        """Send what the windows let through, a frame of each stream in turn."""
        while self._blocked and not self.is_paused and self._window > 0:
            sent = [stream for stream in [*self._blocked] if self._send(stream)]
            if not sent:
                return

    def pump(self, stream: Http2Stream) -> None:
        """Send what the windows let through of one stream."""
        while not (self.is_paused and stream.unsent) and self._send(stream):  # the end alone need not wait
            continue
        if stream.unsent:
            self._blocked[stream] = None

    def _send(self, stream: Http2Stream) -> bool:
        """Send one frame; whether it has let something through and more waits."""
        most, waiting = min(stream.window, self._window, self._frame_bytes), stream.waiting
        piece: memoryview | bytes = b""
        if waiting:
            if most <= 0:
                return False
            piece = waiting[0]
            if len(piece) > most:
                waiting[0], piece = piece[most:], piece[:most]
            else:
                waiting.popleft()
        ends = stream.ends and not waiting and stream.trailers is None
        if piece or ends:
            size = len(piece)
            stream.unsent -= size
            stream.sent += size
            stream.window -= size
            self._window -= size
            self._idle -= _IDLE_PER_FRAME
            self._write(frames.DATA, frames.END_STREAM if ends else 0, stream.id, piece)
        if stream.unsent:
            return True
        if stream.trailers is not None:
            trailers, stream.trailers = stream.trailers, None
            self.write_headers(stream, trailers, end=stream.ends)
        elif ends:
            stream.has_ended = True
            if stream.peer_has_ended:
                self._over(stream)
        if stream in self._blocked:
            del self._blocked[stream]
            stream.progressed()
        return False


_HANDLERS: tuple[Callable[[Http2Streams, Frame], None], ...] = (
    Http2Streams._data,
    Http2Streams._headers,
    Http2Streams._priority,
    Http2Streams._reset,
    Http2Streams._settings,
    Http2Streams._promise,
    Http2Streams._ping,
    Http2Streams._going,
    Http2Streams._window_update,
    Http2Streams._headers,
)
"""By the kind of frame."""


def _number(frame: Frame) -> int:
    """Raises Http2Error."""
    kind, _, _, payload = frame
    if len(payload) != 4:
        raise Http2Error(f"a frame of kind {kind} has another size", ErrorCodes.FRAME_SIZE_ERROR)
    return int.from_bytes(payload, "big")


def _of_connection(frame: Frame, size: int | None = None) -> None:
    """Raises Http2Error for a frame that is for a stream, or that has not this size."""
    kind, _, stream_id, payload = frame
    if stream_id:
        raise Http2Error(f"a frame of kind {kind} is for a stream")
    if size is not None and len(payload) != size:
        raise Http2Error(f"a frame of kind {kind} has another size", ErrorCodes.FRAME_SIZE_ERROR)


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
