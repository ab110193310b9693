"""Events cut out of a byte stream: whatever the chunks and line ends, every byte comes out again."""

from __future__ import annotations

from itertools import pairwise

import pytest
from a2a_eval_proxy.protocol.sse import EventTooLargeError, SseEvent, SseSplitter, event_data, with_data
from hypothesis import given
from hypothesis import strategies as st
from support.recordings import Recording, names

STREAMS = [name for name in names() if Recording.load(name).streams]
LIMIT = 1_000_000


def split(chunks: list[bytes]) -> tuple[list[SseEvent], bytes]:
    splitter = SseSplitter(LIMIT)
    events = [event for chunk in chunks for event in splitter.feed(chunk)]
    return events, splitter.rest


def cut(stream: bytes, places: list[int]) -> list[bytes]:
    borders = sorted({0, len(stream), *(place % (len(stream) + 1) for place in places)})
    return [stream[start:end] for start, end in pairwise(borders)]


def one_byte_at_a_time(stream: bytes) -> list[bytes]:
    return [stream[i : i + 1] for i in range(len(stream))]


lines = st.sampled_from(
    [
        b"data: {}",
        b"data:x",
        b"data: one two",
        b"data",
        b": ping",
        b":",
        b"event: error",
        b"id: 1",
        b"retry: 5",
        b"\xe2\x98\x83",
    ]
)
ends = st.sampled_from([b"\r\n", b"\n", b"\r"])


line = st.tuples(lines | st.just(b""), ends).map(b"".join)
mixed_streams = st.tuples(st.lists(line, max_size=12).map(b"".join), lines | st.just(b"")).map(b"".join)
places = st.lists(st.integers(0, 10_000), max_size=8)


# ── splitting ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("end", [b"\r\n", b"\n", b"\r"])
def test_events_end_with_a_blank_line(end: bytes) -> None:
    one, two = b"data: 1" + end + end, b": ping" + end + end
    events, rest = split([one + two + b"data: 3" + end])
    assert events == [SseEvent(one, b"1"), SseEvent(two, b"")]
    assert rest == b"data: 3" + end


def test_recorded_streams(subtests: pytest.Subtests) -> None:
    for name in STREAMS:
        with subtests.test(name):
            recording = Recording.load(name)
            body = recording.response_body
            events, rest = split([body])
            assert [event.raw for event in events] == recording.chunks
            assert rest == b""
            assert split(one_byte_at_a_time(body)) == (events, b"")
            assert split(recording.chunks) == (events, b"")


@given(mixed_streams, places)
def test_chunks_do_not_matter_to_the_data_where_line_ends_are_mixed(stream: bytes, borders: list[int]) -> None:
    """A CR may be followed by its LF one chunk later: it then opens the next event, where it means nothing."""
    whole = [event.data for event in split([stream])[0] if event.data]
    assert [event.data for event in split(one_byte_at_a_time(stream))[0] if event.data] == whole
    assert [event.data for event in split(cut(stream, borders))[0] if event.data] == whole


@given(mixed_streams | st.binary(max_size=60), places)
def test_every_byte_comes_out_again(stream: bytes, borders: list[int]) -> None:
    for chunks in ([stream], one_byte_at_a_time(stream), cut(stream, borders)):
        events, rest = split(chunks)
        assert b"".join(event.raw for event in events) + rest == stream
        assert [event.data for event in events] == [event_data(event.raw) for event in events]


def test_an_event_ends_where_the_next_bytes_show_that_its_last_line_ended() -> None:
    splitter = SseSplitter(100)
    assert splitter.feed(b"data: x\r\n\r") == []
    assert [event.data for event in splitter.feed(b"event: a")] == [b"x"]


@pytest.mark.parametrize("end", [b"\r\n", b"\n", b"\r"])
def test_comment_lines_do_not_wait_for_an_event(end: bytes) -> None:
    splitter = SseSplitter(LIMIT)
    assert splitter.feed(b": one" + end + b": t") == []
    assert (splitter.comments(), splitter.rest) == (b": one" + end, b": t")
    assert splitter.comments() == b""
    assert splitter.feed(b"wo" + end + b"data: x" + end + end) == [
        SseEvent(b": two" + end + b"data: x" + end + end, b"x")
    ]


@pytest.mark.parametrize("before", [b"\xef\xbb\xbf", b"\xef\xbb\xbf: one\n", b"\xef\xbb\xbf\n"])
def test_a_byte_order_mark_waits_for_no_event(before: bytes) -> None:
    splitter = SseSplitter(LIMIT)
    splitter.feed(before + b"da")
    assert (splitter.comments(), splitter.rest) == (before, b"da")


def test_lines_of_an_event_are_no_comments() -> None:
    splitter = SseSplitter(LIMIT)
    splitter.feed(b"id: 1\n: of the event\n")
    assert splitter.comments() == b""


