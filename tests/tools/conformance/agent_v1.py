"""What the kit for A2A 1.0 is run against: an a2a-sdk 1.x agent with all three bindings.

`python -m tools.conformance.agent_v1 FILE` in tests/; FILE gets the arrivals. The kit says with the beginning of a
message's id what is to happen (its folder `scenarios`).
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc.aio
from a2a.server.agent_execution import RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler, GrpcHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import InMemoryPushNotificationConfigStore, InMemoryTaskStore, TaskUpdater
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentExtension,
    AgentInterface,
    AgentSkill,
    Artifact,
    Part,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    a2a_pb2_grpc,
)
from agents.player import Executor
from agents.recording_agent import push_sender
from agents.scenarios import METADATA_KEY, URI
from agents.serving import serve_forever
from google.protobuf.json_format import ParseDict
from google.protobuf.struct_pb2 import Struct, Value
from starlette.applications import Starlette
from tools.conformance.arrivals import REST_PATH, Arrivals

_FILE = {"filename": "output.txt", "media_type": "text/plain"}
_ARTIFACTS = {
    "tck-artifact-text": [Part(text="Generated text content")],
    "tck-artifact-file-url": [Part(url="https://example.com/output.txt", **_FILE)],
    "tck-artifact-file": [Part(raw=b"tck", **_FILE)],
    "tck-artifact-data": [Part(data=ParseDict({"key": "value", "count": 42}, Value()))],
    "tck-stream-001": [Part(text="Stream hello from TCK")],
    "tck-stream-003": [Part(text="Stream task lifecycle")],
    "tck-stream-ordering-001": [Part(text="Ordered output")],
    "tck-stream-artifact-text": [Part(text="Streamed text content")],
    "tck-stream-artifact-file": [Part(raw=b"tck", **_FILE)],
    "tck-stream-artifact-chunked": [Part(text="chunk-1 "), Part(text="chunk-2")],
}
"""The parts of the artifact, one event each. The first beginning that fits counts."""


class _Executor(Executor):
    """Plays the scenarios of the kit; each artifact comes of one tool call."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        message_id = context.message.message_id
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        if message_id.startswith("tck-message-response"):
            await event_queue.enqueue_event(updater.new_agent_message([Part(text="Direct message response")]))
            return
        if context.current_task is None:
            submitted = TaskStatus(state=TaskState.TASK_STATE_SUBMITTED)
            await event_queue.enqueue_event(
                Task(id=context.task_id, context_id=context.context_id, status=submitted, history=[context.message])
            )
        if message_id.startswith("tck-input-required"):
            await updater.requires_input()
            return
        if message_id.startswith("tck-reject-task"):
            await updater.reject()
            return
        await updater.start_work()
        parts = next((parts for prefix, parts in _ARTIFACTS.items() if message_id.startswith(prefix)), [])
        for number, part in enumerate(parts):
            await event_queue.enqueue_event(_artifact_event(context, part, number, len(parts)))
        await updater.complete(updater.new_agent_message([Part(text="Hello from TCK")]))


def _artifact_event(context: RequestContext, part: Part, number: int, count: int) -> TaskArtifactUpdateEvent:
    artifact = Artifact(artifact_id="answer", parts=[part])
    if URI in context.requested_extensions:
        call = {"id": f"call {number} of {context.task_id}", "name": "write", "arguments": {"part": number}}
        artifact.metadata.CopyFrom(ParseDict({METADATA_KEY: [call]}, Struct()))
        artifact.extensions.append(URI)
    return TaskArtifactUpdateEvent(
        task_id=context.task_id,
        context_id=context.context_id,
        artifact=artifact,
        append=number > 0,
        last_chunk=number == count - 1,
    )


def _card(url: str) -> AgentCard:
    return AgentCard(
        name="Conformance agent",
        description="Plays the scenarios of the kit",
        version="1.0.0",
        supported_interfaces=[
            AgentInterface(url=where, protocol_binding=binding, protocol_version="1.0")
            for binding, where in (("JSONRPC", url + "/"), ("HTTP+JSON", url + REST_PATH))
        ],
        capabilities=AgentCapabilities(
            streaming=True,
            push_notifications=True,
            extended_agent_card=True,
            extensions=[AgentExtension(uri=URI, required=False)],
        ),
        default_input_modes=["text"],
        default_output_modes=["text"],
        skills=[AgentSkill(id="tck", name="Scenarios", description="Plays scenarios", tags=["test"])],
    )


def _app(url: str, arrivals: Arrivals) -> Any:
    card = _card(url)
    webhooks = InMemoryPushNotificationConfigStore()
    handler = DefaultRequestHandler(
        agent_executor=_Executor(),
        task_store=InMemoryTaskStore(),
        agent_card=card,
        push_config_store=webhooks,
        push_sender=push_sender(webhooks),
        extended_agent_card=card,
    )

    @asynccontextmanager
    async def over_grpc(app: Any) -> AsyncIterator[None]:
        server = grpc.aio.server(interceptors=[arrivals])
        a2a_pb2_grpc.add_A2AServiceServicer_to_server(GrpcHandler(handler), server)
        address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        card.supported_interfaces.add(url=address, protocol_binding="GRPC", protocol_version="1.0")
        await server.start()
        yield
        await server.stop(0)

    routes = [
        *create_agent_card_routes(card, cache_control="public, max-age=60"),
        *create_jsonrpc_routes(handler, "/"),
        *create_rest_routes(handler, path_prefix=REST_PATH),
    ]
    return arrivals.of(Starlette(routes=routes, lifespan=over_grpc))


if __name__ == "__main__":
    serve_forever(lambda url: _app(url, Arrivals(Path(sys.argv[1]))))
