"""Serves an agent of a2a-sdk 0.3 over JSON-RPC, REST and gRPC."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import grpc.aio
from a2a.grpc import a2a_pb2_grpc
from a2a.server.apps import A2AStarletteApplication
from a2a.server.apps.rest.rest_adapter import RESTAdapter
from a2a.server.request_handlers import DefaultRequestHandler, GrpcHandler
from a2a.types import AgentCard, AgentInterface, TransportProtocol
from starlette.routing import Route


def v03_app(
    cards: Sequence[AgentCard],
    handler: DefaultRequestHandler,
    rpc_path: str,
    rest_path: str,
    *,
    scheme: str = "",
    interceptors: Sequence[Any] = (),
) -> Any:
    """The ASGI application. `cards`: the agent's and its extended one, which get the address of gRPC after `scheme`."""
    card, extended = cards

    @asynccontextmanager
    async def over_grpc(app: Any) -> AsyncIterator[None]:
        server = grpc.aio.server(interceptors=interceptors)
        a2a_pb2_grpc.add_A2AServiceServicer_to_server(GrpcHandler(extended, handler), server)
        address = f"{scheme}127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        for named in cards:
            named.additional_interfaces.append(AgentInterface(transport=TransportProtocol.grpc, url=address))
        await server.start()
        yield
        await server.stop(0)

    app = A2AStarletteApplication(card, handler, extended_agent_card=extended)
    app = app.build(rpc_url=rpc_path, lifespan=over_grpc)
    rest = RESTAdapter(agent_card=card, http_handler=handler, extended_agent_card=extended)
    for (path, method), endpoint in rest.routes().items():
        app.routes.append(Route(rest_path + path, endpoint, methods=[method]))
    return app
