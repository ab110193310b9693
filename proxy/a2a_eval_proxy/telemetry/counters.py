"""Counters of this process, plain numbers on the path, in Prometheus form for the admin API."""

from __future__ import annotations

import platform
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from a2a_tool_capture import __version__
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

_BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)


@dataclass(slots=True)
class ForwardCounts:
    """Telemetry sent on to a collector: requests since the start, and what waits now."""

    sent: int = 0
    retried: int = 0
    dropped: int = 0
    """Lost: refused by the collector, tried for too long, pushed out of a full queue, or left at the end."""
    held_bytes: int = 0
    """Of the bodies not sent yet."""


class Durations:
    """Counts durations by size. `add` is on the path of every request: a search in 17 numbers and two additions."""

    __slots__ = ("counts", "total_s")

    def __init__(self) -> None:
        self.counts = [0] * (len(_BOUNDS_S) + 1)
        self.total_s = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(_BOUNDS_S, seconds)] += 1
        self.total_s += seconds

    def family(self, name: str, text: str) -> HistogramMetricFamily:
        """In Prometheus form: cumulative, by upper bound."""
        buckets, so_far = [], 0
        for bound, count in zip((*map(str, _BOUNDS_S), "+Inf"), self.counts, strict=True):
            so_far += count
            buckets.append((bound, so_far))
        return HistogramMetricFamily(name, text, buckets=buckets, sum_value=self.total_s)


@dataclass(slots=True)
class Metrics:
    """What happened since the start. Incremented where it happens; nothing here locks or waits."""

    requests: int = 0
    upstream_errors: int = 0
    responses: Counter[int | str] = field(default_factory=Counter)
    """Answers that clients were given, by HTTP status; `none` where the client left before."""
    request_s: Durations = field(default_factory=Durations)
    """From a request's headers to the end of its answer, or until the client left."""
    first_byte_s: Durations = field(default_factory=Durations)
    """From a request's headers to the headers of its answer."""
    client_errors: Counter[str] = field(default_factory=Counter)
    """Limits of time, size and number, and rules of HTTP, that clients broke, by reason."""
    turns_closed: int = 0
    turns_failed: Counter[str] = field(default_factory=Counter)
    """Turns that the agent failed, by code (see `turn_health.TurnFailure`)."""
    turns_scored: int = 0
    turns_dropped: int = 0
    turns_evicted: int = 0
    """Closed as incomplete because open turns took too much memory."""
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

    def count_results(self, results: Iterable[Mapping[str, Any]]) -> None:
        """Count evaluation results in their JSON form."""
        for result in results:
            self.evaluations[result["evaluator"], result["status"]] += 1


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
            (
                "turns_evicted",
                "Turns closed as incomplete, since open ones took too much memory",
                metrics.turns_evicted,
            ),
            ("spans", "Spans received", metrics.spans),
            ("spans_dropped", "Spans that belonged to no turn, or had to make room", metrics.spans_dropped),
        ):
            yield CounterMetricFamily(f"a2a_eval_proxy_{name}", help_text, value=value)
        yield _labelled("responses", "Answers to clients, by HTTP status", ("code",), metrics.responses)
        yield metrics.request_s.family(
            "a2a_eval_proxy_request_duration_seconds", "From a request's headers to the end of its answer"
        )
        yield metrics.first_byte_s.family(
            "a2a_eval_proxy_time_to_first_byte_seconds", "From a request's headers to the headers of its answer"
        )
        text = "Requests and connections of clients refused or cut off"
        yield _labelled("client_errors", text, ("reason",), metrics.client_errors)
        yield _labelled(
            "turns_failed", "Turns that the agent failed, by what went wrong", ("code",), metrics.turns_failed
        )
        yield _labelled("otlp_requests", "Requests with telemetry", ("protocol", "outcome"), metrics.otlp_requests)
        forward = metrics.forward
        outcomes = {"sent": forward.sent, "retried": forward.retried, "dropped": forward.dropped}
        text = "Requests with telemetry sent on to a collector"
        yield _labelled("otlp_forward_requests", text, ("outcome",), outcomes)
        yield GaugeMetricFamily(
            "a2a_eval_proxy_otlp_forward_held_bytes", "Bytes of telemetry waiting for the collector", forward.held_bytes
        )
        yield _labelled("tool_calls", "Tool calls captured, by source", ("source",), metrics.calls)
        yield _labelled("findings", "Findings, by code", ("code",), metrics.findings)
        yield evaluations(metrics)
        yield GaugeMetricFamily("a2a_eval_proxy_queue_depth", "Turns waiting to be scored", value=self._queue_depth())
        yield GaugeMetricFamily("a2a_eval_proxy_open_turns", "Turns not yet closed", value=self._open_turns())


def evaluations(metrics: Metrics) -> CounterMetricFamily:
    """Results by evaluator and status."""
    return _labelled("evaluations", "Evaluation results", ("evaluator", "status"), metrics.evaluations)


def _labelled(
    name: str,
    text: str,
    labels: tuple[str, ...],
    counts: Mapping[str, int] | Mapping[int | str, int] | Mapping[tuple[str, str], int],
) -> CounterMetricFamily:
    """A counter with a series for each key: the value of the label, or a tuple of them."""
    family = CounterMetricFamily(f"a2a_eval_proxy_{name}", text, labels=labels)
    for key, count in counts.items():
        family.add_metric([str(value) for value in (key if isinstance(key, tuple) else (key,))], count)
    return family


class BuildInfo(Collector):
    """Which version runs, on which Python."""

    def collect(self) -> Iterator[Metric]:
        info = GaugeMetricFamily("a2a_eval_proxy_build_info", "The version that runs", labels=["version", "python"])
        info.add_metric([__version__, platform.python_version()], 1)
        yield info


def process_registry() -> CollectorRegistry:
    """A registry with what every process of ours reports: its version, memory, descriptors, CPU time and start."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(BuildInfo())
    ProcessCollector(registry=registry)
    return registry
