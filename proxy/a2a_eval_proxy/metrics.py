"""Counters of this process, plain numbers on the path, in Prometheus form for the admin API."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector


@dataclass(slots=True)
class ForwardCounts:
    """Telemetry sent on to a collector: requests since the start, and what waits now."""

    sent: int = 0
    retried: int = 0
    dropped: int = 0
    """Lost: refused by the collector, tried for too long, pushed out of a full queue, or left at the end."""
    held_bytes: int = 0
    """Of the bodies not sent yet."""


@dataclass(slots=True)
class Metrics:
    """What happened since the start. Incremented where it happens; nothing here locks or waits."""

    requests: int = 0
    upstream_errors: int = 0
    client_errors: Counter[str] = field(default_factory=Counter)
    """Limits of time, size and number, and rules of HTTP, that clients broke, by reason."""
    turns_closed: int = 0
    turns_failed: Counter[str] = field(default_factory=Counter)
    """Turns that the agent failed, by code (see `turn_health.TurnFailure`)."""
    turns_scored: int = 0
    turns_dropped: int = 0
    spans: int = 0
    spans_dropped: int = 0
    otlp_requests: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Telemetry received, by protocol (`http`, `grpc`) and outcome (`accepted`, `rejected`)."""
    forward: ForwardCounts = field(default_factory=ForwardCounts)
    calls: Counter[str] = field(default_factory=Counter)
    """Captured calls by source."""
    findings: Counter[str] = field(default_factory=Counter)
    """Findings by code."""
    evaluations: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Results by evaluator and status."""


class MetricsCollector(Collector):
    """Renders `Metrics` on demand; gauges are asked for at that moment."""

    def __init__(self, metrics: Metrics, queue_depth: Callable[[], int], open_turns: Callable[[], int]) -> None:
        self._metrics = metrics
        self._queue_depth = queue_depth
        self._open_turns = open_turns

    def collect(self) -> Iterator[Metric]:
        metrics = self._metrics
        for name, help_text, value in (
            ("requests", "Requests received on the data port", metrics.requests),
            ("upstream_errors", "Requests the agent did not answer", metrics.upstream_errors),
            ("turns_closed", "Turns captured to their end", metrics.turns_closed),
            ("turns_scored", "Turns scored", metrics.turns_scored),
            ("turns_dropped", "Turns lost because the store did not keep up", metrics.turns_dropped),
            ("spans", "Spans received", metrics.spans),
            ("spans_dropped", "Spans that belonged to no turn, or had to make room", metrics.spans_dropped),
        ):
            yield CounterMetricFamily(f"a2a_eval_proxy_{name}", help_text, value=value)
        broken = CounterMetricFamily(
            "a2a_eval_proxy_client_errors", "Requests and connections of clients refused or cut off", labels=["reason"]
        )
        for reason, count in metrics.client_errors.items():
            broken.add_metric([reason], count)
        yield broken
        failed = CounterMetricFamily(
            "a2a_eval_proxy_turns_failed", "Turns that the agent failed, by what went wrong", labels=["code"]
        )
        for code, count in metrics.turns_failed.items():
            failed.add_metric([code], count)
        yield failed
        received = CounterMetricFamily(
            "a2a_eval_proxy_otlp_requests", "Requests with telemetry", labels=["protocol", "outcome"]
        )
        for (protocol, outcome), count in metrics.otlp_requests.items():
            received.add_metric([protocol, outcome], count)
        yield received
        forward = metrics.forward
        forwarded = CounterMetricFamily(
            "a2a_eval_proxy_otlp_forward_requests", "Requests with telemetry sent on to a collector", labels=["outcome"]
        )
        for outcome, count in (("sent", forward.sent), ("retried", forward.retried), ("dropped", forward.dropped)):
            forwarded.add_metric([outcome], count)
        yield forwarded
        yield GaugeMetricFamily(
            "a2a_eval_proxy_otlp_forward_held_bytes", "Bytes of telemetry waiting for the collector", forward.held_bytes
        )
        calls = CounterMetricFamily("a2a_eval_proxy_tool_calls", "Tool calls captured, by source", labels=["source"])
        for source, count in metrics.calls.items():
            calls.add_metric([source], count)
        yield calls
        findings = CounterMetricFamily("a2a_eval_proxy_findings", "Findings, by code", labels=["code"])
        for code, count in metrics.findings.items():
            findings.add_metric([code], count)
        yield findings
        evaluations = CounterMetricFamily(
            "a2a_eval_proxy_evaluations", "Evaluation results", labels=["evaluator", "status"]
        )
        for (evaluator, status), count in metrics.evaluations.items():
            evaluations.add_metric([evaluator, status], count)
        yield evaluations
        yield GaugeMetricFamily("a2a_eval_proxy_queue_depth", "Turns waiting to be scored", value=self._queue_depth())
        yield GaugeMetricFamily("a2a_eval_proxy_open_turns", "Turns not yet closed", value=self._open_turns())
