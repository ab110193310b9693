"""Statuses, limits, time and cancellation, before an agent over gRPC that was not made with a2a-sdk and has no card."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest
import pytest_asyncio
from a2a_eval_proxy import memory
from agents.plain_grpc_agent import FLOOD, FORGED, plain_grpc_agent
from support.grpc_proxy import running_proxy

pytestmark = pytest.mark.asyncio(loop_scope="module")
MAX_BODY = 3_000_000


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def agent():
    async with plain_grpc_agent() as agent:
        yield agent


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def proxy(agent, tmp_path_factory):
    settings: dict[str, Any] = {"transcode": True, "grpc": None, "max_body_bytes": MAX_BODY, "response_timeout": 60.0}
    async with running_proxy(f"grpc://{agent.address}", tmp_path_factory.mktemp("plain"), **settings) as proxy:
        yield proxy


@pytest_asyncio.fixture(loop_scope="module")
async def http(proxy):
    async with httpx.AsyncClient(base_url=proxy.url, headers={"A2A-Version": "1.0"}) as http:
        yield http


def message(text: str) -> dict[str, Any]:
    return {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}]}}


def rpc(text: str, method: str = "SendMessage") -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 7, "method": method, "params": message(text)}


@pytest.mark.parametrize(
    ("text", "code", "status", "reason"),
    [
        ("INVALID_ARGUMENT", -32602, 400, "INVALID_PARAMS"),
        ("NOT_FOUND", -32001, 404, "TASK_NOT_FOUND"),
        ("FAILED_PRECONDITION", -32004, 400, "UNSUPPORTED_OPERATION"),
        ("UNIMPLEMENTED", -32004, 400, "UNSUPPORTED_OPERATION"),
        ("DATA_LOSS", -32603, 500, "INTERNAL_ERROR"),
        ("UNAUTHENTICATED", -32603, 401, "UNAUTHENTICATED"),
        ("PERMISSION_DENIED", -32603, 403, "PERMISSION_DENIED"),
        ("RESOURCE_EXHAUSTED", -32603, 429, "RESOURCE_EXHAUSTED"),
        ("UNAVAILABLE", -32603, 502, "UPSTREAM_UNREACHABLE"),
        ("DEADLINE_EXCEEDED", -32603, 504, "UPSTREAM_TIMEOUT"),
        ("DETAILED", -32002, 400, "TASK_NOT_CANCELABLE"),
    ],
)
@pytest.mark.parametrize("streams", [False, True], ids=["send", "stream"])
async def test_statuses(http, text, code, status, reason, streams):
    over_rpc = await http.post("/", json=rpc(text, "SendStreamingMessage" if streams else "SendMessage"))
    over_rest = await http.post("/message:stream" if streams else "/message:send", json=message(text))
    assert over_rest.status_code == status
    assert over_rpc.status_code == (status if status in (401, 403, 429, 502, 504) else 200)
    in_rpc, in_rest = over_rpc.json()["error"], over_rest.json()["error"]
    assert (in_rpc["code"], over_rpc.json()["id"], in_rest["code"]) == (code, 7, status)
    for error, details in ((in_rpc, in_rpc["data"]), (in_rest, in_rest["details"])):
        assert details[0]["reason"] == reason
        assert ("too late" if text == "DETAILED" else f"why {text}") in error["message"]
        assert details[0]["metadata"] == ({"why": "done"} if text == "DETAILED" else {})
    for answer in (over_rpc, over_rest):
        assert answer.headers.get("www-authenticate") == ("Bearer" if text == "UNAUTHENTICATED" else None)


@pytest.mark.parametrize("text", ["later INTERNAL", "later UNAVAILABLE", "later DETAILED"])
async def test_a_stream_that_breaks_off_ends_with_the_error(http, text):
    why = "too late" if text == "later DETAILED" else text.replace("later", "why")
    over_rpc = events(await http.post("/", json=rpc(text, "SendStreamingMessage")))
    over_rest = events(await http.post("/message:stream", json=message(text)))
    assert (len(over_rpc), len(over_rest)) == (2, 2)
    assert over_rpc[0]["result"]["task"] == over_rest[0]["task"]
    assert over_rpc[1]["error"]["message"] == over_rest[1]["error"]["message"] == why


def events(answer: httpx.Response) -> list[Any]:
    assert answer.headers["content-type"].startswith("text/event-stream")
    return [json.loads(line.removeprefix("data: ")) for line in answer.text.splitlines() if line.startswith("data:")]


async def test_a_method_that_the_agent_does_not_implement_is_named(http):
    over_rpc = await http.post("/", json={"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {}})
    error = over_rpc.json()["error"]
    assert (error["code"], error["message"].partition(":")[0]) == (-32004, "the agent does not implement ListTasks")


async def test_an_answer_of_an_unknown_kind_is_an_error(http):
    error = (await http.post("/message:send", json=message("nothing"))).json()["error"]
    assert error["details"][0]["reason"] == "INVALID_AGENT_RESPONSE"


@pytest.mark.parametrize(
    ("method", "params", "why"),
    [
        ("SendMessage", message("dense"), "too many values"),
        ("GetTask", {"id": "x"}, "not a a2a.v1.Task"),  # of A2A 0.3: the agent has this method there alone
    ],
)
async def test_a_message_that_cannot_be_read_is_an_error(http, caplog, method, params, why):
    answer = await http.post("/", json={"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    error = answer.json()["error"]
    assert (error["code"], why in error["message"]) == (-32006, True)
    assert "deserializing" not in caplog.text  # grpcio's traceback


async def test_metadata_of_the_answer_arrives_as_headers(http):
    answer = await http.post("/message:send", json=message("hi"))
    assert answer.headers.get_list("x-agent") == ["1", "2"]
    assert answer.headers["raw-bin"] == "AP8="
    assert (answer.status_code, FORGED[0] in answer.headers) == (200, False)
    assert answer.headers["content-type"] == "application/a2a+json"


@pytest.mark.parametrize(("path", "body"), [("/", rpc("wait")), ("/message:send", message("wait"))])
async def test_a_client_that_leaves_cancels_the_call(agent, http, path, body):
    agent.cancelled.clear()
    asking = asyncio.create_task(http.post(path, json=body))
    await agent.waiting.get()
    asking.cancel()
    await agent.cancelled.wait()


@pytest.mark.parametrize(
    ("path", "body"), [("/", rpc("wait later", "SendStreamingMessage")), ("/message:stream", message("wait later"))]
)
async def test_a_client_that_leaves_a_stream_cancels_the_call(agent, http, path, body):
    agent.cancelled.clear()
    async with http.stream("POST", path, json=body) as answer:
        await anext(answer.aiter_bytes())
        await agent.waiting.get()
    await agent.cancelled.wait()


async def test_a_client_that_does_not_read_makes_the_agent_wait(agent, http):
    async with http.stream("POST", "/message:stream", json=message("flood")) as answer:
        lines = answer.aiter_lines()
        await anext(lines)
        seen = -1
        while seen != agent.sent:  # until nothing moves any more
            seen = agent.sent
            await asyncio.sleep(0.2)
        assert agent.sent < FLOOD
        async for _ in lines:
            pass
    assert agent.sent == FLOOD


async def test_the_agent_learns_the_deadline(agent, http):
    await http.post("/message:send", json=message("hi"))
    assert 50 < agent.deadlines[-1] < 70


async def test_a_body_over_the_limit_is_refused(agent, http):
    before = len(agent.deadlines)
    over_rpc = await http.post("/", json=rpc("x" * MAX_BODY))
    over_rest = await http.post("/message:send", json=message("x" * MAX_BODY))
    for answer in (over_rpc, over_rest):
        assert (answer.status_code, f"exceeds {MAX_BODY} bytes" in answer.json()["error"]["message"]) == (413, True)
    dense = await http.post("/message:send", json={**message("hi"), "metadata": {"many": [0] * 150_000}})
    assert (dense.status_code, "values" in dense.json()["error"]["message"]) == (413, True)
    assert len(agent.deadlines) == before


def logged_by_the_proxy(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The agent, whose library logs that it has no card, and the client run in the same process."""
    return [record.getMessage() for record in caplog.records if not record.name.startswith(("grpc.", "httpx"))]


