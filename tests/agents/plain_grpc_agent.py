"""An agent over gRPC that has no card and is not made with a2a-sdk's handlers: it ends calls with any status.

In tests: `async with plain_grpc_agent() as agent: agent.address`. The text of a message says what happens.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio
from a2a.types import SendMessageResponse, StreamResponse, Task, TaskState, a2a_pb2_grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status

LARGE = "x" * 100_000
FLOOD = 200
FORGED = ("a2a-eval-proxy-failure", "the agent says so")
"""Metadata with a name that the proxy uses within itself."""


class PlainAgent(a2a_pb2_grpc.A2AServiceServicer):  # type: ignore[misc]  # grpcio has no types
    """`STATUS`, `DETAILED` and `later STATUS` end a call with that status; `wait` waits until the client leaves."""

    def __init__(self) -> None:
        self.address = ""
        self.waiting: asyncio.Queue[None] = asyncio.Queue()
        """Has an entry for each call that began to wait."""
        self.cancelled = asyncio.Event()
        self.deadlines: list[float | None] = []
        self.sent = 0
        """Events of the last flood."""

    async def SendMessage(self, request: Any, context: Any) -> Any:  # noqa: N802
        self.deadlines.append(context.time_remaining())
        text = request.message.parts[0].text
        if text == "nothing":
            return SendMessageResponse()
        if text == "dense":
            return SendMessageResponse(task={**_TASK, "metadata": {"many": [0] * 110_000}})
        await self._end(text, context)
        await context.send_initial_metadata((("x-agent", "1"), ("x-agent", "2"), ("raw-bin", b"\0\xff"), FORGED))
        return SendMessageResponse(task=_task(text))

    async def SendStreamingMessage(self, request: Any, context: Any) -> AsyncIterator[Any]:  # noqa: N802
        text = request.message.parts[0].text
        await self._end(text, context)
        yield StreamResponse(task=_task(text))
        if text == "flood":
            self.sent = 0
            for _ in range(FLOOD):
                yield StreamResponse(task=_task(LARGE))
                self.sent += 1
        if text == "wait later":
            await self._wait()
        if text.startswith("later "):
            await self._end(text.removeprefix("later "), context)

    async def _end(self, text: str, context: Any) -> None:
        if text == "wait":
            await self._wait()
        if text == "DETAILED":
            details = AnyMessage()
            details.Pack(ErrorInfo(reason="TASK_NOT_CANCELABLE", domain="a2a-protocol.org", metadata={"why": "done"}))
            status = Status(code=grpc.StatusCode.FAILED_PRECONDITION.value[0], message="too late", details=[details])
            context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, "too late")
        if text in grpc.StatusCode.__members__:
            trailing = (("www-authenticate", "Bearer"),) if text == "UNAUTHENTICATED" else ()
            await context.abort(grpc.StatusCode[text], f"why {text}", trailing)

    async def _wait(self) -> None:
        self.waiting.put_nowait(None)
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled.set()


_TASK = {"id": "t1", "context_id": "c1", "status": {"state": TaskState.TASK_STATE_COMPLETED}}


def _task(text: str) -> Task:
    return Task(**_TASK, metadata={"text": text})


async def _nonsense(request: bytes, context: Any) -> bytes:
    return b"\xff"


@asynccontextmanager
async def plain_grpc_agent() -> AsyncIterator[PlainAgent]:
    """The agent on a free port."""
    server, agent = grpc.aio.server(), PlainAgent()
    agent.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    a2a_pb2_grpc.add_A2AServiceServicer_to_server(agent, server)
    nonsense = grpc.unary_unary_rpc_method_handler(_nonsense)  # in place of the method of the same name
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("a2a.v1.A2AService", {"GetTask": nonsense}),))
    await server.start()
    try:
        yield agent
    finally:
        await server.stop(0)
