"""HTTP/2 in memory, with itself and h2 as the other side: windows, GOAWAY, resets, breaches, and junk."""

from __future__ import annotations

import logging
import random

import pytest
from a2a_eval_proxy.net.http2_gate import PREFACE, Http2Error
from a2a_eval_proxy.net.http2_streams import (
    MAX_STREAMS,
    WINDOW_BYTES,
    Data,
    Fields,
    Headers,
    Http2Stream,
    Http2Streams,
    Reset,
    are_valid,
)
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.settings import SettingCodes
from hpack import Encoder, NeverIndexedHeaderTuple
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    ExtensionFrame,
    Frame,
    HeadersFrame,
    PingFrame,
    PriorityFrame,
    PushPromiseFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)


def encoded(fields: Fields) -> bytes:
    return Encoder().encode(fields)


HEAD = [(b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/a"), (b":authority", b"b")]


def frame_head(kind: int, flags: int, stream_id: int, size: int) -> bytes:
    return size.to_bytes(3, "big") + bytes((kind, flags)) + stream_id.to_bytes(4, "big")


class Ends:
    """A client and a server; `turn` lets both read all that the other one has sent."""

    def __init__(self) -> None:
        self.client, self.server = (
            Http2Streams(is_client=is_client, max_header_bytes=1000, on_output=lambda: None)
            for is_client in (True, False)
        )
        self.turn()

    def turn(self) -> None:
        for _ in range(10):
            feed_all(self.server, self.client.output())
            feed_all(self.client, self.server.output())

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
        assert len(mine.unsent) == len(content) - len(received) - held
        received += body(theirs)
    assert received == content
    assert not mine.unsent


def test_a_peer_that_takes_anything_gets_it_in_pieces():
    """So that what is not written yet is known to wait."""
    ends = Ends()
    mine, _ = ends.opened()
    feed_all(ends.client, WindowUpdateFrame(mine.id, window_increment=2**30).serialize())
    mine.send_data(b"x" * 10_000_000)
    pieces = [ends.client.output()]
    assert len(mine.unsent) > 9_000_000
    while mine.unsent:
        pieces.append(ends.client.output())
    assert max(map(len, pieces)) < 500_000


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
            feed_all(end, _junk(rng))
            for stream in [*end.streams.values()]:
                stream.send_data(b"y" * rng.randrange(1000))
                stream.taken(rng.randrange(100))
    except Http2Error:
        assert end.is_going
    end.output()


def _junk(rng: random.Random) -> bytes:
    """A frame that may be valid."""
    content = rng.choice([b"", b"\x88", b"\x7f\xff\xff\xff", bytes(7) + b"\x01", rng.randbytes(20)])
    return (
        frame_head(
            rng.randrange(12), rng.choice([0, 1, 4, 5, 8, 0x20]), rng.choice([0, 0, 1, 3, 5, 7, 9, 2]), len(content)
        )
        + content
    )


@pytest.mark.parametrize(
    "field",
    [(b"A", b"x"), (b"a b", b"x"), (b"a\nb", b"x"), (b"", b"x"), (b"a:b", b"x"), (b"a", b"x\ny"), (b"a", b"\0")],
)
def test_fields_that_end_the_connections_of_others(field):
    assert not are_valid([*HEAD, field])
    assert are_valid([*HEAD, (b"x-tab", b"a\tb"), (b"x-latin", b"\xe9")])


def test_a_smaller_window_holds_for_bytes_that_are_under_way():
    ends = Ends()
    mine, _ = ends.opened()
    mine.send_data(b"x" * 60_000)
    mine.send_data(b"y" * 10_000)
    ends.turn()
    assert len(mine.unsent) == 4_465
    ends.client.feed(SettingsFrame(0, settings={SettingCodes.INITIAL_WINDOW_SIZE: 10}).serialize(), 0.0)
    ends.client.feed(WindowUpdateFrame(mine.id, window_increment=65_525).serialize(), 0.0)
    assert len(mine.unsent) == 4_465, "the window is 0 now"
    ends.client.feed(WindowUpdateFrame(mine.id, window_increment=1).serialize(), 0.0)
    assert len(mine.unsent) == 4_464


def test_what_waits_goes_when_a_window_opens():
    client = Http2Streams(is_client=True, max_header_bytes=1000, on_output=lambda: None)
    client.feed(SettingsFrame(0, settings={SettingCodes.INITIAL_WINDOW_SIZE: 65_000}).serialize(), 0.0)
    one, other = (client.open(HEAD, end=False) for _ in range(2))
    one.send_data(b"x" * 65_001)
    other.send_data(b"y" * 1_000)
    assert (len(one.unsent), len(other.unsent)) == (1, 465)
    client.feed(WindowUpdateFrame(0, window_increment=1_000).serialize(), 0.0)
    assert (len(one.unsent), len(other.unsent)) == (1, 0), "that of the connection"
    client.feed(SettingsFrame(0, settings={SettingCodes.INITIAL_WINDOW_SIZE: 65_001}).serialize(), 0.0)
    assert not one.unsent


def test_what_comes_late_for_a_stream_that_is_over_is_ignored():
    ends = Ends()
    mine, theirs = ends.opened()
    mine.send_data(b"x" * 100_000)
    ends.turn()
    body(theirs)
    theirs.reset(ErrorCodes.CANCEL)
    ends.turn()
    assert [*mine.arrived] == [Reset(ErrorCodes.CANCEL)]
    assert not mine.unsent, "though its window has opened with the reset"
    mine.send_data(b"late")
    mine.taken(60_000)
    mine.send_headers([(b"x", b"1")], end=True)
    mine.reset(ErrorCodes.CANCEL)
    ends.turn()
    again, other = ends.opened()
    again.send_data(b"on")
    ends.turn()
    assert body(other) == b"on"
    assert not theirs.arrived


def test_the_end_of_a_body_is_sent_while_bodies_wait():
    """Nothing of that stream waits, so nothing else would send it later."""
    ends = Ends()
    mine, theirs = ends.opened()
    other, _ = ends.opened()
    ends.client.is_paused = True
    other.send_data(b"waits")
    mine.send_data(b"", end=True)
    ends.turn()
    assert [*theirs.arrived] == [Data(b"", 0, ended=True)]
    assert len(other.unsent) == 5


def test_a_response_begins_after_those_that_only_inform():
    ends = Ends()
    mine, theirs = ends.opened()
    theirs.send_headers([(b":status", b"103"), (b"link", b"x")], end=False)
    theirs.send_headers([(b":status", b"200")], end=True)
    ends.turn()
    assert [*mine.arrived] == [Headers([(b":status", b"200")], ended=True)]


FIRST = HeadersFrame(1, data=encoded(HEAD), flags=["END_HEADERS"])
KNOWN = HeadersFrame(1, data=encoded([*HEAD, (b"content-length", b"3")]), flags=["END_HEADERS"])
OPEN = HeadersFrame(1, data=encoded(HEAD))
CONNECTION_BREACHES: dict[str, tuple[list[Frame | bytes], ErrorCodes]] = {
    "not HTTP/2": ([b"GET / HTTP/1.1\r\n\r\n"], ErrorCodes.PROTOCOL_ERROR),
    "a body of no stream": ([DataFrame(1, data=b"x")], ErrorCodes.PROTOCOL_ERROR),
    "the reset of no stream": ([RstStreamFrame(3)], ErrorCodes.PROTOCOL_ERROR),
    "a stream of the server": ([HeadersFrame(2, data=encoded(HEAD), flags=["END_HEADERS"])], ErrorCodes.PROTOCOL_ERROR),
    "a section of the connection": ([frame_head(1, 4, 0, 0)], ErrorCodes.PROTOCOL_ERROR),
    "a continuation of nothing": ([ContinuationFrame(1)], ErrorCodes.PROTOCOL_ERROR),
    "a continuation elsewhere": ([OPEN, ContinuationFrame(3)], ErrorCodes.PROTOCOL_ERROR),
    "an interrupted section": ([OPEN, PingFrame(0)], ErrorCodes.PROTOCOL_ERROR),
    "an endless section": ([OPEN, *[ContinuationFrame(1)] * 100], ErrorCodes.ENHANCE_YOUR_CALM),
    "a long section": ([OPEN, *[ContinuationFrame(1, data=b"x" * 16_384)] * 20], ErrorCodes.ENHANCE_YOUR_CALM),
    "a section that unpacks to a large one": (
        [HeadersFrame(1, data=encoded([(b"x", b"v" * 3_951)]) + b"\xbe" * 9_000, flags=["END_HEADERS"])],
        ErrorCodes.ENHANCE_YOUR_CALM,
    ),
    "a section that resizes its table again and again": (
        [HeadersFrame(1, data=b"\x20\x3f\xe1\x1f" * 4_000, flags=["END_HEADERS"])],
        ErrorCodes.PROTOCOL_ERROR,
    ),
    "more streams than are announced": (
        [HeadersFrame(1 + 2 * at, data=encoded(HEAD), flags=["END_HEADERS"]) for at in range(MAX_STREAMS + 1)],
        ErrorCodes.PROTOCOL_ERROR,
    ),
    "an unreadable section": ([HeadersFrame(1, data=b"\xff", flags=["END_HEADERS"])], ErrorCodes.PROTOCOL_ERROR),
    "a long frame": ([DataFrame(1, data=b"x" * 16_385)], ErrorCodes.FRAME_SIZE_ERROR),
    "too much padding": ([FIRST, frame_head(0, 8, 1, 2) + b"\x05x"], ErrorCodes.PROTOCOL_ERROR),
    "padding without its size": ([FIRST, frame_head(0, 8, 1, 0)], ErrorCodes.FRAME_SIZE_ERROR),
    "a section without its priority": ([frame_head(1, 0x24, 1, 2) + b"ab"], ErrorCodes.FRAME_SIZE_ERROR),
    "a window of the connection of 0": ([frame_head(8, 0, 0, 4) + bytes(4)], ErrorCodes.PROTOCOL_ERROR),
    "a large window": ([WindowUpdateFrame(0, window_increment=2**31 - 1)], ErrorCodes.FLOW_CONTROL_ERROR),
    "a short window": ([frame_head(8, 0, 0, 3) + b"abc"], ErrorCodes.FRAME_SIZE_ERROR),
    "a large initial window": ([SettingsFrame(0, settings={4: 2**31})], ErrorCodes.FLOW_CONTROL_ERROR),
    "large frames": ([SettingsFrame(0, settings={5: 2**24})], ErrorCodes.PROTOCOL_ERROR),
    "half a setting": ([frame_head(4, 0, 0, 3) + b"abc"], ErrorCodes.FRAME_SIZE_ERROR),
    "settings of a stream": ([frame_head(4, 0, 1, 0)], ErrorCodes.PROTOCOL_ERROR),
    "a short ping": ([frame_head(6, 0, 0, 7) + b"1234567"], ErrorCodes.FRAME_SIZE_ERROR),
    "a promise": ([FIRST, PushPromiseFrame(1, promised_stream_id=2)], ErrorCodes.PROTOCOL_ERROR),
    "more than the window": ([FIRST, *[DataFrame(1, data=b"x" * 16_384)] * 4], ErrorCodes.FLOW_CONTROL_ERROR),
    "a second head": ([FIRST, FIRST], ErrorCodes.PROTOCOL_ERROR),
    "a short body": ([KNOWN, DataFrame(1, data=b"xy", flags=["END_STREAM"])], ErrorCodes.PROTOCOL_ERROR),
    "a long body": ([KNOWN, DataFrame(1, data=b"wxyz")], ErrorCodes.PROTOCOL_ERROR),
    "a window of 0": ([FIRST, frame_head(8, 0, 1, 4) + bytes(4)], ErrorCodes.PROTOCOL_ERROR),
}
STREAM_BREACHES: dict[str, tuple[list[Frame | bytes], ErrorCodes]] = {
    "a body after its end": (
        [FIRST, DataFrame(1, flags=["END_STREAM"]), DataFrame(1, data=b"x")],
        ErrorCodes.STREAM_CLOSED,
    ),
    "trailers after the end": (
        [FIRST, DataFrame(1, flags=["END_STREAM"]), HeadersFrame(1, flags=["END_HEADERS", "END_STREAM"])],
        ErrorCodes.STREAM_CLOSED,
    ),
    "a short body with trailers": (
        [KNOWN, HeadersFrame(1, flags=["END_HEADERS", "END_STREAM"])],
        ErrorCodes.PROTOCOL_ERROR,
    ),
    "a large window": ([FIRST, WindowUpdateFrame(1, window_increment=2**31 - 1)], ErrorCodes.FLOW_CONTROL_ERROR),
}


def fed(sent: list[Frame | bytes]) -> Http2Streams:
    """A server that was sent this, with its settings taken out of its output."""
    server = Http2Streams(is_client=False, max_header_bytes=1000, on_output=lambda: None)
    server.output()
    start = b"" if isinstance(sent[0], bytes) and sent[0].startswith(b"GET") else PREFACE
    data = start + b"".join([one if isinstance(one, bytes) else one.serialize() for one in sent])
    try:
        feed_all(server, data)
    except Http2Error:
        assert server.is_going
    return server


def feed_all(end: Http2Streams, data: bytes, now: float = 0.0) -> None:
    """What takes several turns, too."""
    end.feed(data, now)
    while end.gate.has_more():
        end.feed(b"", now)


@pytest.mark.parametrize("name", CONNECTION_BREACHES)
def test_a_breach_that_ends_the_connection(name):
    sent, code = CONNECTION_BREACHES[name]
    output = fed(sent).output()
    assert output[-17:-8] == frame_head(7, 0, 0, 8)
    assert output[-4:] == code.to_bytes(4, "big")


@pytest.mark.parametrize("name", STREAM_BREACHES)
def test_a_breach_that_ends_its_stream_alone(name):
    sent, code = STREAM_BREACHES[name]
    server = fed(sent)
    assert server.output().endswith(frame_head(3, 0, 1, 4) + code.to_bytes(4, "big"))
    assert server.opened[0].arrived[-1] == Reset(code)
    assert not server.is_going
    assert not server.streams


def test_a_body_of_the_length_that_was_said():
    server = fed([KNOWN, DataFrame(1, data=b"ab"), DataFrame(1, data=b"c", flags=["END_STREAM"])])
    assert server.streams[1].peer_has_ended


IDLE = [
    DataFrame(1, b""),
    DataFrame(1, b"x"),
    ExtensionFrame(99, 1),
    PingFrame(0),
    PriorityFrame(1, depends_on=3),
    RstStreamFrame(1),
    SettingsFrame(0),
    WindowUpdateFrame(0, 1),
]


@pytest.mark.parametrize("frame", IDLE, ids=lambda frame: type(frame).__name__)
def test_frames_that_carry_nothing_are_limited_at_a_time(frame):
    server = fed([FIRST])
    feed_all(server, frame.serialize() * 9_000, 0.0)
    feed_all(server, frame.serialize() * 9_000, 90.0)
    with pytest.raises(Http2Error, match="carry nothing") as refused:
        feed_all(server, frame.serialize() * 2_000, 90.0)
    assert refused.value.code is ErrorCodes.ENHANCE_YOUR_CALM


def test_a_client_that_reads_much_may_open_windows_and_send_pings():
    """As grpc-go does, with a PING for each DATA."""
    ends = Ends()
    _, theirs = ends.opened()
    answer = b"".join(frame.serialize() for frame in (WindowUpdateFrame(1, 1), WindowUpdateFrame(0, 1), PingFrame(0)))
    theirs.send_headers([(b":status", b"200")], end=False)
    for _ in range(4_000):
        theirs.send_data(b"x")
        feed_all(ends.server, answer)
    assert not ends.server.is_going


def test_since_when_a_header_arrives():
    section = OPEN.serialize() + ContinuationFrame(1, flags=["END_HEADERS"]).serialize()
    server = fed([SettingsFrame(0)])
    assert server.gate.header_since is None
    for at, byte in enumerate(section[:-1], 1):
        server.feed(bytes([byte]), float(at))
        assert server.gate.header_since == 1.0
    server.feed(section[-1:] + HeadersFrame(3, data=encoded(HEAD)).serialize(), 100.0)
    assert server.gate.header_since == 100.0, "another one"
    server.feed(ContinuationFrame(3, flags=["END_HEADERS"]).serialize(), 101.0)
    assert server.gate.header_since is None
    server.feed(DataFrame(1, b"x" * 100).serialize()[:50], 102.0)
    assert server.gate.header_since is None


def test_parts_of_a_body_of_one_byte_wait_together():
    """A window of them would take a hundred times as much memory."""
    server = fed([FIRST])
    feed_all(server, DataFrame(1, b"x").serialize() * 9_000, 0.0)
    arrived = [event for event in server.streams[1].arrived if isinstance(event, Data)]
    assert sum(event.size for event in arrived) == sum(len(event.content) for event in arrived) == 9_000
    assert len(arrived) <= 20


def test_windows_that_change_are_counted_by_the_streams_that_they_change():
    server = fed([HeadersFrame(1 + 2 * at, data=encoded(HEAD), flags=["END_HEADERS"]) for at in range(MAX_STREAMS)])
    changes = [SettingsFrame(0, settings={SettingCodes.INITIAL_WINDOW_SIZE: size}) for size in range(1_000)]
    feed_all(server, b"".join(frame.serialize() for frame in changes[:100]))
    with pytest.raises(Http2Error, match="carry nothing"):
        feed_all(server, b"".join(frame.serialize() for frame in changes))


def test_a_peer_that_offers_a_large_table_for_header_fields_does_not_get_it_filled():
    server = fed([SettingsFrame(0, settings={SettingCodes.HEADER_TABLE_SIZE: 2**32 - 1}), FIRST])
    server.opened.pop().send_headers([(b":status", b"200"), (b"x", b"v" * 5_000)], end=True)
    peer = H2Connection(H2Configuration(header_encoding=False))
    peer.initiate_connection()
    peer.send_headers(1, HEAD)
    peer.decoder.max_allowed_table_size = 2**32 - 1
    peer.receive_data(server.output())
    assert peer.decoder.header_table_size == 4096


@pytest.mark.parametrize("frame", [PingFrame(0), DataFrame(1, b"x"), WindowUpdateFrame(1, 1)], ids=str)
def test_others_have_their_turn_after_some_frames(frame):
    server = fed([FIRST])
    server.feed(frame.serialize() * 10_000, 0.0)
    assert server.gate.has_more()
    turns = 1
    while server.gate.has_more():
        server.feed(b"", 0.0)
        turns += 1
    assert turns > 100


def test_credentials_are_kept_out_of_tables():
    ends = Ends()
    ends.client.open([*HEAD, (b"x-api-key", b"k" * 20), (b"x-other", b"o" * 20)], end=True)
    ends.turn()
    (head,) = ends.server.opened.pop().arrived
    assert isinstance(head, Headers)
    assert [isinstance(field, NeverIndexedHeaderTuple) for field in head.fields[-2:]] == [True, False]


def test_header_fields_are_in_no_log(caplog):
    caplog.set_level(logging.DEBUG)
    ends = Ends()
    ends.client.open([*HEAD, (b"authorization", b"Bearer s3cret")], end=True)
    ends.turn()
    assert "s3cret" not in caplog.text
