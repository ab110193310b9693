"""What answers requests that are for no agent, or that the agent's interface does not take."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ..net.grpc_wire import GrpcStatus, ending, only_trailers
from ..net.http2_server import Ends
from ..net.http2_streams import Headers, Http2Stream
from ..net.served_request import Application
from ..protocol import error_bodies
from ..protocol.operations import Binding

_MAX_REFUSED_BYTES = 1_000_000
"""Of a request that is refused, which is read for its JSON-RPC id."""


_UPWARDS = re.compile(rb"(?:^|[/\\]|%2f|%5c)(?:\.|%2e){2}(?:$|[/\\;]|%2f|%5c)", re.IGNORECASE)
"""A path segment of two dots."""


class GrpcRefusal:
    """Answers calls of gRPC."""

    def __init__(self, status: GrpcStatus, message: str) -> None:
        self._fields = only_trailers(ending(status, message))

    async def __call__(self, stream: Http2Stream, head: Headers, ends: Ends) -> None:
        stream.send_headers(self._fields, end=True)


class HttpRefusal:
    """Answers HTTP requests with an error in the shape of their binding: an ASGI application."""

    def __init__(self, status: int, reason: str, message: Callable[[], str]) -> None:
        """See `error_bodies.error`."""
        self._status, self._reason, self._message = status, reason, message

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", scope["method"] == "POST"
        while more and len(body) < _MAX_REFUSED_BYTES:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        binding = Binding.JSONRPC if scope["method"] == "POST" else Binding.HTTP_JSON
        status, headers, content = error_bodies.error(self._status, self._reason, self._message(), binding, body)
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else content})


class BelowPath:
    """An ASGI application for an agent at a path of its origin: requests that lead upwards would reach others with the
    credentials of this agent."""

    def __init__(self, application: Application) -> None:
        self._application = application
        self._refusal = HttpRefusal(400, "PATH_LEADS_UPWARDS", lambda: "the path leads out of that of the agent (..)")

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await (self._refusal if _UPWARDS.search(scope["raw_path"]) else self._application)(scope, receive, send)
