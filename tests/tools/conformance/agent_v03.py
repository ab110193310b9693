"""What the kit for A2A 0.3 is run against: an a2a-sdk 0.3 agent with all three bindings.

`python -m tools.conformance.agent_v03 FILE` in tests/, in an environment with a2a-sdk 0.3; FILE gets the arrivals.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from a2a.server.agent_execution import RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.tasks import InMemoryPushNotificationConfigStore, InMemoryTaskStore, TaskUpdater
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentExtension,
    AgentInterface,
    AgentSkill,
    Artifact,
    Part,
    TaskArtifactUpdateEvent,
    TextPart,
    TransportProtocol,
)
from a2a.utils import new_task
from agents.player import Executor
from agents.scenarios import METADATA_KEY, URI
from agents.serving import serve_forever
from agents.v03_serving import v03_app
from tools.conformance.arrivals import REST_PATH, Arrivals

LONG_S = 4.5
"""The kit asks for twice its own timeout of 2 s where it subscribes to a running task."""


class _Executor(Executor):
    """Calls one tool and completes its task; one that the kit is going to cancel waits for input instead."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        task = context.current_task or new_task(context.message)
        if not context.current_task:
            await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        await updater.start_work()
        if "cancel" in context.message.message_id:
            await updater.requires_input(final=True)
            return
        await asyncio.sleep(LONG_S if context.message.message_id.startswith("test-resubscribe-message-id") else 0.1)
        asked = URI in context.requested_extensions
        if asked:
            context.add_activated_extension(URI)
        call = {"id": f"call of {task.id}", "name": "echo", "arguments": {"text": context.get_user_input()}}
        artifact = Artifact(
            artifact_id="answer",
            name="response",
            parts=[_text(f"Hello World! You said: {context.get_user_input()!r}.")],
            metadata={METADATA_KEY: [call]} if asked else None,
            extensions=[URI] if asked else None,
        )
        await event_queue.enqueue_event(
            TaskArtifactUpdateEvent(task_id=task.id, context_id=task.context_id, artifact=artifact, last_chunk=True)
        )
        await updater.complete(updater.new_agent_message([_text("Done.")]))


def _text(text: str) -> Part:
    return Part(root=TextPart(text=text))


def _card(url: str) -> AgentCard:
    return AgentCard(
        name="Conformance agent 0.3",
        description="Echoes",
        version="1.0.0",
        url=url + "/",
        preferred_transport=TransportProtocol.jsonrpc,
        additional_interfaces=[
            AgentInterface(transport=TransportProtocol.jsonrpc, url=url + "/"),
            AgentInterface(transport=TransportProtocol.http_json, url=url + REST_PATH),
        ],
        supports_authenticated_extended_card=True,
        capabilities=AgentCapabilities(
            streaming=True, push_notifications=True, extensions=[AgentExtension(uri=URI, required=False)]
        ),
        default_input_modes=["text"],
        default_output_modes=["text"],
        skills=[AgentSkill(id="echo", name="Echo", description="Echoes", tags=["test"], examples=["hi"])],
    )


def _app(url: str, arrivals: Arrivals) -> Any:
    card = _card(url)
    handler = DefaultRequestHandler(
        agent_executor=_Executor(),
        task_store=InMemoryTaskStore(),
        push_config_store=InMemoryPushNotificationConfigStore(),
    )
    # The address of gRPC has a scheme: the kit reads no other.
    app = v03_app(
        (card, card.model_copy(deep=True)), handler, "/", REST_PATH, scheme="http://", interceptors=[arrivals]
    )
    return arrivals.of(app)


if __name__ == "__main__":
    serve_forever(lambda url: _app(url, Arrivals(Path(sys.argv[1]))))
