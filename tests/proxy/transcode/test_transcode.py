"""Clients of a2a-sdk over JSON-RPC and HTTP+JSON, before an agent that is asked over gRPC alone."""

from __future__ import annotations

import uuid
from typing import Any

import httpx
import pytest
from a2a.client.client import ClientCallContext
from a2a.client.transports.base import ClientTransport
from a2a.client.transports.jsonrpc import JsonRpcTransport
from a2a.client.transports.rest import RestTransport
from a2a.compat.v0_3.jsonrpc_transport import CompatJsonRpcTransport
from a2a.compat.v0_3.rest_transport import CompatRestTransport
from a2a.types import AgentCard, GetTaskRequest
from a2a_eval_proxy.grpc_relay.messages import METHODS
from agents.scenario_agent import REST_PATH, RPC_PATH
from agents.scenarios import SCENARIOS, URI
from google.protobuf.json_format import ParseDict
from h2.events import DataReceived, Event, StreamEnded
from support.grpc_proxy import running_proxy
from support.raw_http2 import RawConnection, framed, raw_agent
from support.recordings import UUID
from support.transcripts import WritingClient, everything

pytestmark = pytest.mark.asyncio(loop_scope="module")
GET_TASK = "/lf.a2a.v1.A2AService/GetTask"
ASKING = ClientCallContext(service_parameters={"A2A-Extensions": URI})
CARD = AgentCard(capabilities={"streaming": True, "push_notifications": True, "extended_agent_card": True})
TRANSPORTS = {
    ("JSONRPC", "1.0"): JsonRpcTransport,
    ("HTTP+JSON", "1.0"): RestTransport,
    ("JSONRPC", "0.3"): CompatJsonRpcTransport,
    ("HTTP+JSON", "0.3"): CompatRestTransport,
}
clients = pytest.mark.parametrize(("binding", "version"), TRANSPORTS)


def transport(url: str, binding: str = "JSONRPC", version: str = "1.0") -> ClientTransport:
    http = httpx.AsyncClient(headers={"A2A-Version": version})
    made: ClientTransport = TRANSPORTS[binding, version](http, CARD, url)
    return made


async def turns_of(admin: httpx.AsyncClient, text: str) -> list[dict[str, Any]]:
    await admin.post("/api/flush")
    turns = (await admin.get("/api/turns", params={"limit": 200})).json()["items"]
    return [turn for turn in turns if turn["user_text"] == text]


async def turn_of(admin: httpx.AsyncClient, text: str) -> dict[str, Any]:
    (turn,) = await turns_of(admin, text)
    return turn


@clients
@pytest.mark.parametrize("context", [None, ASKING], ids=["not asking", "asking"])
async def test_clients_see_what_the_agent_itself_would_answer_over_http(
    agent, proxy, caplog, binding, version, context
):
    own = agent.url + (RPC_PATH if binding == "JSONRPC" else REST_PATH)
    direct, transcoded = [
        await everything(transport(url, binding, version), agent.control, context, lists=version == "1.0")
        for url in (own, proxy.url)
    ]
    assert [seen.replace(proxy.url, own) for seen in transcoded] == direct
    assert len(direct) > 20
    assert (URI in str(direct)) == (context is not None)
    assert "a2a_eval_proxy/transcode" not in caplog.text  # the errors are answers, not tracebacks


@clients
@pytest.mark.parametrize("scenario", ["artifact", "chunks"])
@pytest.mark.parametrize("streams", [True, False], ids=["stream", "send"])
async def test_turns_are_captured_once(proxy, admin, binding, version, scenario, streams):
    text = f"{scenario} {uuid.uuid4()}"
    client = WritingClient(transport(proxy.url, binding, version))
    await (client.did(client.stream(text)) if streams else client.send(text))
    await client.transport.close()
    turn, expected = await turn_of(admin, text), SCENARIOS[scenario]
    assert (turn["binding"], turn["protocol_version"]) == (binding, version)
    assert turn["response_text"] == expected.text.replace("{text}", text)
    assert [call["name"] for call in turn["tool_calls"]] == [
        call["name"] for call in expected.expected_calls(streamed=streams)
    ]
    assert turn["capture"]["requested_by_client"] is False


async def test_headers_arrive_as_metadata_without_those_of_http_and_of_the_proxy(agent, proxy, admin):
    text, trace = f"artifact {uuid.uuid4()}", "0af7651916cd43dd8448eb211c80319c"
    headers = {
        "Authorization": "Bearer secret",
        "X-Tenant": "t",
        "Raw-Bin": "AP8",
        "traceparent": f"00-{trace}-00f067aa0ba902b7-01",
        "A2A-Eval-Case": "c 1",
        "A2A-Eval-Run": "r1",
    }
    del agent.seen[:]
    client = WritingClient(transport(proxy.url))
    await client.send(text, ClientCallContext(service_parameters=headers))
    await client.transport.close()
    (call,) = [one for one in agent.seen if one.path.endswith("/SendMessage")]  # and not for the card
    ours = [item for item in call.metadata if item[0] not in ("user-agent", "grpc-accept-encoding", "accept-encoding")]
    assert call.path == "/lf.a2a.v1.A2AService/SendMessage"
    assert sorted(ours) == [
        ("a2a-extensions", URI),
        ("a2a-version", "1.0"),
        ("authorization", "Bearer secret"),
        ("raw-bin", b"\0\xff"),
        ("traceparent", headers["traceparent"]),
        ("x-agent-key", "secret"),
        ("x-tenant", "t"),
    ]
    turn = await turn_of(admin, text)
    assert (turn["case_id"], turn["run"], turn["trace_id"]) == ("c 1", "r1", trace)


