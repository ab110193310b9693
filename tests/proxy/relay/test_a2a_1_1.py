"""Agents and clients of A2A 1.1, unknown to a2a-sdk: bytes pass as they are, and capture reads what is new."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from a2a_eval_proxy.settings.parts import Timeouts
from a2a_tool_capture import METADATA_KEY, URI
from agents.replay_agent import Answer
from support.patience import PATIENCE_S
from support.proxied import Proxied, proxied

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


def known(turn: dict[str, Any]) -> tuple[str, str, list[str], list[str]]:
    names = [call["name"] for call in turn["tool_calls"]]
    return turn["calls"], turn["calls_evidence"], names, [finding["code"] for finding in turn["findings"]]


JUMPED = ("unknown", "missed_events", ["search"], ["missed_events"])
SEEN = ("seen", "tool_calls", ["search"], [])
SEEN_DESPITE = ("seen", "tool_calls", ["search"], ["unknown_event"])


def http(body: bytes, media_type: bytes, status_line: bytes = b"200 OK") -> Answer:
    head = b"HTTP/1.1 %b\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n" % (status_line, media_type, len(body))
    return Answer([head + body])


async def streamed(it: Proxied, rest: bool, answer: Answer) -> bytes:
    """Send a message over JSON-RPC or HTTP+JSON; returns the body of the answer, a stream."""
    it.agent.prepare(answer)
    content: dict[str, Any] = {"message": MESSAGE}
    if not rest:
        content = {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": content}
    path = "/message:stream" if rest else "/"
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
            assert await streamed(it, rest, http(body, b"text/event-stream")) == body
        await it.flushed()
        assert [known(turn) for turn in await it.turns()] == [JUMPED, SEEN, SEEN_DESPITE]


# ── messages for one generation of their task ───────────────────────────────────────────────────────────────

ASKING = {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_INPUT_REQUIRED"}, "generation": "3"}
DONE = {**ASKING, "status": {"state": "TASK_STATE_COMPLETED"}, "generation": "6"}


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
