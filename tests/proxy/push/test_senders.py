"""Real senders of both versions, each binding: what reaches the client is what the agent would have sent to it."""

from __future__ import annotations

import re
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import pytest
from a2a_tool_capture import URI
from proxy.push.conftest import Endpoint, relaying
from support.processes import ChildProcess
from support.provision import node_environment, python_environment

pytestmark = [pytest.mark.installs, pytest.mark.about("proxy/a2a_eval_proxy/features/push")]

EXTENSION = Path(__file__).parents[3] / "extension"
AGENTS = Path(__file__).parents[2] / "agents"


@pytest.fixture(scope="module")
def legacy_agent() -> Iterator[str]:
    """An agent with a2a-sdk 0.3."""
    command = [python_environment("a2a-0.3"), "-m", "agents.v03_recording_agent"]
    with ChildProcess(command, environment={"PYTHONPATH": str(EXTENSION)}) as process:
        yield process.wait_for(r"listening on (\S+)")[1]


@pytest.fixture(scope="module")
def javascript_agent() -> Iterator[str]:
    """An agent with @a2a-js/sdk 1.x, which does not declare the extension."""
    with TemporaryDirectory(dir=node_environment()) as beside_packages:
        script = shutil.copy(AGENTS / "javascript_pushing_agent.mjs", beside_packages)
        with ChildProcess(["node", script]) as process:
            yield process.wait_for(r"listening on (\S+)")[1]


def request(text: str, version: str, method: str, field: str, url: str) -> dict[str, Any]:
    message: dict[str, Any] = {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": [{"text": text}]}
    if version == "0.3" and method:
        message |= {"role": "user", "kind": "message", "parts": [{"kind": "text", "text": text}]}
    elif version == "0.3":
        message["content"] = message.pop("parts")
    params = {"message": message, "configuration": {field: {"url": url, "token": "TOKEN"}}}
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params} if method else params


async def notifications(agent: str, path: str, version: str, body: Any, endpoint: Endpoint) -> list[tuple[str, str]]:
    """Token and anonymous body of all notifications of one message."""
    headers = {} if version == "0.3" else {"a2a-version": "1.0"}
    async with httpx.AsyncClient(trust_env=False) as client:
        response = await client.post(agent + path, json=body, headers=headers)
        assert response.status_code == 200, response.text
        assert "error" not in response.json()
    found = await endpoint.until_ended()
    return [(one.headers["x-a2a-notification-token"], anonymous(one.body.decode())) for one in found]


def anonymous(text: str) -> str:
    text = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "ID", text)
    return re.sub(r"\d{4}-\d\d-\d\dT[0-9:.]+(?:Z|\+00:00)", "TIME", text)


def started(token: str, body: str) -> tuple[str, str]:
    """The notification, with one name for the states submitted and working."""
    return token, re.sub(r'"status":\{"state":"(?:submitted|working)"[^}]*\}', '"status":"STARTED"', body)


async def test_the_sender_of_the_0_3_sdk(legacy_agent: str, endpoint: Endpoint, tmp_path: Path) -> None:
    """Its notifications are whole tasks, as they are when it sends them: one that was submitted may work already."""
    body = request("chunks", "0.3", "message/send", "pushNotificationConfig", endpoint.url)
    body["params"]["configuration"]["blocking"] = False
    direct = await notifications(legacy_agent, "/", "0.3", body, endpoint)
    async with relaying(legacy_agent, tmp_path / "turns.db") as relay:
        relayed = await notifications(relay.proxy.url, "/", "0.3", body, endpoint)
        turn = await relay.turn("chunks")
    assert [started(*each) for each in relayed] == [started(*each) for each in direct]
    assert URI not in str(relayed)
    assert relay.addresses() != []
    assert turn["response_text"] == "one two"
    assert turn["state"] == "TASK_STATE_COMPLETED"


async def test_the_sender_of_the_javascript_sdk(javascript_agent: str, endpoint: Endpoint, tmp_path: Path) -> None:
    text = f"hello {uuid.uuid4()}"
    body = request(text, "1.0", "SendMessage", "taskPushNotificationConfig", endpoint.url)
    direct = await notifications(javascript_agent, "/", "1.0", body, endpoint)
    async with relaying(javascript_agent, tmp_path / "turns.db") as relay:
        assert await notifications(relay.proxy.url, "/", "1.0", body, endpoint) == direct
        turn = await relay.turn(text)
    assert relay.addresses() != []
    assert len(direct) == 4
    assert [turn["response_text"], turn["state"]] == ["done", "TASK_STATE_COMPLETED"]
