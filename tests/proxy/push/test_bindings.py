"""Webhooks set over each binding, in both versions: relayed, shown as their clients set them, refused, passed."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import grpc.aio
import httpx
import pytest
import pytest_asyncio
from a2a.client.client import ClientCallContext
from a2a.client.errors import A2AClientError
from a2a.client.transports.base import ClientTransport
from a2a.client.transports.grpc import GrpcTransport
from a2a.client.transports.jsonrpc import JsonRpcTransport
from a2a.client.transports.rest import RestTransport
from a2a.compat.v0_3.grpc_transport import CompatGrpcTransport
from a2a.compat.v0_3.jsonrpc_transport import CompatJsonRpcTransport
from a2a.compat.v0_3.rest_transport import CompatRestTransport
from a2a.types import (
    DeleteTaskPushNotificationConfigRequest,
    GetTaskPushNotificationConfigRequest,
    ListTaskPushNotificationConfigsRequest,
    Message,
    Part,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    TaskPushNotificationConfig,
)
from a2a.utils.errors import (
    InvalidParamsError,
    MethodNotFoundError,
    TaskNotFoundError,
)
from agents.grpc_agent import GrpcAgent, grpc_agent
from agents.scenario_agent import REST_PATH, RPC_PATH, AgentOptions
from agents.scenarios import URI
from proxy.push.conftest import Endpoint, Relay, relaying

pytestmark = pytest.mark.asyncio(loop_scope="module")

Open = Callable[[str, str, httpx.AsyncClient], ClientTransport]
BINDINGS: dict[str, Open] = {
    "JSON-RPC 1.0": lambda url, _, http: JsonRpcTransport(http, None, url + RPC_PATH),
    "JSON-RPC 0.3": lambda url, _, http: CompatJsonRpcTransport(http, None, url + RPC_PATH),
    "HTTP+JSON 1.0": lambda url, _, http: RestTransport(http, None, url + REST_PATH),
    "HTTP+JSON 0.3": lambda url, _, http: CompatRestTransport(http, None, url + REST_PATH),
    "gRPC 1.0": lambda _, address, __: GrpcTransport(grpc.aio.insecure_channel(address), None),
    "gRPC 0.3": lambda _, address, __: CompatGrpcTransport(grpc.aio.insecure_channel(address), None),
}
LISTS = [binding for binding in BINDINGS if binding != "HTTP+JSON 0.3"]  # its client has no List and no Delete
ERRORS = {"HTTP+JSON 0.3": A2AClientError}  # which has no errors of its own: status 400
HOOK = "http://127.0.0.1:9/hook?secret=1"
each_binding = pytest.mark.parametrize("binding", BINDINGS)
over_grpc = pytest.mark.parametrize("binding", [one for one in BINDINGS if one.startswith("gRPC")])


class Client:
    """A client of a2a-sdk, over one binding."""

    def __init__(self, binding: str, url: str, grpc_address: str) -> None:
        self._http = httpx.AsyncClient(trust_env=False)
        self._transport = BINDINGS[binding](url, grpc_address, self._http)
        version = {} if binding.endswith("0.3") else {"A2A-Version": "1.0"}
        self._context = None if binding.startswith("gRPC") else ClientCallContext(service_parameters=version)

    async def close(self) -> None:
        await self._transport.close()
        await self._http.aclose()

    async def task(self, url: str = "", *, text: str = "ask hi", stream: bool = False) -> str:
        """The id of a new task, whose message sets this webhook."""
        configuration = SendMessageConfiguration(return_immediately=True)
        if url:
            configuration.task_push_notification_config.CopyFrom(TaskPushNotificationConfig(url=url, token="TOKEN"))
        message = Message(message_id=str(uuid.uuid4()), role=Role.ROLE_USER, parts=[Part(text=text)])
        request = SendMessageRequest(message=message, configuration=configuration)
        if not stream:
            return (await self._transport.send_message(request, context=self._context)).task.id
        events = [event async for event in self._transport.send_message_streaming(request, context=self._context)]
        return events[-1].status_update.task_id or events[0].task.id

    async def create(self, task_id: str, url: str) -> TaskPushNotificationConfig:
        config = TaskPushNotificationConfig(id="c1", task_id=task_id, url=url, token="TOKEN")
        return await self._transport.create_task_push_notification_config(config, context=self._context)

    async def urls(self, task_id: str) -> list[str]:
        """The URLs of a task's webhooks, as List shows them."""
        request = ListTaskPushNotificationConfigsRequest(task_id=task_id)
        answer = await self._transport.list_task_push_notification_configs(request, context=self._context)
        return [config.url for config in answer.configs]

    async def got(self, task_id: str) -> TaskPushNotificationConfig:
        request = GetTaskPushNotificationConfigRequest(id="c1", task_id=task_id)
        return await self._transport.get_task_push_notification_config(request, context=self._context)

    async def delete(self, task_id: str) -> None:
        request = DeleteTaskPushNotificationConfigRequest(id="c1", task_id=task_id)
        await self._transport.delete_task_push_notification_config(request, context=self._context)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def agent() -> AsyncIterator[GrpcAgent]:
    async with grpc_agent(AgentOptions(notifies=True)) as agent:
        yield agent


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def relay(agent: GrpcAgent, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Relay]:
    store = tmp_path_factory.mktemp("push") / "turns.db"
    async with relaying(agent.url, store, grpc="127.0.0.1:0") as relay:
        yield relay


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def at_agent(agent: GrpcAgent) -> AsyncIterator[Client]:
    """A client of the agent itself: what the proxy gave it."""
    client = Client("JSON-RPC 1.0", agent.url, agent.address)
    yield client
    await client.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def clients(relay: Relay) -> AsyncIterator[dict[str, Client]]:
    clients = {binding: Client(binding, relay.proxy.url, relay.proxy.grpc_address or "") for binding in BINDINGS}
    yield clients
    for client in clients.values():
        await client.close()


