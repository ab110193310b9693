"""A port of the gRPC library inside our own event loop. Requires grpcio, an optional dependency."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Sequence
from typing import Any

import grpc
import grpc.aio

from ..errors import ListenError
from .http_server import bound

_CHECK_EVERY_S = 0.25
"""Between two looks whether the server still runs: where calls are open, grpcio reports its end only when asked."""


class GrpcServer:
    """One port, see `net.ports.Server`. After an unexpected end, open calls may finish as after `stop`."""

    def __init__(
        self,
        address: str,
        handlers: Sequence[grpc.GenericRpcHandler],
        *,
        grace_s: float,
        max_calls: int,
        options: Sequence[tuple[str, int]],
        credentials: grpc.ServerCredentials | None = None,
        shared: bool = False,
    ) -> None:
        """`address` is HOST:PORT (port 0: any free one). Open calls have `grace_s` to finish. With `credentials` it
        speaks TLS only. For `shared`, see `bound`."""
        self.address = address
        """HOST:PORT of the listening socket, after `start`."""
        self._handlers = handlers
        self._grace_s = grace_s
        self._max_calls = max_calls
        # Unless shared, a port that somebody else has is an error.
        self._options = (*options, ("grpc.so_reuseport", int(shared)))
        self._credentials = credentials
        self._shared = shared
        self._server: Any = None
        self._stopping: set[asyncio.Task[None]] = set()

    async def start(self) -> asyncio.Task[None]:
        """See `net.ports.Server`. Raises ListenError."""
        server = grpc.aio.server(options=self._options, maximum_concurrent_rpcs=self._max_calls)
        server.add_generic_rpc_handlers(self._handlers)
        bound(self.address, shared=self._shared).close()  # for a port in use, gRPC would log a line of its own
        try:
            port = (
                server.add_insecure_port(self.address)
                if self._credentials is None
                else server.add_secure_port(self.address, self._credentials)
            )
        except RuntimeError as error:
            raise ListenError(errno.EADDRINUSE, f"cannot listen on {self.address}: {error}") from error
        self.address = f"{self.address.rpartition(':')[0]}:{port}"
        self._server = server
        await server.start()
        return asyncio.get_running_loop().create_task(self._serving(server))

    async def _serving(self, server: Any) -> None:
        try:
            while await server.wait_for_termination(_CHECK_EVERY_S):
                pass
        except Exception:
            self.retire()
            raise

    def retire(self) -> None:
        """Take no more calls; open ones have `grace_s` to finish."""
        server, self._server = self._server, None
        if server is not None:
            stopping = asyncio.get_running_loop().create_task(server.stop(self._grace_s))
            self._stopping.add(stopping)
            stopping.add_done_callback(self._stopping.discard)

    async def stop(self) -> None:
        """`retire`, and wait until every call has ended."""
        self.retire()
        await asyncio.gather(*self._stopping)
