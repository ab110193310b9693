"""Agents of a2a-sdk that ask each other, through the proxies, as their messages say. They pass on trace context by
OpenTelemetry's SDK."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Callable
from typing import Any

import httpx
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import Artifact, Part, TaskArtifactUpdateEvent, TaskState, TaskStatus
from a2a.types import Task as A2ATask
from agents.scenario_agent import RPC_PATH, AgentOptions, agent_card
from agents.scenarios import METADATA_KEY, URI
from agents.serving import ServerThread
from google.protobuf.json_format import ParseDict
from google.protobuf.struct_pb2 import Struct
from opentelemetry.context import Context
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import SpanKind, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from starlette.applications import Starlette

from .plan import ANSWERS, BREAKS, FAILS, IS_LEFT, NOTHING, REFERENCE, TRACEPARENT, Message

TRACER = TracerProvider().get_tracer("crew")
PROPAGATOR = TraceContextTextMapPropagator()

_PATIENCE_S = 900
"""Hundreds of trees grow at once: the answer to a user comes when that of the last agent has."""

Entrance = Callable[[str], str]
"""Where an agent is reached: a proxy, by the name of the agent."""


class Crew:
    """What the agents share: `entrance` is set once the proxies run."""

    def __init__(self) -> None:
        self.entrance: Entrance
        self.parents: dict[str, str] = {}
        """Who asked: by the key of each try of a message, the key of the one that caused it, "" for a user."""
        self.how: dict[str, str] = {}
        self.working = 0
        self.client = http_client()
        """Of the agents."""
        self._loop: asyncio.AbstractEventLoop | None = None

    def begin(self) -> None:
        """An agent begins to work."""
        self.working += 1
        self._loop = asyncio.get_running_loop()

    async def done(self) -> None:
        """Returns when no agent works any more; called in another thread than theirs."""
        async with asyncio.timeout(_PATIENCE_S):
            while self.working:
                await asyncio.sleep(0.01)
        if self._loop is not None:
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self.client.aclose(), self._loop))

    async def ask(
        self, client: httpx.AsyncClient, message: Message, parent: str, context: Context, task_id: str = ""
    ) -> None:
        """Send a message, again as long as it is not answered. `task_id`: the task of the agent that asks."""
        for number, end in enumerate(message.tries):
            key = f"{parent}>{message.name}/{number}"
            self.parents[key], self.how[key] = parent, message.how
            with TRACER.start_as_current_span("ask", context, SpanKind.CLIENT) as span:
                headers: dict[str, str] = {"A2A-Version": "1.0"}
                if message.how not in (REFERENCE, NOTHING):
                    PROPAGATOR.inject(headers, set_span_in_context(span))
                if message.how == TRACEPARENT:
                    headers.pop("tracestate", None)
                sent: dict[str, Any] = {"messageId": uuid.uuid4().hex, "role": "ROLE_USER"}
                sent["parts"] = [{"text": message.text(key, number)}]
                if message.how == REFERENCE:
                    sent["referenceTaskIds"] = [task_id]
                method = "SendStreamingMessage" if end == IS_LEFT else "SendMessage"
                body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"message": sent}}
                url = self.entrance(message.agent) + RPC_PATH
                if end == IS_LEFT:
                    async with client.stream("POST", url, json=body, headers=headers) as response:
                        await anext(response.aiter_lines())
                    continue
                answer = (await client.post(url, json=body, headers=headers)).json()
                state = answer.get("result", {}).get("task", {}).get("status", {}).get("state")
                assert (state == "TASK_STATE_COMPLETED") == (end == ANSWERS), answer


def http_client() -> httpx.AsyncClient:
    # No connection is used twice: on a busy machine seconds pass between the choice of an idle one and the request.
    # Meanwhile it expires, and httpcore closes it under the request (ReadError), or the server does.
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
    return httpx.AsyncClient(trust_env=False, timeout=_PATIENCE_S, limits=limits)


class _PlannedError(Exception):
    """The agent's code breaks as its message says."""


class _Executor(AgentExecutor):
    def __init__(self, crew: Crew) -> None:
        self._crew = crew

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        self._crew.begin()
        try:
            await self._work(context, event_queue)
        except _PlannedError:
            raise
        except Exception as error:  # a2a-sdk answers with its text alone, which may be empty
            raise RuntimeError(repr(error)) from error
        finally:
            self._crew.working -= 1

    async def _work(self, context: RequestContext, event_queue: EventQueue) -> None:
        asked = json.loads(context.get_user_input())
        me, message = asked["key"], Message.of(asked["asks"])
        end = message.tries[asked["try"]]
        task_id, context_id = context.task_id or "", context.context_id or ""
        status = TaskStatus(state=TaskState.TASK_STATE_SUBMITTED)
        await event_queue.enqueue_event(A2ATask(id=task_id, context_id=context_id, status=status))
        updater = TaskUpdater(event_queue, task_id, context_id)
        await updater.start_work()
        headers = context.call_context.state["headers"] if context.call_context else {}
        with TRACER.start_as_current_span("serve", PROPAGATOR.extract(headers, Context()), SpanKind.SERVER) as span:
            inside = set_span_in_context(span)
            for group in message.groups:
                await asyncio.gather(*(self._crew.ask(self._crew.client, one, me, inside, task_id) for one in group))
        if end == BREAKS:
            raise _PlannedError
        calls = [
            {
                "id": f"{one.name}/{number}",
                "name": "ask",
                "arguments": {"message": one.text(f"{me}>{one.name}/{number}", number)},
            }
            for group in message.groups
            for one in group
            for number in range(len(one.tries))
        ]
        artifact = Artifact(artifact_id="a", parts=[Part(text=f"done {me}")], extensions=[URI])
        artifact.metadata.CopyFrom(ParseDict({METADATA_KEY: calls}, Struct()))
        update = TaskArtifactUpdateEvent(task_id=task_id, context_id=context_id, artifact=artifact)
        await event_queue.enqueue_event(update)
        await (updater.failed() if end == FAILS else updater.complete())

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        await TaskUpdater(event_queue, context.task_id or "", context.context_id or "").cancel()


def running_crew(crew: Crew, names: str) -> ServerThread:
    """These agents, each at the path of its name, as a context manager with a `url`."""

    def build(url: str) -> Any:
        routes = []
        for name in names:
            card = agent_card(f"{url}/{name}", AgentOptions(), name=f"Agent {name}")
            handler = DefaultRequestHandler(_Executor(crew), InMemoryTaskStore(), agent_card=card)
            routes += create_jsonrpc_routes(handler, f"/{name}{RPC_PATH}")
            routes += create_agent_card_routes(card, card_url=f"/{name}/.well-known/agent-card.json")
        routes += create_agent_card_routes(card, card_url="/.well-known/agent-card.json")
        return Starlette(routes=routes)

    return ServerThread(build)
