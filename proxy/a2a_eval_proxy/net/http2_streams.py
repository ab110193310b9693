"""HTTP/2 as streams, for either side of a connection: h2's state machine, and what waits for the peer's windows. Pure.

A stream hands out what arrives as `Headers`, `Data` and `Reset`. Received bytes are acknowledged when their reader says
that they are gone (`Http2Stream.taken`); until then the peer may send no more than `WINDOW_BYTES` of that stream.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from h2.config import H2Configuration
from h2.connection import ConnectionInputs, H2Connection, H2ConnectionStateMachine
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    RemoteSettingsChanged,
    RequestReceived,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
    WindowUpdated,
)
from h2.exceptions import H2Error
from h2.settings import SettingCodes, Settings

Fields = list[tuple[bytes, bytes]]
"""Header fields in their order, pseudo-headers first."""

WINDOW_BYTES = 65_535
"""How much of a stream may be on its way, or wait here: the initial window of the protocol."""

_ALL_STREAMS_BYTES = 2**30
"""The window of a connection: streams are held back each by their own, so that none waits for another's reader."""

_MAX_STREAMS = 2**31 - 1

_MAX_HEADER_BYTES = 256 * 1024
"""Beyond this, and twice what is announced, a header section ends its connection; up to there it is read."""

_NAMES = re.compile(rb"(?:[!#$%&'*+\-.^_`|~0-9a-z]+\n)*")
_NO_VALUE = re.compile(rb"[\0\r\n]")


@dataclass(frozen=True, slots=True)
class Headers:
    """A header section: the head, or after it the trailers, of a request or response. `ended`: nothing follows."""

    fields: Fields
    ended: bool


@dataclass(frozen=True, slots=True)
class Data:
    """Part of a body. `size` is what it takes of the window, with padding; `ended`: nothing follows."""

    content: bytes
    size: int
    ended: bool


@dataclass(frozen=True, slots=True)
class Reset:
    """The stream has ended early: by this error code of the peer, or (`reason`) with its connection."""

    code: int
    reason: str = ""


Event = Headers | Data | Reset


class Http2Error(Exception):
    """The peer broke the protocol; a GOAWAY that says so is written."""


