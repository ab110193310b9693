"""The capturing executor in real a2a-sdk servers over loopback, and what their handler shows to whom."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import grpc.aio
import httpx
import pytest
from a2a.client import Client, ClientCallContext, ClientConfig, ClientFactory
from a2a.client.service_parameters import ServiceParametersFactory, with_a2a_extensions
from a2a.helpers import new_task_from_user_message, new_text_message, new_text_part
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.context import ServerCallContext
from a2a.server.events import EventQueue, EventQueueLegacy
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
    TaskState,
    TaskStatus,
    a2a_pb2_grpc,
)
from a2a_tool_capture import (
    METADATA_KEY,
    URI,
    CaptureClient,
    CapturingExecutor,
    CapturingRequestHandler,
    GatedPushConfigStore,
    TaskMerger,
    ToolCallRecorder,
    declare_tool_calls,
    read_tool_calls,
    without_tool_calls,
)
from a2a_tool_capture.models import CapturedTurn
from agents.recording_agent import agent_card, application
from agents.serving import ServerThread
from google.protobuf.json_format import MessageToDict, MessageToJson
from starlette.applications import Starlette
from support.endpoint import Endpoint, served_endpoint
from support.patience import PATIENCE_S

CROWD = 6
recorder = ToolCallRecorder()


@recorder.tool
def search(q: str) -> list[str]:
    return [q.upper()]


@recorder.tool
async def pay(amount: float) -> str:
    raise PermissionError("declined")


SCRIPTS: dict[str, list[str]] = {
    "reply": ["call", "message"],
    "snapshot": ["call", "task of one artifact"],
    "bare": ["call", "task of no artifact"],
    "plain": ["begin", "say one", "complete"],
    "chunks": ["begin", "call", "say one", "fail", "more", "complete"],
    "running": ["begin", "start", "say one", "finish", "more", "complete"],
    "executor": ["begin", "call in an executor", "say one", "complete"],
    "own": ["begin", "call in a thread without context", "say one", "complete"],
    "late": ["begin", "say one", "call", "complete"],
    "silent": ["begin", "call", "never end", "complete"],
    "ask": ["begin", "call", "say one", "ask"],
    "crash": ["begin", "call", "crash"],
    "stop": ["begin", "call", "say one"],
    "crowd": ["begin", "meet", "call in an executor", "meet", "say one", "complete"],
    "hang": ["begin", "call", "hang"],
    "hold": ["begin", "call", "answer", "wait", "call cup", "complete"],
    "release": ["message", "let go"],
    "inquire": ["begin", "call", "answer", "ask"],
    "continue": ["complete"],
}
"""What the agent does, by the first word of the text."""


class Agent(AgentExecutor):
    """Plays the scripts; knows nothing of the extension."""

    def __init__(self) -> None:
        self.crowd = asyncio.Barrier(CROWD)
        self.hanging = asyncio.Event()
        self.released = asyncio.Event()

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.message is not None
        text, loop = context.get_user_input(), asyncio.get_running_loop()
        ids = {"task_id": context.task_id or "", "context_id": context.context_id or ""}
        updater = TaskUpdater(event_queue, **ids)
        query = text if text.startswith("crowd") else "kettle"
        for step in SCRIPTS[text.split()[0]]:
            match step:
                case "begin" if context.current_task is None:
                    await event_queue.enqueue_event(new_task_from_user_message(context.message))
                    await updater.start_work()
                case "call":
                    search(query)
                case "call cup":
                    search("cup")
                case "call in an executor":
                    await loop.run_in_executor(None, search, query)
                case "call in a thread without context":
                    with ThreadPoolExecutor(1) as pool:
                        await loop.run_in_executor(pool, search, query)
                case "fail":
                    with pytest.raises(PermissionError):
                        await pay(9.5)
                case "start":
                    call_id = recorder.started("search", {"q": query})
                case "never end":
                    recorder.started("never ends")
                case "finish":
                    recorder.finished(call_id, "KETTLE")
                case "say one" | "more":
                    await updater.add_artifact([new_text_part(step)], artifact_id="answer", append=step == "more")
                case "answer":
                    await updater.add_artifact([new_text_part(step)], artifact_id=step, extensions=["urn:another"])
                case "message":
                    await event_queue.enqueue_event(new_text_message(text, context_id=context.context_id))
                case "task of one artifact" | "task of no artifact":
                    artifact = Artifact(artifact_id="answer", parts=[new_text_part("all at once")])
                    done = TaskStatus(state=TaskState.TASK_STATE_COMPLETED)
                    artifacts = [artifact] if "one" in step else []
                    await event_queue.enqueue_event(
                        Task(id=ids["task_id"], context_id=ids["context_id"], status=done, artifacts=artifacts)
                    )
                case "complete":
                    await updater.complete()
                case "ask":
                    await updater.requires_input(new_text_message("which?", context_id=context.context_id))
                case "crash":
                    raise RuntimeError("planned")
                case "meet":
                    await self.crowd.wait()
                case "hang":
                    self.hanging.set()
                    await asyncio.Event().wait()
                case "wait":
                    self.hanging.set()
                    await self.released.wait()
                case "let go":
                    self.released.set()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        await self.hanging.wait()
        await TaskUpdater(event_queue, context.task_id or "", context.context_id or "").cancel()


def app(url: str) -> Starlette:
    card = agent_card(url)
    return application(card, CapturingRequestHandler(Agent(), InMemoryTaskStore(), card, recorder=recorder))


@pytest.fixture(scope="module")
def agent() -> Iterator[str]:
    with ServerThread(app) as server:
        yield server.url


def names(calls: Any) -> list[str]:
    return [f"{call.name} {call.arguments} -> {call.result or call.error}" for call in calls]


KETTLE = "search {'q': 'kettle'} -> [\"KETTLE\"]"

CASES = {
    "chunks": [KETTLE, "pay {'amount': 9.5} -> declined"],
    "running": ["search {'q': 'kettle'} -> KETTLE"],
    "executor": [KETTLE],
    "late": [KETTLE],
    "silent": [KETTLE, "never ends None -> None"],
    "snapshot": [KETTLE],
    "bare": [KETTLE],
}


class Raw:
    """JSON-RPC by hand: what is on the wire, and nothing that a client derived."""

    def __init__(self, url: str, *, activate: bool = True) -> None:
        self._url = f"{url}/rpc"
        asked = f"https://example.com/x, {URI}" if activate else "https://example.com/x"
        self._headers = {"A2A-Version": "1.0", "A2A-Extensions": asked}

    async def call(self, method: str, params: dict[str, Any]) -> str:
        async with httpx.AsyncClient() as http:
            body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            response = await http.post(self._url, json=body, headers=self._headers)
        assert response.status_code == 200
        return response.text

    async def send(self, text: str, *, stream: bool = False, **message: Any) -> str:
        message |= {"messageId": uuid.uuid4().hex, "role": "ROLE_USER", "parts": [{"text": text}]}
        return await self.call("SendStreamingMessage" if stream else "SendMessage", {"message": message})

    async def events(self, text: str, **message: Any) -> list[dict[str, Any]]:
        """The events of a stream, without their envelopes, up to an error if there is one."""
        body = await self.send(text, stream=True, **message)
        answers = [json.loads(line[5:]) for line in body.splitlines() if line.startswith("data:")]
        return [answer["result"] for answer in answers if "result" in answer]

    async def task(self, task_id: str) -> dict[str, Any]:
        task: dict[str, Any] = json.loads(await self.call("GetTask", {"id": task_id}))["result"]
        return task


def calls_in(task: dict[str, Any]) -> list[str]:
    """Read as strictly as the extension allows, each artifact for itself: a call is on one artifact only."""
    readings = [read_tool_calls(artifact) for artifact in task.get("artifacts", [])]
    assert not [finding for reading in readings for finding in reading.findings]
    return names(call for reading in readings for call in reading.tool_calls)


@pytest.mark.statement(321, 324)
async def test_the_card_declares_the_extension_once() -> None:
    card = AgentCard()
    declare_tool_calls(card)
    declare_tool_calls(card)
    assert [(extension.uri, extension.required) for extension in card.capabilities.extensions] == [(URI, False)]


@pytest.mark.statement(321, 323, 327, 332)
@pytest.mark.parametrize("verb", CASES)
async def test_stream_answer_and_stored_task_have_each_call_once(agent: str, verb: str) -> None:
    raw = Raw(agent)
    events = await raw.events(verb)
    merger = TaskMerger()
    for event in events:
        merger.feed(event)
    assert names(merger.tool_calls) == CASES[verb]
    assert merger.findings == []
    assert calls_in(await raw.task(merger.task_id)) == CASES[verb]
    assert calls_in(json.loads(await raw.send(verb))["result"]["task"]) == CASES[verb]


@pytest.mark.parametrize(
    ("verb", "sent"),
    [
        ("chunks", [None, ["search"], None, ["search", "pay"]]),
        ("running", [None, None, ["search"]]),
    ],
)
async def test_the_calls_go_out_when_one_has_ended(agent: str, verb: str, sent: list[list[str] | None]) -> None:
    """A long answer does not repeat large results, and the agent's own artifacts stay as they are."""
    events = await Raw(agent).events(verb)
    artifacts = [event["artifactUpdate"]["artifact"] for event in events if "artifactUpdate" in event]
    lists = [artifact.get("metadata", {}).get(METADATA_KEY) for artifact in artifacts]
    assert [entries and [entry["name"] for entry in entries] for entries in lists] == sent
    assert [artifact.get("extensions") for artifact in artifacts] == [names and [URI] for names in sent]


