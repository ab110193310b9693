"""The application that answers the relay in the agent's place: a2a-sdk's HTTP server, with the agent behind it.

The relay reaches it over pairs of sockets, which no other process reaches.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, unquote

from a2a.server.context import ServerCallContext
from a2a.server.request_handlers.response_helpers import agent_card_to_dict
from a2a.server.routes import create_jsonrpc_routes, create_rest_routes
from a2a.server.routes.common import DefaultServerCallContextBuilder
from a2a.utils.errors import A2AError
from a2a_tool_capture.json_limits import has_too_many_values
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ..memory import HeldBytes, share
from ..net.client_limits import ClientLimits, Clients
from ..net.file_watcher import FileWatch
from ..net.http1_connection import Http1Connection
from ..net.http_client import (
    HttpClient,
    HttpExchange,
    RequestHead,
    UpstreamError,
    UpstreamTimeoutError,
    UpstreamUnreachableError,
)
from ..net.http_connection import Body
from ..net.server_exchange import CLIENT, ClientExchange
from ..protocol import error_bodies
from ..protocol.agent_card import WELL_KNOWN_PATHS
from ..protocol.error_bodies import LocalResponse
from ..protocol.operations import Binding
from ..settings.settings import AgentSettings
from .agent_channel import AgentChannel
from .card import ConfiguredCard
from .handler import EXCHANGE, AgentOverGrpc, RefusedCall, TranscodedExchange
from .metadata import FAILURE, to_metadata

logger = logging.getLogger(__name__)
for _name in ("server.routes", "utils.error_handlers", "utils.proto_utils", "utils.version_validator", "compat.v0_3"):
    logging.getLogger(f"a2a.{_name}").setLevel(logging.CRITICAL)  # errors of requests are in the responses

RPC_PATH = "/"
FAILURES: dict[int, type[UpstreamError]] = {
    503: UpstreamUnreachableError,
    504: UpstreamTimeoutError,
    502: UpstreamError,
}
"""What a response with the field `FAILURE` stands for, by its status; the value of the field is the quoted message."""

_MAX_VALUES = 100_000  # of a request: converting one takes about 10 us, during which nothing else is relayed


class Transcoder:
    """An ASGI application."""

    def __init__(self, settings: AgentSettings, files: FileWatch) -> None:
        """Raises ConfigError for certificates, or a card, that cannot be used."""
        self._settings = settings
        self._held = HeldBytes(max(share(8, settings.processes), 2 * settings.max_body_bytes))
        self._channel = AgentChannel(settings, files)
        address = settings.grpc_upstream or ""
        self._handler = AgentOverGrpc(lambda: self._channel.to(address), settings, ConfiguredCard(settings, files))
        contexts = _Contexts()
        self._app = Starlette(
            routes=[
                *(Route(path, self._card) for path in sorted({*WELL_KNOWN_PATHS, *settings.card_paths})),
                *create_jsonrpc_routes(self._handler, RPC_PATH, contexts, enable_v0_3_compat=True),
                *create_rest_routes(self._handler, contexts, enable_v0_3_compat=True),
            ],
            exception_handlers={UnicodeEncodeError: _not_encodable},
        )
        self._app.router.redirect_slashes = False  # an unknown path would be taken for a tenant's

    async def close(self) -> None:
        await self._channel.close()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        client: ClientExchange = scope["extensions"][CLIENT]
        client.watch()
        exchange = TranscodedExchange(to_metadata(scope["headers"]))
        try:
            await self._respond({**scope, EXCHANGE: exchange}, receive, send, exchange)
        except asyncio.CancelledError:
            if not client.gone:
                raise
        finally:
            client.cancels = False
            exchange.cancel()
            self._held.drop(exchange)

    async def _respond(self, scope: Any, receive: Any, send: Any, exchange: TranscodedExchange) -> None:
        body = await self._body(receive, exchange)
        requests: list[Any] = [{"type": "http.request", "body": body}]
        begun = False

        async def received() -> Any:
            return requests.pop() if requests else await receive()

        async def sent(message: Any) -> None:
            nonlocal begun
            if exchange.problem is not None and not begun:
                return  # `_refused` responds
            if message["type"] == "http.response.start":
                begun = True
                message["headers"] = [*message["headers"], *exchange.headers]
            await send(message)

        if exchange.problem is None:
            try:
                await self._app(scope, received, sent)
            except A2AError as error:  # a2a-sdk breaks a stream of 0.3 over HTTP+JSON off in this way
                logger.debug("%s: a stream of A2A 0.3 ends with %r", scope["path"], error)
        if exchange.problem is not None and not begun:
            binding = Binding.JSONRPC if scope["path"] == RPC_PATH else Binding.HTTP_JSON
            response = _refused(exchange.problem, binding, body)
            headers = [*response.headers, *exchange.headers]
            await send({"type": "http.response.start", "status": response.status, "headers": headers})
            await send({"type": "http.response.body", "body": response.body})

    async def _body(self, receive: Any, exchange: TranscodedExchange) -> bytes:
        """The body of the request. `exchange.problem` is set where it is too large; the rest is not read then."""
        limit = self._settings.max_body_bytes
        chunks, size, more = [], 0, True
        while more and exchange.problem is None:
            message = await receive()
            chunks.append(message.get("body", b""))
            more = message.get("more_body", False)
            size += len(chunks[-1])
            if size > limit:
                exchange.problem = _too_large(f"exceeds {limit} bytes")
            elif not self._held.take(exchange, len(chunks[-1])):
                busy = "the proxy holds too many large requests; try again later"
                exchange.problem = RefusedCall(503, "TOO_MANY_LARGE_REQUESTS", busy)
        body = b"".join(chunks)
        if exchange.problem is None and has_too_many_values(body, _MAX_VALUES):
            exchange.problem = _too_large(f"has more than {_MAX_VALUES} values")
        return body

    async def _card(self, request: Request) -> Response:
        try:
            card = await self._handler.card(_Contexts().build(request))
        except A2AError:
            return Response(status_code=502)  # `_refused` responds
        # The agent may show another one to other clients.
        return JSONResponse(agent_card_to_dict(card), headers={"cache-control": "private, no-cache"})


class _Contexts(DefaultServerCallContextBuilder):
    def build(self, request: Request) -> ServerCallContext:
        context = super().build(request)
        context.state[EXCHANGE] = request.scope[EXCHANGE]
        return context


async def _not_encodable(request: Request, _: Exception) -> Response:
    """JSON can escape half of a surrogate pair: a response cannot repeat such an id in UTF-8."""
    exchange: TranscodedExchange = request.scope[EXCHANGE]
    exchange.problem = RefusedCall(400, "NOT_UTF_8", "the request has a text that is not valid Unicode")
    return Response(status_code=400)  # `_refused` responds


def _too_large(why: str) -> RefusedCall:
    return RefusedCall(413, "BODY_TOO_LARGE", f"the request {why}")


def _refused(problem: RefusedCall | UpstreamError, binding: Binding, body: bytes) -> LocalResponse:
    if isinstance(problem, RefusedCall):
        return error_bodies.error(problem.status, problem.reason, problem.message, binding, body)
    status = next(status for status, kind in FAILURES.items() if isinstance(problem, kind))
    return LocalResponse(status, [(FAILURE, quote(str(problem)).encode()), (b"content-length", b"0")], b"")


_MORE_HEADER_BYTES = 8192  # what the relay and the transcoder may add to a header within its limit


class TranscodingClient(HttpClient):
    """Requests to the transcoder; for all of `Upstream`, as if the agent had HTTP."""

    def __init__(self, settings: AgentSettings, files: FileWatch) -> None:
        """Raises ConfigError for certificates, or a card, that cannot be used."""
        max_header_bytes = settings.max_header_bytes + _MORE_HEADER_BYTES
        super().__init__("", 0, max_connections=settings.max_connections, max_header_bytes=max_header_bytes)
        self._transcoder = Transcoder(settings, files)
        self._relays = Clients(ClientLimits(max_header_bytes=max_header_bytes))

    async def dial(self, protocol: Callable[[], asyncio.Protocol]) -> None:
        ours, theirs = socket.socketpair()
        loop = asyncio.get_running_loop()
        await loop.connect_accepted_socket(lambda: Http1Connection(self._transcoder, self._relays), theirs)
        await loop.create_connection(protocol, sock=ours)

    async def send(
        self, head: RequestHead, body: Body = b"", *, length: int | None = None, field: bytes = b"", waits: bool = False
    ) -> HttpExchange:
        """As its base. Raises UpstreamError also where the agent did not respond to the call over gRPC."""
        response = await super().send(head, body, length=length, field=field, waits=waits)
        failure = response.fields.get(FAILURE)
        if failure is not None:
            response.close()
            raise FAILURES[response.status](unquote(failure.decode()))
        return response

    async def disconnect(self) -> None:
        """Close the connections to the agent."""
        self.close()
        await self._transcoder.close()
