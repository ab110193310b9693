"""Starts the receivers of traces that the settings ask for."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from a2a_tool_capture.secret_references import resolve_header

from ..errors import ListenError
from ..net.client_limits import Capacity, operator_limits
from ..net.file_watcher import FileWatch
from ..net.http_server import HttpServer
from ..net.tls import HTTP_2, TlsFiles, server_tls
from ..settings.settings import DEFAULT_OTLP, TraceSettings
from ..telemetry.counters import Metrics
from .trace_service import Tracing

logger = logging.getLogger(__name__)

_MAX_OTLP_BYTES = 32 * 1024 * 1024
_FORWARD_CLOSE_S = 5.0


@asynccontextmanager
async def tracing_at(address: str, wait_s: float) -> AsyncIterator[tuple[Tracing, str]]:
    """Receive traces over HTTP at HOST:PORT for the time of the block: their sink, and the URL for exporters.

    A turn waits `wait_s` for its spans. Raises ListenError for an address that is in use.
    """
    from .http_receiver import HttpReceiver
    from .intake import Intake

    async with AsyncExitStack() as stack:
        metrics = Metrics()
        tracing = Tracing(metrics, wait_s=wait_s, expected=True)
        stack.callback(tracing.close)
        intake = Intake(tracing, max_bytes=_MAX_OTLP_BYTES, forward=None, counts=metrics.otlp_requests)
        server = HttpServer(HttpReceiver(intake), address, setting="--otlp", limits=operator_limits())
        await server.open(stack)
        yield tracing, server.url


async def receive_traces(
    stack: AsyncExitStack,
    settings: TraceSettings,
    tracing: Tracing | None,
    metrics: Metrics,
    files: FileWatch,
    capacity: Capacity,
) -> HttpServer | None:
    """Start the OTLP receivers, until `stack` ends; returns the one for HTTP. `files` watches those of TLS.

    Raises ListenError for an address that is in use, ConfigurationError for a variable that is not set, and ConfigError
    for files of TLS.
    """
    if tracing is None:
        return None
    from .forwarding import OtlpForwarder
    from .grpc_receiver import GrpcReceiver
    from .http_receiver import HttpReceiver
    from .intake import Intake

    stack.callback(tracing.close)
    forward = None
    if settings.otlp_forward:
        headers = {name: resolve_header(name, value) for name, value in settings.otlp_forward_headers}
        forward = OtlpForwarder(settings.otlp_forward, headers, counts=metrics.forward)
        forward.start()
        stack.push_async_callback(forward.close, _FORWARD_CLOSE_S)
    intake = Intake(tracing, max_bytes=_MAX_OTLP_BYTES, forward=forward, counts=metrics.otlp_requests)
    if otlp_grpc := settings.otlp_grpc:
        grpc_tls = server_tls(TlsFiles.of(*settings.tls_of("otlp"), alpn=HTTP_2), files, "TLS for traces over gRPC")
        calls = HttpServer(
            None,
            otlp_grpc,
            setting="--otlp-grpc",
            streams=GrpcReceiver(intake),
            limits=operator_limits(),
            capacity=capacity,
            tls=grpc_tls,
        )
        await calls.open(stack)
    if not (otlp := settings.otlp):
        return None
    tls = server_tls(TlsFiles.of(*settings.tls_of("otlp")), files, "TLS for traces")
    try:
        server = HttpServer(
            HttpReceiver(intake),
            otlp,
            setting="--otlp (or receive no traces: --no-otlp)",
            limits=operator_limits(),
            capacity=capacity,
            tls=tls,
        )
    except ListenError as error:
        # A collector may listen at the default address. Nobody asked for this receiver; traffic does not depend on it.
        if otlp != DEFAULT_OTLP or settings.expect_traces:
            raise
        logger.warning("no traces are received: %s", error)
        return None
    await server.open(stack)
    return server