@given(mixed_streams | st.binary(max_size=60), places)
def test_taking_comments_loses_no_byte_and_no_data(stream: bytes, borders: list[int]) -> None:
    splitter = SseSplitter(LIMIT)
    passed, data = b"", []
    for chunk in cut(stream, borders):
        for event in splitter.feed(chunk):
            passed += event.raw
            data.append(event.data)
        passed += splitter.comments()
    assert passed + splitter.rest == stream
    assert [one for one in data if one] == [event.data for event in split([stream])[0] if event.data]


@pytest.mark.parametrize("before", [b"", b"\xef\xbb\xbf", b": one\n"])
def test_a_long_comment_is_read_once_and_is_limited_as_an_event_is(before: bytes) -> None:
    """What takes more than linear time takes minutes here."""
    size, piece = 4_000_000, b"x" * 50
    splitter, passed = SseSplitter(size), b""
    for chunk in [before + b":", *[piece] * (size // len(piece) - 1)]:
        assert splitter.feed(chunk) == []
        passed += splitter.comments()
    assert passed == before
    with pytest.raises(EventTooLargeError):
        splitter.feed(piece * 2)


# ── the limit ───────────────────────────────────────────────────────────────────────────────────────────────


def test_an_unfinished_event_beyond_the_limit() -> None:
    splitter = SseSplitter(10)
    assert splitter.feed(b"data: 4567") == []
    with pytest.raises(EventTooLargeError, match="10 bytes"):
        splitter.feed(b"8")
    assert splitter.rest == b"data: 45678"


def test_an_event_that_comes_whole_may_exceed_the_limit() -> None:
    assert len(SseSplitter(10).feed(b"data: 4567890\n\n")) == 1
    assert len(SseSplitter(10).feed(b"data: 4567890\r\n\r\n")) == 1


@given(mixed_streams, places, st.integers(1, 40))
def test_the_limit_loses_no_byte(stream: bytes, borders: list[int], limit: int) -> None:
    splitter = SseSplitter(limit)
    passed = b""
    chunks = cut(stream, borders)
    for number, chunk in enumerate(chunks):
        try:
            passed += b"".join(event.raw for event in splitter.feed(chunk))
        except EventTooLargeError:
            assert passed + splitter.rest == b"".join(chunks[: number + 1])
            return
    assert passed + splitter.rest == stream


# ── data ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("raw", "data"),
    [
        (b"data: x\r\n\r\n", b"x"),
        (b"data:x\n\n", b"x"),
        (b"data:  x\n\n", b" x"),
        (b"data: 1\ndata: 2\n\n", b"1\n2"),
        (b"event: error\r\ndata: x\r\nid: 7\r\n\r\n", b"x"),
        (b"data: x\nid: 7\r\n\r\n", b"x"),
        (b"data: x\rid: 7\r\n\r\n", b"x"),
        (b": data: x\n\n", b""),
        (b"database: x\n\n", b""),
        (b"\n\n", b""),
        (b"", b""),
        (b"data: unfinished", b"unfinished"),
        (b"\xef\xbb\xbfdata: x\r\n\r\n", b"x"),
    ],
)
def test_data_of_an_event(raw: bytes, data: bytes) -> None:
    assert event_data(raw) == data


@pytest.mark.parametrize(
    ("raw", "data", "replaced"),
    [
        (b"data: x\r\n\r\n", b"NEW", b"data: NEW\r\n\r\n"),
        (b"data:x\n\n", b"NEW", b"data:NEW\n\n"),
        (b"id: 1\r\ndata: x\r\n: note\r\n\r\n", b"NEW", b"id: 1\r\ndata: NEW\r\n: note\r\n\r\n"),
        (b"data: 1\ndata: 2\nid: 3\n\n", b"NEW", b"data: NEW\nid: 3\n\n"),
        (b"data: x", b"NEW", b"data: NEW"),
        (b"data: 1\r\ndata: 2", b"NEW", b"data: NEW"),
        (b"\xef\xbb\xbfdata: x\r\n\r\n", b"NEW", b"\xef\xbb\xbfdata: NEW\r\n\r\n"),
        (b"data: x\r\n\r\n", b"1\n2", b"data: 1\r\ndata: 2\r\n\r\n"),
        # the first blank behind the colon is the field's
        (b"data:{\ndata:}\n\n", b"{\n }", b"data:{\ndata:  }\n\n"),
    ],
)
def test_replacing_data_keeps_the_rest(raw: bytes, data: bytes, replaced: bytes) -> None:
    assert with_data(raw, data) == replaced


events_with_data = st.builds(
    lambda before, after, end: b"".join(line + end for line in [*before, b"data: {}", *after]) + end,
    st.lists(lines, max_size=3),
    st.lists(lines, max_size=3),
    ends,
)


@given(events_with_data, st.text("ab\n", max_size=6).map(str.encode))
def test_replaced_data_is_read_back(raw: bytes, data: bytes) -> None:
    replaced = with_data(raw, data)
    assert event_data(replaced) == data
    others = [[line for line in event.splitlines() if not line.startswith(b"data:")] for event in (raw, replaced)]
    assert others[0] == others[1]
    events, rest = split([replaced])
    assert [event.data for event in events] == [data]
    assert rest == b""
