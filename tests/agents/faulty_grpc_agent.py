"""Agents that serve gRPC wrongly, one way each: the right one of `agents.capture_agent` behind GrpcHandler of a2a-sdk.

`GRPC_FAULTS` names for each fault the rules of `a2a-eval-proxy check` that it breaks.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
import grpc.aio
from a2a.compat.v0_3 import a2a_v0_3_pb2_grpc
from a2a.compat.v0_3.grpc_handler import CompatGrpcHandler
from a2a.server.request_handlers import GrpcHandler, RequestHandler
from a2a.types import AgentCard, AgentInterface, StreamResponse, Task, TaskState, TaskStatus, a2a_pb2, a2a_pb2_grpc
from agents.capture_agent import agent_card, request_handler
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status

_FAILED = grpc.StatusCode.FAILED_PRECONDITION


class RightHandler(GrpcHandler):
    """GrpcHandler of a2a-sdk, which also refuses versions that it does not know."""

    async def GetTask(self, request: Any, context: Any) -> Any:  # noqa: N802  # the name of the SDK
        if ("a2a-version", "99.0") in context.invocation_metadata():
            await abort(context, _FAILED, "VERSION_NOT_SUPPORTED")
        return await super().GetTask(request, context)


async def abort(context: Any, code: grpc.StatusCode, reason: str = "", domain: str = "a2a-protocol.org") -> None:
    """End the call with this status and, with a `reason`, an ErrorInfo."""
    trailing: tuple[tuple[str, bytes], ...] = ()
    if reason:
        status, detail = Status(code=code.value[0]), AnyMessage()
        detail.Pack(ErrorInfo(reason=reason, domain=domain))
        status.details.append(detail)
        trailing = (("grpc-status-details-bin", status.SerializeToString()),)
    await context.abort(code, "planned", trailing)


class _FindsEveryTask(RightHandler):
    async def GetTask(self, request: Any, context: Any) -> Any:  # noqa: N802  # the name of the SDK
        if request.id.startswith("no-such-task"):
            return Task(id=request.id, status=TaskStatus(state=TaskState.TASK_STATE_SUBMITTED))
        return await super().GetTask(request, context)


def _unknown_tasks(code: grpc.StatusCode, reason: str = "", domain: str = "a2a-protocol.org") -> type[RightHandler]:
    class Handler(RightHandler):
        async def GetTask(self, request: Any, context: Any) -> Any:  # noqa: N802  # the name of the SDK
            if request.id.startswith("no-such-task"):
                await abort(context, code, reason, domain)
            return await super().GetTask(request, context)

    return Handler


class _CancelsEndedTasks(RightHandler):
    async def CancelTask(self, request: Any, context: Any) -> Any:  # noqa: N802  # the name of the SDK
        return await super().GetTask(a2a_pb2.GetTaskRequest(id=request.id), context)


class _HidesItsCard(RightHandler):
    async def GetExtendedAgentCard(self, request: Any, context: Any) -> Any:  # noqa: N802  # the name of the SDK
        await abort(context, _FAILED, "EXTENDED_AGENT_CARD_NOT_CONFIGURED")


class _FearsMetadata(RightHandler):
    async def GetTask(self, request: Any, context: Any) -> Any:  # noqa: N802  # the name of the SDK
        if any(name == "x-check-unknown" for name, _ in context.invocation_metadata()):
            await abort(context, grpc.StatusCode.INVALID_ARGUMENT)
        return await super().GetTask(request, context)


class _FirstEntryOnly:
    """The context of a call with one entry of each key."""

    def __init__(self, context: Any) -> None:
        self._context = context

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def invocation_metadata(self) -> Any:
        first: dict[str, Any] = {}
        for name, value in self._context.invocation_metadata():
            first.setdefault(name, value)
        return tuple(first.items())


class _ReadsFirstEntry(RightHandler):
    async def GetTask(self, request: Any, context: Any) -> Any:  # noqa: N802  # the name of the SDK
        return await super().GetTask(request, _FirstEntryOnly(context))


class _SubscribesWithoutTask(RightHandler):
    async def SubscribeToTask(self, request: Any, context: Any) -> AsyncIterator[Any]:  # noqa: N802  # the name of the SDK
        async for event in super().SubscribeToTask(request, context):
            task = event.task
            if event.HasField("task"):
                event = StreamResponse(status_update={"task_id": task.id, "status": task.status})
            yield event


class _ForgetsAbandonedTasks(RightHandler):
    """Holds the third stream open, which the check cancels, until the client has left it."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._streams = 0
        self._left: dict[str, asyncio.Event] = {}

    async def SendStreamingMessage(self, request: Any, context: Any) -> AsyncIterator[Any]:  # noqa: N802  # the name of the SDK
        self._streams += 1
        held = self._streams == 3
        async for event in super().SendStreamingMessage(request, context):
            if not held:
                yield event
                continue
            left = self._left[event.task.id] = asyncio.Event()
            try:
                yield event
                await asyncio.Event().wait()
            finally:
                left.set()

    async def GetTask(self, request: Any, context: Any) -> Any:  # noqa: N802  # the name of the SDK
        if request.id in self._left:
            await self._left[request.id].wait()
            await abort(context, grpc.StatusCode.NOT_FOUND, "TASK_NOT_FOUND")
        return await super().GetTask(request, context)


