"""What a request that did not activate the extension is shown of a task whose calls are stored, over each binding."""

from __future__ import annotations

import asyncio
import queue
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import grpc.aio
import httpx
import pytest
from a2a.client import Client, ClientCallContext, ClientConfig, ClientFactory
from a2a.client.service_parameters import ServiceParametersFactory, with_a2a_extensions
from a2a.helpers import new_task_from_user_message, new_text_message, new_text_part
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.context import ServerCallContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import GrpcHandler
from a2a.server.routes import create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import (
    BasePushNotificationSender,
    InMemoryPushNotificationConfigStore,
    InMemoryTaskStore,
    PushNotificationConfigStore,
    TaskUpdater,
)
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    Artifact,
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    SubscribeToTaskRequest,
    Task,
    TaskPushNotificationConfig,
    a2a_pb2_grpc,
)
from a2a_tool_capture import (
    METADATA_KEY,
    URI,
    CapturingRequestHandler,
    GatedPushConfigStore,
    ToolCallRecorder,
    without_tool_calls,
)
from agents.serving import ServerThread
from google.protobuf.json_format import MessageToDict, MessageToJson
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from support.patience import awaited

BINDINGS = [("JSONRPC", "1.0"), ("JSONRPC", "0.3"), ("HTTP+JSON", "1.0"), ("HTTP+JSON", "0.3"), ("GRPC", "1.0")]
UNKEPT = httpx.Limits(max_keepalive_connections=0)
"""Connections that no test has to close."""

TRACES = ("tool-call-capture", "Tool calls", "KETTLE", "CUP")
"""What only an agent that reports its calls puts on the wire."""


class Holding(AgentExecutor):
    """Makes a call, answers, waits for a "release" message, makes another call, ends. "ask" asks back in between."""

    def __init__(self, recorder: ToolCallRecorder) -> None:
        self._recorder = recorder
        self._released = asyncio.Event()

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.message is not None
        text = context.get_user_input()
        updater = TaskUpdater(event_queue, context.task_id or "", context.context_id or "")
        if text == "release":
            await event_queue.enqueue_event(new_text_message("released", context_id=context.context_id))
            self._released.set()
            return
        if context.current_task is None:
            await event_queue.enqueue_event(new_task_from_user_message(context.message))
            await updater.start_work()
            self._recorder.record("search", {"q": "kettle"}, result="KETTLE")
            await updater.add_artifact([new_text_part("answer")], artifact_id="answer", extensions=["urn:another"])
            if text == "ask":
                await updater.requires_input()
                return
            await self._released.wait()
            self._recorder.record("search", {"q": "cup"}, result="CUP")
        await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        await TaskUpdater(event_queue, context.task_id or "", context.context_id or "").cancel()


@dataclass
class Webhooks:
    """Where an agent's notifications arrive, by path."""

    url: str
    arrived: dict[str, queue.SimpleQueue[bytes]]

    async def until_completed(self, path: str) -> str:
        """All that came to `path` up to the end of the task."""
        bodies: list[bytes] = []
        while not bodies or b"TASK_STATE_COMPLETED" not in bodies[-1]:
            await asyncio.to_thread(awaited, self.arrived[path], bodies)
        return b"\n".join(bodies).decode()


@pytest.fixture
def webhooks() -> Any:
    arrived: dict[str, queue.SimpleQueue[bytes]] = {"asked": queue.SimpleQueue(), "plain": queue.SimpleQueue()}

    async def take(request: Request) -> Response:
        arrived[request.path_params["name"]].put(await request.body())
        return Response()

    app = Starlette(routes=[Route("/{name}", take, methods=["POST"])])
    with ServerThread(lambda url: app) as server:
        yield Webhooks(server.url, arrived)


def serving(card: AgentCard, store: PushNotificationConfigStore | None = None) -> CapturingRequestHandler:
    recorder = ToolCallRecorder()
    sender = BasePushNotificationSender(httpx.AsyncClient(limits=UNKEPT), store) if store else None
    return CapturingRequestHandler(
        Holding(recorder),
        InMemoryTaskStore(),
        card,
        recorder=recorder,
        push_config_store=store,
        push_sender=sender,
    )


