"""Agents and clients of A2A 1.1, unknown to a2a-sdk: bytes pass as they are, and capture reads what is new."""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import httpx
import pytest
from a2a_eval_proxy.grpc_relay.messages import METHODS
from a2a_eval_proxy.settings.parts import Timeouts
from a2a_tool_capture import METADATA_KEY, URI
from agents.replay_agent import Answer, ReplayAgent
from google.protobuf.json_format import ParseDict
from support.grpc_proxy import running_proxy
from support.patience import PATIENCE_S
from support.proxied import Proxied, proxied

SERVICE = "/lf.a2a.v1.A2AService/"
MESSAGE = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}
NAMES = {"taskId": "t", "contextId": "c"}


def status(state: str, generation: int) -> dict[str, Any]:
    return {"statusUpdate": {**NAMES, "status": {"state": f"TASK_STATE_{state}"}, "generation": str(generation)}}


def called(generation: int) -> dict[str, Any]:
    calls = {METADATA_KEY: [{"id": "1", "name": "search", "arguments": {}}]}
    artifact = {"artifactId": "a", "parts": [{"text": "found"}], "metadata": calls, "extensions": [URI]}
    return {"artifactUpdate": {**NAMES, "artifact": artifact, "generation": str(generation)}}


SUBMITTED = {"task": {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_SUBMITTED"}, "generation": "1"}}
JUMPING = [SUBMITTED, status("WORKING", 2), called(3), status("COMPLETED", 6)]
WHOLE = [SUBMITTED, status("WORKING", 3), called(4), status("COMPLETED", 5)]

PROGRESS = {"progress": {**NAMES, "generation": "2", "done": 0.5}}
PROGRESSING = [SUBMITTED, PROGRESS, PROGRESS, called(3), status("COMPLETED", 4)]

TIMELINE = [
    {"message": MESSAGE, "generation": "2"},
    {"status": {"state": "TASK_STATE_WORKING", "message": {**MESSAGE, "role": "ROLE_AGENT"}}, "generation": "3"},
]
ANSWERED = {"task": {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}, "timeline": TIMELINE}}


def known(turn: dict[str, Any]) -> tuple[str, str, list[str], list[str]]:
    names = [call["name"] for call in turn["tool_calls"]]
    return turn["calls"], turn["calls_evidence"], names, [finding["code"] for finding in turn["findings"]]


JUMPED = ("unknown", "missed_events", ["search"], ["missed_events"])
SEEN = ("seen", "tool_calls", ["search"], [])
SEEN_DESPITE = ("seen", "tool_calls", ["search"], ["unknown_event"])


def http(body: bytes, media_type: bytes, status_line: bytes = b"200 OK") -> Answer:
    head = b"HTTP/1.1 %b\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n" % (status_line, media_type, len(body))
    return Answer([head + body])


async def exchanged(it: Proxied, rest: bool, verb: str, answer: Answer, required: Any = None) -> bytes:
    """Send a message over JSON-RPC or HTTP+JSON; returns the body of the answer.

    `required`: the generation of the task that it continues.
    """
    it.agent.prepare(answer)
    content: dict[str, Any] = {"message": MESSAGE}
    if required is not None:
        content = {"message": {**MESSAGE, **NAMES}, "configuration": {"ifGenerationMatch": required}}
    if not rest:
        method = {"stream": "SendStreamingMessage", "send": "SendMessage"}[verb]
        content = {"jsonrpc": "2.0", "id": 1, "method": method, "params": content}
    path = f"/message:{verb}" if rest else "/"
    return (await it.data.post(path, json=content, headers={"a2a-version": "1.0"})).content


def in_envelope(event: dict[str, Any], rest: bool) -> dict[str, Any]:
    return event if rest else {"jsonrpc": "2.0", "id": 1, "result": event}


def sse(events: list[dict[str, Any]], rest: bool) -> bytes:
    """Events as a server may send them that lets its clients resume, with every line end that there is."""
    parts = [b"retry: 3000\r\n: begins\r\r"]
    for number, event in enumerate(events):
        line_end = [b"\n", b"\r\n", b"\r"][number % 3]
        data = json.dumps(in_envelope(event, rest)).encode()
        parts.append(line_end.join([b"id: %d" % number, b"event: change", b"data: " + data, b"unknown: x", b"", b""]))
    return b"".join(parts)


@pytest.mark.parametrize("rest", [False, True])
async def test_streams_pass_byte_for_byte_and_a_jump_in_them_leaves_calls_unknown(tmp_path: Path, rest: bool) -> None:
    async with proxied(tmp_path) as it:
        for events in (JUMPING, WHOLE, PROGRESSING):
            body = sse(events, rest)
            it.data.headers["a2a-extensions"] = URI
            assert await exchanged(it, rest, "stream", http(body, b"text/event-stream")) == body
        await it.flushed()
        assert [known(turn) for turn in await it.turns()] == [JUMPED, SEEN, SEEN_DESPITE]


class _GrpcAgent(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpcio has no types
    """Answers with these messages, and a field that no reader knows."""

    def __init__(self) -> None:
        self.answers: list[bytes] = []

    def service(self, details: Any) -> Any:
        async def stream(_: bytes, context: Any) -> Any:
            if not self.answers:
                await context.abort(grpc.StatusCode.ABORTED, "task generation mismatch")
            for answer in self.answers:
                yield answer

        return grpc.unary_stream_rpc_method_handler(stream)


async def test_grpc_messages_pass_byte_for_byte_and_are_read_alike(tmp_path: Path) -> None:
    agent, server = _GrpcAgent(), grpc.aio.server()
    server.add_generic_rpc_handlers((agent,))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with running_proxy(f"grpc://127.0.0.1:{port}", tmp_path) as proxy:
            for method, events in (
                ("SendStreamingMessage", JUMPING),
                ("SendStreamingMessage", WHOLE),
                ("SendStreamingMessage", [SUBMITTED, {}, status("WORKING", 3), called(4), status("COMPLETED", 5)]),
                ("SendMessage", [ANSWERED]),
            ):
                kinds = METHODS[SERVICE + method]
                request = ParseDict({"message": MESSAGE}, kinds.request_type()).SerializeToString()
                unknown = b"\xf2\x3f\x05later"
                agent.answers = [ParseDict(e, kinds.response_type()).SerializeToString() + unknown for e in events]
                async with grpc.aio.insecure_channel(proxy.grpc_address) as channel:
                    call = channel.unary_stream(SERVICE + method)(request, metadata=(("a2a-extensions", URI),))
                    assert [message async for message in call] == agent.answers
            agent.answers = []
            content = {"message": {**MESSAGE, **NAMES}, "configuration": {"ifGenerationMatch": "1"}}
            request = ParseDict(content, METHODS[SERVICE + "SendMessage"].request_type()).SerializeToString()
            async with grpc.aio.insecure_channel(proxy.grpc_address) as channel:
                with pytest.raises(grpc.aio.AioRpcError, match="task generation mismatch"):
                    await channel.unary_unary(SERVICE + "SendMessage")(request)
            await proxy.flush(PATIENCE_S)
            turns = await proxy.turns()
        assert [known(turn) for turn in turns[:3]] == [JUMPED, SEEN, SEEN_DESPITE]
        assert [turn["response_text"] for turn in turns[3:]] == ["hi"]  # what was refused is no turn
    finally:
        await server.stop(0)


# ── messages for one generation of their task ───────────────────────────────────────────────────────────────

ASKING = {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_INPUT_REQUIRED"}, "generation": "3"}
DONE = {**ASKING, "status": {"state": "TASK_STATE_COMPLETED"}, "generation": "6"}
REASON = {"reason": "TASK_GENERATION_MISMATCH", "domain": "a2a-protocol.org"}
MISMATCH = {"code": -32010, "message": "Task generation mismatch", "data": [REASON]}


def refusal(rest: bool) -> Answer:
    if not rest:
        return http(json.dumps({"jsonrpc": "2.0", "id": 1, "error": MISMATCH}).encode(), b"application/json")
    body = json.dumps({"error": {"code": 412, "message": "mismatch", "details": [REASON]}}).encode()
    return http(body, b"application/json", b"412 Precondition Failed")


@pytest.mark.parametrize("rest", [False, True])
async def test_a_refused_message_does_not_end_the_turn_that_is_open(tmp_path: Path, rest: bool) -> None:
    async with proxied(tmp_path) as it:
        stream = sse([SUBMITTED, status("WORKING", 2)], rest)  # which breaks off
        await exchanged(it, rest, "stream", http(stream, b"text/event-stream"))
        await exchanged(it, rest, "send", refusal(rest), "1")
        assert it.proxy.control.open_turns == 1
        async with asyncio.timeout(PATIENCE_S):
            while not (turns := await it.turns()):  # open turns are written a moment later
                await asyncio.sleep(0.01)
        (turn,) = turns
        assert (turn["status"], turn["state"], turn["findings"]) == ("open", "TASK_STATE_WORKING", [])


# ── long polls ──────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_long_poll_outlives_the_time_limit_of_responses(tmp_path: Path) -> None:
    """The limit is over before the agent answers: it ends a request that is no long poll, and one that begins later."""
    body = json.dumps(in_envelope(DONE, False)).encode()
    get = {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": "t"}}
    waiting = {**get, "params": {"id": "t", "currentGeneration": "5"}}
    version = {"a2a-version": "1.0"}
    async with proxied(tmp_path, timeouts=Timeouts(response=0.5)) as it:
        it.agent.prepare(Answer([b"", *http(body, b"application/json").pieces], paced=True))
        polling = asyncio.create_task(it.data.post("/", json=waiting, headers=version, timeout=PATIENCE_S))
        while not it.agent.received:
            await asyncio.sleep(0)
        assert (await it.data.post("/", json=get, headers=version, timeout=PATIENCE_S)).status_code == 504
        assert (await it.admin.get("/readyz")).status_code == 200
        assert not polling.done()
        it.agent.release()
        it.agent.release()
        answer = await polling
        assert (answer.status_code, answer.content) == (200, body)


COUNTED = re.compile(r"^a2a_eval_proxy_(requests|responses|upstream_errors)_total\S* (\d+)", re.MULTILINE)


async def test_a_long_poll_is_counted_once_and_ends_before_the_proxy_does(tmp_path: Path) -> None:
    body = json.dumps(DONE).encode()
    async with AsyncExitStack() as stack, AsyncExitStack() as running:
        agent = stack.enter_context(ReplayAgent())
        agent.prepare(Answer([b"", *http(body, b"application/json").pieces], paced=True))
        proxy = await running.enter_async_context(running_proxy(agent.url, tmp_path, negotiate="never"))
        admin = await stack.enter_async_context(httpx.AsyncClient(base_url=proxy.admin_url))
        client = await stack.enter_async_context(httpx.AsyncClient(base_url=proxy.url, timeout=PATIENCE_S))
        poll = client.get("/tasks/t?currentGeneration=5", headers={"a2a-version": "1.0"})
        polling = asyncio.create_task(poll)
        while not agent.received:
            await asyncio.sleep(0.01)
        counted = COUNTED.findall((await admin.get("/metrics")).text)
        assert counted == [("requests", "1"), ("upstream_errors", "0")]
        stopping = asyncio.create_task(running.aclose())
        while (await admin.get("/readyz")).status_code != 503:
            await asyncio.sleep(0.01)
        assert not polling.done()
        agent.release()
        agent.release()
        assert (await polling).content == body
        counted = COUNTED.findall((await admin.get("/metrics")).text)
        assert counted == [("requests", "1"), ("upstream_errors", "0"), ("responses", "1")]
        await stopping
