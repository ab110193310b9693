"""A real a2a-sdk agent whose tasks take several messages, one tool call in each.

The user's text says what happens: `ask` ends with input-required, `fail` with failed (an agent that never `fails`: with
completed), anything else with completed; `gate` waits first, for `Control.open_gate` by the path
/_control/open?gate=NAME (the word after it). Ids of calls are as `ids` says.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from a2a.server.agent_execution import RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import Artifact, Part, TaskArtifactUpdateEvent, TaskState, TaskStatus
from a2a.types import Task as A2ATask
from agents.control import Control
from agents.player import Executor
from agents.scenario_agent import RPC_PATH, AgentOptions, agent_card
from agents.scenarios import METADATA_KEY, URI
from agents.serving import ServerThread
from google.protobuf.json_format import ParseDict
from google.protobuf.struct_pb2 import Struct
from starlette.applications import Starlette

IDS: dict[str, Callable[[str, int], str]] = {
    "own": lambda task_id, number: f"{task_id}-{number}",
    "numbered": lambda task_id, number: "call_0",
    "none": lambda task_id, number: "",
}


class _Executor(Executor):
    def __init__(self, ids: str, control: Control, fails: bool) -> None:
        self._id = IDS[ids]
        self._fails = fails
        self._control = control

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        task_id, context_id = context.task_id or "", context.context_id or ""
        updater = TaskUpdater(event_queue, task_id, context_id)
        words = context.get_user_input().split()
        number = len(context.current_task.artifacts) if context.current_task else 0
        if context.current_task is None:
            await event_queue.enqueue_event(
                A2ATask(
                    id=task_id,
                    context_id=context_id,
                    status=TaskStatus(state=TaskState.TASK_STATE_SUBMITTED),
                    history=[context.message] if context.message else [],
                )
            )
        await updater.start_work()
        if words[0] == "gate":
            await self._control.wait_at_gate(words[1])
        call: dict[str, Any] = {"name": "refund", "arguments": {"order": number}, "result": f"paid {number}"}
        artifact = Artifact(artifact_id=f"a{number}", parts=[Part(text=f"answer {number}")], extensions=[URI])
        artifact.metadata.CopyFrom(ParseDict({METADATA_KEY: [{"id": self._id(task_id, number), **call}]}, Struct()))
        await event_queue.enqueue_event(
            TaskArtifactUpdateEvent(task_id=task_id, context_id=context_id, artifact=artifact)
        )
        ends = {"ask": updater.requires_input} | ({"fail": updater.failed} if self._fails else {})
        await ends.get(words[0], updater.complete)()


def stepwise_agent(ids: str = "own", *, fails: bool = True) -> ServerThread:
    """The agent on a free port, as a context manager with a `url`."""
    return ServerThread(partial(stepwise_app, ids=ids, fails=fails))


def stepwise_app(url: str, ids: str = "own", *, fails: bool = True) -> Any:
    """The agent as an ASGI application that is reached at `url`."""
    control, card = Control(), agent_card(url, AgentOptions(), name="Stepwise agent")
    handler = DefaultRequestHandler(
        agent_executor=_Executor(ids, control, fails), task_store=InMemoryTaskStore(), agent_card=card
    )
    routes = create_agent_card_routes(card, card_url="/.well-known/agent-card.json")
    return control.wrap(Starlette(routes=[*routes, *create_jsonrpc_routes(handler, RPC_PATH)]))
