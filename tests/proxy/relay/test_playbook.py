"""What the relay does with a request and its answer, played step by step (`playbook`)."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable
from typing import Any

import pytest
from a2a_eval_proxy.relay.opted_in_tasks import OptedInTasks
from a2a_tool_capture import METADATA_KEY, URI, json_limits
from proxy.relay.playbook import Agent, Client, Cut, End, Head, Playbook, ToAgent, ToClient, Whole

EVENTS, JSON = "text/event-stream", "application/json"
CALL = {"id": "1", "name": "search", "arguments": {"q": "x"}}


def rpc(method: str, params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()


def said(**more: Any) -> Any:
    return {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}], **more}}


def result(value: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "result": value}).encode()


def task(*, calls: bool = False, state: str = "COMPLETED") -> Any:
    own = {"metadata": {METADATA_KEY: [CALL]}, "extensions": [URI]} if calls else {}
    artifact = {"artifactId": "a", "parts": [{"text": "found"}]} | own
    return {"id": "t", "contextId": "c", "status": {"state": f"TASK_STATE_{state}"}, "artifacts": [artifact]}


def same(shown: bytes, expected: Any) -> bool:
    return json.loads(shown) == json.loads(result(expected))


SEND, STREAM, GET = rpc("SendMessage", said()), rpc("SendStreamingMessage", said()), rpc("GetTask", {"id": "t"})
WITH, WITHOUT = result({"task": task(calls=True)}), result({"task": task()})
DONE = b"data: %b\n\n" % result({"statusUpdate": {"taskId": "t", "contextId": "c", "status": task()["status"]}})
PIECE = b"data: %b\n\n" % result({"task": task(state="WORKING")})


# ── the request ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("body", "asks"),
    [
        (SEND, True),
        (GET, True),
        (rpc("ListTasks", {}), True),
        (rpc("acme/own", {}), False),
        (rpc("CreateTaskPushNotificationConfig", {"taskId": "t", "url": "http://hook"}), False),
        (b"[%b]" % SEND, False),
        (b"not JSON", False),
    ],
)
def test_the_proxy_asks_where_an_answer_shows_tasks(body: bytes, asks: bool) -> None:
    Playbook() >> Client(body) << ToAgent(asks)
    Playbook(negotiate="never") >> Client(body) << ToAgent(asks=False)


def test_a_request_over_http_json_is_known_by_its_path() -> None:
    Playbook() >> Client(json.dumps(said()).encode(), line="POST /v1/message:send") << ToAgent(asks=True)


@pytest.mark.parametrize(
    ("coding", "pack"),
    [("gzip", gzip.compress), ("x-gzip", gzip.compress), ("deflate", zlib.compress), ("identity", bytes)],
)
def test_a_compressed_request_is_read(coding: str, pack: Callable[[bytes], bytes]) -> None:
    play = Playbook() >> Client(pack(rpc("SendMessage", said(extensions=[URI]))), coding) << ToAgent(asks=True)
    assert play.exchange.requested
    assert play.codes == ["no_answer"]
    assert play.turns[0].user_text == "hi"


@pytest.mark.parametrize("coding", ["gzip", "br", "gzip,gzip"])
@pytest.mark.parametrize("body", [b"not gzip", gzip.compress(SEND)[:-40], b""])
def test_a_request_that_is_not_compressed_as_it_says_is_the_agents(coding: str, body: bytes) -> None:
    Playbook() >> Client(body, coding) << ToAgent(asks=False)


@pytest.mark.parametrize(("limit", "room"), [(1_000, 10_000_000), (10_000_000, 100_000)])
def test_what_a_request_decodes_to_is_held_to_the_limits_before_it_is_decoded(limit: int, room: int) -> None:
    packed = gzip.compress(rpc("SendMessage", said(metadata={"x": "y" * 3_000_000})))
    play = Playbook(limit=limit, room=room) >> Client(packed, "gzip") << ToAgent(asks=False)
    assert play.held.most <= 200_000
    assert play.codes == ["not_asked", "request_too_large", "no_answer"]


DENSE = b"[" + b"[]," * (json_limits.MAX_VALUES // 2) + b"[]]"
"""More values than are parsed."""


def test_a_request_with_too_many_values_passes_unread() -> None:
    body = SEND.replace(b'{"text": "hi"}', b'{"data": %b}' % DENSE)
    play = Playbook() >> Client(body) << ToAgent(asks=False)
    assert play.codes == ["not_asked", "request_too_large", "no_answer"]


# ── who may see the extension ───────────────────────────────────────────────────────────────────────────────


def test_a_client_that_did_not_ask_gets_the_answer_without_it() -> None:
    play = Playbook() >> Client(SEND) << ToAgent(asks=True) >> Head(JSON, {b"content-length": b"1"})
    play >> Agent(WITH[:50]) >> Agent(WITH[50:]) >> End()
    shown = play.shown()
    assert same(shown, {"task": task()})
    assert play.codes == []
    assert [call.name for call in play.turns[0].tool_calls] == ["search"]


@pytest.mark.parametrize("by", ["header", "message"])
def test_a_client_that_asked_gets_the_agents_bytes_as_they_come(by: str) -> None:
    request = rpc("SendMessage", said(extensions=[URI])) if by == "message" else SEND
    play = Playbook(requested=by == "header") >> Client(request) << ToAgent(asks=True)
    play >> Head(JSON) >> Agent(WITH[:50]) << ToClient(WITH[:50]) >> Agent(WITH[50:]) << ToClient(WITH[50:]) >> End()
    assert play.codes == []
    assert play.turns[0].tool_calls[0].name == "search"


@pytest.mark.parametrize(("caller", "sees"), [(b"ann", True), (b"bob", False), (None, False)])
def test_who_asked_for_a_task_has_asked_for_its_later_answers(caller: bytes | None, sees: bool) -> None:
    asked = OptedInTasks()
    first = Playbook(requested=True, opted_in=asked) >> Client(SEND) << ToAgent(asks=True)
    first >> Head(JSON) >> Agent(WITH) << ToClient(WITH) >> End()
    later = Playbook(caller=caller, opted_in=asked) >> Client(GET) << ToAgent(asks=True)
    assert later.exchange.requested is sees
    listing = Playbook(caller=caller, opted_in=asked) >> Client(rpc("ListTasks", {})) << ToAgent(asks=True)
    assert not listing.exchange.requested
    assert listing.exchange.keeps is not None
    assert listing.exchange.keeps("t") is sees


# ── the three ways of a body ────────────────────────────────────────────────────────────────────────────────


def test_events_pass_one_by_one() -> None:
    play = Playbook() >> Client(STREAM) << ToAgent(asks=True) >> Head(EVENTS)
    play >> Agent(PIECE[:20]) >> Agent(PIECE[20:] + DONE[:5]) << ToClient(PIECE) >> Agent(DONE[5:]) << ToClient(DONE)
    play >> End()
    assert play.codes == []
    assert play.exchange.task_ids == ["t"]


def test_comments_pass_before_their_event() -> None:
    play = Playbook() >> Client(STREAM) << ToAgent(asks=True) >> Head(EVENTS)
    play >> Agent(b": a\n" + DONE[:9]) << ToClient(b": a\n") >> Agent(DONE[9:]) << ToClient(DONE) >> End()
    assert play.codes == []


def test_what_an_event_says_of_the_extension_beside_its_data_does_not_pass() -> None:
    play = Playbook() >> Client(STREAM) << ToAgent(asks=True) >> Head(EVENTS)
    play >> Agent(b"event: %b\n%b" % (URI.encode(), PIECE)) << ToClient(PIECE) >> Agent(DONE) << ToClient(DONE) >> End()
    assert play.codes == ["unreadable_event"]


@pytest.mark.parametrize("pieces", [1, 7])
def test_compressed_events_reach_a_client_that_did_not_ask_uncompressed(pieces: int) -> None:
    packed = b"".join(gzip.compress(event) for event in (PIECE, DONE))  # who compresses each event sends such a stream
    play = Playbook() >> Client(STREAM) << ToAgent(asks=True) >> Head(EVENTS, {b"content-encoding": b"gzip"})
    step = -(-len(packed) // pieces)
    for at in range(0, len(packed), step):
        play >> Agent(packed[at : at + step])
        play.got()
    play >> End()
    assert b"".join(play.seen) == PIECE + DONE
    assert play.codes == []


def test_a_document_that_is_too_large_passes_unless_it_names_the_extension() -> None:
    play = Playbook(limit=100) >> Client(SEND) << ToAgent(asks=True) >> Head(JSON)
    play >> Agent(b"x" * 90) >> Agent(b"y" * 20) << ToClient(b"x" * 90) << ToClient(b"y" * 20)
    play >> Agent(b"z") << ToClient(b"z") >> End()
    assert play.codes == ["body_too_large"]
    play = Playbook(limit=100) >> Client(SEND) << ToAgent(asks=True) >> Head(JSON)
    play >> Agent(b"x" * 200 + URI.encode())
    play << Cut("it names the extension, and is no JSON, or too large to be read")


def test_text_passes_as_it_comes() -> None:
    play = Playbook() >> Client(SEND) << ToAgent(asks=True) >> Head("text/plain")
    play >> Agent(b"one ") << ToClient(b"one ") >> Agent(b"tool") >> End() << ToClient(b"tool")
    assert play.codes == ["no_answer", "malformed_response"]


def test_json_of_another_method_passes_in_pieces_and_is_read_as_a_whole() -> None:
    own = rpc("acme/own", {})
    play = Playbook() >> Client(own) << ToAgent(asks=False) >> Head("application/x-ndjson")
    play >> Agent(WITH + b"\n") << ToClient(WITH + b"\n") >> End()
    for unread in (own, b"[%b]" % SEND, gzip.compress(SEND), b"no JSON"):
        play = Playbook() >> Client(unread) << ToAgent(asks=False) >> Head(EVENTS)
        (shown,) = (play >> Agent(b"data: %b\n\n" % WITH)).got()
        assert same(shown.removeprefix(b"data: "), {"task": task()})
    play = Playbook() >> Client(own) << ToAgent(asks=False) >> Head(JSON, {b"content-length": b"1"})
    play >> Agent(WITH) >> End()
    assert same(play.shown(), {"task": task()})
    play = Playbook() >> Client(own) << ToAgent(asks=False) >> Head("image/png")
    play >> Agent(WITH) << ToClient(WITH) >> End()


@pytest.mark.parametrize(("method", "codes"), [("SendMessage", ["body_too_large"]), ("acme/own", [])])
def test_a_document_with_too_many_values_is_no_answer(method: str, codes: list[str]) -> None:
    play = Playbook(negotiate="never", limit=9_000_000) >> Client(rpc(method, said())) << ToAgent(asks=False)
    play >> Head(JSON, {b"content-length": b"1"}) >> Agent(DENSE) >> End() << Whole(DENSE)
    assert [finding.code for turn in play.stopped for finding in turn.findings] == codes


@pytest.mark.parametrize(("announced", "held"), [(100, [100, 100]), (101, [40, 80])])
def test_the_room_of_a_document_is_taken_at_once_where_it_may_be_read(announced: int, held: list[int]) -> None:
    play = Playbook(limit=100) >> Client(SEND) << ToAgent(asks=True)
    play >> Head(JSON, {b"content-length": b"%d" % announced})
    assert [(play >> Agent(b"x" * 40)).held.size for _ in held] == held


@pytest.mark.parametrize("requested", [True, False])
def test_a_compressed_document_without_the_extension_passes_as_it_is(requested: bool) -> None:
    packed = gzip.compress(WITH if requested else WITHOUT)
    play = Playbook(requested=requested) >> Client(SEND) << ToAgent(asks=True)
    play >> Head(JSON, {b"content-encoding": b"gzip"}) >> Agent(packed)
    assert b"".join([*play.got(), *(play >> End()).got()]) == packed
    assert play.codes == []


# ── what cannot be read ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("encoding", ["br", "gzip, br", "gzip,gzip,gzip,gzip,gzip", "gzip;q=1"])
def test_a_coding_that_cannot_be_read(encoding: str) -> None:
    head = Head(JSON, {b"content-encoding": encoding.encode()})
    asked = Playbook() >> Client(SEND) << ToAgent(asks=True) >> head << Cut("its content coding cannot be decoded")
    assert asked.codes == ["unknown_encoding"]
    play = Playbook(negotiate="never") >> Client(SEND) << ToAgent(asks=False) >> head
    play >> Agent(b"packed") << ToClient(b"packed") >> End()
    assert play.codes == ["unknown_encoding"]


@pytest.mark.parametrize(
    ("body", "code"), [(b"not gzip at all", "undecodable_body"), (gzip.compress(bytes(9_000_000)), "body_too_large")]
)
def test_a_document_that_cannot_be_decoded(body: bytes, code: str) -> None:
    head = Head(JSON, {b"content-encoding": b"gzip", b"content-length": b"1"})
    play = Playbook(negotiate="never") >> Client(SEND) << ToAgent(asks=False) >> head
    play >> Agent(body) >> End() << Whole(body)
    assert play.codes == [code]
    assert play.held.most < 1_200_000  # a bomb is not unpacked
    asked = Playbook() >> Client(SEND) << ToAgent(asks=True) >> head >> Agent(body) >> End()
    assert len(asked.got()) == 1
    assert isinstance(asked.cut, Cut)


NAMING = b"%b: no JSON" % URI.encode()


@pytest.mark.parametrize("asked", [True, False])
def test_what_is_no_json_and_names_the_extension_passes_where_the_proxy_did_not_ask(asked: bool) -> None:
    def begun(request: bytes, head: Head) -> Playbook:
        play = Playbook(negotiate="always" if asked else "never")
        return play >> Client(request) << ToAgent(asked) >> head

    play = begun(SEND, Head(JSON, {b"content-length": b"1"})) >> Agent(NAMING) >> End()
    assert play.got() != [NAMING] if asked else play.got() == [NAMING]
    assert (play.cut is None) is not asked
    event = b"data: %b\n\n" % NAMING
    play = begun(STREAM, Head(EVENTS)) >> Agent(event)
    assert play.got() == ([] if asked else [event])
    assert ("unreadable_event" in play.codes) is asked


def test_an_event_that_is_too_large_ends_the_reading_of_its_stream() -> None:
    play = Playbook(limit=60) >> Client(STREAM) << ToAgent(asks=True) >> Head(EVENTS)
    (
        play
        >> Agent(b"data: 1\n\ndata: 2")
        << ToClient(b"data: 1\n\n")
        >> Agent(b"x" * 60)
        << ToClient(b"data: 2" + b"x" * 60)
    )
    play >> Agent(b"\n\n") << ToClient(b"\n\n") >> End()
    assert play.codes == ["event_too_large", "malformed_response"]


def test_an_event_with_too_many_values_ends_the_reading_of_its_stream() -> None:
    dense = b"data: %b\n\n" % DENSE
    play = Playbook(limit=9_000_000) >> Client(STREAM) << ToAgent(asks=True) >> Head(EVENTS)
    play >> Agent(PIECE) << ToClient(PIECE) >> Agent(dense)
    assert b"".join(play.got()) == dense
    assert "event_too_large" in play.codes


# ── messages for one generation of their task ───────────────────────────────────────────────────────────────

NEXT = {**said(taskId="t", contextId="c"), "configuration": {"ifGenerationMatch": "2"}}
ERRORS: list[tuple[int, Any, list[str]]] = [
    (200, {"code": -32010, "message": "Task generation mismatch"}, []),
    (412, {"code": 412, "details": [{"reason": "TASK_GENERATION_MISMATCH"}]}, []),
    (500, {"code": -32603, "message": "broken"}, ["agent_error"]),
]


@pytest.mark.parametrize(("status", "error", "codes"), ERRORS)
def test_a_message_that_is_refused_for_its_generation_opens_no_turn(status: int, error: Any, codes: list[str]) -> None:
    """Another client was first; this one reads the task again and repeats its message. Other errors are of a turn."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "error": error}).encode()
    play = Playbook(requested=True) >> Client(rpc("SendMessage", NEXT)) << ToAgent(asks=True)
    play >> Head(JSON, status=status) >> Agent(body) << ToClient(body) >> End()
    assert [finding.code for turn in play.stopped for finding in turn.findings] == codes


# ── webhooks ────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_client_gets_its_own_url_in_place_of_the_proxys() -> None:
    urls = {b"http://proxy/push/1": b"http://hook"}
    play = Playbook(requested=True, own_urls=urls) >> Client(STREAM) << ToAgent(asks=True) >> Head(EVENTS)
    play >> Agent(PIECE.replace(b"found", b"http://proxy/push/1")) << ToClient(PIECE.replace(b"found", b"http://hook"))
    play >> Agent(DONE) << ToClient(DONE) >> End()
    assert play.codes == []