@pytest.mark.statement(327)
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("verb", [*CASES, "ask", "reply", "stop"])
async def test_a_client_that_does_not_ask_sees_nothing(agent: str, verb: str, stream: bool) -> None:
    body = await Raw(agent, activate=False).send(verb, stream=stream)
    assert '"result"' in body
    assert URI not in body
    assert "Tool calls" not in body


async def test_a_continued_task_keeps_the_calls_of_the_request_before(agent: str) -> None:
    async with CaptureClient(agent, timeout_s=PATIENCE_S) as client:
        conversation = client.conversation()
        asked = await conversation.send("ask")
        answered = await conversation.send("late")
    assert names(asked.tool_calls) == names(answered.tool_calls) == [KETTLE]
    assert calls_in(await Raw(agent).task(asked.task_id)) == [KETTLE, KETTLE]


@pytest.mark.parametrize(("verb", "state"), [("stop", "TASK_STATE_WORKING"), ("crash", "TASK_STATE_FAILED")])
async def test_calls_of_an_agent_that_fails_or_returns_without_an_end_are_there(
    agent: str, verb: str, state: str
) -> None:
    raw = Raw(agent)
    events = await raw.events(verb)
    task = await raw.task(events[0]["task"]["id"])
    assert task["status"]["state"] == state
    assert calls_in(task) == [KETTLE]


