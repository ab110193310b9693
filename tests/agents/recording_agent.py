"""A real a2a-sdk 1.x agent as extension/README.md describes it, webhooks included, over A2A 1.0 and 0.3.

The first word of the message says what it does; see `Agent`.
"""

from __future__ import annotations

import uuid
from typing import Any

import httpx
from a2a.helpers import new_task_from_user_message, new_text_message, new_text_part
from a2a.server.agent_execution import RequestContext
from a2a.server.context import ServerCallContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler, RequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import (
    BasePushNotificationSender,
    InMemoryPushNotificationConfigStore,
    InMemoryTaskStore,
    PushNotificationConfigStore,
    TaskUpdater,
)
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, TaskPushNotificationConfig
from a2a_tool_capture import CapturingExecutor, CapturingRequestHandler, GatedPushConfigStore, ToolCallRecorder
from a2a_tool_capture.agent.executor import declare_tool_calls
from agents.player import Executor
from starlette.applications import Starlette
from support.patience import PATIENCE_S

UNKEPT = httpx.Limits(max_keepalive_connections=0)
"""Connections that no test has to close."""

VERBS = ("plain", "chunks", "late", "only", "fail", "ask", "raise", "empty", "closing", "silent", "echo")


class Agent(Executor):
    """Makes calls before, between and after its artifacts; knows nothing of the extension."""

    def __init__(self, recorder: ToolCallRecorder) -> None:
        self._recorder = recorder

    def _search(self, what: str) -> None:
        self._recorder.record("search", {"q": what}, result=what.upper())

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        updater = TaskUpdater(event_queue, context.task_id or "", context.context_id or "")
        verb = context.get_user_input().split()[0]

        async def say(words: str, artifact_id: str = "answer", **how: bool) -> None:
            await updater.add_artifact([new_text_part(words)], artifact_id=artifact_id, **how)

        if context.current_task is None:
            await event_queue.enqueue_event(new_task_from_user_message(context.message))
            await updater.start_work()
        self._search("kettle")
        match verb:
            case "plain":
                await say("done")
            case "chunks":
                await say("one ")
                self._search("cup")
                await say("two", append=True, last_chunk=True)
            case "echo":
                await say(f"I notify {context.configuration.task_push_notification_config.url}, as you asked")
            case "late":
                await say("done")
                self._search("cup")
            case "empty":
                await say("")
                self._search("cup")
                await say("", "another")
            case "closing":
                await say("")
                await say("one ", append=True)
                self._search("cup")
                await say("", append=True, last_chunk=True)
            case "fail":
                await updater.failed(new_text_message("broken", context_id=context.context_id))
                return
            case "ask":
                await updater.requires_input(new_text_message("which?", context_id=context.context_id))
                return
            case "raise":
                raise RuntimeError("planned")
            case "silent":
                return
        await updater.complete()


class VerifyingConfigStore(InMemoryPushNotificationConfigStore):
    """Takes a webhook with the token `verified` once it has echoed a validation token, as A2A's samples do."""

    async def set_info(
        self, task_id: str, notification_config: TaskPushNotificationConfig, context: ServerCallContext
    ) -> TaskPushNotificationConfig:
        if notification_config.token == "verified":
            token = {"validationToken": str(uuid.uuid4())}
            async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE_S) as client:
                answer = await client.get(notification_config.url, params=token)
            if answer.raise_for_status().text != token["validationToken"]:
                raise ValueError("the webhook did not echo the token")
        return await super().set_info(task_id, notification_config, context)


def build_app(url: str) -> Any:
    """The ASGI application of an agent reached at `url`."""
    recorder = ToolCallRecorder()
    card = agent_card(url)
    webhooks = GatedPushConfigStore(VerifyingConfigStore())
    handler = CapturingRequestHandler(
        Agent(recorder),
        InMemoryTaskStore(),
        card,
        recorder=recorder,
        push_config_store=webhooks,
        push_sender=push_sender(webhooks),
    )
    return application(card, handler)


def build_ungated_app(url: str) -> Any:
    """As `build_app`, but its author did not gate webhooks: they get whatever a task holds."""
    recorder = ToolCallRecorder()
    card = agent_card(url)
    declare_tool_calls(card)
    webhooks = InMemoryPushNotificationConfigStore()
    executor = CapturingExecutor(Agent(recorder), recorder)
    return application(
        card,
        DefaultRequestHandler(
            executor, InMemoryTaskStore(), card, push_config_store=webhooks, push_sender=push_sender(webhooks)
        ),
    )


def push_sender(webhooks: PushNotificationConfigStore) -> BasePushNotificationSender:
    return BasePushNotificationSender(httpx.AsyncClient(trust_env=False, timeout=PATIENCE_S, limits=UNKEPT), webhooks)


def agent_card(url: str) -> AgentCard:
    return AgentCard(
        name="Recording agent",
        version="1",
        supported_interfaces=[
            AgentInterface(url=where, protocol_binding=binding, protocol_version=version)
            for version in ("1.0", "0.3")
            for binding, where in (("JSONRPC", f"{url}/rpc"), ("HTTP+JSON", f"{url}/rest"))
        ],
        capabilities=AgentCapabilities(streaming=True, push_notifications=True),
    )


def application(card: AgentCard, handler: RequestHandler) -> Starlette:
    return Starlette(
        routes=[
            *create_agent_card_routes(card),
            *create_jsonrpc_routes(handler, "/rpc", enable_v0_3_compat=True),
            *create_rest_routes(handler, path_prefix="/rest", enable_v0_3_compat=True),
        ]
    )
