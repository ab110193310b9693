"""OTLP/gRPC: the same intake behind a gRPC server. Requires grpcio, an optional dependency."""

from __future__ import annotations

import errno
from collections.abc import Awaitable, Callable
from typing import Any

from ..errors import GrpcMissingError, ListenError
from ..net.http_server import bound
from .decoding import PROTOBUF
from .errors import BodyError, BusyError
from .intake import SIGNALS, Intake, Signal, SinkError

_CONCURRENT_EXPORTS = 16
"""Maximum number of messages of the largest size in memory; further requests get RESOURCE_EXHAUSTED."""

_STOP_GRACE_S = 1.0


class GrpcReceiver:
    """The Export methods of the trace, logs and metrics services on one port, without TLS."""

    def __init__(self, intake: Intake, address: str) -> None:
        """`address` is HOST:PORT (port 0: any free one). Requests that grpcio refuses are not counted.

        Raises GrpcMissingError.
        """
        try:
            import grpc
            import grpc.aio
        except ImportError as error:
            raise GrpcMissingError(
                "OTLP over gRPC needs grpcio: pip install 'a2a-eval-proxy[grpc]', or let the agent export over HTTP"
            ) from error
        self._grpc: Any = grpc
        self._intake = intake
        self._address = address
        self._port = 0
        self._server: Any = None

    @property
    def address(self) -> str:
        """HOST:PORT of the listening socket, after `start`."""
        return f"{self._address.rpartition(':')[0]}:{self._port}"

    async def start(self) -> None:
        """Accept requests, in the running event loop. Raises ListenError."""
        grpc = self._grpc
        server = grpc.aio.server(
            maximum_concurrent_rpcs=_CONCURRENT_EXPORTS,
            options=[
                ("grpc.max_receive_message_length", self._intake.max_bytes),
                ("grpc.so_reuseport", 0),  # a port that somebody else has is an error, not shared
            ],
        )
        server.add_generic_rpc_handlers(
            [
                grpc.method_handlers_generic_handler(
                    signal.service,
                    {
                        "Export": grpc.unary_unary_rpc_method_handler(
                            self._export(signal), response_serializer=signal.response.SerializeToString
                        )
                    },
                )
                for signal in SIGNALS
            ]
        )
        bound(self._address, shared=False).close()  # for a port in use, gRPC would log a line of its own
        try:
            self._port = server.add_insecure_port(self._address)
        except RuntimeError as error:
            raise ListenError(errno.EADDRINUSE, f"cannot listen on {self._address}: {error}") from error
        await server.start()
        self._server = server

    async def stop(self) -> None:
        """Wait up to one second for open requests."""
        if self._server is not None:
            await self._server.stop(_STOP_GRACE_S)

    def _export(self, signal: Signal) -> Callable[[bytes, Any], Awaitable[Any]]:
        code = self._grpc.StatusCode
        statuses = {SinkError: code.INTERNAL, BusyError: code.UNAVAILABLE}  # which exporters retry

        async def export(body: bytes, context: Any) -> Any:
            try:
                response = await self._intake.take(signal, body, PROTOBUF, "")
            except (BodyError, SinkError) as error:
                self._intake.counts["grpc", "rejected"] += 1
                await context.abort(statuses.get(type(error), code.INVALID_ARGUMENT), str(error))
            self._intake.counts["grpc", "accepted"] += 1
            return response

        return export
