"""ASGI middleware before real a2a-sdk servers: what it removes from answers, and who may activate the extension."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.tasks import InMemoryTaskStore
from a2a_eval_proxy.features.check.rules import CheckVerdict
from a2a_tool_capture import METADATA_KEY, URI, ActivationGate, CapturingExecutor, CapturingMiddleware, ToolCallRecorder
from a2a_tool_capture.spec import BASE_URI, OWN_ARTIFACT_PREFIX
from agents.recording_agent import Agent, agent_card, application, build_app
from agents.serving import ServerThread
from starlette.applications import Starlette
from starlette.middleware.gzip import GZipMiddleware
from support.checking import check

ASKING = {"A2A-Extensions": URI, "A2A-Version": "1.0"}
PLAIN = {"A2A-Version": "1.0"}


def build(url: str, *, compress: bool = False) -> Starlette:
    recorder, card = ToolCallRecorder(), agent_card(url)
    handler = DefaultRequestHandler(CapturingExecutor(Agent(recorder), recorder), InMemoryTaskStore(), card)
    app = application(card, handler)
    if compress:
        app.add_middleware(GZipMiddleware, minimum_size=1)
    app.add_middleware(CapturingMiddleware, recorder=recorder)
    return app


def call(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


MESSAGE = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "late"}]}


async def test_an_agent_on_the_handler_of_the_sdk_conforms() -> None:
    """Over JSON-RPC and HTTP+JSON, in both versions, in every operation that `check` knows."""
    with ServerThread(build) as agent:
        report = await check(agent.url, "late")
    problems = [(result.rule.id, str(result.interface)) for result in report.results if result.problems]
    assert (problems, report.verdict) == ([], CheckVerdict.CONFORMING)
    assert len(report.record.conversations) == 4


@pytest.mark.parametrize("method", ["SendMessage", "SendStreamingMessage"])
async def test_an_artifact_for_calls_only_is_seen_by_who_asks_alone(method: str) -> None:
    with ServerThread(build) as agent:
        async with httpx.AsyncClient(base_url=agent.url, trust_env=False) as http:
            asked = await http.post("/rpc", json=call(method, message=MESSAGE), headers=ASKING)
            plain = await http.post("/rpc", json=call(method, message=MESSAGE), headers=PLAIN)
    assert METADATA_KEY in asked.text
    assert OWN_ARTIFACT_PREFIX in asked.text
    assert BASE_URI not in plain.text
    assert OWN_ARTIFACT_PREFIX not in plain.text
    assert "done" in plain.text


async def test_the_card_declares_the_extension_for_every_fetch() -> None:
    with ServerThread(build) as agent:
        async with httpx.AsyncClient(base_url=agent.url, trust_env=False) as http:
            first = await http.get("/.well-known/agent-card.json")
            again = await http.get("/.well-known/agent-card.json", headers={"If-None-Match": "*"})
    assert again.content == first.content
    assert [extension["uri"] for extension in first.json()["capabilities"]["extensions"]] == [URI]


async def test_answers_that_would_be_compressed_are_looked_into_all_the_same() -> None:
    with ServerThread(lambda url: build(url, compress=True)) as agent:
        async with httpx.AsyncClient(base_url=agent.url, trust_env=False) as http:
            answer = await http.post("/rpc", json=call("SendMessage", message=MESSAGE), headers=PLAIN)
    assert "content-encoding" not in answer.headers
    assert BASE_URI not in answer.text


# ── streams in pieces, as other servers write them ──────────────────────────────────────────────────────────

CARRYING = {"artifactId": "a", "parts": [{"text": "x"}], "extensions": [URI], "metadata": {METADATA_KEY: [], "k": 1}}
OWN = {"artifactId": f"{OWN_ARTIFACT_PREFIX}1", "parts": [{"text": ""}], "extensions": [URI]}
OWN["metadata"] = {METADATA_KEY: [{"name": "x"}]}


def event(result: Any) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "result": result})


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("size", [1, 7, 1000])
async def test_events_are_changed_wherever_they_are_cut(end: str, size: int) -> None:
    stream = (
        f": ping{end}{end}"
        f"id: 7{end}data: {event({'artifactUpdate': {'artifact': CARRYING}})}{end}{end}"
        f"data: {event({'kind': 'artifact-update', 'artifact': OWN})}{end}{end}"
        f"data: {event({'statusUpdate': {'note': 'ü'}})}{end}{end}"
    ).encode()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"Content-Type", b"text/event-stream")]})
        for start in range(0, len(stream), size):
            await send({"type": "http.response.body", "body": stream[start : start + size], "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    transport = httpx.ASGITransport(app=CapturingMiddleware(app, recorder=ToolCallRecorder()))
    async with httpx.AsyncClient(transport=transport, base_url="http://agent") as http:
        answer = await http.post("/")
    kept = {"artifactId": "a", "parts": [{"text": "x"}], "metadata": {"k": 1}}
    assert (
        answer.content
        == (
            f": ping{end}{end}"
            f"id: 7{end}data: {event({'artifactUpdate': {'artifact': kept}})}{end}{end}"
            f"data: {event({'statusUpdate': {'note': 'ü'}})}{end}{end}"
        ).encode()
    )


# ── who may activate the extension ───────────────────────────────────────────────────────────────────────────────────


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