@asynccontextmanager
async def connected(
    binding: str,
    version: str,
    store: PushNotificationConfigStore | None = None,
    config: ClientConfig | None = None,
) -> AsyncIterator[Client]:
    """A client of an agent of its own, with a `config` that it goes on to read."""
    card = AgentCard(
        name="Holding", version="1", capabilities=AgentCapabilities(streaming=True, push_notifications=True)
    )
    async with AsyncExitStack() as stack:
        if binding == "GRPC":
            server = grpc.aio.server()
            a2a_pb2_grpc.add_A2AServiceServicer_to_server(GrpcHandler(serving(card, store)), server)
            url = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
            await server.start()
            stack.push_async_callback(server.stop, None)
        else:
            routes = create_jsonrpc_routes if binding == "JSONRPC" else create_rest_routes
            path = {"rpc_url": "/a2a"} if binding == "JSONRPC" else {"path_prefix": "/a2a"}

            def app(base: str) -> Starlette:
                handler = serving(card, store)
                return Starlette(routes=routes(handler, enable_v0_3_compat=True, **path))  # type: ignore[operator]

            url = f"{stack.enter_context(ServerThread(app)).url}/a2a"
        card.supported_interfaces.append(AgentInterface(url=url, protocol_binding=binding, protocol_version=version))
        config = config or ClientConfig()
        config.httpx_client = await stack.enter_async_context(httpx.AsyncClient())
        config.grpc_channel_factory = grpc.aio.insecure_channel
        config.supported_protocol_bindings = [binding]
        yield await stack.enter_async_context(ClientFactory(config).create(card))


def asking(asked: bool) -> ClientCallContext:
    uris = ["urn:another", URI] if asked else ["urn:another"]
    return ClientCallContext(service_parameters=ServiceParametersFactory.create([with_a2a_extensions(uris)]))


def message(text: str, **fields: Any) -> SendMessageRequest:
    return SendMessageRequest(
        message=Message(message_id=uuid.uuid4().hex, role=Role.ROLE_USER, parts=[Part(text=text)], **fields)
    )


async def begun(client: Client, text: str) -> str:
    """Id of a task whose first call a client that asked has seen."""
    async for event in client.send_message(message(text), context=asking(True)):
        if event.HasField("artifact_update") and "KETTLE" in MessageToJson(event):
            return event.artifact_update.task_id
    raise AssertionError("the agent sent no calls")


async def ended(client: Client, task_id: str, asked: bool) -> str:
    """All that a subscriber sees until the task, which it has released, is completed."""
    seen = []
    async for event in client.subscribe(SubscribeToTaskRequest(id=task_id), context=asking(asked)):
        if not seen:
            async for answer in client.send_message(message("release"), context=asking(False)):
                assert answer.message.parts[0].text == "released"
        seen.append(MessageToJson(event))
    assert "TASK_STATE_COMPLETED" in seen[-1]
    return "\n".join(seen)


def check(body: str, asked: bool) -> None:
    assert "urn:another" in body
    assert "answer" in body
    if asked:
        assert METADATA_KEY in body
        assert "KETTLE" in body
    else:
        assert not [trace for trace in TRACES if trace in body]


@pytest.mark.parametrize("asked", [True, False])
@pytest.mark.parametrize(("binding", "version"), BINDINGS)
async def test_subscribe_get_and_list_show_calls_to_those_who_ask(binding: str, version: str, asked: bool) -> None:
    async with connected(binding, version) as client:
        task_id = await begun(client, "hold")
        check(await ended(client, task_id, asked), asked)
        task = await client.get_task(GetTaskRequest(id=task_id), context=asking(asked))
        check(MessageToJson(task), asked)
        assert [artifact.artifact_id for artifact in task.artifacts][1:] == (
            [task.artifacts[-1].artifact_id] if asked else []
        )
        if version == "1.0":  # 0.3 has no such method
            page = await client.list_tasks(ListTasksRequest(include_artifacts=True), context=asking(asked))
            check(MessageToJson(page), asked)
        kept = await client.get_task(GetTaskRequest(id=task_id), context=asking(True))
    assert "KETTLE" in MessageToJson(kept)
    assert "CUP" in MessageToJson(kept)