@dataclass(frozen=True)
class GrpcFault:
    """`breaks` are the rules that must fail, and no others may; `warns` those that must warn."""

    handler: type[GrpcHandler]
    breaks: set[str] = field(default_factory=set)
    warns: set[str] = field(default_factory=set)
    message: str = "Got a kettle?"


GRPC_FAULTS = {
    "finds every task": GrpcFault(_FindsEveryTask, {"grpc-errors"}),
    "cancels ended tasks": GrpcFault(_CancelsEndedTasks, {"grpc-errors"}),
    "wrong status": GrpcFault(_unknown_tasks(grpc.StatusCode.UNKNOWN, "TASK_NOT_FOUND"), {"grpc-status"}),
    "no details": GrpcFault(_unknown_tasks(grpc.StatusCode.NOT_FOUND), {"grpc-error-info"}),
    "wrong reason": GrpcFault(_unknown_tasks(grpc.StatusCode.NOT_FOUND, "NO_TASK"), {"grpc-error-info"}),
    "wrong domain": GrpcFault(
        _unknown_tasks(grpc.StatusCode.NOT_FOUND, "TASK_NOT_FOUND", "example.com"), {"grpc-error-info"}
    ),
    "hides its card": GrpcFault(_HidesItsCard, {"grpc-extended-card"}),
    "any version will do": GrpcFault(GrpcHandler, warns={"grpc-version"}),
    "fears metadata": GrpcFault(_FearsMetadata, {"grpc-metadata"}),
    "reads the first entry only": GrpcFault(_ReadsFirstEntry, warns={"grpc-extensions-repeated"}),
    "subscribes without the task": GrpcFault(_SubscribesWithoutTask, {"grpc-subscribe"}, message="ask me"),
    "forgets abandoned tasks": GrpcFault(_ForgetsAbandonedTasks, {"grpc-cancelled-stream"}),
}


@asynccontextmanager
async def checked_agent(
    handler_type: Callable[[Any], GrpcHandler] = RightHandler,
    versions: tuple[str, ...] = ("1.0", "0.3"),
    make_handler: Callable[[AgentCard], RequestHandler] | None = None,
    credentials: grpc.ServerCredentials | None = None,
) -> AsyncIterator[str]:
    """HOST:PORT of an agent with gRPC only, in this event loop. `versions` are those that it serves."""
    server = grpc.aio.server()
    port = (
        server.add_insecure_port("127.0.0.1:0")
        if credentials is None
        else server.add_secure_port("127.0.0.1:0", credentials)
    )
    address = f"127.0.0.1:{port}"
    card = agent_card("http://127.0.0.1:1")
    del card.supported_interfaces[:]
    for version in versions:
        card.supported_interfaces.append(AgentInterface(url=address, protocol_binding="GRPC", protocol_version=version))
    card.capabilities.extended_agent_card = True
    handler = make_handler(card) if make_handler else request_handler(card, extended_agent_card=card)
    if "1.0" in versions:
        a2a_pb2_grpc.add_A2AServiceServicer_to_server(handler_type(handler), server)
    if "0.3" in versions:
        a2a_v0_3_pb2_grpc.add_A2AServiceServicer_to_server(CompatGrpcHandler(handler), server)
    await server.start()
    try:
        yield address
    finally:
        await server.stop(0)
        await handler.aclose()  # as in `grpc_agent`
