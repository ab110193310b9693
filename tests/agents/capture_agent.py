"""A real a2a-sdk 1.x agent that reports its tool calls by hand, rightly, over all interfaces of A2A 1.0 and 0.3.

The first word of the message says how it answers: `ask` ends with a question, `resume` too, with an artifact and calls
of its own for each message to the task, `reply` with a Message alone, `idle`
calls no tool, `slow` waits until it has two subscribers, anything else is answered in two chunks.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any

from a2a.helpers import new_task_from_user_message, new_text_message, new_text_part
from a2a.server.agent_execution import RequestContext
from a2a.server.context import ServerCallContext
from a2a.server.events import Event, EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentExtension,
    AgentInterface,
    AgentSkill,
    Artifact,
    GetTaskRequest,
    ListTasksRequest,
    ListTasksResponse,
    SubscribeToTaskRequest,
    Task,
    TaskArtifactUpdateEvent,
)
from agents.player import Executor
from agents.recording_agent import application

URI = "https://arksim.arklex.ai/a2a/tool-call-capture/v1"
METADATA_KEY = f"{URI}/tool_calls"
"""Written out on purpose: the agent must not learn the contract from the code under test."""

Call = dict[str, Any]

FIRST: Call = {"id": "a", "name": "search", "arguments": {"q": "kettle", "limit": 3}, "result": "KET-01"}
SECOND: Call = {"id": "b", "name": "reserve", "arguments": {}, "error": "sold out"}

OPERATION: ContextVar[str] = ContextVar("operation", default="")
"""What the request asks for, where something around the agent knows; `slow` waits in streams only."""


@dataclass(frozen=True)
class Emission:
    """What one chunk of an artifact carries."""

    calls: list[Call]
    lists_uri: bool = True
    numbers_anew: bool = False
    """Whether the ids begin again with each message."""


def cumulative(number: int) -> Emission:
    """All calls so far on every chunk, as the extension wants it."""
    return Emission([FIRST, SECOND][: number + 1])


Subscribers = defaultdict[str, asyncio.Semaphore]
"""Released by each subscription, by the id of the task."""


class CaptureExecutor(Executor):
    def __init__(self, emission: Callable[[int], Emission], subscribers: Subscribers) -> None:
        self._emission = emission
        self._subscribers = subscribers

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        word = (context.get_user_input().split() or [""])[0]
        if word == "reply":
            await event_queue.enqueue_event(new_text_message("no task", context_id=context.context_id))
            return
        asked = URI in context.requested_extensions
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        if context.current_task is None:
            await event_queue.enqueue_event(new_task_from_user_message(context.message))
        await self.begun(context.task_id)
        await updater.start_work()
        if word == "slow" and asked and OPERATION.get() == "stream":
            for _ in range(2):
                await self._subscribers[context.task_id].acquire()
        suffix = f"-{context.message.message_id}" if word == "resume" else ""
        for number, text in enumerate(("one ", "two")):
            artifact = Artifact(artifact_id=f"answer{suffix}", parts=[new_text_part(text)])
            emission = self._emission(number)
            if asked and word != "idle":
                ids_end_in = "" if emission.numbers_anew else suffix
                calls = [{**call, "id": f"{call['id']}{ids_end_in}"} for call in emission.calls]
                artifact.metadata.update({METADATA_KEY: calls})
            if asked and emission.lists_uri:
                artifact.extensions.append(URI)
            await event_queue.enqueue_event(
                TaskArtifactUpdateEvent(
                    task_id=context.task_id, context_id=context.context_id, artifact=artifact, append=number > 0
                )
            )
        if word in ("ask", "resume"):
            await updater.requires_input(new_text_message("which?", context_id=context.context_id))
        else:
            await updater.complete()

    async def begun(self, task_id: str) -> None:
        """Called when the task exists, before it works."""


class GatedHandler(DefaultRequestHandler):
    """Shows the stored calls of a task to requests that ask for them, and to no others."""

    def __init__(self, subscribers: Subscribers, **options: Any) -> None:
        super().__init__(**options)
        self._subscribers = subscribers

    async def on_get_task(self, params: GetTaskRequest, context: ServerCallContext) -> Task | None:
        task = await super().on_get_task(params, context)
        return task if task is None else _shown(task, context)

    async def on_list_tasks(self, params: ListTasksRequest, context: ServerCallContext) -> ListTasksResponse:
        listed = await super().on_list_tasks(params, context)
        shown = ListTasksResponse()
        shown.CopyFrom(listed)
        del shown.tasks[:]
        shown.tasks.extend(_shown(task, context) for task in listed.tasks)
        return shown

    async def on_subscribe_to_task(
        self, params: SubscribeToTaskRequest, context: ServerCallContext
    ) -> AsyncGenerator[Event, None]:
        async for event in super().on_subscribe_to_task(params, context):
            self._subscribers[params.id].release()
            yield _shown(event, context)


def _shown(event: Any, context: ServerCallContext) -> Any:
    """`event` as this request may see it; what is stored is not changed."""
    if URI in context.requested_extensions:
        return event
    shown = type(event)()
    shown.CopyFrom(event)
    artifacts = shown.artifacts if isinstance(shown, Task) else []
    for artifact in [shown.artifact] if isinstance(shown, TaskArtifactUpdateEvent) else artifacts:
        if METADATA_KEY in artifact.metadata:
            del artifact.metadata[METADATA_KEY]
        kept = [uri for uri in artifact.extensions if uri != URI]
        del artifact.extensions[:]
        artifact.extensions.extend(kept)
    return shown


def agent_card(url: str, *, streaming: bool = True) -> AgentCard:
    return AgentCard(
        name="Capture agent",
        description="Calls two tools, and says so",
        version="1",
        supported_interfaces=[
            AgentInterface(url=where, protocol_binding=binding, protocol_version=version)
            for version in ("1.0", "0.3")
            for binding, where in (("JSONRPC", f"{url}/rpc"), ("HTTP+JSON", f"{url}/rest"))
        ],
        capabilities=AgentCapabilities(
            streaming=streaming, extensions=[AgentExtension(uri=URI, description="Tool calls, for evaluation")]
        ),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[
            AgentSkill(
                id="shop", name="Shop", description="Sells", tags=["shop"], examples=["idle words", "Got a kettle?"]
            )
        ],
    )


def request_handler(
    card: AgentCard,
    emission: Callable[[int], Emission] = cumulative,
    *,
    executor_type: type[CaptureExecutor] = CaptureExecutor,
    handler_type: type[GatedHandler] = GatedHandler,
    **options: Any,
) -> GatedHandler:
    """What answers the requests of all bindings of an agent with this card."""
    subscribers = Subscribers(partial(asyncio.Semaphore, 0))
    executor = executor_type(emission, subscribers)
    store = InMemoryTaskStore()
    return handler_type(subscribers, agent_executor=executor, task_store=store, agent_card=card, **options)


def build_app(url: str, *, streaming: bool = True, emission: Callable[[int], Emission] = cumulative) -> Any:
    """The ASGI application of an agent reached at `url`."""
    card = agent_card(url, streaming=streaming)
    handler = request_handler(card, emission)
    return application(card, handler)
