"""A real a2a-sdk 1.x agent: v1.0 and v0.3, JSON-RPC and HTTP+JSON, playing `agents.scenarios`.

In tests: `with scenario_agent() as agent: agent.url`. By hand: `python -m agents.scenario_agent --help` in tests/.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any

from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.context import ServerCallContext
from a2a.server.events import Event, EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import InMemoryPushNotificationConfigStore, InMemoryTaskStore, TaskUpdater
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentExtension,
    AgentInterface,
    AgentSkill,
    Artifact,
    Message,
    Part,
    Role,
    SubscribeToTaskRequest,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
)
from agents.control import Control
from agents.recording_agent import push_sender
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
from agents.serving import ServerThread, agent_arguments, serve_forever
from google.protobuf.json_format import ParseDict
from google.protobuf.struct_pb2 import Struct, Value
from starlette.applications import Starlette

RPC_PATH = "/a2a/jsonrpc"
REST_PATH = "/a2a/rest"
CARD_PATHS = ("/.well-known/agent-card.json", "/.well-known/agent.json")


@dataclass(frozen=True)
class AgentOptions:
    """How the agent treats the extension, and what its card says.

    `gated` agents report calls only to requests that list the URI in the extensions header.
    `public_url` replaces the agent's own URL in the card; `grpc` is its gRPC address there.
    `extended`: whether there is an extended card. `notifies`: whether it notifies webhooks. `bindings`: in the card.
    """

    declared: bool = True
    gated: bool = True
    public_url: str | None = None
    grpc: str = "127.0.0.1:1"
    extended: bool = True
    notifies: bool = False
    bindings: tuple[str, ...] = ("JSONRPC", "HTTP+JSON", "GRPC")


class ScenarioExecutor(AgentExecutor):
    """Plays the steps of the scenario named in the message."""

    def __init__(self, options: AgentOptions, control: Control) -> None:
        self._options = options
        self._control = control

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        text = context.get_user_input()
        scenario = RESUMED if context.current_task else scenario_of(text)
        player = _Player(context, event_queue, reports=self._reports(context), control=self._control)
        await player.play(scenario, text)

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        updater = TaskUpdater(event_queue, context.task_id or "", context.context_id or "")
        await updater.cancel(updater.new_agent_message([Part(text="canceled by client")]))

    def _reports(self, context: RequestContext) -> bool:
        return not self._options.gated or URI in context.requested_extensions


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
                message = self._updater.new_agent_message([Part(text=words)]) if words else None
                await self._updater.update_status(_state(state), message)
            case Snapshot(state, artifacts):
                await self._queue.enqueue_event(self._task(state, artifacts))
            case Reply(words):
                await self._queue.enqueue_event(
                    Message(
                        message_id=f"reply-{self._task_id}",
                        context_id=self._context_id,
                        role=Role.ROLE_AGENT,
                        parts=[Part(text=words.format(text=text))],
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
            status=TaskStatus(state=_state(state)),
            history=[self._context.message] if self._context.message else [],
            artifacts=[self._artifact(chunk, "") for chunk in artifacts],
        )

    def _artifact(self, chunk: Chunk, text: str) -> Artifact:
        artifact = Artifact(artifact_id=chunk.artifact_id, parts=[Part(text=chunk.text.replace("{text}", text))])
        if not chunk.append:
            artifact.name = "result"
        if chunk.rich:
            artifact.parts.extend(_rich_parts())
        if chunk.calls and self._reports:
            artifact.metadata.CopyFrom(ParseDict({METADATA_KEY: list(chunk.calls)}, Struct()))
            artifact.extensions.append(URI)
        return artifact


def _rich_parts() -> list[Part]:
    return [
        Part(data=ParseDict({"answer": 42}, Value()), media_type="application/json"),
        Part(raw=bytes(range(16)), filename="blob.bin", media_type="application/octet-stream"),
        Part(url="https://example.com/out.txt", filename="out.txt", media_type="text/plain"),
    ]


def _state(name: str) -> TaskState:
    return TaskState.Value(f"TASK_STATE_{name.upper().replace('-', '_')}")


class _SubscriptionAwareHandler(DefaultRequestHandler):
    """Informs the control when a subscriber has been attached, so that tests need not guess."""

    def __init__(self, control: Control, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._control = control

    async def on_subscribe_to_task(
        self, params: SubscribeToTaskRequest, context: ServerCallContext
    ) -> AsyncGenerator[Event, None]:
        async for event in super().on_subscribe_to_task(params, context):
            self._control.mark_subscribed(params.id)
            yield event


def agent_card(url: str, options: AgentOptions, name: str = "Scenario agent") -> AgentCard:
    """Card with every binding in both protocol versions."""
    base = options.public_url or url
    interfaces = [
        AgentInterface(url=where, protocol_binding=binding, protocol_version=version)
        for version in ("1.0", "0.3.0")
        for binding, where in (
            ("JSONRPC", base + RPC_PATH),
            ("HTTP+JSON", base + REST_PATH),
            ("GRPC", options.grpc),
        )
        if binding in options.bindings
    ]
    extension = AgentExtension(uri=URI, description="Tool call capture for evaluation", required=False)
    return AgentCard(
        name=name,
        description="Replies according to the first word of the text",
        version="1.0.0",
        supported_interfaces=interfaces,
        capabilities=AgentCapabilities(
            streaming=True,
            push_notifications=True,
            extended_agent_card=options.extended,
            extensions=[extension] if options.declared else [],
        ),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain", "application/json"],
        skills=[AgentSkill(id="scenarios", name="Scenarios", description="Plays scenarios", tags=["test"])],
    )


def request_handler(url: str, options: AgentOptions, control: Control) -> DefaultRequestHandler:
    """What answers the requests of all bindings of an agent reached at `url`."""
    webhooks = InMemoryPushNotificationConfigStore()
    return _SubscriptionAwareHandler(
        control,
        agent_executor=ScenarioExecutor(options, control),
        task_store=InMemoryTaskStore(),
        agent_card=agent_card(url, options),
        push_config_store=webhooks,
        push_sender=push_sender(webhooks) if options.notifies else None,
        extended_agent_card=agent_card(url, options, name="Scenario agent (extended)"),
    )


def build_app(url: str, options: AgentOptions, control: Control, handler: DefaultRequestHandler | None = None) -> Any:
    """The ASGI application of an agent reached at `url`, with its own `handler` by default."""
    card = agent_card(url, options)
    handler = handler or request_handler(url, options, control)
    routes = [
        route
        for path in CARD_PATHS
        for route in create_agent_card_routes(card, card_url=path, cache_control="public, max-age=60")
    ]
    routes += create_jsonrpc_routes(handler, RPC_PATH, enable_v0_3_compat=True)
    routes += create_rest_routes(handler, path_prefix=REST_PATH, enable_v0_3_compat=True)
    return control.wrap(Starlette(routes=routes))


def scenario_agent(options: AgentOptions | None = None, tls: ssl.SSLContext | None = None) -> ServerThread:
    """The agent on a free port, as a context manager with a `url`; over HTTPS with `tls`."""
    return ServerThread(lambda url: build_app(url, options or AgentOptions(), Control()), tls)


if __name__ == "__main__":
    arguments = agent_arguments("A2A 1.x agent that plays test scenarios")
    chosen = AgentOptions(not arguments.undeclared, not arguments.ungated, arguments.public_url)
    serve_forever(lambda url: build_app(url, chosen, Control()), arguments.listen)
