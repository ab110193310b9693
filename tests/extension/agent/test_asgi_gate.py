"""Who may activate the extension, at real servers: bearers, client certificates, whole deployments."""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx
import pytest
from a2a.helpers import new_task_from_user_message, new_text_part
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.routes import create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard
from a2a_tool_capture import URI, ActivationGate, CapturingRequestHandler, ToolCallRecorder
from agents.serving import ServerThread
from starlette.applications import Starlette

TOKEN = "s3cret-token"


class Agent(AgentExecutor):
    """Makes one call; its answer shows which extensions it was asked for."""

    def __init__(self, recorder: ToolCallRecorder) -> None:
        self._recorder = recorder

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.message is not None
        await event_queue.enqueue_event(new_task_from_user_message(context.message))
        self._recorder.record("search", {"q": "kettle"}, result="KETTLE")
        updater = TaskUpdater(event_queue, context.task_id or "", context.context_id or "")
        asked = [f"asked {uri};" for uri in sorted(context.requested_extensions) if uri != URI]
        await updater.add_artifact([new_text_part("".join(asked))])
        await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        raise NotImplementedError


def serving(recorder: ToolCallRecorder | None = None, card: AgentCard | None = None) -> CapturingRequestHandler:
    recorder = recorder or ToolCallRecorder()
    card = card or AgentCard(capabilities=AgentCapabilities(streaming=True), name="Guarded", version="1")
    return CapturingRequestHandler(Agent(recorder), InMemoryTaskStore(), card, recorder=recorder)


def app(url: str) -> Starlette:
    served = Starlette(routes=create_jsonrpc_routes(serving(), "/", enable_v0_3_compat=True))
    served.add_middleware(ActivationGate, tokens=["other", TOKEN])
    return served


@pytest.fixture(scope="module")
def agent() -> Iterator[str]:
    with ServerThread(app) as server:
        yield server.url


# ── over HTTP ───────────────────────────────────────────────────────────────────────────────────────────────


async def told(url: str, headers: list[tuple[str, str]], method: str = "SendMessage") -> str:
    """The message asks, too, as some clients do without the header."""
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}], "extensions": [URI]}
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"message": message}}
    async with httpx.AsyncClient() as http:
        response = await http.post(url, json=body, headers=[("A2A-Version", "1.0"), *headers])
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
    body = await told(agent, headers, method)
    assert "KETTLE" in body
    assert "asked urn:x;" in body


@pytest.mark.statement(347)
@pytest.mark.parametrize("method", ["SendMessage", "SendStreamingMessage"])
@pytest.mark.parametrize("headers", UNKNOWN)
async def test_others_are_answered_as_if_they_had_not_asked(
    agent: str, headers: list[tuple[str, str]], method: str
) -> None:
    body = await told(agent, headers, method)
    assert "tool-call-capture" not in body
    assert "KETTLE" not in body
    assert "asked urn:x;" in body


@pytest.mark.parametrize("who", [{"tokens": []}, {"tokens": [""]}, {"tokens": ["t", ""]}])
def test_a_guard_that_knows_nobody_or_anybody_is_refused(who: dict[str, list[str]]) -> None:
    with pytest.raises(ValueError, match="activate the extension"):
        ActivationGate(app, **who)  # type: ignore[arg-type]


# ── a whole deployment ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.statement(346, 348)
@pytest.mark.parametrize("value", ["off", "0", " False "])
async def test_a_deployment_that_is_switched_off_never_tells(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A2A_TOOL_CAPTURE", value)
    recorder = ToolCallRecorder()
    card = AgentCard(capabilities=AgentCapabilities(streaming=True), name="Guarded", version="1")
    handler = serving(recorder, card)
    assert not recorder.enabled
    assert not card.capabilities.extensions
    with ServerThread(lambda url: Starlette(routes=create_jsonrpc_routes(handler, "/"))) as server:
        body = await told(server.url, [ASKED])
    assert "tool-call-capture" not in body
    assert json.loads(body)["result"]["task"]["status"]["state"] == "TASK_STATE_COMPLETED"


def test_one_text_is_not_taken_for_a_list_of_characters() -> None:
    with pytest.raises(ValueError, match="expected a list of strings"):
        ActivationGate(app, tokens=TOKEN)  # type: ignore[arg-type]


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