async def test_calls_of_a_cancelled_task_are_there(agent: str) -> None:
    raw = Raw(agent)
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hang"}]}
    sent = await raw.call("SendMessage", {"message": message, "configuration": {"returnImmediately": True}})
    task_id = json.loads(sent)["result"]["task"]["id"]
    await raw.call("CancelTask", {"id": task_id})
    task = await raw.task(task_id)
    assert task["status"]["state"] == "TASK_STATE_CANCELED"
    assert calls_in(task) == [KETTLE]


@pytest.mark.parametrize(
    ("verb", "said", "logged"),
    [
        ("reply", "the agent responded with a Message", "1 tool call(s) of task"),
        # It is unknown whose it is: each request that is active then says that its calls are not all.
        ("own", "a call of 'search' was made outside of any request", ""),
    ],
)
async def test_calls_that_cannot_be_told_are_stated(
    agent: str, verb: str, said: str, logged: str, caplog: pytest.LogCaptureFixture
) -> None:
    turn = await captured(agent, verb)
    assert turn.tool_calls == ()
    assert [finding.code for finding in turn.findings] == ["calls_not_recorded"]
    assert said in turn.findings[0].message
    assert logged in caplog.text
    assert (await captured(agent, "plain")).findings == ()


async def captured(agent: str, text: str) -> CapturedTurn:
    async with CaptureClient(agent) as client:
        return await client.send(text)


