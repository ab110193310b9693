"""The data port before an agent that has only gRPC: every HTTP request gets an error that says so."""

from __future__ import annotations

from typing import Any

from ..protocol import error_bodies
from ..protocol.operations import Binding

_MAX_BODY_BYTES = 1_000_000
"""Of a request, which is read for its JSON-RPC id."""


class NoHttp:
    """An ASGI application."""

    def __init__(self, upstream: str, grpc_address: str) -> None:
        """`grpc_address` is HOST:PORT of the proxy's gRPC port."""
        self._message = (
            f"the agent at {upstream} has no HTTP interface; use gRPC, at {grpc_address} of the proxy, or start the "
            "proxy with --transcode"
        )

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", scope["method"] == "POST"
        while more and len(body) < _MAX_BODY_BYTES:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        binding = Binding.JSONRPC if scope["method"] == "POST" else Binding.HTTP_JSON
        status, headers, content = error_bodies.error(502, "NO_HTTP_INTERFACE", self._message, binding, body)
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else content})
