"""What the metrics and the spans learn of a call."""

from __future__ import annotations

import asyncio
import time
from types import TracebackType
from typing import Any, Self

import grpc

from ..protocol.headers import read_request
from ..telemetry.counters import Metrics
from ..telemetry.requests import CallTelemetry
from .messages import METHODS
from .metadata import client_of, to_headers


class CallRecord:
    """Counts a call as requests over HTTP are counted, and has its spans, while it is relayed. A context manager."""

    def __init__(self, metrics: Metrics, telemetry: CallTelemetry | None, path: str, context: Any) -> None:
        """`context` is the grpc.aio.ServicerContext of the client's call."""
        self._metrics = metrics
        self._context = context
        self._began = time.perf_counter()
        self._agent_status: str | None = None
        self.head = read_request(to_headers(context.invocation_metadata()))
        """The client's metadata, with the parent that the agent gets."""
        self._spans = (
            None
            if telemetry is None
            else telemetry.begin(path, self.head, client_of(context.peer()), known=path in METHODS)
        )
        if self._spans is not None and self._spans.traceparent:
            self.head = self.head.with_parent(self._spans.traceparent)

    def __enter__(self) -> Self:
        self._metrics.requests += 1
        return self

    def sent_to(self, agent: str) -> None:
        """The call goes to HOST:PORT of the agent."""
        if self._spans is not None:
            self._spans.sent_to(agent)

    def answered(self) -> None:
        """The agent's response began."""
        self._metrics.first_byte_s.add(time.perf_counter() - self._began)

    def ended(self, status: grpc.StatusCode) -> None:
        """The agent's status arrived, or that which the library reports where the agent cannot be reached."""
        self._agent_status = status.name
        self._metrics.upstream_errors += status is grpc.StatusCode.UNAVAILABLE

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        status: str | None = None
        if kind is None or issubclass(kind, grpc.aio.AbortError):
            code = self._context.code()  # 0 unless one was set
            status = code.name if isinstance(code, grpc.StatusCode) else "OK"
        elif not issubclass(kind, asyncio.CancelledError):
            status = "UNKNOWN"  # what the library sends for an exception
        metrics = self._metrics
        metrics.responses["none" if status is None else status] += 1
        metrics.request_s.add(time.perf_counter() - self._began)
        if self._spans is not None:
            self._spans.end(status, self._agent_status)