@each_binding
async def test_a_webhook_set_over_one_binding_is_its_clients_own_over_every_other(
    binding: str, relay: Relay, clients: dict[str, Client], at_agent: Client
) -> None:
    client, known = clients[binding], len(relay.addresses())
    task_id = await client.task()
    created = await client.create(task_id, HOOK)
    assert [created.url, created.id, created.token] == [HOOK, "c1", "TOKEN"]
    assert len(relay.addresses()) == known + 1
    assert await at_agent.urls(task_id) == [relay.addresses()[-1]]
    for other in BINDINGS:
        if other in LISTS:
            assert await clients[other].urls(task_id) == [HOOK]
        got = await clients[other].got(task_id)
        assert [got.url, got.id, got.token] == [HOOK, "c1", "TOKEN"]
    await (client if binding in LISTS else clients["HTTP+JSON 1.0"]).delete(task_id)
    assert len(relay.addresses()) == known


@pytest.mark.parametrize("stream", [False, True])
@each_binding
async def test_a_webhook_within_a_message(
    binding: str, stream: bool, relay: Relay, clients: dict[str, Client], at_agent: Client
) -> None:
    task_id = await clients[binding].task(HOOK, stream=stream)
    assert await at_agent.urls(task_id) == [relay.addresses()[-1]]
    assert await clients[LISTS[-1]].urls(task_id) == [HOOK]


@each_binding
async def test_other_targets_are_invalid_params(binding: str, relay: Relay, clients: dict[str, Client]) -> None:
    known = relay.addresses()
    with pytest.raises(ERRORS.get(binding, InvalidParamsError)):
        await clients[binding].task("http://10.0.0.1/", text="ask nothing")
    assert relay.addresses() == known
    assert not [turn for turn in await relay.proxy.turns() if turn["user_text"] == "ask nothing"]


@each_binding
async def test_a_webhook_that_the_agent_refuses_expects_nothing(
    binding: str, relay: Relay, clients: dict[str, Client]
) -> None:
    known, expecting = len(relay.addresses()), set(relay.addresses(expecting=True))
    with pytest.raises((TaskNotFoundError, MethodNotFoundError)):  # HTTP+JSON 0.3 has status 404 alone
        await clients[binding].create("nobody's", HOOK)
    assert len(relay.addresses()) == known + 1
    await relay.until_expecting(expecting)


async def test_a_task_that_ends_in_its_response_expects_nothing(tmp_path: Path) -> None:
    """The agent, which does not notify, could not show the end in another way."""
    going_on: set[str] = set()
    settings: dict[str, Any] = {"grpc": "127.0.0.1:0"}
    async with grpc_agent() as silent, relaying(silent.url, tmp_path / "turns.db", **settings) as relay:
        for binding in BINDINGS:
            client = Client(binding, relay.proxy.url, relay.proxy.grpc_address or "")
            await client.task(HOOK, text="ask hi")
            going_on |= set(relay.addresses(expecting=True))
            known = len(relay.addresses())
            await client.task(HOOK, text="artifact", stream=True)
            assert len(relay.addresses()) == known + 1
            await relay.until_expecting(going_on)
            await client.close()


@over_grpc
async def test_notifications_reach_a_client_that_left(
    binding: str, relay: Relay, clients: dict[str, Client], endpoint: Endpoint
) -> None:
    text = f"chunks {uuid.uuid4()}"
    await clients[binding].task(f"{endpoint.url}/hook", text=text)
    received = await endpoint.until_ended()
    assert {one.headers["x-a2a-notification-token"] for one in received} == {"TOKEN"}
    assert URI.encode() not in b"".join(one.body for one in received)
    turn = await relay.turn(text)
    assert turn["state"] == "TASK_STATE_COMPLETED"
    assert turn["tool_calls"]
    assert relay.codes(turn) == set()
