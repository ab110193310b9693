"""OTLP/gRPC: the same intake behind a gRPC server. Requires grpcio, an optional dependency."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from ..errors import GrpcMissingError
from .decoding import PROTOBUF
from .errors import BodyError, BusyError
from .intake import SIGNALS, Intake, Signal, SinkError

if TYPE_CHECKING:
    from ..net.grpc_server import GrpcServer

_CONCURRENT_EXPORTS = 16
"""Maximum number of messages of the largest size in memory; further requests get RESOURCE_EXHAUSTED."""

_STOP_GRACE_S = 1.0


def grpc_receiver(intake: Intake, address: str) -> GrpcServer:
    """The Export methods of the trace, logs and metrics services on one port, without TLS.

    `address` is HOST:PORT (port 0: any free one). Requests that grpcio refuses are not counted.

    Raises GrpcMissingError.
    """
    try:
        import grpc

        from ..net.grpc_server import GrpcServer
    except ImportError as error:
        raise GrpcMissingError(
            "OTLP over gRPC needs grpcio: pip install 'a2a-eval-proxy[grpc]', or let the agent export over HTTP"
        ) from error
    handlers = []
    for signal in SIGNALS:
        export = grpc.unary_unary_rpc_method_handler(
            _export(grpc.StatusCode, intake, signal), response_serializer=signal.response.SerializeToString
        )
        handlers.append(grpc.method_handlers_generic_handler(signal.service, {"Export": export}))
    return GrpcServer(
        address,
        handlers,
        grace_s=_STOP_GRACE_S,
        max_calls=_CONCURRENT_EXPORTS,
        options=[("grpc.max_receive_message_length", intake.max_bytes)],
    )


def _export(code: Any, intake: Intake, signal: Signal) -> Callable[[bytes, Any], Awaitable[Any]]:
    statuses = {SinkError: code.INTERNAL, BusyError: code.UNAVAILABLE}  # which exporters retry

    async def export(body: bytes, context: Any) -> Any:
        try:
            response = await intake.take(signal, body, PROTOBUF, "")
        except (BodyError, SinkError) as error:
            intake.counts["grpc", "rejected"] += 1
            await context.abort(statuses.get(type(error), code.INVALID_ARGUMENT), str(error))
        intake.counts["grpc", "accepted"] += 1
        return response

    return export
