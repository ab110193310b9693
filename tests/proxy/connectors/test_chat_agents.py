"""Agents that are chat-completions APIs: a stand-in without a model, over real HTTP."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from a2a_eval_proxy.runs.drive import AgentOptions, agent_client
from a2a_eval_proxy.runs.served_agents import connected
from a2a_tool_capture.client import CaptureClient
from a2a_tool_capture.errors import AgentUnreachableError
from a2a_tool_capture.models import CapturedTurn
from agents.chat_server import KEY, calls, chat_server
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from support.prefork import run
from tool_call_evaluators.suite import AgentDefaults


@pytest.fixture(autouse=True)
def without_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "A2A_EVAL_PROXY_AGENT_API_KEY"):
        monkeypatch.delenv(name, raising=False)


async def said(
    url: str, *texts: str, headers: Mapping[str, str] | None = None, timeout_s: float = 30.0, **options: Any
) -> list[CapturedTurn]:
    """The turns of one conversation."""
    async with (
        connected(f"openai:{url}", AgentDefaults(**options), headers or {}, None, timeout_s) as server,
        CaptureClient(server.url if server else "") as client,
    ):
        conversation = client.conversation()
        return [await conversation.send(text) for text in texts]


def brief(turn: CapturedTurn) -> list[tuple[Any, ...]]:
    return [(call.id, call.name, call.arguments, call.result, call.error) for call in turn.tool_calls]


# ── conversations ───────────────────────────────────────────────────────────────────────────────────────────


async def test_the_model_gets_the_whole_conversation() -> None:
    with chat_server("Hello.", "Bye.") as api:
        turns = await said(api.url, "Hi", "Ciao", model="m-1", system="Be brief.", body={"temperature": 0})
    assert [turn.text for turn in turns] == ["Hello.", "Bye."]
    assert all(turn.declared and turn.state == "TASK_STATE_COMPLETED" for turn in turns)
    assert api.requests[0] == {
        "temperature": 0,
        "model": "m-1",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}],
    }
    assert api.requests[1]["messages"][2:] == [
        {"role": "assistant", "content": "Hello."},
        {"role": "user", "content": "Ciao"},
    ]


async def test_requests_carry_metadata_where_the_body_enables_it() -> None:
    with chat_server("one", "two") as api:
        first, _ = await said(api.url, "Hi", "Ciao", body={"enable_metadata": True})
    assert [request["metadata"] for request in api.requests] == [
        {"chat_id": first.context_id, "turn_id": turn} for turn in (0, 1)
    ]
    assert all("enable_metadata" not in request for request in api.requests)


@pytest.mark.parametrize("path", ["", "/", "/chat/completions", "/chat/completions?api-version=2024-10-21"])
async def test_the_url_is_that_of_the_api_or_of_its_endpoint(path: str) -> None:
    with chat_server("ok") as api:
        await said(api.url + path, "Hi")
    assert api.paths == ["/v1/chat/completions" + path[len("/chat/completions") :] * path.startswith("/chat")]


@pytest.mark.statement(320)
async def test_calls_are_those_in_the_messages_and_nothing_runs() -> None:
    both = ("look_up", '{"order_id": "ORD-1"}'), ("count", '{"numbers": [1, 2]}')
    script = calls(*both, content="One moment."), "Still waiting."
    body = {"tools": [{"type": "function", "function": {"name": "look_up", "parameters": {"type": "object"}}}]}
    with chat_server(*script) as api:
        first, second = await said(api.url, "Where?", "And?", body=body)
    assert (first.text, second.text) == ("One moment.", "Still waiting.")
    assert brief(first) == [
        ("call_0", "look_up", {"order_id": "ORD-1"}, None, None),
        ("call_1", "count", {"numbers": [1.0, 2.0]}, None, None),
    ]
    assert [request["tools"] for request in api.requests] == [body["tools"]] * 2
    assert api.requests[1]["messages"][2] == {
        "role": "tool",
        "tool_call_id": "call_0",
        "content": "The tool was not run.",
    }


# ── keys and headers ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("environment", "headers", "sent"),
    [
        ({}, {}, {}),
        ({"OPENAI_API_KEY": KEY}, {}, {"authorization": f"Bearer {KEY}"}),
        (
            {"OPENAI_API_KEY": "other", "A2A_EVAL_PROXY_AGENT_API_KEY": KEY},
            {"X-Team": "a"},
            {"authorization": f"Bearer {KEY}", "x-team": "a"},
        ),
        (
            {"OPENAI_API_KEY": "other", "MINE": KEY},
            {"authorization": "Bearer ${MINE}"},
            {"authorization": f"Bearer {KEY}"},
        ),
        ({"OPENAI_API_KEY": "other", "MINE": "secret"}, {"Api-Key": "${MINE}"}, {"api-key": "secret"}),
    ],
)
async def test_the_key_is_that_of_a_header_or_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], headers: dict[str, str], sent: dict[str, str]
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with chat_server("ok") as api:
        await said(api.url, "Hi", headers=headers)
    found = {name: value for name, value in api.headers[0].items() if name in ("authorization", "api-key", "x-team")}
    assert found == sent


async def test_a_key_is_in_no_message(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-wrong-key")
    with chat_server() as api, caplog.at_level("DEBUG"):  # of the libraries, too
        (turn,) = await said(f"{api.url}?sig=s3cret-signature", "Hi")
    assert turn.text.startswith(f"{api.url}/chat/completions: HTTP 401: Incorrect API key provided: ***.")
    assert "sk-wrong-key" not in caplog.text
    assert "s3cret" not in turn.text + caplog.text


# ── what goes wrong ─────────────────────────────────────────────────────────────────────────────────────────


def limited(**headers: str) -> Response:
    return JSONResponse({"error": {"message": "slow down", "code": None}}, 429, headers)


async def test_a_rate_limit_is_waited_for() -> None:
    with chat_server(
        limited(**{"retry-after-ms": "1"}), PlainTextResponse("busy", 503, {"retry-after": "0"}), "ok"
    ) as api:
        (turn,) = await said(api.url, "Hi")
    assert (turn.text, len(api.requests)) == ("ok", 3)


@pytest.mark.parametrize(
    ("said_by_api", "problem"),
    [
        (limited(**{"Retry-After": "900"}), "HTTP 429: slow down; the server asks to wait 900 s"),
        (JSONResponse({"error": {"message": "no such model"}}, 404), "HTTP 404: no such model"),
        (PlainTextResponse("<html>"), "a web page; is it a chat-completions API?"),
        (PlainTextResponse("hello"), "not a chat completion: hello"),
        (JSONResponse({"choices": []}), 'not a chat completion: {"choices":[]}'),
        (JSONResponse({"choices": [{"message": "text"}]}), "not a chat completion: "),
        ({"content": None, "tool_calls": [{"id": "c"}]}, "the model's message has a tool call without a function"),
        ({"tool_calls": [{"function": {"name": 7}}]}, "the model's message has a tool call whose name or arguments"),
    ],
)
async def test_what_is_no_completion_fails_the_turn(said_by_api: Any, problem: str) -> None:
    with chat_server(said_by_api) as api:
        (turn,) = await said(api.url, "Hi")
    assert turn.state == "TASK_STATE_FAILED"
    assert problem in turn.text
    assert "Traceback" not in turn.text


def fails(status: int) -> Response:
    error = {"message": "an error of ours", "type": "server_error", "code": "internal"}
    return JSONResponse({"error": error}, status, {"retry-after-ms": "1"})


@pytest.mark.parametrize(
    ("script", "unreachable"),
    [
        ([fails(500)] * 5, True),
        ([fails(503)] * 5, True),
        ([fails(401)], True),
        ([RedirectResponse("https://login.example/")], True),
        ([HTMLResponse("<p>Log in</p>")], True),
        ([fails(400)], False),
        ([JSONResponse({"choices": []})], False),
        (["Hello."], False),
    ],
)
async def test_an_api_that_is_not_the_model_says_nothing_about_the_agent(
    script: list[Response | str], unreachable: bool
) -> None:
    with chat_server(*script, "Again.") as api:
        async with agent_client(AgentOptions(f"openai:{api.url}")) as (client, _):
            conversation = client.conversation()
            with pytest.raises(AgentUnreachableError) if unreachable else nullcontext():
                await conversation.send("Hi")
            assert (await conversation.send("Hi again")).text == "Again."


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ({"content": None, "refusal": "I cannot."}, "I cannot."),
        ({"content": [{"type": "text", "text": "in "}, {"type": "text", "text": "parts"}]}, "in parts"),
        ({"content": None}, ""),
    ],
)
async def test_other_forms_of_content(message: dict[str, Any], text: str) -> None:
    with chat_server(message) as api:
        (turn,) = await said(api.url, "Hi")
    assert (turn.state, turn.text) == ("TASK_STATE_COMPLETED", text)


# ── the command ─────────────────────────────────────────────────────────────────────────────────────────────

SUITE = """
suite: orders
evaluators: [{tool_trajectory: {mode: strict}}]
cases:
  - id: status
    turns: [{user: Where?, expect: {tool_calls: [{name: look_up, arguments: {order_id: ORD-1}}]}}]
