"""Clients of a2a-sdk over gRPC, both protocol versions: the same outcome direct and proxied, and captured turns."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import grpc.aio
import httpx
import pytest
import pytest_asyncio
from a2a.client.client import ClientCallContext
from a2a.client.transports.grpc import GrpcTransport
from a2a.compat.v0_3.grpc_transport import CompatGrpcTransport
from a2a.types import (
    GetExtendedAgentCardRequest,
    GetTaskRequest,
    ListTasksRequest,
)
from a2a_eval_proxy.relay import wire_log
from agents.grpc_agent import UNLIMITED
from agents.scenarios import BOTH, URI
from google.protobuf.json_format import MessageToJson
from support.transcripts import WritingClient, everything, task_of

pytestmark = pytest.mark.asyncio(loop_scope="module")
ASKING = ClientCallContext(service_parameters={"A2A-Extensions": URI})
TRANSPORTS = {"1.0": GrpcTransport, "0.3": CompatGrpcTransport}
versions = pytest.mark.parametrize("version", TRANSPORTS)


class Client(WritingClient):
    """As its base, over gRPC."""

    def __init__(self, address: str, version: str = "1.0") -> None:
        super().__init__(TRANSPORTS[version](grpc.aio.insecure_channel(address, UNLIMITED), None))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def admin(proxy):
    async with httpx.AsyncClient(base_url=proxy.admin_url) as admin:
        yield admin


@pytest_asyncio.fixture(loop_scope="module")
async def client(proxy):
    client = Client(proxy.grpc_address)
    yield client
    await client.transport.close()


async def turn_of(admin: httpx.AsyncClient, text: str) -> dict[str, Any]:
    """The one turn in which the user said this."""
    (turn,) = await turns_of(admin, text)
    return turn


async def turns_of(admin: httpx.AsyncClient, text: str) -> list[dict[str, Any]]:
    await admin.post("/api/flush")
    turns = (await admin.get("/api/turns", params={"limit": 200})).json()["items"]
    return [turn for turn in turns if turn["user_text"] == text]


def names(turn: dict[str, Any]) -> list[str]:
    return [call["name"] for call in turn["tool_calls"]]


@versions
@pytest.mark.parametrize("context", [None, ASKING], ids=["not asking", "asking"])
async def test_clients_see_the_same_direct_and_proxied(agent, proxy, version, context):
    direct, proxied = [
        await everything(Client(address, version).transport, agent.control, context, lists=version == "1.0")
        for address in (agent.address, proxy.grpc_address)
    ]
    assert proxied == direct
    assert len(direct) > 20
    assert (URI in str(direct)) == (context is not None)


@versions
@pytest.mark.parametrize("context", [None, ASKING], ids=["not asking", "asking"])
async def test_a_turn_is_captured(proxy, admin, version, context):
    client, text = Client(proxy.grpc_address, version), f"artifact {uuid.uuid4()}"
    await client.send(text, context)
    await client.transport.close()
    turn = await turn_of(admin, text)
    assert (turn["binding"], turn["state"], turn["response_text"]) == (
        "GRPC",
        "TASK_STATE_COMPLETED",
        "answer: 42\ndone",
    )
    assert names(turn) == [call["name"] for call in BOTH]


async def test_the_wire_of_a_turn_is_kept(admin, client, monkeypatch):
    monkeypatch.setattr(wire_log, "MAX_PER_S", 1e9)  # other tests of this proxy may have used it up
    text = f"artifact {uuid.uuid4()}"
    await client.did(client.stream(text))
    turn = await turn_of(admin, text)
    (one,) = (await admin.get(f"/api/turns/{turn['turn_id']}/wire")).json()["exchanges"]
    assert (text in one["request"]["body"]["text"], one["request"]["method"]) == (True, "POST")
    assert one["response"]["events"]


async def test_cases_runs_and_traces_come_from_metadata(agent, proxy, admin, client):
    text = f"artifact {uuid.uuid4()}"
    trace = "0af7651916cd43dd8448eb211c80319c"
    parameters = {"a2a-eval-case": "c 1", "a2a-eval-run": "r1", "traceparent": f"00-{trace}-00f067aa0ba902b7-01"}
    del agent.seen[:]
    await client.send(text, ClientCallContext(service_parameters=parameters))
    turn = await turn_of(admin, text)
    assert (turn["case_id"], turn["run"], turn["trace_id"]) == ("c 1", "r1", trace)
    assert not {"a2a-eval-case", "a2a-eval-run"} & {key for key, _ in agent.seen[0].metadata}


async def test_a_task_once_asked_for_shows_its_calls_to_the_same_caller(proxy, client):
    """As over HTTP; other tasks stay without them."""
    asked = (await client.send("artifact hi", ASKING)).task
    other = (await client.send("artifact hi")).task
    tasks = await client.transport.list_tasks(ListTasksRequest(include_artifacts=True, page_size=100))
    shown = {task.id: URI in str(task) for task in tasks.tasks}
    assert (shown[asked.id], shown[other.id]) == (True, False)
    assert URI in str(await task_of(client, asked.id))
    assert URI not in str(await task_of(client, other.id))
    caller = ClientCallContext(service_parameters={"authorization": "Bearer other"})
    assert URI not in str(await client.transport.get_task(GetTaskRequest(id=asked.id), context=caller))


async def test_an_error_of_the_agent_ends_the_turn_and_a_call_without_a_trace_gets_one(agent, admin, client):
    text = f"artifact {uuid.uuid4()}"
    del agent.seen[:]
    await client.send(text, task_id=str(uuid.uuid4()))
    turn = await turn_of(admin, text)
    assert [finding["code"] for finding in turn["findings"]] == ["agent_error"]
    assert "NOT_FOUND" in turn["findings"][0]["message"]
    metadata = dict(agent.seen[0].metadata)
    assert metadata["traceparent"].split("-")[1] == turn["trace_id"]
    assert metadata["tracestate"] == f"a2a-eval-proxy={turn['turn_id']}"


async def test_a_client_that_leaves_is_noted(agent, proxy, admin):
    text = f"slow {uuid.uuid4()}"
    client = Client(proxy.grpc_address)
    events = client.stream(text)
    await anext(events)
    await events.aclose()
    await client.transport.close()
    await agent.control.open(text.split()[1])
    while not (turns := await turns_of(admin, text)):  # the agent's server goes on, as it does without a proxy
        await asyncio.sleep(0.05)
    assert "client_gone" in [finding["code"] for finding in turns[0]["findings"]]


@versions
async def test_the_extended_card_names_the_proxys_addresses(agent, proxy, version):
    """And is the agent's otherwise."""
    cards = []
    for address in (agent.address, proxy.grpc_address):
        client = Client(address, version)
        card = await client.transport.get_extended_agent_card(GetExtendedAgentCardRequest())
        await client.transport.close()
        cards.append(card)
    expected = MessageToJson(cards[0]).replace(agent.address, proxy.grpc_address).replace(agent.url, proxy.url)
    assert MessageToJson(cards[1]) == expected
    assert cards[0] != cards[1]


async def test_public_addresses_follow_the_metadata(proxy, client):
    parameters = {"x-forwarded-host": "proxy.example.com", "x-forwarded-proto": "https"}
    context = ClientCallContext(service_parameters=parameters)
    card = await client.transport.get_extended_agent_card(GetExtendedAgentCardRequest(), context=context)
    port = proxy.grpc_address.rpartition(":")[2]
    assert {entry.url for entry in card.supported_interfaces} == {
        f"proxy.example.com:{port}",
        "https://proxy.example.com/a2a/jsonrpc",
        "https://proxy.example.com/a2a/rest",
    }
