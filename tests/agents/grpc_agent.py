"""The scenario agent over gRPC (both A2A services) and HTTP, and a service of its own for calls of every kind.

It runs in the event loop of the test: `async with grpc_agent() as agent: agent.address`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import a2a.client  # noqa: F401  # before a2a.compat: imported after it, it has no transport for 0.3 over gRPC
import grpc
import grpc.aio
from a2a.compat.v0_3 import a2a_v0_3_pb2_grpc
from a2a.compat.v0_3.grpc_handler import CompatGrpcHandler
from a2a.server.request_handlers import GrpcHandler, RequestHandler
from a2a.types import a2a_pb2_grpc
from a2a_eval_proxy.net.http_server import HttpServer
from agents.control import Control
from agents.scenario_agent import AgentOptions, build_app, request_handler

UNLIMITED = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.max_metadata_size", 1_000_000),
    ("grpc.absolute_max_metadata_size", 1_000_000),
)


@dataclass
class Seen:
    """A call as it arrived at the agent."""

    path: str
    metadata: list[tuple[str, str | bytes]]


@dataclass
class GrpcAgent:
    """`address` is HOST:PORT of its gRPC port, `url` that of its HTTP port."""

    address: str
    url: str
    control: Control
    seen: list[Seen]
    service: TestService
    stop: Callable[[], Awaitable[None]]
    """Close its gRPC port and every call."""


@dataclass
class TestService:
    """`test.Service`: its method names a kind of call, its request messages are what happens."""

    __test__ = False  # pytest

    time_left: list[float | None] = field(default_factory=list)
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)
    waiting: asyncio.Event = field(default_factory=asyncio.Event)
    half_closed: asyncio.Event = field(default_factory=asyncio.Event)
    sent: int = 0

    def handlers(self) -> grpc.GenericRpcHandler:
        methods = {
            "UnaryUnary": grpc.unary_unary_rpc_method_handler(self._unary),
            "UnaryStream": grpc.unary_stream_rpc_method_handler(self._unary_stream),
            "StreamUnary": grpc.stream_unary_rpc_method_handler(self._stream_unary),
            "StreamStream": grpc.stream_stream_rpc_method_handler(self._stream_stream),
        }
        return grpc.method_handlers_generic_handler("test.Service", methods)

    async def _unary(self, request: bytes, context: Any) -> bytes:
        self.time_left.append(context.time_remaining())
        match request:
            case b"metadata":
                await context.send_initial_metadata((("first", "1"), ("first", "2"), ("raw-bin", b"\x00\xff")))
                context.set_trailing_metadata((("last", "1"), ("last", "2"), ("raw-bin", b"\xfe"), ("raw-bin", b"")))
            case b"abort":
                await context.abort(grpc.StatusCode.DATA_LOSS, "wörds % and\nlines", (("why-bin", b"\x01"),))
            case b"wait":
                self.waiting.set()
                try:
                    await asyncio.Event().wait()
                finally:
                    self.cancelled.set()
            case b"large metadata":
                await context.send_initial_metadata((("first", "x" * 50_000),))
                context.set_trailing_metadata((("last-bin", b"x" * 30_000),))
            case b"unavailable":
                await context.abort(grpc.StatusCode.UNAVAILABLE, "try again")
            case b"own cancel":
                await context.abort(grpc.StatusCode.CANCELLED, "the agent gave up")
        return request

    async def _unary_stream(self, request: bytes, context: Any) -> AsyncIterator[bytes]:
        for number in range(3 if request == b"then abort" else int(request)):
            yield b"%d" % number
        if request == b"then abort":
            await context.abort(grpc.StatusCode.ABORTED, "enough", (("why-bin", b"\x02"),))

    async def _stream_unary(self, requests: AsyncIterator[bytes], context: Any) -> bytes:
        messages = [request async for request in requests]
        self.half_closed.set()
        return b",".join(messages)

    async def _stream_stream(self, requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        async for request in requests:
            if request.startswith(b"flood"):
                for _ in range(1000):
                    yield request
                    self.sent += 1
            yield b"re: " + request
        yield b"end"


class _Recorder(grpc.aio.ServerInterceptor):
    def __init__(self) -> None:
        self.seen: list[Seen] = []

    async def intercept_service(self, continuation: Any, handler_call_details: Any) -> Any:
        metadata = list(handler_call_details.invocation_metadata)
        self.seen.append(Seen(handler_call_details.method, metadata))
        return await continuation(handler_call_details)


def bound(server: grpc.aio.Server, credentials: grpc.ServerCredentials | None) -> str:
    """HOST:PORT on which it will listen."""
    if credentials is None:
        return f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    return f"127.0.0.1:{server.add_secure_port('127.0.0.1:0', credentials)}"


def add_a2a(
    server: grpc.aio.Server,
    handler: RequestHandler,
    versions: Collection[str],
    handler_type: Callable[[Any], GrpcHandler] = GrpcHandler,
) -> None:
    """Have it serve these versions of A2A."""
    if "1.0" in versions:
        a2a_pb2_grpc.add_A2AServiceServicer_to_server(handler_type(handler), server)
    if "0.3" in versions:
        a2a_v0_3_pb2_grpc.add_A2AServiceServicer_to_server(CompatGrpcHandler(handler), server)


@asynccontextmanager
async def grpc_agent(
    options: AgentOptions | None = None,
    credentials: grpc.ServerCredentials | None = None,
    versions: tuple[str, ...] = ("1.0", "0.3"),
) -> AsyncIterator[GrpcAgent]:
    """The agent on free ports; its card names both. `credentials`: of its gRPC port. `versions`: of A2A over gRPC."""
    recorder, control, service = _Recorder(), Control(), TestService()
    server = grpc.aio.server(interceptors=[recorder], options=UNLIMITED)
    options = replace(options or AgentOptions(), grpc=bound(server, credentials))

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        await app(scope, receive, send)

    web = HttpServer(answer, "127.0.0.1:0", shutdown_timeout_s=1)
    handler = request_handler(web.url, options, control)
    app = build_app(web.url, options, control, handler)
    add_a2a(server, handler, versions)
    server.add_generic_rpc_handlers((service.handlers(),))
    await server.start()
    await web.start()
    try:
        yield GrpcAgent(options.grpc, web.url, control, recorder.seen, service, partial(server.stop, 0))
    finally:
        await server.stop(0)
        await web.stop()
        # Its parked tasks end here. Collected as garbage, they would stop whichever thread collects them for good.
        await handler.aclose()
