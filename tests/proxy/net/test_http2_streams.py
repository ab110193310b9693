"""Two ends of HTTP/2, one after the other in memory: windows, GOAWAY, resets, and bytes that are junk."""

from __future__ import annotations

import random

import pytest
from a2a_eval_proxy.net.http2_streams import (
    WINDOW_BYTES,
    Data,
    Headers,
    Http2Error,
    Http2Stream,
    Http2Streams,
    Reset,
    are_valid,
)
from h2.errors import ErrorCodes
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    Frame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    PriorityFrame,
    PushPromiseFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

HEAD = [(b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/a"), (b":authority", b"b")]
KINDS = (
    ContinuationFrame,
    DataFrame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    PriorityFrame,
    PushPromiseFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)


class Ends:
    """A client and a server; `turn` lets both read all that the other one has sent."""

    def __init__(self) -> None:
        self.client, self.server = (
            Http2Streams(is_client=is_client, max_header_bytes=1000, new_stream=Http2Stream, on_output=lambda: None)
            for is_client in (True, False)
        )
        self.turn()

    def turn(self) -> None:
        for _ in range(10):
            self.server.feed(self.client.output())
            self.client.feed(self.server.output())

    def opened(self) -> tuple[Http2Stream, Http2Stream]:
        """A new stream, as the client and as the server have it."""
        mine = self.client.open(HEAD, end=False)
        self.turn()
        theirs = self.server.opened.pop()
        theirs.arrived.clear()
        return mine, theirs


def body(stream: Http2Stream) -> bytes:
    """What has arrived, taken out and acknowledged."""
    content = b""
    while stream.arrived:
        event = stream.arrived.popleft()
        assert isinstance(event, Data)
        content += event.content
        stream.taken(event.size)
    return content


def test_bytes_wait_until_the_other_side_has_taken_those_before():
    ends = Ends()
    mine, theirs = ends.opened()
    content = random.Random(1).randbytes(1_000_000)
    mine.send_data(content)
    received = b""
    while len(received) < len(content):
        ends.turn()
        held = sum(event.size for event in theirs.arrived if isinstance(event, Data))
        assert 0 < held <= WINDOW_BYTES
        assert mine.unsent == len(content) - len(received) - held
        received += body(theirs)
    assert received == content
    assert mine.unsent == 0


def test_a_reader_that_takes_nothing_holds_no_other_stream():
    ends = Ends()
    idle = [ends.opened() for _ in range(100)]
    for mine, _ in idle:
        mine.send_data(b"x" * 200_000)
    ends.turn()
    mine, theirs = ends.opened()
    mine.send_data(b"y" * 50_000)
    ends.turn()
    assert body(theirs) == b"y" * 50_000


def test_trailers_follow_what_waits():
    ends = Ends()
    mine, theirs = ends.opened()
    theirs.send_headers([(b":status", b"200")], end=False)
    theirs.send_data(b"x" * 100_000)
    theirs.send_headers([(b"grpc-status", b"0")], end=True)
    ends.turn()
    events, content = [], 0
    while mine.arrived:
        events.append(mine.arrived.popleft())
        if isinstance(events[-1], Data):
            content += events[-1].size
            mine.taken(events[-1].size)
            ends.turn()
    assert content == 100_000
    assert events[-1] == Headers([(b"grpc-status", b"0")], ended=True)


def test_a_window_and_a_reset_that_arrive_together():
    ends = Ends()
    mine, theirs = ends.opened()
    mine.send_data(b"x" * 100_000)
    ends.turn()
    body(theirs)
    theirs.reset(ErrorCodes.CANCEL)
    ends.turn()
    assert [*mine.arrived] == [Reset(ErrorCodes.CANCEL)]
    assert mine.unsent == 0
    mine.send_data(b"ignored")
    mine.send_headers([], end=True)
    ends.turn()


def test_open_streams_continue_after_a_goaway():
    ends = Ends()
    mine, theirs = ends.opened()
    ends.server.go_away()
    late = ends.client.open(HEAD, end=True)
    ends.turn()
    assert [*late.arrived] == [Reset(ErrorCodes.REFUSED_STREAM)], "its client may repeat it"
    ends.server.opened.pop().reset(ErrorCodes.REFUSED_STREAM)
    assert ends.client.is_going
    mine.send_data(b"more", end=True)
    ends.turn()
    assert body(theirs) == b"more"
    theirs.send_headers([(b":status", b"200")], end=True)
    ends.turn()
    assert [*mine.arrived] == [Headers([(b":status", b"200")], ended=True)]
    assert not ends.client.streams
    assert not ends.server.streams


def test_streams_end_with_their_connection():
    ends = Ends()
    mine, _ = ends.opened()
    ends.client.end("cut")
    assert [*mine.arrived] == [Reset(ErrorCodes.CANCEL, "cut")]


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("side", ["client", "server"])
def test_whatever_frames_arrive(side, seed):
    """The connection may end, by an Http2Error."""
    ends, rng = Ends(), random.Random(seed)
    for _ in range(3):
        ends.opened()[0].send_data(b"x" * 100_000)
    ends.turn()
    end: Http2Streams = getattr(ends, side)
    try:
        for _ in range(50):
            end.feed(_junk(rng))
            for stream in [*end.streams.values()]:
                stream.send_data(b"y" * rng.randrange(1000))
                stream.taken(rng.randrange(100))
    except Http2Error:
        assert end.is_going
    end.output()


def _junk(rng: random.Random) -> bytes:
    """A frame that may be valid."""
    kind = rng.choice(KINDS)
    stream_id = 0 if kind in (PingFrame, SettingsFrame, GoAwayFrame) else rng.choice([1, 3, 5, 7, 9, 2])
    frame: Frame = kind(stream_id)
    if isinstance(frame, WindowUpdateFrame):
        frame.window_increment = rng.choice([1, 100_000, 2**31 - 1])
    elif isinstance(frame, DataFrame | HeadersFrame | ContinuationFrame | PushPromiseFrame):
        frame.data = rng.choice([b"", b"\x88", rng.randbytes(20)])
        frame.flags |= {flag.name for flag in frame.defined_flags if flag.name.startswith("END") and rng.random() < 0.7}
    elif isinstance(frame, SettingsFrame):
        frame.settings = {rng.randrange(1, 9): rng.choice([0, 1, 100, 16_384, 2**31 - 1])}
    elif isinstance(frame, PingFrame):
        frame.opaque_data = rng.randbytes(8)
    elif isinstance(frame, RstStreamFrame | GoAwayFrame):
        frame.error_code = rng.randrange(20)
    data = frame.serialize()
    if rng.random() < 0.1:
        position = rng.randrange(len(data))
        data = data[:position] + rng.randbytes(1) + data[position + 1 :]
    return data


@pytest.mark.parametrize(
    "field", [(b"A", b"x"), (b"a b", b"x"), (b"", b"x"), (b"a:b", b"x"), (b"a", b"x\ny"), (b"a", b"\0")]
)
def test_fields_that_end_the_connections_of_others(field):
    assert not are_valid([*HEAD, field])
    assert are_valid([*HEAD, (b"x-tab", b"a\tb"), (b"x-latin", b"\xe9")])