class Http2Stream:
    """A request and its response, on one side of one connection. What is sent after its end is ignored."""

    __slots__ = (
        "_connection",
        "_ends",
        "_trailers",
        "_untold",
        "_waiting",
        "arrived",
        "id",
        "is_over",
        "sent",
        "unsent",
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
        """Whether it was reset, by either side, or its connection has ended."""
        self._waiting: deque[memoryview] = deque()
        self._trailers: Fields | None = None
        self._ends = False
        self._untold = 0

    def send_headers(self, fields: Fields, *, end: bool) -> None:
        """Send a header section: the head, or trailers, which follow what waits."""
        if self.unsent:
            self._trailers, self._ends = fields, end
        elif not self.is_over:
            self._connection.write_headers(self, fields, end=end)

    def send_data(self, content: bytes, *, end: bool = False) -> None:
        """Send part of a body, as far as the peer's windows let it; the rest waits."""
        if self.is_over:
            return
        self._ends = end
        if content:
            self.unsent += len(content)
            self._waiting.append(memoryview(content))
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
        self._waiting.clear()
        self._trailers, self._ends, self.unsent = None, False, 0

    # ── for the connection ──────────────────────────────────────────────────────────────────────────────

    def close(self) -> None:
        """Nothing is sent any more."""
        self.is_over = True
        self.drop_unsent()
        self.progressed()

    def received(self, event: Event) -> None:
        """Something has arrived."""
        self.arrived.append(event)

    def progressed(self) -> None:
        """Waiting bytes were sent, or never will be."""

    def next_piece(self, size: int) -> tuple[memoryview | bytes, bool]:
        """At most `size` of the bytes that wait, and whether they end the stream."""
        if not self._waiting:
            return b"", self._ends
        piece = self._waiting[0]
        if len(piece) > size:
            self._waiting[0], piece = piece[size:], piece[:size]
        else:
            self._waiting.popleft()
        self.unsent -= len(piece)
        self.sent += len(piece)
        return piece, self._ends and not self._waiting and self._trailers is None

    def take_trailers(self) -> tuple[Fields | None, bool]:
        """The trailers that follow what waited, and whether they end the stream."""
        trailers, self._trailers = self._trailers, None
        return trailers, self._ends


class _StateMachine(H2ConnectionStateMachine):
    """Continues after a GOAWAY, since open streams do (RFC 9113, section 6.8). h2 would take no further frame."""

    def process_input(self, input_: ConnectionInputs) -> list[Any]:
        if input_ in (ConnectionInputs.SEND_GOAWAY, ConnectionInputs.RECV_GOAWAY):
            return []
        return super().process_input(input_)


class _H2(H2Connection):
    def __init__(self, config: H2Configuration) -> None:
        super().__init__(config)
        self.state_machine = _StateMachine()

    def clear_outbound_data_buffer(self) -> None:
        """h2 calls it at a GOAWAY; the open streams need what is in it."""


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
        """`on_output` is called when there may be something in `output`."""
        self._h2 = _H2(
            H2Configuration(
                client_side=is_client,
                header_encoding=False,
                validate_outbound_headers=False,
                normalize_outbound_headers=False,
                validate_inbound_headers=False,
                normalize_inbound_headers=False,
            )
        )
        self._new_stream = new_stream
        self._on_output = on_output
        self._untold = 0
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
        self._h2.local_settings = Settings(
            client=is_client,
            initial_values={
                SettingCodes.MAX_HEADER_LIST_SIZE: max_header_bytes,
                SettingCodes.MAX_CONCURRENT_STREAMS: _MAX_STREAMS,
                SettingCodes.ENABLE_PUSH: 0,
            },
        )
        self._h2.decoder.max_header_list_size = max(2 * max_header_bytes, _MAX_HEADER_BYTES)
        self._h2.initiate_connection()
        self._h2.increment_flow_control_window(_ALL_STREAMS_BYTES - WINDOW_BYTES)

    def output(self) -> bytes:
        """What is to be sent to the peer; it is forgotten here."""
        return self._h2.data_to_send()

    def is_full(self) -> bool:
        """Whether the peer accepts no further stream now."""
        return len(self.streams) >= self._h2.remote_settings.max_concurrent_streams

    def open(self, fields: Fields, *, end: bool) -> Http2Stream:
        """Begin a request. Raises Http2Error where the connection takes no more."""
        try:
            stream_id = self._h2.get_next_available_stream_id()
            self._h2.send_headers(stream_id, fields, end_stream=end)
        except H2Error as error:
            self.is_going = True
            raise Http2Error(str(error)) from None
        stream = self.streams[stream_id] = self._new_stream(self, stream_id)
        self._on_output()
        return stream

    def go_away(self, code: int = ErrorCodes.NO_ERROR) -> None:
        """Announce to the peer that no further stream is accepted."""
        if not self.is_going:
            self.is_going = True
            self._h2.close_connection(code)
            self._on_output()

    def end(self, reason: str) -> None:
        """The connection has ended, and with it every stream."""
        self.is_going = True
        for stream in [*self.streams.values()]:
            self._ended(stream, Reset(ErrorCodes.CANCEL, reason))

    # ── what arrives ────────────────────────────────────────────────────────────────────────────────────

    def feed(self, data: bytes) -> None:
        """Hand what arrived to its streams. Raises Http2Error."""
        try:
            events = self._h2.receive_data(data)
        except (H2Error, ValueError, IndexError, KeyError, AssertionError) as error:  # what junk has made h2 raise
            self.is_going = True
            raise Http2Error(f"{type(error).__name__}: {error}") from None
        for event in events:
            handle = _HANDLERS.get(type(event))
            if handle is not None:
                handle(self, event)
        if events:
            self._on_output()  # pings and settings are acknowledged

    def _request(self, event: RequestReceived) -> None:
        stream = self.streams[event.stream_id] = self._new_stream(self, event.stream_id)
        self.opened.append(stream)
        self._headers(event)

    def _headers(self, event: Any) -> None:
        stream = self.streams.get(event.stream_id)
        if stream is not None:
            stream.received(Headers(event.headers, event.stream_ended is not None))

    def _data(self, event: DataReceived) -> None:
        size = event.flow_controlled_length
        self._untold += size
        if self._untold >= _ALL_STREAMS_BYTES // 4:
            self._h2.increment_flow_control_window(self._untold)
            self._untold = 0
        stream = self.streams.get(event.stream_id)
        if stream is not None:
            stream.received(Data(event.data, size, event.stream_ended is not None))

    def _end_of_stream(self, event: StreamEnded) -> None:
        """The peer has sent everything."""
        stream = self.streams.get(event.stream_id)
        if stream is not None:
            self._forget_if_closed(stream)

    def _reset(self, event: StreamReset) -> None:
        stream = self.streams.get(event.stream_id)
        if stream is not None:
            self._ended(stream, Reset(event.error_code))

    def _ended(self, stream: Http2Stream, event: Reset) -> None:
        self.streams.pop(stream.id, None)
        self._blocked.pop(stream, None)
        stream.received(event)
        stream.close()

    def _window(self, event: WindowUpdated) -> None:
        stream = self.streams.get(event.stream_id or 0)
        if stream is None:
            self.pump_all()
        elif stream in self._blocked:
            self.pump(stream)

    def _settings(self, event: RemoteSettingsChanged) -> None:
        self.is_ready = True
        self.pump_all()

    def _going(self, event: ConnectionTerminated) -> None:
        """The peer takes no further stream: the client may repeat those that it has not taken."""
        self.is_going = True
        last = event.last_stream_id or 0
        for stream in [*self.streams.values()]:
            if stream.id > last:
                self._ended(stream, Reset(ErrorCodes.REFUSED_STREAM))

    # ── what streams send ───────────────────────────────────────────────────────────────────────────────

    def write_headers(self, stream: Http2Stream, fields: Fields, *, end: bool) -> None:
        self._h2.send_headers(stream.id, fields, end_stream=end)
        if end:
            self._forget_if_closed(stream)
        self._on_output()

    def write_reset(self, stream: Http2Stream, code: int) -> None:
        if self.streams.pop(stream.id, None) is not None:
            self._blocked.pop(stream, None)
            self._h2.reset_stream(stream.id, code)
            self._on_output()

    def open_window(self, stream: Http2Stream, size: int) -> None:
        if stream.id in self.streams:
            self._h2.increment_flow_control_window(size, stream.id)
            self._on_output()

    def pump_all(self) -> None:
        """Send what the windows let through, a frame of each stream in turn."""
        while self._blocked and not self.is_paused and self._h2.outbound_flow_control_window > 0:
            sent = [stream for stream in [*self._blocked] if self._send(stream)]
            if not sent:
                return

    def pump(self, stream: Http2Stream) -> None:
        """Send what the windows let through of one stream."""
        while not self.is_paused and self._send(stream):
            continue
        if stream.unsent:
            self._blocked[stream] = None

    def _send(self, stream: Http2Stream) -> bool:
        """Send one frame; whether it has let something through and more waits."""
        try:
            return self._send_frame(stream)
        except H2Error:  # of what has arrived, its reset comes later
            stream.drop_unsent()
            self._blocked.pop(stream, None)
            return False

    def _send_frame(self, stream: Http2Stream) -> bool:
        size = min(self._h2.local_flow_control_window(stream.id), self._h2.max_outbound_frame_size)
        if stream.unsent and size <= 0:
            return False
        piece, ends = stream.next_piece(size)
        if piece or ends:
            self._h2.send_data(stream.id, piece, end_stream=ends)
            self._on_output()
        if stream.unsent:
            return True
        self._blocked.pop(stream, None)
        trailers, end = stream.take_trailers()
        if trailers is not None:
            self.write_headers(stream, trailers, end=end)
        elif ends:
            self._forget_if_closed(stream)
        stream.progressed()
        return False

    def _forget_if_closed(self, stream: Http2Stream) -> None:
        state = self._h2.streams.get(stream.id)
        if state is None or state.closed:
            self.streams.pop(stream.id, None)


_HANDLERS: dict[type, Callable[[Http2Streams, Any], None]] = {
    RequestReceived: Http2Streams._request,
    ResponseReceived: Http2Streams._headers,
    TrailersReceived: Http2Streams._headers,
    DataReceived: Http2Streams._data,
    StreamEnded: Http2Streams._end_of_stream,
    StreamReset: Http2Streams._reset,
    WindowUpdated: Http2Streams._window,
    RemoteSettingsChanged: Http2Streams._settings,
    ConnectionTerminated: Http2Streams._going,
}


def regular(fields: Fields) -> Fields:
    """The fields without pseudo-headers."""
    return [field for field in fields if field[0][:1] != b":"]


def size_of(fields: Fields) -> int:
    """The size of a header section (RFC 9113, section 6.5.2)."""
    return sum([len(name) + len(value) + 32 for name, value in fields])


def are_valid(fields: Fields) -> bool:
    """Whether a recipient may take the fields (RFC 9113, section 8.2.1): it may end its whole connection otherwise."""
    names = b"".join([name + b"\n" for name, _ in fields if name[:1] != b":"])
    return _NAMES.fullmatch(names) is not None and not _NO_VALUE.search(b"".join([value for _, value in fields]))
