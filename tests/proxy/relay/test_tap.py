"""The boundary between capture and traffic: no method raises, and a finding reports what could not be read."""

from __future__ import annotations

import gzip
import json
import zlib
from typing import Any

import pytest
from a2a_eval_proxy.capture.exchange import RequestFacts
from a2a_eval_proxy.capture.turn_book import TurnBook
from a2a_eval_proxy.protocol.operations import Operation, rest_request
from a2a_eval_proxy.protocol.sse import SseEvent
from a2a_eval_proxy.relay.opted_in_tasks import OptedInTasks
from a2a_eval_proxy.relay.tap import Tap
from a2a_eval_proxy.turn import Turn
from a2a_tool_capture import URI, Finding, json_limits
from hypothesis import given
from hypothesis import strategies as st


class Tapped:
    """Taps of one book."""

    def __init__(self, limit: int = 1_000_000) -> None:
        self.turns: list[Turn] = []
        self.book = TurnBook(self.turns.append)
        self.asked = OptedInTasks()
        self.limit = limit

    def tap(self, *, asking: bool = False, coding: str = "", caller: bytes | None = b"ann") -> Tap:
        facts = RequestFacts("r", "a", "1.0", None, "0af7", "", True, asking, 0.0)
        return Tap(
            self.book,
            self.asked,
            facts,
            f"turn-{len(self.turns)}",
            self.limit,
            caller=lambda: caller,
            request_coding=coding,
        )

    @property
    def codes(self) -> list[str]:
        (turn,) = self.turns
        return [finding.code for finding in turn.findings]


@pytest.fixture
def tapped() -> Tapped:
    return Tapped()


def send(**message: Any) -> bytes:
    message = {"messageId": "m", "parts": [{"text": "hi"}], **message}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}).encode()


def get(task_id: str) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": task_id}}).encode()


DONE = json.dumps({"result": {"task": {"id": "t", "status": {"state": "TASK_STATE_COMPLETED"}}}}).encode()


def test_an_exchange(tapped: Tapped) -> None:
    tap = tapped.tap()
    tap.request_body(None, send(), True)
    tap.request_body(None, b"said again", True)  # counts once
    tap.response(200, DONE)
    tap.end()
    assert tapped.codes == []
    assert tapped.turns[0].user_text == "hi"


@pytest.mark.parametrize(
    ("coding", "pack"), [("gzip", gzip.compress), ("x-gzip", gzip.compress), ("deflate", zlib.compress)]
)
def test_a_compressed_request(tapped: Tapped, coding: str, pack: Any) -> None:
    tap = tapped.tap(coding=coding)
    tap.request_body(None, pack(send(extensions=[URI])), True)
    assert tap.requested
    tap.response(200, DONE)
    tap.end()
    assert (tapped.turns[0].user_text, tapped.codes) == ("hi", [])


def test_a_compressed_request_too_large_to_read() -> None:
    tapped = Tapped(limit=1_000)
    tap = tapped.tap(coding="gzip")
    tap.request_body(None, gzip.compress(send(metadata={"x": "y" * 1_000_000})), True)
    tap.response(200, DONE)
    tap.end()
    assert tapped.codes == ["not_asked", "request_too_large"]
    assert tapped.asked.has_webhook("t")  # it may have set one


@pytest.mark.parametrize("body", [b"not gzip", gzip.compress(send())[:-9], b""])
@pytest.mark.parametrize("coding", ["gzip", "br"])
def test_a_request_that_is_not_compressed_as_it_says(tapped: Tapped, coding: str, body: bytes) -> None:
    tap = tapped.tap(coding=coding)
    tap.request_body(None, body, True)
    assert (tap.request, tap.unreadable) == (None, None)


def test_an_exchange_ends_once(tapped: Tapped) -> None:
    tap = tapped.tap()
    tap.request_body(None, send(), True)
    tap.response(200, DONE.replace(b"COMPLETED", b"WORKING"))
    tap.end()
    tap.end(Finding("upstream_cut", "a second end"), lost=True)
    assert tapped.turns == []
    tapped.book.close_all(0.0)
    assert tapped.codes == ["incomplete"]


