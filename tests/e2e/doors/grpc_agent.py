"""The agent of the behaviours over gRPC, whose numbers are doubles."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio
from a2a.types import AgentCard, SendMessageResponse, StreamResponse, a2a_pb2_grpc
from a2a_tool_capture import URI
from e2e.doors.behaviours import Agent, Conversation
from google.protobuf.json_format import MessageToDict, ParseDict


class GrpcAgent(a2a_pb2_grpc.A2AServiceServicer):  # type: ignore[misc]  # grpcio has no types
    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    async def GetExtendedAgentCard(self, request: Any, context: Any) -> Any:  # noqa: N802
        interface = {"url": self._agent.url, "protocolBinding": "GRPC", "protocolVersion": "1.0"}
        return ParseDict({**self._agent.card, "supportedInterfaces": [interface]}, AgentCard())

    async def SendMessage(self, request: Any, context: Any) -> Any:  # noqa: N802
        *_, event = await self._events(request, context, streams=False)
        return ParseDict(event, SendMessageResponse())

    async def SendStreamingMessage(self, request: Any, context: Any) -> AsyncIterator[Any]:  # noqa: N802
        for event in await self._events(request, context, streams=True):
            yield ParseDict(event, StreamResponse())

    async def _events(self, request: Any, context: Any, *, streams: bool) -> list[dict[str, Any]]:
        message = MessageToDict(request.message)
        if self._agent.behaviour(message).fault:
            await context.abort(grpc.StatusCode.INTERNAL, "boom")
        asked = any(name == "a2a-extensions" and URI in value for name, value in context.invocation_metadata())
        return self._agent.events(message, asked, streams)


@asynccontextmanager
async def grpc_agent(conversations: list[Conversation]) -> AsyncIterator[str]:
    """HOST:PORT of the agent."""
    server = grpc.aio.server()
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    a2a_pb2_grpc.add_A2AServiceServicer_to_server(GrpcAgent(Agent(conversations, address)), server)
    await server.start()
    try:
        yield address
    finally:
        await server.stop(None)
