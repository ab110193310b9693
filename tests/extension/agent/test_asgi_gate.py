"""Who may activate the extension, at real servers: callers with a bearer token, whole deployments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from a2a_tool_capture import URI, ActivationGate, ToolCallRecorder
from agents.recording_agent import build_app
from agents.serving import ServerThread

TOKEN = "s3cret-token"


def app(url: str) -> Any:
    served = build_app(url)
    served.add_middleware(ActivationGate, tokens=["other", TOKEN])
    return served


@pytest.fixture(scope="module")
def agent() -> Iterator[str]:
    with ServerThread(app) as server:
        yield server.url


# ── over HTTP ───────────────────────────────────────────────────────────────────────────────────────────────


async def told(url: str, headers: list[tuple[str, str]], method: str = "SendMessage") -> str:
    """The message asks, too, as some clients do without the header."""
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "plain"}], "extensions": [URI]}
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"message": message}}
    async with httpx.AsyncClient() as http:
        response = await http.post(f"{url}/rpc", json=body, headers=[("A2A-Version", "1.0"), *headers])
    assert response.status_code == 200
    assert "TASK_STATE_COMPLETED" in response.text
    return response.text


ASKED = ("A2A-Extensions", f"urn:x, {URI}")

KNOWN = [
    [ASKED, ("Authorization", f"Bearer {TOKEN}")],
    [ASKED, ("Authorization", "bearer  other")],
]

UNKNOWN = [
    [ASKED],
    [ASKED, ("Authorization", "Bearer wrong")],
    [ASKED, ("Authorization", f"Bearer {TOKEN}x")],
    [ASKED, ("Authorization", "Bearer")],
    [ASKED, ("Authorization", f"Basic {TOKEN}")],
    [ASKED, ("Authorization", TOKEN)],
    [ASKED, ("Authorization", f"Bearer {TOKEN}"), ("Authorization", "Bearer wrong")],
    [("A2A-Extensions", URI), ("A2A-Extensions", f"urn:x,{URI}")],
]


@pytest.mark.statement(347)
@pytest.mark.parametrize("method", ["SendMessage", "SendStreamingMessage"])
@pytest.mark.parametrize("headers", KNOWN)
async def test_known_callers_are_told_calls(agent: str, headers: list[tuple[str, str]], method: str) -> None:
    assert "KETTLE" in await told(agent, headers, method)


@pytest.mark.statement(347)
@pytest.mark.parametrize("method", ["SendMessage", "SendStreamingMessage"])
@pytest.mark.parametrize("headers", UNKNOWN)
async def test_others_are_answered_as_if_they_had_not_asked(
    agent: str, headers: list[tuple[str, str]], method: str
) -> None:
    body = await told(agent, headers, method)
    assert "tool-call-capture" not in body
    assert "KETTLE" not in body


@pytest.mark.parametrize("tokens", [[], [""], ["t", ""], TOKEN])
def test_a_guard_that_knows_nobody_or_anybody_is_refused(tokens: Any) -> None:
    """One text would be taken for a list of characters."""
    with pytest.raises(ValueError, match=r"activate the extension|expected a list of strings"):
        ActivationGate(app, tokens=tokens)


# ── a whole deployment ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.statement(346, 348)
@pytest.mark.parametrize("value", ["off", "0", " False "])
async def test_a_deployment_that_is_switched_off_never_tells(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A2A_TOOL_CAPTURE", value)
    with ServerThread(build_app) as server:
        body = await told(server.url, [ASKED])
        card = httpx.get(f"{server.url}/.well-known/agent-card.json", trust_env=False).text
    assert "tool-call-capture" not in body + card


@pytest.mark.statement(348)
@pytest.mark.parametrize("value", ["on", "1", "TRUE", ""])
def test_it_is_on_unless_it_is_switched_off(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A2A_TOOL_CAPTURE", value)
    assert ToolCallRecorder().enabled
    assert not ToolCallRecorder(enabled=False).enabled


def test_a_switch_that_is_neither_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A2A_TOOL_CAPTURE", "maybe")
    with pytest.raises(ValueError, match="A2A_TOOL_CAPTURE is 'maybe'; expected on or off"):
        ToolCallRecorder()
