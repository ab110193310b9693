"""The capturing executor in a real a2a-sdk 0.3 server, which drops the metadata of later chunks."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from a2a_tool_capture import URI, CaptureClient, read_tool_calls
from support.endpoint import served_endpoint
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


@pytest.mark.statement(329)
@pytest.mark.parametrize("verb", CALLS)
async def test_stored_calls_are_shown_once_to_those_who_ask(agent: str, verb: str) -> None:
    answer = await send(agent, verb)
    assert answer.headers["X-A2A-Extensions"] == URI
    sent = answer.json()["result"]
    stored = (await ask(agent, "tasks/get", {"id": sent["id"]})).json()["result"]
    assert calls_in(sent) == calls_in(stored) == CALLS[verb]
    hidden = await ask(agent, "tasks/get", {"id": sent["id"]}, activate=False)
    assert hidden.json()["result"]["status"]["state"] == "completed"
    assert "tool-call-capture" not in hidden.text


async def test_a_client_that_asks_gets_every_call_of_a_stream(agent: str) -> None:
    async with CaptureClient(agent, timeout_s=PATIENCE_S) as client:
        turn = await client.send("chunks")
    assert [call.arguments for call in turn.tool_calls] == [{"q": q} for q in CALLS["chunks"]]
    assert turn.findings == ()


async def test_webhooks_are_told_no_calls(agent: str) -> None:
    message = {"kind": "message", "messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "plain"}]}
    with served_endpoint() as webhook:
        configuration = {"pushNotificationConfig": {"url": webhook.url}}
        answer = await ask(agent, "message/send", {"message": message, "configuration": configuration})
        told = [one.body for one in await webhook.until_ended()]
    assert calls_in(answer.json()["result"]) == ["kettle"]
    assert not any(b"kettle" in body or b"tool-call-capture" in body for body in told)