async def test_a_version_that_is_not_known_is_an_error_of_the_client_alone(http, caplog):
    answer = await http.post("/", json=rpc("hi"), headers={"a2a-version": "9.9"})
    assert answer.json()["error"]["data"][0]["reason"] == "VERSION_NOT_SUPPORTED"
    assert logged_by_the_proxy(caplog) == []


async def test_an_id_that_no_response_can_repeat(http, caplog):
    """JSON can escape half of a surrogate pair, UTF-8 has no bytes for it."""
    body = json.dumps({**rpc("hi"), "id": "\ud800"})
    answer = await http.post("/", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 400
    assert (answer.json()["id"], answer.json()["error"]["data"][0]["reason"]) == ("\ud800", "NOT_UTF_8")
    assert logged_by_the_proxy(caplog) == []


async def test_messages_over_the_limit_of_the_agents_side(tmp_path):
    """The message of a request may be larger than its JSON; the agent's is checked by the gRPC library."""
    async with (
        plain_grpc_agent() as agent,
        running_proxy(f"grpc://{agent.address}", tmp_path, transcode=True, grpc=None, max_body_bytes=50_000) as proxy,
        httpx.AsyncClient(base_url=proxy.url, headers={"A2A-Version": "1.0"}) as http,
    ):
        request = await http.post("/message:send", json={**message("hi"), "metadata": {"many": [0] * 20_000}})
        answer = await http.post("/", json=rpc("dense"))
    assert (request.status_code, answer.status_code) == (413, 502)
    assert "larger than max" in answer.json()["error"]["message"]


async def test_headers_over_the_limit_of_the_agent(http):
    """Its gRPC library takes 8 KiB unless the agent asks for more; the proxy takes `max_header_bytes`."""
    for path, body in (("/", rpc("hi")), ("/message:send", message("hi"))):
        answer = await http.post(path, json=body, headers={"x-large": "y" * 30_000})
        error = answer.json()["error"]
        assert (answer.status_code, (error.get("data") or error["details"])[0]["reason"]) == (431, "HEADERS_TOO_LARGE")
        assert "exceeds hard limit (value length 30000 vs. 16384)" in error["message"]


async def test_bodies_of_all_requests_share_a_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "_BOUND", 0)  # then there is room for two of the largest
    large = {**message("wait"), "metadata": {"text": "x" * 40_000}}
    async with (
        plain_grpc_agent() as agent,
        running_proxy(f"grpc://{agent.address}", tmp_path, transcode=True, grpc=None, max_body_bytes=50_000) as proxy,
        httpx.AsyncClient(base_url=proxy.url, headers={"A2A-Version": "1.0"}) as http,
    ):
        held = [asyncio.create_task(http.post("/message:send", json=large)) for _ in range(2)]
        for _ in held:
            await agent.waiting.get()
        refused = await http.post("/message:send", json=large)
        assert (refused.status_code, (await http.post("/message:send", json=message("hi"))).status_code) == (503, 200)
        for task in held:
            task.cancel()
        await agent.cancelled.wait()


