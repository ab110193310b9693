"""Calls over gRPC are captured as those of the other bindings, and a conversation may change its binding."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc.aio
import httpx
import pytest
import pytest_asyncio
from a2a.client import A2ACardResolver, Client, ClientCallContext, ClientConfig, ClientFactory
from a2a.compat.v0_3.grpc_transport import CompatGrpcTransport
from a2a.types import AgentCard, Message, Part, Role, SendMessageRequest
from agents.scenarios import BOTH, SCENARIOS, URI
from support.recordings import anonymous

pytestmark = pytest.mark.asyncio(loop_scope="module")
BINDINGS = [("JSONRPC", 1), ("HTTP+JSON", 1), ("GRPC", 2), ("JSONRPC", 2), ("HTTP+JSON", 2)]
"""Each with the version of HTTP."""

NUMBER = re.compile(r'("[a-z_]+_(?:s|ms|at)"): [0-9.e-]+')
"""A time in seconds or milliseconds, in JSON."""

ClientOf = Callable[..., Client]
Asked = Callable[..., Any]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client_of(proxy: Any) -> AsyncIterator[ClientOf]:
    """A client of a2a-sdk for an interface of the proxy's card, by binding and version."""
    async with (
        httpx.AsyncClient() as http_1,
        httpx.AsyncClient(http1=False, http2=True) as http_2,
        grpc.aio.insecure_channel(proxy.grpc_address) as channel,
    ):
        card = await A2ACardResolver(http_1, proxy.url).get_agent_card()

        def get(binding: str, version: str = "1.0", *, streaming: bool = True, http: int = 1) -> Client:
            config = ClientConfig(
                httpx_client=http_2 if http == 2 else http_1,
                grpc_channel_factory=lambda address: channel if address == proxy.grpc_address else None,
                streaming=streaming,
                supported_protocol_bindings=[binding],
                use_client_preference=True,
            )
            chosen = AgentCard()
            chosen.CopyFrom(card)
            del chosen.supported_interfaces[:]
            chosen.supported_interfaces.extend(
                one for one in card.supported_interfaces if one.protocol_version.startswith(version)
            )
            factory = ClientFactory(config)
            if version == "0.3":  # a2a-sdk's own choice depends on which of its modules was imported first
                factory.register("GRPC", CompatGrpcTransport.create)
            return factory.create(chosen)

        yield get


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def asked(proxy: Any) -> AsyncIterator[Asked]:
    """The JSON of an admin path, once every turn is done."""
    async with httpx.AsyncClient(base_url=proxy.admin_url) as admin:

        async def get(path: str) -> Any:
            await admin.post("/api/flush")
            return (await admin.get(path)).raise_for_status().json()

        yield get


async def say(client: Client, text: str, *, asks: bool = False, **ids: str) -> Any:
    """The last thing that the client received."""
    message = Message(message_id=str(uuid.uuid4()), role=Role.ROLE_USER, parts=[Part(text=text)], **ids)
    context = ClientCallContext(service_parameters={"A2A-Extensions": URI} if asks else None)
    received = [one async for one in client.send_message(SendMessageRequest(message=message), context=context)]
    return received[-1]


def content(turn: dict[str, Any]) -> Any:
    """A turn without its binding, times and ids."""
    left_out = {"turn_id", "conversation_id", "task_id", "trace_id", "parent_span_id", "binding"}
    kept = {key: value for key, value in turn.items() if key not in left_out}
    return json.loads(NUMBER.sub(r"\1: 0", anonymous(json.dumps(kept))))


@pytest.mark.parametrize("version", ["1.0", "0.3"])
@pytest.mark.parametrize("streaming", [True, False], ids=["stream", "send"])
@pytest.mark.parametrize("asks", [False, True], ids=["not asking", "asking"])
@pytest.mark.parametrize("scenario", ["artifact", "split", "snapshot-drops", "message", "fail"])
async def test_turns_are_alike_over_all_bindings(client_of, asked, scenario, asks, streaming, version):
    text = f"{scenario} {uuid.uuid4()}"
    for binding, http in BINDINGS:
        await say(client_of(binding, version, streaming=streaming, http=http), text, asks=asks)
    turns = [turn for turn in (await asked("/api/turns?limit=200"))["items"] if turn["user_text"] == text]
    assert sorted(turn["binding"] for turn in turns) == sorted(binding for binding, _ in BINDINGS)
    calls = SCENARIOS[scenario].expected_calls(streamed=streaming)
    for turn in turns:
        assert [call["name"] for call in turn["tool_calls"]] == [call["name"] for call in calls]
        assert content(turn) == content(turns[0])


@pytest.mark.parametrize("version", ["1.0", "0.3"])
async def test_a_conversation_goes_on_over_every_binding(client_of, asked, version):
    """The agent's question comes over JSON-RPC, it is answered over gRPC; the next message goes over HTTP+JSON."""
    name = str(uuid.uuid4())
    question = (await say(client_of("JSONRPC", version), f"ask {name}")).status_update
    ids = {"context_id": question.context_id}
    await say(client_of("GRPC", version), f"Ada {name}", task_id=question.task_id, **ids)
    await say(client_of("HTTP+JSON", version), f"artifact {name}", **ids)
    turns = (await asked(f"/api/conversations/{question.context_id}"))["turns"]
    assert [(turn["user_text"], turn["binding"], turn["response_text"]) for turn in turns] == [
        (f"ask {name}", "JSONRPC", "What is your name?"),
        (f"Ada {name}", "GRPC", f"Hello, Ada {name}!"),
        (f"artifact {name}", "HTTP+JSON", "answer: 42\ndone"),
    ]
    names = [call["name"] for call in BOTH]
    assert [[call["name"] for call in turn["tool_calls"]] for turn in turns] == [[], names, names]
    assert turns[0]["task_id"] == turns[1]["task_id"] != turns[2]["task_id"]
