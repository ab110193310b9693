"""An agent with gRPC only: the right one of `agents.capture_agent` behind GrpcHandler of a2a-sdk."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio
from a2a.server.request_handlers import GrpcHandler
from a2a.types import AgentInterface
from agents.capture_agent import agent_card, request_handler
from agents.grpc_agent import add_a2a, bound


@asynccontextmanager
async def grpc_only_agent(
    handler_type: Callable[[Any], GrpcHandler] = GrpcHandler,
    versions: tuple[str, ...] = ("1.0", "0.3"),
    credentials: grpc.ServerCredentials | None = None,
) -> AsyncIterator[str]:
    """HOST:PORT of an agent with gRPC only, in this event loop. `versions` are those that it serves."""
    server = grpc.aio.server()
    address = bound(server, credentials)
    card = agent_card("http://127.0.0.1:1")
    del card.supported_interfaces[:]
    for version in versions:
        card.supported_interfaces.append(AgentInterface(url=address, protocol_binding="GRPC", protocol_version=version))
    card.capabilities.extended_agent_card = True
    handler = request_handler(card, extended_agent_card=card)
    add_a2a(server, handler, versions, handler_type)
    await server.start()
    try:
        yield address
    finally:
        await server.stop(0)
        await handler.aclose()  # as in `grpc_agent`
