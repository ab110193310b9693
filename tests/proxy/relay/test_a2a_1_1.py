"""Agents and clients of A2A 1.1, unknown to a2a-sdk: bytes pass as they are, and capture reads what is new."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from a2a_eval_proxy.grpc_relay.messages import METHODS
from a2a_tool_capture import METADATA_KEY, URI
from agents.replay_agent import Answer
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


def http(body: bytes, media_type: bytes, status_line: bytes = b"200 OK") -> Answer:
    head = b"HTTP/1.1 %b\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n" % (status_line, media_type, len(body))
    return Answer([head + body])


async def exchanged(it: Proxied, rest: bool, verb: str, answer: Answer, configuration: Any = None) -> bytes:
    """Send a message over JSON-RPC or HTTP+JSON; returns the body of the answer."""
    it.agent.prepare(answer)
    content: dict[str, Any] = {"message": MESSAGE}
    if configuration is not None:
        content["configuration"] = configuration
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
        for events in (JUMPING, WHOLE):
            body = sse(events, rest)
            it.data.headers["a2a-extensions"] = URI
            assert await exchanged(it, rest, "stream", http(body, b"text/event-stream")) == body
        await it.flushed()
        assert [known(turn) for turn in await it.turns()] == [JUMPED, SEEN]


@pytest.mark.parametrize("rest", [False, True])
async def test_the_answer_of_a_turn_may_be_in_the_timeline(tmp_path: Path, rest: bool) -> None:
    async with proxied(tmp_path) as it:
        body = json.dumps(in_envelope(ANSWERED, rest)).encode()
        assert await exchanged(it, rest, "send", http(body, b"application/json")) == body
        await it.flushed()
        assert [turn["response_text"] for turn in await it.turns()] == ["hi"]


class _GrpcAgent(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpcio has no types
    """Answers with these messages, and a field that nobody knows."""

    def __init__(self) -> None:
        self.answers: list[bytes] = []

    def service(self, details: Any) -> Any:
        async def stream(_: bytes, context: Any) -> Any:
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
                ("SendMessage", [ANSWERED]),
            ):
                kinds = METHODS[SERVICE + method]
                request = ParseDict({"message": MESSAGE}, kinds.request_type()).SerializeToString()
                unknown = b"\xf2\x3f\x05later"
                agent.answers = [ParseDict(e, kinds.response_type()).SerializeToString() + unknown for e in events]
                async with grpc.aio.insecure_channel(proxy.grpc_address) as channel:
                    call = channel.unary_stream(SERVICE + method)(request, metadata=(("a2a-extensions", URI),))
                    assert [message async for message in call] == agent.answers
            await proxy.flush(PATIENCE_S)
            turns = await proxy.turns()
        assert [known(turn) for turn in turns[:2]] == [JUMPED, SEEN]
        assert turns[2]["response_text"] == "hi"
    finally:
        await server.stop(0)
