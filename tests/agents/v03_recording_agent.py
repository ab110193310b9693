"""An a2a-sdk 0.3 agent whose calls the recorder reports: `python -m agents.v03_recording_agent` in tests/."""

from __future__ import annotations

from typing import Any

import httpx
from a2a.server.agent_execution import RequestContext
from a2a.server.apps import A2AStarletteApplication
from a2a.server.events import EventQueue
from a2a.server.tasks import (
    BasePushNotificationSender,
    InMemoryPushNotificationConfigStore,
    InMemoryTaskStore,
    TaskUpdater,
)
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    Artifact,
    Part,
    Task,
    TaskState,
    TaskStatus,
    TextPart,
)
from a2a.utils import new_task
from a2a_tool_capture import CapturingRequestHandler, ToolCallRecorder
from agents.player import Executor
from agents.serving import serve_forever
from support.patience import PATIENCE_S

recorder = ToolCallRecorder()


@recorder.tool
def search(q: str) -> str:
    return q.upper()


class Agent(Executor):
    """Does what the first word of the text says; knows nothing of the extension."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        text = context.get_user_input()
        task_id, context_id = context.task_id or "", context.context_id or ""
        updater = TaskUpdater(event_queue, task_id, context_id)
        if text == "snapshot":
            search("kettle")
            answer = Artifact(artifact_id="answer", parts=[_text("all at once")])
            status = TaskStatus(state=TaskState.completed)
            await event_queue.enqueue_event(Task(id=task_id, context_id=context_id, status=status, artifacts=[answer]))
            return
        if context.current_task is None:
            await event_queue.enqueue_event(new_task(context.message))
            await updater.start_work()
        search("kettle")
        if text == "empty":
            await updater.add_artifact([_text("")], artifact_id="answer")
        elif text != "silent":
            await updater.add_artifact([_text("one ")], artifact_id="answer")
        if text == "ask":
            await updater.requires_input(final=True)
            return
        if text == "chunks":
            search("cup")
            await updater.add_artifact([_text("two")], artifact_id="answer", append=True)
            search("plate")
        await updater.complete()


def _text(words: str) -> Part:
    return Part(root=TextPart(text=words))


def build_app(url: str) -> Any:
    """The ASGI application of an agent reached at `url`."""
    card = AgentCard(
        name="Recording agent 0.3",
        description="Records its calls",
        version="1",
        url=url,
        capabilities=AgentCapabilities(streaming=True, push_notifications=True),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[],
    )
    webhooks = InMemoryPushNotificationConfigStore()
    handler = CapturingRequestHandler(
        Agent(),
        InMemoryTaskStore(),
        card,
        recorder=recorder,
        push_config_store=webhooks,
        push_sender=BasePushNotificationSender(httpx.AsyncClient(trust_env=False, timeout=PATIENCE_S), webhooks),
    )
    return A2AStarletteApplication(card, handler).build()


if __name__ == "__main__":
    serve_forever(build_app)
