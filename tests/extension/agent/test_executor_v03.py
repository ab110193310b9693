"""The capturing executor in a real a2a-sdk 0.3 server, which drops the metadata of later chunks."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from a2a_tool_capture import URI, CaptureClient, TaskMerger, read_tool_calls
from a2a_tool_capture.wire import normalize_event
from agents.serving import ServerThread
from support.patience import PATIENCE_S
from support.processes import ChildProcess
from support.provision import python_environment

pytestmark = pytest.mark.installs

EXTENSION = Path(__file__).parents[3] / "extension"

CALLS = {
    "plain": ["kettle"],
    "chunks": ["kettle", "cup", "plate"],
    "silent": ["kettle"],
    "snapshot": ["kettle"],
}


@pytest.fixture(scope="module")
def agent() -> Iterator[str]:
    command = [python_environment("a2a-0.3"), "-m", "agents.v03_recording_agent"]
    with ChildProcess(command, environment={"PYTHONPATH": str(EXTENSION)}) as process:
        yield process.wait_for(r"listening on (\S+)")[1]


async def ask(url: str, method: str, params: dict[str, Any], *, activate: bool = True) -> httpx.Response:
    async with httpx.AsyncClient() as http:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return await http.post(url, json=body, headers={"X-A2A-Extensions": URI} if activate else {})


async def send(url: str, text: str, *, activate: bool = True, **message: Any) -> httpx.Response:
    parts = [{"kind": "text", "text": text}]
    message |= {"kind": "message", "messageId": uuid.uuid4().hex, "role": "user", "parts": parts}
    return await ask(url, "message/send", {"message": message}, activate=activate)


def calls_in(task: dict[str, Any]) -> list[str]:
    """Read as strictly as the extension allows, each artifact for itself: a call is on one artifact only."""
    readings = [read_tool_calls(artifact) for artifact in task["artifacts"]]
    assert not [finding for reading in readings for finding in reading.findings]
    return [call.arguments["q"] for reading in readings for call in reading.tool_calls if call.arguments]


@pytest.mark.parametrize("streaming", [True, False])
@pytest.mark.parametrize("verb", CALLS)
async def test_a_client_that_asks_gets_every_call(agent: str, verb: str, streaming: bool) -> None:
    async with CaptureClient(agent, streaming=streaming, timeout_s=PATIENCE_S) as client:
        assert client.declared
        turn = await client.send(verb)
    assert [call.arguments for call in turn.tool_calls] == [{"q": q} for q in CALLS[verb]]
    assert [call.result for call in turn.tool_calls] == [q.upper() for q in CALLS[verb]]
    assert turn.findings == ()


@pytest.mark.parametrize("verb", CALLS)
async def test_the_stored_task_has_each_call_once(agent: str, verb: str) -> None:
    sent = (await send(agent, verb)).json()["result"]
    stored = (await ask(agent, "tasks/get", {"id": sent["id"]})).json()["result"]
    assert calls_in(stored) == CALLS[verb]
    merger = TaskMerger()
    event = normalize_event(stored)
    assert event is not None
    merger.feed(event)
    assert len(merger.tool_calls) == len(CALLS[verb])


@pytest.mark.statement(329)
async def test_the_answer_says_that_the_extension_is_active(agent: str) -> None:
    assert (await send(agent, "plain")).headers["X-A2A-Extensions"] == URI


async def test_stored_calls_are_kept_from_those_who_do_not_ask(agent: str) -> None:
    task_id = (await send(agent, "chunks")).json()["result"]["id"]
    hidden = await ask(agent, "tasks/get", {"id": task_id}, activate=False)
    assert "tool-call-capture" not in hidden.text
    assert "Tool calls" not in hidden.text
    assert [part["text"] for part in hidden.json()["result"]["artifacts"][0]["parts"]] == ["one ", "two"]
    shown = await ask(agent, "tasks/get", {"id": task_id})
    assert calls_in(shown.json()["result"]) == CALLS["chunks"]


async def test_webhooks_are_told_no_calls(agent: str) -> None:
    told: list[bytes] = []

    def webhook(url: str) -> Any:
        async def app(scope: Any, receive: Any, respond: Any) -> None:
            if scope["type"] == "http":
                told.append((await receive())["body"])
                await respond({"type": "http.response.start", "status": 200, "headers": []})
                await respond({"type": "http.response.body", "body": b""})

        return app

    with ServerThread(webhook) as server:
        parts = [{"kind": "text", "text": "plain"}]
        message = {"kind": "message", "messageId": "m", "role": "user", "parts": parts}
        configuration = {"pushNotificationConfig": {"url": server.url}}
        answer = await ask(agent, "message/send", {"message": message, "configuration": configuration})
    assert calls_in(answer.json()["result"]) == ["kettle"]
    assert b"completed" in told[-1]
    assert not any(b"kettle" in body or b"tool-call-capture" in body for body in told)