def test_what_capture_cannot_take_never_comes_back(tapped: Tapped, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bug of ours: the traffic continues, and the turn says that capture failed."""

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("a bug")

    tap = tapped.tap()
    tap.request_body(None, send(), True)
    monkeypatch.setattr(TurnBook, "feed", broken)
    tap.response(200, DONE)
    tap.events([SseEvent(b"", DONE)])
    assert not tap.is_captured
    assert tap.unreadable is None  # the byte path reads on
    tap.end()
    assert tapped.codes == ["capture_error"]


# ── who asked ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("by", ["header", "message", "nobody"])
def test_who_asked_for_a_task_has_asked_for_its_later_answers(tapped: Tapped, by: str) -> None:
    sent = tapped.tap(asking=by == "header")
    sent.request_body(None, send(extensions=[URI] if by == "message" else []), True)
    assert sent.requested is (by != "nobody")
    sent.response(200, DONE)
    sent.end()
    poll, other, listing = tapped.tap(), tapped.tap(), tapped.tap()
    poll.request_body(None, get("t"), True)
    other.request_body(None, get("another"), True)
    listing.request_body(rest_request("GET", "/tasks", b""), b"", True)
    assert poll.requested is (by != "nobody")
    assert not other.requested
    assert not listing.requested
    assert listing.keeps is not None
    assert listing.keeps("t") is (by != "nobody")
    assert poll.keeps is None  # which is not about several tasks
    for caller in (b"bob", None):
        poll, listing = tapped.tap(caller=caller), tapped.tap(caller=caller)
        poll.request_body(None, get("t"), True)
        listing.request_body(rest_request("GET", "/tasks", b""), b"", True)
        assert not poll.requested
        assert not listing.keeps("t")


def test_a_request_is_read_before_it_is_sent_on(tapped: Tapped) -> None:
    """Which opens no turn yet."""
    tap = tapped.tap()
    request = tap.read_request(None, send(extensions=[URI]))
    assert request is not None
    assert request.operation is Operation.SEND
    assert tap.requested
    tap.end()
    assert tapped.turns == []


@pytest.mark.parametrize(
    ("coding", "limit", "read"), [("gzip", 1_000, True), ("gzip", 20, False), ("br", 1_000, False)]
)
def test_a_compressed_request_is_read_where_it_can_be(coding: str, limit: int, read: bool) -> None:
    request = Tapped(limit).tap(coding=coding).read_request(None, gzip.compress(send()))
    assert (request is not None) is read


# ── content codings ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("pieces", [1, 7])
@pytest.mark.parametrize(
    ("encoding", "encode"),
    [
        ("", bytes),
        ("identity", bytes),
        ("gzip", gzip.compress),
        ("x-gzip", gzip.compress),
        ("deflate", zlib.compress),
        ("deflate", lambda body: zlib.compress(body, wbits=-15)),
        ("GZip, identity , gzip", lambda body: gzip.compress(gzip.compress(body))),
        ("deflate,gzip", lambda body: gzip.compress(zlib.compress(body))),
    ],
)
def test_codings_that_can_be_read(tapped: Tapped, encoding: str, encode: Any, pieces: int) -> None:
    tap = tapped.tap()
    assert tap.decodes(encoding)
    body = encode(DONE)
    step = -(-len(body) // pieces)
    assert b"".join(tap.decoded(body[at : at + step]) for at in range(0, len(body), step)) == DONE
    assert tap.unreadable is None


@pytest.mark.parametrize("encoding", ["br", "gzip, br", "gzip,gzip,gzip,gzip,gzip", "gzip;q=1"])
def test_a_coding_that_cannot_be_read(tapped: Tapped, encoding: str) -> None:
    tap = tapped.tap()
    tap.request_body(None, send(), True)
    assert not tap.decodes(encoding)
    tap.end()
    assert tapped.codes == ["unknown_encoding"]


def test_garbage_for_a_coding(tapped: Tapped) -> None:
    tap = tapped.tap()
    tap.request_body(None, send(), True)
    assert tap.decodes("gzip")
    assert tap.decoded(b"not gzip at all") == b""
    tap.end()
    assert tapped.codes == ["undecodable_body"]


def test_a_bomb_is_not_unpacked() -> None:
    tapped = Tapped(limit=1_000)
    tap = tapped.tap()
    tap.request_body(None, send(), True)
    assert tap.decodes("gzip")
    assert len(tap.decoded(gzip.compress(bytes(10_000_000)))) <= 1_000
    tap.end()
    assert tapped.codes == ["body_too_large"]


@pytest.mark.parametrize("pieces", [1, 7])
def test_gzip_files_that_follow_one_another(tapped: Tapped, pieces: int) -> None:
    """Who compresses each event separately sends such a stream."""
    tap = tapped.tap()
    assert tap.decodes("gzip")
    body = b"".join(gzip.compress(event) for event in (b"data: 1\n\n", b"", b"data: 2\n\n")) + bytes(9)
    size = -(-len(body) // pieces)
    decoded = [tap.decoded(body[at : at + size]) for at in range(0, len(body), size)]
    assert b"".join(decoded) == b"data: 1\n\ndata: 2\n\n"
    assert tap.unreadable is None


def test_many_small_bombs_are_not_unpacked() -> None:
    tap = Tapped(limit=1_000).tap()
    assert tap.decodes("gzip")
    assert len(tap.decoded(gzip.compress(bytes(400)) * 5)) <= 1_000
    assert tap.unreadable is not None
    assert tap.unreadable.code == "body_too_large"


# ── streams ─────────────────────────────────────────────────────────────────────────────────────────────────


DENSE = b"[" + b"[]," * (json_limits.MAX_VALUES // 2) + b"[]]"
"""More values than are parsed."""


def test_a_request_with_too_many_values_is_forwarded_unread(tapped: Tapped) -> None:
    body = send().replace(b'{"text": "hi"}', b'{"data": %b}' % DENSE)
    tap = tapped.tap()
    assert tap.read_request(None, body) is None
    tap.request_body(None, body, True)
    tap.end(Finding("cut", "the agent is gone"), lost=True)
    assert tapped.codes == ["not_asked", "request_too_large", "cut"]
    assert tapped.turns[0].user_text == ""


def test_a_compressed_request_with_too_many_values(tapped: Tapped) -> None:
    tap = tapped.tap(coding="gzip")
    tapped.limit = 10_000_000
    tap.request_body(None, gzip.compress(send().replace(b'"hi"', DENSE)), True)
    tap.end(lost=True)
    assert "request_too_large" in tapped.codes


def test_an_answer_with_too_many_values_is_passed_on_unread(tapped: Tapped) -> None:
    tap = tapped.tap()
    tap.request_body(None, send(), True)
    tap.response(200, b'{"jsonrpc": "2.0", "id": 1, "result": {"task": {"metadata": {"a": %b}}}}' % DENSE)
    tap.end()
    assert tapped.codes == ["body_too_large"]


def test_an_event_with_too_many_values_ends_the_reading_of_its_stream(tapped: Tapped) -> None:
    tap = tapped.tap()
    tap.request_body(None, send(), True)
    message = b'{"jsonrpc": "2.0", "id": 1, "result": {"message": {"messageId": "m", "parts": [{"text": "read"}]}}}'
    tap.events([SseEvent(b"", message.replace(b"read", b"first")), SseEvent(b"", DENSE), SseEvent(b"", message)])
    tap.end()
    assert tapped.codes == ["event_too_large"]
    assert tapped.turns[0].response_text == "first"


def test_many_values_in_many_small_pieces_are_read() -> None:
    assert not json_limits.has_too_many_values(b"[" * 262_144)
    assert not json_limits.has_too_many_values(b"x" * 10_000_000)
    assert not json_limits.has_too_many_values(DENSE[: json_limits.MAX_VALUES])
    assert json_limits.has_too_many_values(DENSE)
    assert json_limits.has_too_many_values(DENSE.decode())


def test_events_too_large_to_keep() -> None:
    tapped = Tapped(limit=20)
    tap = tapped.tap()
    tap.request_body(None, send(), True)
    assert [event.data for event in tap.split(b"data: 1\n\ndata: 2")] == [b"1"]
    assert tap.rest == b"data: 2"
    assert tap.data_of_rest() == b"2"
    assert tap.split(b"x" * 20) == []
    assert tap.rest == b"data: 2" + b"x" * 20
    tap.end()
    assert tapped.codes == ["event_too_large"]


def test_a_stream_without_anything(tapped: Tapped) -> None:
    tap = tapped.tap()
    assert tap.rest == b""
    assert tap.data_of_rest() == b""
    assert tap.request is None
    assert not tap.requested
    tap.end()
    assert tapped.turns == []


@given(st.binary(max_size=30), st.booleans(), st.lists(st.binary(max_size=30), max_size=3), st.sampled_from([200, 500]))
def test_no_bytes_raise(request: bytes, complete: bool, pieces: list[bytes], status: int) -> None:
    tapped = Tapped(limit=20)
    for encoding in ("", "gzip", "br"):
        tap = tapped.tap()
        tap.request_body(None, request, complete)
        tap.decodes(encoding)
        for piece in pieces:
            tap.events(tap.split(tap.decoded(piece)))
        tap.response(status, b"".join(pieces))
        tap.end()
