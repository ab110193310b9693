"""Which requests reach an agent, and which of them came through the proxy: one line each, in a file."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any

import grpc.aio

MARK = "x-through-the-proxy"
"""The header that the proxy adds, with `--upstream-header`."""
REST_PATH = "/rest"

App = Callable[[MutableMapping[str, Any], Any, Any], Awaitable[None]]


class Arrivals(grpc.aio.ServerInterceptor):
    """Writes `BINDING proxied` or `BINDING direct` for each request of an HTTP application and of a gRPC server."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def of(self, app: App) -> App:
        """The application, with its requests written down."""

        async def noted(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
            if scope["type"] == "http":
                self._note(_binding(scope["path"]), MARK.encode() in dict(scope["headers"]))
            await app(scope, receive, send)

        return noted

    async def intercept_service(self, continuation: Any, handler_call_details: Any) -> Any:
        self._note("GRPC", MARK in dict(handler_call_details.invocation_metadata))
        return await continuation(handler_call_details)

    def _note(self, binding: str, proxied: bool) -> None:
        with self._file.open("a", encoding="ascii") as file:
            file.write(f"{binding} {'proxied' if proxied else 'direct'}\n")


def _binding(path: str) -> str:
    if path.startswith("/.well-known/"):
        return "card"
    return "HTTP+JSON" if path.startswith(REST_PATH + "/") else "JSONRPC"
