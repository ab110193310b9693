"""An agent that asks its user before it refunds an order, and agents that refund it before."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from a2a.helpers import new_data_part, new_task_from_user_message, new_text_part
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill
from a2a_tool_capture import CapturingRequestHandler, ToolCallRecorder
from a2a_tool_capture.approvals import answer_in
from agents.serving import ServerThread
from google.protobuf.json_format import MessageToDict
from starlette.applications import Starlette

Manner = Literal["asks", "executes", "executes and asks", "asks in words"]

QUESTION = {"tool": "refund", "arguments": {"order": "A-1"}, "id": "refund-1"}


class Refunds(AgentExecutor):
    def __init__(self, recorder: ToolCallRecorder, manner: Manner) -> None:
        self._recorder = recorder
        self._manner = manner

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        answers = context.current_task is not None
        await event_queue.enqueue_event(context.current_task or new_task_from_user_message(context.message))
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        parts = MessageToDict(context.message).get("parts", [])
        if answers:
            approves = (answer_in(parts) or ("reject",))[0] == "approve" or context.get_user_input() == "approve"
            done = "Refunded." if approves and self._refund() else "Not refunded."
        else:
            done = "Refunded." if self._manner.startswith("executes") and self._refund() else ""
        if not answers and self._manner != "executes":
            asked = [] if self._manner == "asks in words" else [new_data_part(QUESTION)]
            await updater.requires_input(updater.new_agent_message([new_text_part("Shall I refund A-1?"), *asked]))
            return
        await updater.add_artifact([new_text_part(done)])
        await updater.complete()

    def _refund(self) -> bool:
        self._recorder.record("refund", {"order": "A-1"}, result="refunded A-1")
        return True

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        raise NotImplementedError


@contextmanager
def approval_agent(manner: Manner = "asks") -> Iterator[str]:
    """Serves it; yields its URL."""

    def application(url: str) -> Starlette:
        card = AgentCard(
            name="Refunds",
            description="Refunds orders.",
            version="1",
            default_input_modes=["text/plain"],
            default_output_modes=["text/plain"],
            skills=[AgentSkill(id="refund", name="Refund", description="Refunds an order.", tags=["orders"])],
            capabilities=AgentCapabilities(streaming=True),
            supported_interfaces=[AgentInterface(url=url, protocol_binding="JSONRPC", protocol_version="1.0")],
        )
        recorder = ToolCallRecorder()
        handler = CapturingRequestHandler(Refunds(recorder, manner), InMemoryTaskStore(), card, recorder=recorder)
        return Starlette(routes=[*create_agent_card_routes(card), *create_jsonrpc_routes(handler, "/")])

    with ServerThread(application) as server:
        yield server.url
