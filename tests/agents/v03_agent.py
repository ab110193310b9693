"""A real a2a-sdk 0.3 agent: JSON-RPC, REST and gRPC of A2A 0.3, playing `agents.scenarios`.

Runs in its own environment (a2a-sdk 0.3 and 1.x cannot share one): `python -m agents.v03_agent`, in tests/.
Deviations of the real 0.3 server: it honours only `X-A2A-Extensions`, and a REST stream that fails just ends.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from typing import Any

from a2a.server.agent_execution import RequestContext
from a2a.server.context import ServerCallContext
from a2a.server.events import Event, EventQueue, InMemoryQueueManager
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.tasks import InMemoryPushNotificationConfigStore, InMemoryTaskStore
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentExtension,
    AgentInterface,
    AgentSkill,
    DataPart,
    FilePart,
    FileWithBytes,
    FileWithUri,
    Part,
    Role,
    Task,
    TaskIdParams,
    TaskQueryParams,
    TaskState,
    TextPart,
    TransportProtocol,
)
from agents.control import Control
from agents.player import REST_PATH, RPC_PATH, AgentOptions, ScenarioExecutor
from agents.scenarios import METADATA_KEY, URI
from agents.serving import serve_forever
from agents.v03_serving import v03_app


class _Executor(ScenarioExecutor):
    role = Role.agent

    def text(self, text: str) -> Part:
        return Part(root=TextPart(text=text))

    def rich_parts(self) -> list[Part]:
        raw = FileWithBytes(bytes="AAECAwQFBgcICQoLDA0ODw==", mime_type="application/octet-stream", name="blob.bin")
        linked = FileWithUri(uri="https://example.com/out.txt", mime_type="text/plain", name="out.txt")
        return [Part(root=part) for part in (DataPart(data={"answer": 42}), FilePart(file=raw), FilePart(file=linked))]

    def state(self, name: str) -> TaskState:
        return TaskState(name)

    def reports(self, context: RequestContext) -> bool:
        if URI in context.requested_extensions:
            context.add_activated_extension(URI)
        return super().reports(context)

    def how(self, state: str) -> dict[str, bool]:
        return {"final": state != "working"}


class _SubscriptionAwareQueues(InMemoryQueueManager):
    """Informs the control when a subscriber has been attached, so that tests need not guess."""

    def __init__(self, control: Control) -> None:
        super().__init__()
        self._control = control

    async def tap(self, task_id: str) -> EventQueue | None:
        queue = await super().tap(task_id)
        self._control.mark_subscribed(task_id)
        return queue


class _Handler(DefaultRequestHandler):
    """Shows stored calls to requests that ask for them only, if the options say so."""

    def __init__(self, options: AgentOptions, **parts: Any) -> None:
        super().__init__(**parts)
        self._options = options

    async def on_get_task(self, params: TaskQueryParams, context: ServerCallContext | None = None) -> Task | None:
        return self._shown(await super().on_get_task(params, context), context)

    async def on_resubscribe_to_task(
        self, params: TaskIdParams, context: ServerCallContext | None = None
    ) -> AsyncGenerator[Event, None]:
        async for event in super().on_resubscribe_to_task(params, context):
            yield self._shown(event, context)

    def _shown(self, event: Any, context: ServerCallContext | None) -> Any:
        if not self._options.gated_reads or (context and URI in context.requested_extensions):
            return event
        shown = event.model_copy(deep=True)
        artifacts = getattr(shown, "artifacts", None) or [getattr(shown, "artifact", None)]
        for artifact in filter(None, artifacts):
            artifact.extensions = [uri for uri in artifact.extensions or [] if uri != URI] or None
            (artifact.metadata or {}).pop(METADATA_KEY, None)
        return shown


def agent_card(url: str, options: AgentOptions, name: str = "Scenario agent 0.3") -> AgentCard:
    extension = AgentExtension(uri=URI, description="Tool call capture for evaluation", required=False)
    return AgentCard(
        name=name,
        description="Replies according to the first word of the text",
        version="1.0.0",
        url=url + RPC_PATH,
        preferred_transport=TransportProtocol.jsonrpc,
        additional_interfaces=[
            AgentInterface(transport=TransportProtocol.jsonrpc, url=url + RPC_PATH),
            AgentInterface(transport=TransportProtocol.http_json, url=url + REST_PATH),
        ],
        supports_authenticated_extended_card=True,
        capabilities=AgentCapabilities(
            streaming=True, push_notifications=True, extensions=[extension] if options.declared else []
        ),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain", "application/json"],
        skills=[AgentSkill(id="scenarios", name="Scenarios", description="Plays scenarios", tags=["test"])],
    )


def build_app(url: str, options: AgentOptions, control: Control) -> Any:
    """The ASGI application of an agent reached at `url`."""
    card = agent_card(url, options)
    extended = agent_card(url, options, name="Scenario agent 0.3 (extended)")
    handler = _Handler(
        options,
        agent_executor=_Executor(options, control),
        task_store=InMemoryTaskStore(),
        queue_manager=_SubscriptionAwareQueues(control),
        push_config_store=InMemoryPushNotificationConfigStore(),
    )
    return control.wrap(v03_app((card, extended), handler, RPC_PATH, REST_PATH))


if __name__ == "__main__":
    chosen = AgentOptions(gated_reads="--gated-reads" in sys.argv)
    serve_forever(lambda url: build_app(url, chosen, Control()))
