"""A real a2a-sdk 1.x agent that makes, for each message it knows, the calls that a suite expects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from a2a.helpers import new_task_from_user_message, new_text_part
from a2a.server.agent_execution import RequestContext
from a2a.server.events import EventQueue
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface
from a2a_tool_capture import CapturingRequestHandler, ToolCall, ToolCallRecorder
from agents.player import Executor
from starlette.applications import Starlette


class _Executor(Executor):
    def __init__(self, recorder: ToolCallRecorder, calls: Mapping[str, Sequence[ToolCall]]) -> None:
        self._recorder = recorder
        self._calls = calls

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        await event_queue.enqueue_event(new_task_from_user_message(context.message))
        for call in self._calls.get(context.get_user_input(), ()):
            self._recorder.record(call.name, call.arguments, result="done")
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        await updater.add_artifact([new_text_part("done")])
        await updater.complete()


def expected_agent(url: str, calls: Mapping[str, Sequence[ToolCall]]) -> Any:
    """The ASGI application of an agent that makes these calls, by the text of the message."""
    recorder = ToolCallRecorder()
    card = AgentCard(
        name="Expected",
        version="1",
        capabilities=AgentCapabilities(streaming=True),
        supported_interfaces=[AgentInterface(url=url, protocol_binding="JSONRPC", protocol_version="1.0")],
    )
    handler = CapturingRequestHandler(_Executor(recorder, calls), InMemoryTaskStore(), card, recorder=recorder)
    return Starlette(routes=[*create_agent_card_routes(card), *create_jsonrpc_routes(handler, "/")])
