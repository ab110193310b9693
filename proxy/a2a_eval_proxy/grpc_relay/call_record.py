"""What the metrics and the spans learn of a call."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ..net.grpc_wire import GrpcStatus
from ..net.http2_streams import Fields
from ..protocol.headers import read_request
from ..telemetry.counters import Metrics
from .messages import METHODS

if TYPE_CHECKING:
    from ..telemetry.requests import RequestTelemetry


class CallRecord:
    """Counts a call as requests over HTTP are counted, and has its spans, while it is relayed."""

    def __init__(
        self, metrics: Metrics, telemetry: RequestTelemetry | None, path: str, metadata: Fields, client: tuple[str, int]
    ) -> None:
        self._metrics = metrics
        self._began = time.perf_counter()
        self._agent_status: GrpcStatus | None = None
        self.head = read_request(metadata)
        """The client's metadata, with the parent that the agent gets."""
        self._spans = (
            None if telemetry is None else telemetry.begin_call(path, self.head, client, known=path in METHODS)
        )
        if self._spans is not None and self._spans.traceparent:
            self.head = self.head.with_parent(self._spans.traceparent)
        metrics.requests += 1

    def sent_to(self, agent: str) -> None:
        """The call goes to HOST:PORT of the agent."""
        if self._spans is not None:
            self._spans.sent_to(agent)

    def answered(self) -> None:
        """The agent's response began."""
        self._metrics.first_byte_s.observe(time.perf_counter() - self._began)

    def ended(self, status: GrpcStatus) -> None:
        """The agent's status arrived, or that which stands for its failure."""
        self._agent_status = status
        self._metrics.upstream_errors += status is GrpcStatus.UNAVAILABLE

    def close(self, status: GrpcStatus | None) -> None:
        """The client got this status; None: it left before."""
        name = None if status is None else status.name
        metrics = self._metrics
        metrics.responses["none" if name is None else name] += 1
        metrics.request_s.observe(time.perf_counter() - self._began)
        if self._spans is not None:
            self._spans.end(name, None if self._agent_status is None else self._agent_status.name)