"""


def test_the_command_runs_a_model(tmp_path: Path) -> None:
    tmp_path.joinpath("suite.yaml").write_text(SUITE, "utf-8")
    with chat_server(*[calls(("look_up", '{"order_id": "ORD-1"}'))] * 2) as api:
        given = ["--agent", f"openai:{api.url}?version=1", "--agent-model", "m"]
        variables = {"OPENAI_API_KEY": KEY, "API": api.url}
        given += ["--agent-system", "Be brief.", "--header", "X-Team: a", "--run", "flags"]
        done = run("run", "suite.yaml", *given, cwd=tmp_path, **variables)
        assert done.returncode == 0, done.stderr + done.stdout
        agent = f'agent: {{url: "openai:{api.url}", model: m, system: Be brief., headers: {{X-Team: a}}}}'
        tmp_path.joinpath("suite.yaml").write_text(SUITE + agent, "utf-8")
        done = run("run", "suite.yaml", "--run", "suite", cwd=tmp_path, **variables)
        assert done.returncode == 0, done.stderr + done.stdout
    assert api.requests[0] == api.requests[1]
    assert {headers["x-team"] for headers in api.headers} == {"a"}
    stored = run("export", cwd=tmp_path).stdout
    assert {json.loads(line)["agent"] for line in stored.splitlines()} == {f"openai:{api.url}"}
    assert KEY not in tmp_path.joinpath("a2a-eval-proxy.db").read_bytes().decode("latin-1")
