"""Starts the receivers of traces that the settings ask for."""

from __future__ import annotations

import logging
from contextlib import AsyncExitStack

from a2a_tool_capture.secret_references import resolve_header

from ..errors import ListenError
from ..net.http_server import HttpServer, listening
from ..settings import Settings
from ..settings.settings import DEFAULT_OTLP
from ..telemetry.counters import Metrics
from .trace_service import Tracing

logger = logging.getLogger(__name__)

_MAX_OTLP_BYTES = 32 * 1024 * 1024
_FORWARD_CLOSE_S = 5.0


async def receive_traces(
    stack: AsyncExitStack, settings: Settings, tracing: Tracing | None, metrics: Metrics
) -> HttpServer | None:
    """Start the OTLP receivers; returns the one for HTTP. `stack` stops them.

    Raises ListenError for an address that is in use, and ConfigurationError for a variable that is not set.
    """
    if tracing is None:
        return None
    from .forwarding import OtlpForwarder
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
    if settings.otlp_grpc:
        from .grpc_receiver import GrpcReceiver

        grpc = GrpcReceiver(intake, settings.otlp_grpc)
        await grpc.start()
        stack.push_async_callback(grpc.stop)
    if not settings.otlp:
        return None
    try:
        return await listening(
            stack, HttpReceiver(intake), settings.otlp, "--otlp (or receive no traces: --no-otlp)", 1.0
        )
    except ListenError as error:
        # A collector may listen at the default address. Nobody asked for this receiver; traffic does not depend on it.
        if settings.otlp != DEFAULT_OTLP or settings.expect_traces:
            raise
        logger.warning("no traces are received: %s", error)
        return None