async def test_an_agent_that_falls_silent(tmp_path):
    async with (
        plain_grpc_agent() as agent,
        running_proxy(f"grpc://{agent.address}", tmp_path, transcode=True, grpc=None, response_timeout=0.2) as proxy,
        httpx.AsyncClient(base_url=proxy.url, headers={"A2A-Version": "1.0"}) as http,
    ):
        whole = await http.post("/message:send", json=message("wait"))
        stream = events(await http.post("/message:stream", json=message("wait later")))
        assert (whole.status_code, whole.json()["error"]["details"][0]["reason"]) == (504, "UPSTREAM_TIMEOUT")
        assert "silent for 0.2 s" in stream[-1]["error"]["message"]
        await agent.cancelled.wait()


async def test_an_agent_that_cannot_be_reached(tmp_path):
    """The errors, findings and counts are those of any agent; once it is up, it is found."""
    async with plain_grpc_agent() as agent:
        address = agent.address
    async with (
        running_proxy(f"grpc://{address}", tmp_path, transcode=True, grpc=None) as proxy,
        httpx.AsyncClient(base_url=proxy.url, headers={"A2A-Version": "1.0"}) as http,
        httpx.AsyncClient(base_url=proxy.admin_url) as admin,
    ):
        card = await http.get("/.well-known/agent-card.json")
        over_rpc = await http.post("/", json=rpc("hi"))
        for answer in (card, over_rpc):
            problem = answer.json()["error"]["message"]
            assert (answer.status_code, problem.partition(": ")[0]) == (
                502,
                f"the agent at grpc://{address} cannot be reached",
            )
        await admin.post("/api/flush")
        (turn,) = (await admin.get("/api/turns")).json()["items"]
        assert [finding["code"] for finding in turn["findings"]] == ["upstream_unreachable"]