@pytest.mark.parametrize(
    ("has_task", "why"), [(True, "they were made after the task had ended"), (False, "the agent created no task")]
)
async def test_calls_that_come_too_late_are_told_to_the_author(
    has_task: bool, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    class TooLate(AgentExecutor):
        async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
            if has_task:
                assert context.message is not None
                await event_queue.enqueue_event(new_task_from_user_message(context.message))
                await TaskUpdater(event_queue, context.task_id or "", context.context_id or "").complete()
            search("kettle")

        async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None: ...

    message = new_text_message("hello", role=Role.ROLE_USER)
    context = RequestContext(
        ServerCallContext(requested_extensions={URI}), request=SendMessageRequest(message=message), task_id="t"
    )
    queue = EventQueueLegacy()
    await CapturingExecutor(TooLate(), recorder).execute(context, queue)
    await queue.close(immediate=True)
    assert f"1 tool call(s) of task 't' were recorded and not sent: {why}" in caplog.text


async def test_requests_at_the_same_time_do_not_mix(agent: str) -> None:
    """All are in their tool, each in a thread, before any continues; every second one did not ask."""
    texts = [f"crowd {number}" for number in range(CROWD)]
    bodies = await asyncio.gather(
        *(Raw(agent, activate=number % 2 == 0).send(text) for number, text in enumerate(texts))
    )
    for number, (text, body) in enumerate(zip(texts, bodies, strict=True)):
        if number % 2:
            assert URI not in body
        else:
            assert calls_in(json.loads(body)["result"]["task"]) == [f"search {{'q': '{text}'}} -> [\"{text.upper()}\"]"]


# ── what those see who did not ask ───────────────────────────────────────────────────────────────────────────────────


BINDINGS = [("JSONRPC", "1.0"), ("JSONRPC", "0.3"), ("HTTP+JSON", "1.0"), ("HTTP+JSON", "0.3"), ("GRPC", "1.0")]
UNKEPT = httpx.Limits(max_keepalive_connections=0)
"""Connections that no test has to close."""

TRACES = ("tool-call-capture", "Tool calls", "KETTLE", "CUP")
"""What only an agent that reports its calls puts on the wire."""


@pytest.fixture
def webhooks() -> Iterator[dict[str, Endpoint]]:
    with served_endpoint() as asked, served_endpoint() as plain:
        yield {"asked": asked, "plain": plain}


def serving(card: AgentCard, store: PushNotificationConfigStore | None = None) -> CapturingRequestHandler:
    sender = BasePushNotificationSender(httpx.AsyncClient(limits=UNKEPT), store) if store else None
    return CapturingRequestHandler(
        Agent(), InMemoryTaskStore(), card, recorder=recorder, push_config_store=store, push_sender=sender
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
                assert answer.message.parts[0].text == "release"
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

        task_id = await begun(client, "inquire")
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
        asking_message = message("inquire", extensions=[URI])
        shown = [MessageToJson(answer) async for answer in client.send_message(asking_message, context=asking(False))]
        check("\n".join(shown), asked=True)
        [later] = [MessageToJson(answer) async for answer in client.send_message(message("release"))][-1:]
        assert "tool-call-capture" not in later


@pytest.mark.parametrize("gated", [True, False])
@pytest.mark.parametrize(("binding", "version"), BINDINGS)
async def test_webhooks_are_told_what_the_request_that_set_them_asked_for(
    binding: str, version: str, gated: bool, webhooks: dict[str, Endpoint]
) -> None:
    plain = InMemoryPushNotificationConfigStore()
    async with connected(binding, version, GatedPushConfigStore(plain) if gated else plain) as client:
        task_id = await begun(client, "hold")
        for name, webhook in webhooks.items():
            await client.create_task_push_notification_config(
                TaskPushNotificationConfig(task_id=task_id, id=name, url=webhook.url),
                context=asking(name == "asked"),
            )
        await ended(client, task_id, asked=False)
        for name, webhook in webhooks.items():
            body = "".join([one.body.decode() for one in await webhook.until_ended()])
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