@pytest.mark.parametrize("tenant", ["", "/acme"])
async def test_a_tenant_in_the_path_arrives(agent, proxy, tenant):
    """As `tenant` of the request message (A2A 1.0, section 11.3): the agent answers either way."""
    async with httpx.AsyncClient(base_url=proxy.url, headers={"A2A-Version": "1.0"}) as http:
        answer = await http.get(f"{tenant}/tasks", params={"pageSize": 1})
    assert (answer.status_code, "tasks" in answer.json()) == (200, True)


RPC = {"jsonrpc": "2.0", "id": 7, "method": "GetTask", "params": {"id": "no such task"}}
MESSAGE = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "message hi"}]}


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        b"null",
        b"{}",
        {**RPC, "jsonrpc": "1.0"},
        {**RPC, "id": {}},
        {**RPC, "method": "Nothing"},
        {**RPC, "params": {"id": 3}},
        {**RPC, "params": {"id": "x", "unknown": 1}},
        {**RPC, "method": "SendMessage", "params": {"message": {"messageId": "", "role": "ROLE_NOBODY"}}},
        {**RPC, "method": "SendMessage", "params": {"message": {**MESSAGE, "unknown": [1]}}},
        {**RPC, "method": "SendStreamingMessage", "params": {"message": {**MESSAGE, "parts": []}}},
        {**RPC, "method": "GetExtendedAgentCard", "params": 3},
        {**RPC, "method": "message/send", "params": {}},
        RPC,
    ],
    ids=str,
)
@pytest.mark.parametrize("version", ["1.0", "0.3", "2.0", ""])
async def test_requests_that_are_none_get_the_agents_answer_over_json_rpc(agent, proxy, body, version):
    await same_answers(agent.url + RPC_PATH, proxy.url + "/", "POST", "", body, version)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/message:send", b"{"),
        ("POST", "/message:send", {}),
        ("POST", "/message:send", {"message": {**MESSAGE, "unknown": 1}, "unknown": {}}),
        ("POST", "/message:send", {"message": {**MESSAGE, "taskId": "no such task"}}),
        ("POST", "/message:stream", b"nonsense"),
        ("POST", "/message:stream", {"message": {"messageId": "m"}}),
        ("GET", "/tasks/no%20such%20task", None),
        ("GET", "/tasks/x?historyLength=many", None),
        ("GET", "/tasks?pageSize=-1", None),
        ("GET", "/tasks/x:subscribe", None),
        ("POST", "/tasks/x:cancel", None),
        ("POST", "/tasks/x/pushNotificationConfigs", {"url": "http://127.0.0.1:9"}),
        ("GET", "/tasks/x/pushNotificationConfigs/y", None),
        ("GET", "/nothing", None),
        ("POST", "/v1/message:send", {"message": {}}),
    ],
)
async def test_requests_that_are_none_get_the_agents_answer_over_http_json(agent, proxy, method, path, body):
    await same_answers(agent.url + REST_PATH, proxy.url, method, path, body, "0.3" if path.startswith("/v1") else "1.0")


async def same_answers(own: str, proxied: str, method: str, path: str, body: Any, version: str) -> None:
    content = {"content": body} if isinstance(body, bytes) else {"json": body} if body is not None else {}
    headers = {"A2A-Version": version} if version else {}
    async with httpx.AsyncClient(headers=headers) as http:
        direct, transcoded = [await http.request(method, url + path, **content) for url in (own, proxied)]
    assert seen(transcoded) == seen(direct)


def seen(answer: httpx.Response) -> Any:
    """What of a response the agent decides."""
    return answer.status_code, answer.headers.get("content-type"), UUID.sub("ID", answer.text)


async def test_what_a2a_1_1_adds_is_not_translated(tmp_path):
    """A long poll is answered at once, and neither side gets generations, since a2a-sdk does not have them."""
    requests: list[bytes] = []
    task = ParseDict({"id": "t", "generation": "7"}, METHODS[GET_TASK].response_type()).SerializeToString()

    def answer(connection: RawConnection, event: Event) -> None:
        if isinstance(event, DataReceived) and connection.calls(GET_TASK.encode()):
            requests.append(event.data)
        elif isinstance(event, StreamEnded) and requests:
            connection.answer(event.stream_id, framed(task))
        elif isinstance(event, StreamEnded):  # about the card
            connection.answer(event.stream_id, trailers=[(b"grpc-status", b"12")])

    options = {"transcode": True, "negotiate": "never"}
    params = {"id": "t", "currentGeneration": "5"}
    async with (
        raw_agent(answer) as (address, _),
        running_proxy(f"grpc://{address}", tmp_path, **options) as proxy,
        httpx.AsyncClient(base_url=proxy.url, headers={"A2A-Version": "1.0"}) as http,
    ):
        rest = await http.get("/tasks/t", params={"currentGeneration": 5})
        rpc = await http.post("/", json={"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": params})
    assert requests == [framed(GetTaskRequest(id="t").SerializeToString())] * 2
    assert [rest.json(), rpc.json()["result"]] == [{"id": "t"}] * 2