@pytest.mark.parametrize("asked", [True, False])
@pytest.mark.parametrize(("binding", "version"), BINDINGS)
async def test_so_do_cancel_and_the_answer_to_a_later_message(binding: str, version: str, asked: bool) -> None:
    config = ClientConfig()
    async with connected(binding, version, config=config) as client:
        task_id = await begun(client, "hold")
        cancelled = await client.cancel_task(CancelTaskRequest(id=task_id), context=asking(asked))
        check(MessageToJson(cancelled), asked)

        task_id = await begun(client, "ask")
        config.streaming = False
        later = message("continue", task_id=task_id)
        answers = [answer async for answer in client.send_message(later, context=asking(asked))]
        check(MessageToJson(answers[-1]), asked)


@pytest.mark.parametrize("streaming", [True, False])
@pytest.mark.parametrize(("binding", "version"), BINDINGS)
async def test_a_message_that_lists_the_extension_asks_without_the_header(
    binding: str, version: str, streaming: bool
) -> None:
    async with connected(binding, version, config=ClientConfig(streaming=streaming)) as client:
        asking_message = message("ask", extensions=[URI])
        shown = [MessageToJson(answer) async for answer in client.send_message(asking_message, context=asking(False))]
        check("\n".join(shown), asked=True)
        [later] = [MessageToJson(answer) async for answer in client.send_message(message("release"))][-1:]
        assert "tool-call-capture" not in later


@pytest.mark.parametrize("gated", [True, False])
@pytest.mark.parametrize(("binding", "version"), BINDINGS)
async def test_webhooks_are_told_what_the_request_that_set_them_asked_for(
    binding: str, version: str, gated: bool, webhooks: Webhooks
) -> None:
    plain = InMemoryPushNotificationConfigStore()
    async with connected(binding, version, GatedPushConfigStore(plain) if gated else plain) as client:
        task_id = await begun(client, "hold")
        for name in webhooks.arrived:
            await client.create_task_push_notification_config(
                TaskPushNotificationConfig(task_id=task_id, id=name, url=f"{webhooks.url}/{name}"),
                context=asking(name == "asked"),
            )
        await ended(client, task_id, asked=False)
        for name in webhooks.arrived:
            body = await webhooks.until_completed(name)
            assert body.count("TASK_STATE_COMPLETED") == 1
            assert ("CUP" in body) is (gated and name == "asked")
            assert ("tool-call-capture" in body) is (gated and name == "asked")


async def test_a_webhook_set_again_without_asking_is_told_no_more() -> None:
    store = GatedPushConfigStore(InMemoryPushNotificationConfigStore())
    webhook = TaskPushNotificationConfig(url="http://127.0.0.1/x")

    async def told() -> list[str]:
        with store.audience(asked=True):
            return [config.url for config in await store.get_info_for_dispatch("t")]

    await store.set_info("t", webhook, ServerCallContext(requested_extensions={URI}))
    assert await told() == ["http://127.0.0.1/x"]
    await store.set_info("t", webhook, ServerCallContext())
    assert await told() == []
    assert len(await store.get_info_for_dispatch("t")) == 1
    await store.delete_info("t", ServerCallContext())
    assert await store.get_info("t", ServerCallContext()) == []


def test_other_metadata_and_extensions_stay() -> None:
    artifact = Artifact(artifact_id="tool-calls-of-mine", parts=[Part(text="x")], extensions=["urn:another", URI])
    artifact.metadata.update({METADATA_KEY: [{"name": "search"}], "other": 1})
    task = Task(id="t", artifacts=[artifact])
    before = task.SerializeToString()
    shown = MessageToDict(without_tool_calls(task))
    assert shown["artifacts"] == [
        {
            "artifactId": "tool-calls-of-mine",
            "parts": [{"text": "x"}],
            "extensions": ["urn:another"],
            "metadata": {"other": 1},
        }
    ]
    assert task.SerializeToString() == before
