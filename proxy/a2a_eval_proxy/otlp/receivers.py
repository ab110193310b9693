"""Starts the receivers of traces that the settings ask for."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

from a2a_tool_capture.secret_references import resolve_header

from ..errors import ListenError
from ..net.client_limits import Capacity, operator_limits
from ..net.file_watcher import FileWatch
from ..net.http_server import HttpServer
from ..net.tls import HTTP_2, TlsFiles, server_tls
from ..settings.parts import DEFAULT_OTLP, TraceSettings
from ..telemetry.counters import Metrics
from .trace_service import Tracing

logger = logging.getLogger(__name__)

_MAX_OTLP_BYTES = 32 * 1024 * 1024
_FORWARD_CLOSE_S = 5.0


@asynccontextmanager
async def tracing_at(address: str, wait_s: float) -> AsyncIterator[tuple[Tracing | None, str | None]]:
    """As `receive_traces`, over HTTP at HOST:PORT for the time of the block; a turn waits `wait_s` for its spans."""
    async with AsyncExitStack() as stack:
        yield await receive_traces(
            stack, TraceSettings(otlp=address, trace_wait=wait_s, expect_traces=True), Metrics(), FileWatch()
        )


async def receive_traces(
    stack: AsyncExitStack,
    settings: TraceSettings,
    metrics: Metrics,
    files: FileWatch,
    capacity: Capacity | None = None,
) -> tuple[Tracing | None, str | None]:
    """Start the OTLP receivers that the settings ask for, until `stack` ends: what turns get from them, None where
    there is none, and the URL for exporters that speak HTTP. `files` watches those of TLS.

    Raises ListenError for an address that is in use, ConfigurationError for a variable that is not set, and ConfigError
    for files of TLS.
    """
    if not settings.otlp and not settings.otlp_grpc:
        return None, None
    from .forwarding import OtlpForwarder
    from .grpc_receiver import GrpcReceiver
    from .http_receiver import HttpReceiver
    from .intake import Intake

    tracing = Tracing(
        metrics,
        wait_s=settings.trace_wait,
        expected=settings.expect_traces,
        conversation_attributes=settings.conversation_attributes,
    )
    stack.callback(tracing.close)
    forward = None
    if settings.otlp_forward:
        headers = {name: resolve_header(name, value) for name, value in settings.otlp_forward_headers}
        forward = OtlpForwarder(settings.otlp_forward, headers, counts=metrics.forward)
        stack.push_async_callback(forward.close, _FORWARD_CLOSE_S)
    intake = Intake(tracing, max_bytes=_MAX_OTLP_BYTES, forward=forward, counts=metrics.otlp_requests)
    files_of_tls, setting = settings.tls_of("otlp")
    new_server = partial(HttpServer, limits=operator_limits(), capacity=capacity)
    if settings.otlp_grpc:
        tls = server_tls(TlsFiles.of(files_of_tls, setting, alpn=HTTP_2), files, "TLS for traces over gRPC")
        calls = new_server(None, settings.otlp_grpc, setting="--otlp-grpc", streams=GrpcReceiver(intake), tls=tls)
        await calls.open(stack)
    if not settings.otlp:
        return tracing, None
    tls = server_tls(TlsFiles.of(files_of_tls, setting), files, "TLS for traces")
    option = "--otlp" if settings.expect_traces else "--otlp (or receive no traces: --no-otlp)"
    try:
        server = new_server(HttpReceiver(intake), settings.otlp, setting=option, tls=tls)
    except ListenError as error:
        # A collector may listen at the default address. Nobody asked for this receiver; traffic does not depend on it.
        if settings.otlp != DEFAULT_OTLP or settings.expect_traces:
            raise
        logger.warning("no traces are received: %s", error)
        return tracing, None
    await server.open(stack)
    return tracing, server.url
