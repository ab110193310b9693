"""An agent that asks its user before it refunds an order, and agents that refund it before."""

from __future__ import annotations

from typing import Literal

from a2a.helpers import new_data_part, new_task_from_user_message, new_text_part
from a2a.server.agent_execution import RequestContext
from a2a.server.events import EventQueue
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a_tool_capture import CapturingRequestHandler, ToolCallRecorder
from a2a_tool_capture.approvals import message_words
from agents.player import RPC_PATH, AgentOptions, Executor
from agents.scenario_agent import agent_card
from agents.serving import ServerThread
from google.protobuf.json_format import MessageToDict
from starlette.applications import Starlette

Manner = Literal["asks", "executes", "executes and asks", "asks in words"]

QUESTION = {"tool": "refund", "arguments": {"order": "A-1"}, "id": "refund-1"}


class _Refunds(Executor):
    def __init__(self, recorder: ToolCallRecorder, manner: Manner) -> None:
        self._recorder = recorder
        self._manner = manner

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        asked = context.current_task
        await event_queue.enqueue_event(asked or new_task_from_user_message(context.message))
        updater = TaskUpdater(event_queue, context.task_id or "", context.context_id or "")
        approved = message_words(MessageToDict(context.message)) == "approve"
        refunds = approved if asked else self._manner.startswith("executes")
        if refunds:
            self._recorder.record("refund", {"order": "A-1"}, result="refunded A-1")
        if asked or self._manner == "executes":
            await updater.add_artifact([new_text_part("Refunded." if refunds else "Not refunded.")])
            await updater.complete()
        else:
            question = [] if self._manner == "asks in words" else [new_data_part(QUESTION)]
            await updater.requires_input(updater.new_agent_message([new_text_part("Shall I refund A-1?"), *question]))


def approval_agent(manner: Manner = "asks") -> ServerThread:
    """The agent on a free port, as a context manager with a `url`."""

    def application(url: str) -> Starlette:
        card, recorder = agent_card(url, AgentOptions(), name="Refunds"), ToolCallRecorder()
        handler = CapturingRequestHandler(_Refunds(recorder, manner), InMemoryTaskStore(), card, recorder=recorder)
        return Starlette(routes=[*create_agent_card_routes(card), *create_jsonrpc_routes(handler, RPC_PATH)])

    return ServerThread(application)
