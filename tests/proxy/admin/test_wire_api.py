"""The raw wire of turns over the admin API, of a running proxy before an agent that sends prepared bytes."""

from __future__ import annotations

import gzip
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
from a2a_eval_proxy.privacy.redactor import name_rule
from a2a_eval_proxy.settings.parts import TrafficLimits
from a2a_tool_capture import METADATA_KEY, URI
from agents.replay_agent import Answer
from support.proxied import Proxied, proxied

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def proxy(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Proxied]:
    async with proxied(tmp_path_factory.mktemp("store")) as running:
        yield running


def response(body: bytes, kind: str = "application/json", *fields: str) -> bytes:
    lines = ["HTTP/1.1 200 OK", f"content-type: {kind}", f"content-length: {len(body)}", *fields]
    return "\r\n".join([*lines, "", ""]).encode() + body


def event(result: Any) -> bytes:
    return b"data: " + json.dumps({"jsonrpc": "2.0", "id": 1, "result": result}).encode() + b"\r\n\r\n"


def stream(*events: bytes, cut: bool = False) -> Answer:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    chunks = [b"%x\r\n%b\r\n" % (len(one), one) for one in events]
    return Answer([head, *chunks, b"" if cut else b"0\r\n\r\n"], cut=cut)


def task(state: str, **more: Any) -> dict[str, Any]:
    return {"task": {"id": "T1", "contextId": "c", "status": {"state": f"TASK_STATE_{state}"}, **more}}


def message(method: str = "SendMessage", text: str = "hi", **params: Any) -> bytes:
    said = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}]}
    request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"message": said, **params}}
    return json.dumps(request).encode()


async def sent(proxy: Proxied, answer: Answer, content: bytes, **headers: str) -> str:
    """The id of the turn that the message made."""
    proxy.agent.prepare(answer)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    try:
        await proxy.data.post("/", content=content, headers={"a2a-version": "1.0", **named})
    except httpx.RemoteProtocolError:
        assert answer.cut
    assert (await proxy.admin.post("/api/flush")).json()["done"]
    items = (await proxy.get("/api/turns", limit=1000))["items"]
    return str(items[-1]["turn_id"]) if items else ""


async def exchanges(proxy: Proxied, turn_id: str) -> list[dict[str, Any]]:
    wire = await proxy.get(f"/api/turns/{turn_id}/wire")
    assert (wire["turn_id"], wire["complete"]) == (turn_id, True)
    found: list[dict[str, Any]] = wire["exchanges"]
    return found


async def test_a_message_and_its_answer(proxy: Proxied) -> None:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "result": task("COMPLETED")}).encode()
    said = message()
    headers = {"authorization": "Bearer s3cret", "cookie": "id=s3cret", "x-api-key": "s3cret"}
    turn_id = await sent(proxy, Answer([response(body, "application/json", "set-cookie: id=s3cret")]), said, **headers)
    (one,) = await exchanges(proxy, turn_id)
    request, answer = one["request"], one["response"]
    assert (request["method"], request["target"]) == ("POST", "/")
    assert request["body"] == {"bytes": len(said), "text": said.decode()}
    shown = dict(request["headers"])
    assert (shown["a2a-version"], shown["traceparent"][:3]) == ("1.0", "00-")
    assert {shown[name] for name in headers} == {"***"}
    assert "s3cret" not in json.dumps(one)
    assert (answer["status"], dict(answer["headers"])["content-type"]) == (200, "application/json")
    assert answer["body"] == {"bytes": len(body), "text": body.decode()}
    assert 0 == one["offset_s"] <= answer["offset_s"] <= answer["pieces"][0]["offset_s"] <= one["end_s"]
    assert (one["opens_turn"], one["problem"]) == (True, None)


async def test_events_with_their_offsets_as_the_agent_sent_them(proxy: Proxied) -> None:
    artifact = {"artifactId": "a", "parts": [{"text": "done"}], "extensions": [URI]}
    artifact["metadata"] = {METADATA_KEY: [{"id": "1", "name": "search", "arguments": {}, "result": "42"}]}
    events = [
        event(task("WORKING")),
        b": ping\r\n\r\n",
        event({"artifactUpdate": {"taskId": "T1", "contextId": "c", "artifact": artifact}}),
        event({"statusUpdate": {"taskId": "T1", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}}}),
    ]
    turn_id = await sent(proxy, stream(*events), message("SendStreamingMessage"))
    (one,) = await exchanges(proxy, turn_id)
    found = one["response"]["events"]
    assert [item["text"].encode() for item in found] == events, "with the extension, which the client did not get"
    offsets = [item["offset_s"] for item in found]
    assert offsets == sorted(offsets)
    assert one["response"]["events_left_out"] == one["response"]["bytes_left_out"] == 0


