"""The capturing executor in real a2a-sdk servers over loopback: A2A 1.0 and 0.3, streaming and not."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from a2a.helpers import new_task_from_user_message, new_text_message, new_text_part
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.context import ServerCallContext
from a2a.server.events import EventQueue, EventQueueLegacy
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    Artifact,
    Role,
    SendMessageRequest,
    Task,
    TaskState,
    TaskStatus,
)
from a2a_tool_capture import (
    METADATA_KEY,
    URI,
    CaptureClient,
    CapturingExecutor,
    CapturingRequestHandler,
    TaskMerger,
    ToolCallRecorder,
    declare_tool_calls,
    read_tool_calls,
)
from a2a_tool_capture.models import CapturedTurn
from agents.serving import ServerThread
from starlette.applications import Starlette
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
}
"""What the agent does, by the first word of the text."""


class Agent(AgentExecutor):
    """Plays the scripts; knows nothing of the extension."""

    def __init__(self) -> None:
        self.crowd = asyncio.Barrier(CROWD)
        self.hanging = asyncio.Event()

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

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        await self.hanging.wait()
        await TaskUpdater(event_queue, context.task_id or "", context.context_id or "").cancel()


def app(url: str) -> Starlette:
    card = AgentCard(
        name="Test agent",
        version="1",
        supported_interfaces=[
            AgentInterface(url=where, protocol_binding=binding, protocol_version=version)
            for version in ("1.0", "0.3")
            for binding, where in (("JSONRPC", f"{url}/rpc"), ("HTTP+JSON", f"{url}/rest"))
        ],
        capabilities=AgentCapabilities(streaming=True),
    )
    handler = CapturingRequestHandler(Agent(), InMemoryTaskStore(), card, recorder=recorder)
    return Starlette(
        routes=[
            *create_agent_card_routes(card),
            *create_jsonrpc_routes(handler, "/rpc", enable_v0_3_compat=True),
            *create_rest_routes(handler, path_prefix="/rest", enable_v0_3_compat=True),
        ]
    )


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
