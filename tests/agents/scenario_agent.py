"""A real a2a-sdk 1.x agent: v1.0 and v0.3, JSON-RPC and HTTP+JSON, playing `agents.scenarios`.

In tests: `with scenario_agent() as agent: agent.url`.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator
from typing import Any

from a2a.server.context import ServerCallContext
from a2a.server.events import Event
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import InMemoryPushNotificationConfigStore, InMemoryTaskStore
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentExtension,
    AgentInterface,
    AgentSkill,
    Part,
    Role,
    SubscribeToTaskRequest,
    TaskState,
)
from agents.control import Control
from agents.player import REST_PATH, RPC_PATH, AgentOptions, ScenarioExecutor
from agents.recording_agent import push_sender
from agents.scenarios import URI
from agents.serving import ServerThread
from google.protobuf.json_format import ParseDict
from google.protobuf.struct_pb2 import Value
from starlette.applications import Starlette

CARD_PATHS = ("/.well-known/agent-card.json", "/.well-known/agent.json")


class _Executor(ScenarioExecutor):
    role = Role.ROLE_AGENT

    def text(self, text: str) -> Part:
        return Part(text=text)

    def rich_parts(self) -> list[Part]:
        return [
            Part(data=ParseDict({"answer": 42}, Value()), media_type="application/json"),
            Part(raw=bytes(range(16)), filename="blob.bin", media_type="application/octet-stream"),
            Part(url="https://example.com/out.txt", filename="out.txt", media_type="text/plain"),
        ]

    def state(self, name: str) -> TaskState:
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
    interfaces = [
        AgentInterface(url=where, protocol_binding=binding, protocol_version=version)
        for version in ("1.0", "0.3.0")
        for binding, where in (
            ("JSONRPC", url + RPC_PATH),
            ("HTTP+JSON", url + REST_PATH),
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
        agent_executor=_Executor(options, control),
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