async def test_a_turn_that_is_completed_by_polling_has_all_its_exchanges(proxy: Proxied) -> None:
    asked = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": "T1"}}).encode()
    turn_id = ""
    for state, content in (("WORKING", message()), ("WORKING", asked), ("COMPLETED", asked), ("COMPLETED", asked)):
        result = task(state) if content != asked else task(state)["task"]
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "result": result}).encode()
        turn_id = await sent(proxy, Answer([response(body)]), content)
    found = await exchanges(proxy, turn_id)
    assert [one["opens_turn"] for one in found] == [True, False, False]  # not what came after the end of the turn
    assert "GetTask" in found[1]["request"]["body"]["text"]


async def test_a_cut_answer(proxy: Proxied) -> None:
    whole, part = b": ping\r\n\r\n", b'data: {"jsonrpc": "2.0", "res'
    turn_id = await sent(proxy, stream(whole, part, cut=True), message("SendStreamingMessage"))
    (one,) = await exchanges(proxy, turn_id)
    assert [item["text"].encode() for item in one["response"]["events"]] == [whole, part]
    assert one["problem"] == "upstream_cut"


async def test_an_agent_that_does_not_answer(proxy: Proxied) -> None:
    (one,) = await exchanges(proxy, await sent(proxy, Answer([], cut=True), message()))
    assert (one["response"], one["problem"]) == (None, "upstream_failed")


PACKED = gzip.compress(b"{}", mtime=0)


@pytest.mark.parametrize(
    ("body", "fields", "shown"),
    [
        (PACKED, ["content-encoding: gzip"], {"text": "{}", "coding": "gzip"}),
        (b"{not json", [], {"text": "{not json"}),
        (b"\xff\xfe{", [], {"base64": "//57"}),
    ],
)
async def test_bytes_are_shown_decoded_or_as_they_are(
    proxy: Proxied, body: bytes, fields: list[str], shown: dict[str, str]
) -> None:
    answer = Answer([response(body, "application/json", *fields)])
    (one,) = await exchanges(proxy, await sent(proxy, answer, message(), accept_encoding="gzip"))
    assert one["response"]["body"] == {"bytes": len(body), **shown}


@pytest.mark.parametrize("max_body_bytes", [2**23, 2**22], ids=["read", "unread"])
async def test_of_a_large_answer_the_beginning_is_shown(tmp_path: Path, max_body_bytes: int) -> None:
    body = b'{"jsonrpc": "2.0", "id": 1, "result": "' + b"x" * 6_000_000 + b'"}'
    async with proxied(tmp_path, limits=TrafficLimits(body_bytes=max_body_bytes)) as proxy:
        turn_id = await sent(proxy, Answer([response(body)]), message())
        (one,) = await exchanges(proxy, turn_id)
        (turn,) = await proxy.turns()
    assert ("body_too_large" in [finding["code"] for finding in turn["findings"]]) == (max_body_bytes < len(body))
    shown = one["response"]["body"]
    assert (shown["cut"], shown["bytes"] + one["response"]["bytes_left_out"]) == (True, len(body))
    assert 1_000_000 < shown["bytes"] < 3_000_000


async def test_why_there_is_no_wire(tmp_path: Path) -> None:
    async with proxied(tmp_path) as first:
        await first.talks("one")
        await first.talks("two")
        await first.flushed()
        kept, deleted = [turn["turn_id"] for turn in await first.turns()]
        first.proxy.control.store.discard([deleted], lambda: None)
        await first.proxy.control.store.drained()
        for turn_id in (deleted, "absent"):
            gone = await first.admin.get(f"/api/turns/{turn_id}/wire")
            assert (gone.status_code, gone.json()["error"][:8]) == (404, "no turn ")
    async with proxied(tmp_path) as second:
        gone = await second.admin.get(f"/api/turns/{kept}/wire")
    assert gone.status_code == 404
    assert "is not known: `serve` keeps the last exchanges since its start in memory" in gone.json()["error"]


@pytest.mark.parametrize(
    "settings", [{"no_content": True}, {"redact": (name_rule("name"),)}], ids=["no-content", "names"]
)
async def test_nothing_is_kept_where_the_rules_cannot_be_applied(tmp_path: Path, settings: dict[str, Any]) -> None:
    async with proxied(tmp_path, **settings) as proxy:
        await proxy.talks()
        await proxy.flushed()
        (turn,) = await proxy.turns()
        off = await proxy.admin.get(f"/api/turns/{turn['turn_id']}/wire")
        assert (off.status_code, off.json()["error"][:20]) == (404, "the wire is not kept")
