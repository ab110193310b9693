"""The agent of the turns: real servers of a2a-sdk for all three bindings, with the recorder of the extension.

`python -m tools.soak.turns.agent` serves until its standard input ends. Each message says in its text what the agent
does (`Turn.instruction`). What was executed is kept, by the numbers of turn and call, and listed below /_oracle, where
no proxy is asked.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import uuid
from collections import defaultdict
from typing import Any

import a2a.client  # noqa: F401  # before a2a.compat, see agents.grpc_agent
import grpc.aio
import httpx
from a2a.helpers import new_task_from_user_message, new_text_message, new_text_part
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import GrpcHandler
from a2a.server.routes import (
    create_agent_card_routes,
    create_jsonrpc_routes,
    create_rest_routes,
)
from a2a.server.tasks import (
    BasePushNotificationSender,
    InMemoryPushNotificationConfigStore,
    InMemoryTaskStore,
    TaskUpdater,
)
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, a2a_pb2_grpc
from a2a_eval_proxy.net.http_server import HttpServer
from a2a_tool_capture import CapturingRequestHandler, GatedPushConfigStore, ToolCallRecorder
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from support.patience import PATIENCE_S

from .plan import Artifacts, End, instruction_of

RPC_PATH, REST_PATH = "/rpc", "/rest"
TOOL = "look_up"


class Log:
    """What the agent did, which is the truth that stored turns are held against."""

    def __init__(self) -> None:
        self.task_of: dict[int, str] = {}
        """Of each turn that began; "" for one that is answered with a Message."""
        self.calls: list[tuple[int, int]] = []
        self.ended: dict[int, str] = {}
        """The planned end of each turn that came to it."""


class Executor(AgentExecutor):
    """Carries out instructions; knows nothing of the extension but the recorder of its tool."""

    def __init__(self, recorder: ToolCallRecorder, log: Log) -> None:
        self.log = log
        self.gates: defaultdict[int, asyncio.Event] = defaultdict(asyncio.Event)

        @recorder.tool(name=TOOL)
        async def look_up(turn: int, call: int) -> str:
            log.calls.append((turn, call))
            return f"found {turn}.{call}"

        self._look_up = look_up

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.message is not None
        task_id, context_id = context.task_id or "", context.context_id or ""
        wish = instruction_of(context.get_user_input())
        turn, end = wish["turn"], End(wish["end"])
        last_words = new_text_message(f"end {turn}", context_id=context_id)
        if end is End.MESSAGE:
            self.log.task_of[turn] = ""
            await asyncio.sleep(wish["pauses"][0])
            self.log.ended[turn] = end
            await event_queue.enqueue_event(last_words)
            return
        self.log.task_of[turn] = task_id
        updater = TaskUpdater(event_queue, task_id, context_id)
        if context.current_task is None:
            await event_queue.enqueue_event(new_task_from_user_message(context.message))
        await updater.start_work()
        if wish["gate"]:
            await self.gates[turn].wait()
        made = 0
        for place, (pause, calls) in enumerate(zip(wish["pauses"], wish["calls"], strict=True)):
            await asyncio.sleep(pause)
            for _ in range(calls):
                await self._look_up(turn, made)
                made += 1
            if place < len(wish["calls"]) - 1:
                await updater.add_artifact(
                    [new_text_part(f"answer {turn}.{place} ")],
                    artifact_id=_artifact_id(Artifacts(wish["artifacts"]), turn, place),
                    append=True if wish["artifacts"] == Artifacts.CHUNKS and place else None,
                )
        self.log.ended[turn] = end
        finish = {
            End.COMPLETED: updater.complete,
            End.ASKS: updater.requires_input,
            End.FAILED: updater.failed,
        }
        await finish[end](last_words)

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        await TaskUpdater(event_queue, context.task_id or "", context.context_id or "").cancel()


def _artifact_id(how: Artifacts, turn: int, place: int) -> str:
    return {Artifacts.SEPARATE: f"{turn}.{place}", Artifacts.CHUNKS: f"{turn}", Artifacts.SHARED: "answer"}[how]


class Handler(CapturingRequestHandler):
    """Takes messages without an id, which a2a-sdk refuses and other servers do not, and knows when a task rests."""

    async def on_message_send(self, params: Any, context: Any = None) -> Any:
        return await super().on_message_send(_with_id(params), context)

    def on_message_send_stream(self, params: Any, context: Any = None) -> Any:
        return super().on_message_send_stream(_with_id(params), context)

    async def rests(self, task_id: str) -> None:
        """Returns once a message to the task gets its own answer.

        a2a-sdk shows the end of a message while it still delivers that end to webhooks and streams: a message that
        arrives then is answered with the end of the one before.
        """
        while True:
            task = await self._active_task_registry.get(task_id)
            if task is None or task.is_finished:
                return
            if not task._request_lock.locked():
                await task._event_queue_subscribers.test_only_join_incoming_queue()
                return
            await asyncio.sleep(0.005)


def _with_id(params: Any) -> Any:
    params.message.message_id = params.message.message_id or f"of the agent: {uuid.uuid4()}"
    return params


def oracle_routes(executor: Executor, handler: Handler) -> list[Route]:
    async def told(_: Request) -> Response:
        log = executor.log
        return JSONResponse({"task_of": log.task_of, "calls": log.calls, "ended": log.ended})

    async def open_gate(request: Request) -> Response:
        executor.gates[int(request.path_params["turn"])].set()
        return JSONResponse({})

    async def rests(request: Request) -> Response:
        await handler.rests(request.path_params["task"])
        return JSONResponse({})

    return [
        Route("/_oracle/log", told),
        Route("/_oracle/open/{turn}", open_gate),
        Route("/_oracle/rests/{task}", rests),
    ]


async def serve() -> None:
    """Prints the URL and the address of the gRPC port, and serves until standard input ends."""
    recorder, webhooks = ToolCallRecorder(), GatedPushConfigStore(InMemoryPushNotificationConfigStore())
    executor = Executor(recorder, Log())
    rpc = grpc.aio.server()
    address = f"127.0.0.1:{rpc.add_insecure_port('127.0.0.1:0')}"

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        await app(scope, receive, send)

    web = HttpServer(answer, "127.0.0.1:0", shutdown_timeout_s=1)
    card = AgentCard(
        name="Agent of the turns",
        description="Follows instructions",
        version="1",
        supported_interfaces=[
            AgentInterface(url=url, protocol_binding=binding, protocol_version="1.0")
            for binding, url in (
                ("JSONRPC", web.url + RPC_PATH),
                ("HTTP+JSON", web.url + REST_PATH),
                ("GRPC", address),
            )
        ],
        capabilities=AgentCapabilities(streaming=True, push_notifications=True, extended_agent_card=True),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
    )
    unlimited = httpx.Limits(max_connections=None, max_keepalive_connections=0)
    client = httpx.AsyncClient(trust_env=False, timeout=PATIENCE_S, limits=unlimited)
    handler = Handler(
        executor,
        InMemoryTaskStore(),
        card,
        recorder=recorder,
        push_config_store=webhooks,
        push_sender=BasePushNotificationSender(client, webhooks),
        extended_agent_card=card,
    )
    app = Starlette(
        routes=[
            *oracle_routes(executor, handler),
            *create_agent_card_routes(card),
            *create_jsonrpc_routes(handler, RPC_PATH),
            *create_rest_routes(handler, path_prefix=REST_PATH),
        ]
    )
    a2a_pb2_grpc.add_A2AServiceServicer_to_server(GrpcHandler(handler), rpc)
    await rpc.start()
    await web.start()
    print(f"listening on {web.url}, gRPC {address}", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await rpc.stop(0)
    await web.stop()


if __name__ == "__main__":
    logging.getLogger("a2a").setLevel(logging.CRITICAL)  # clients leave, and webhooks end with the soak
    asyncio.run(serve())
