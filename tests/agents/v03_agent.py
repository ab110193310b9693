"""A real a2a-sdk 0.3 agent: JSON-RPC, REST and gRPC of A2A 0.3, playing `agents.scenarios`.

Runs in its own environment (a2a-sdk 0.3 and 1.x cannot share one): `python -m agents.v03_agent --help` in tests/.
Deviations of the real 0.3 server: it honours only `X-A2A-Extensions`, and a REST stream that fails just ends.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import grpc.aio
from a2a.grpc import a2a_pb2_grpc
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.apps import A2AStarletteApplication
from a2a.server.apps.rest.rest_adapter import RESTAdapter
from a2a.server.context import ServerCallContext
from a2a.server.events import Event, EventQueue, InMemoryQueueManager
from a2a.server.request_handlers import DefaultRequestHandler, GrpcHandler
from a2a.server.tasks import InMemoryPushNotificationConfigStore, InMemoryTaskStore, TaskUpdater
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentExtension,
    AgentInterface,
    AgentSkill,
    Artifact,
    DataPart,
    FilePart,
    FileWithBytes,
    FileWithUri,
    Message,
    Part,
    Role,
    Task,
    TaskArtifactUpdateEvent,
    TaskIdParams,
    TaskQueryParams,
    TaskState,
    TaskStatus,
    TextPart,
    TransportProtocol,
)
from agents.control import Control
from agents.scenarios import (
    METADATA_KEY,
    RESUMED,
    URI,
    Chunk,
    Crash,
    Gate,
    Reply,
    Scenario,
    Snapshot,
    Status,
    Step,
    gate_of,
    scenario_of,
)
from agents.serving import agent_arguments, serve_forever
from starlette.routing import Route

RPC_PATH = "/a2a/jsonrpc"
REST_PATH = "/a2a/rest"


@dataclass(frozen=True)
class AgentOptions:
    """As in `agents.scenario_agent`, which cannot be imported here."""

    declared: bool = True
    gated: bool = True
    public_url: str | None = None
    gated_reads: bool = False
    """Whether stored calls, too, are shown only to requests that ask for them: the SDK itself shows them to all."""


class ScenarioExecutor(AgentExecutor):
    """Plays the steps of the scenario named in the message."""

    def __init__(self, options: AgentOptions, control: Control) -> None:
        self._options = options
        self._control = control

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        text = context.get_user_input()
        scenario = RESUMED if context.current_task else scenario_of(text)
        requested = URI in context.requested_extensions
        if requested:
            context.add_activated_extension(URI)
        reports = requested or not self._options.gated
        await _Player(context, event_queue, reports=reports, control=self._control).play(scenario, text)

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        updater = TaskUpdater(event_queue, context.task_id or "", context.context_id or "")
        await updater.cancel(updater.new_agent_message([_text("canceled by client")]))


class _Player:
    """One execution: turns steps into SDK events."""

    def __init__(self, context: RequestContext, queue: EventQueue, *, reports: bool, control: Control) -> None:
        self._context = context
        self._queue = queue
        self._reports = reports
        self._control = control
        self._task_id = context.task_id or ""
        self._context_id = context.context_id or ""
        self._updater = TaskUpdater(queue, self._task_id, self._context_id)

    async def play(self, scenario: Scenario, text: str) -> None:
        starts_task = not isinstance(scenario.steps[0], Reply)
        if starts_task and self._context.current_task is None:
            await self._queue.enqueue_event(self._task("submitted", ()))
        for step in scenario.steps:
            await self._do(step, text)

    async def _do(self, step: Step, text: str) -> None:
        match step:
            case Chunk():
                await self._queue.enqueue_event(
                    TaskArtifactUpdateEvent(
                        task_id=self._task_id,
                        context_id=self._context_id,
                        artifact=self._artifact(step, text),
                        append=step.append,
                        last_chunk=step.last,
                    )
                )
            case Status(state, words):
                message = self._updater.new_agent_message([_text(words)]) if words else None
                await self._updater.update_status(TaskState(state), message, final=state != "working")
            case Snapshot(state, artifacts):
                await self._queue.enqueue_event(self._task(state, artifacts))
            case Reply(words):
                await self._queue.enqueue_event(
                    Message(
                        message_id=f"reply-{self._task_id}",
                        context_id=self._context_id,
                        role=Role.agent,
                        parts=[_text(words.format(text=text))],
                    )
                )
            case Gate():
                await self._control.wait_at_gate(gate_of(text))
            case Crash(message):
                raise RuntimeError(message)

    def _task(self, state: str, artifacts: tuple[Chunk, ...]) -> Task:
        return Task(
            id=self._task_id,
            context_id=self._context_id,
            status=TaskStatus(state=TaskState(state)),
            history=[self._context.message] if self._context.message else [],
            artifacts=[self._artifact(chunk, "") for chunk in artifacts] or None,
        )

    def _artifact(self, chunk: Chunk, text: str) -> Artifact:
        parts = [_text(chunk.text.replace("{text}", text)), *(_rich_parts() if chunk.rich else [])]
        reports = bool(chunk.calls) and self._reports
        return Artifact(
            artifact_id=chunk.artifact_id,
            name=None if chunk.append else "result",
            parts=parts,
            metadata={METADATA_KEY: list(chunk.calls)} if reports else None,
            extensions=[URI] if reports else None,
        )


def _text(text: str) -> Part:
    return Part(root=TextPart(text=text))


def _rich_parts() -> list[Part]:
    return [
        Part(root=DataPart(data={"answer": 42})),
        Part(
            root=FilePart(
                file=FileWithBytes(
                    bytes="AAECAwQFBgcICQoLDA0ODw==", mime_type="application/octet-stream", name="blob.bin"
                )
            )
        ),
        Part(
            root=FilePart(file=FileWithUri(uri="https://example.com/out.txt", mime_type="text/plain", name="out.txt"))
        ),
    ]


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
    base = options.public_url or url
    extension = AgentExtension(uri=URI, description="Tool call capture for evaluation", required=False)
    return AgentCard(
        name=name,
        description="Replies according to the first word of the text",
        version="1.0.0",
        url=base + RPC_PATH,
        preferred_transport=TransportProtocol.jsonrpc,
        additional_interfaces=[
            AgentInterface(transport=TransportProtocol.jsonrpc, url=base + RPC_PATH),
            AgentInterface(transport=TransportProtocol.http_json, url=base + REST_PATH),
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
        agent_executor=ScenarioExecutor(options, control),
        task_store=InMemoryTaskStore(),
        queue_manager=_SubscriptionAwareQueues(control),
        push_config_store=InMemoryPushNotificationConfigStore(),
    )

    @asynccontextmanager
    async def over_grpc(app: Any) -> AsyncIterator[None]:
        server = grpc.aio.server()
        a2a_pb2_grpc.add_A2AServiceServicer_to_server(GrpcHandler(extended, handler), server)
        address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        for named in (card, extended):
            named.additional_interfaces.append(AgentInterface(transport=TransportProtocol.grpc, url=address))
        await server.start()
        yield
        await server.stop(0)

    app = A2AStarletteApplication(card, handler, extended_agent_card=extended)
    app = app.build(rpc_url=RPC_PATH, lifespan=over_grpc)
    rest = RESTAdapter(agent_card=card, http_handler=handler, extended_agent_card=extended)
    for (path, method), endpoint in rest.routes().items():
        app.routes.append(Route(REST_PATH + path, endpoint, methods=[method]))
    return control.wrap(app)


if __name__ == "__main__":
    arguments = agent_arguments("A2A 0.3 agent that plays test scenarios")
    chosen = AgentOptions(not arguments.undeclared, not arguments.ungated, arguments.public_url, arguments.gated_reads)
    serve_forever(lambda url: build_app(url, chosen, Control()), arguments.listen)
