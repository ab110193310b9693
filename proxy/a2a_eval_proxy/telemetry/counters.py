"""Counters of this process: plain numbers that the byte path increments, also in serving processes."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)


@dataclass(slots=True)
class ForwardCounts:
    """Telemetry sent on to a collector: requests since the start, and what waits now."""

    sent: int = 0
    retried: int = 0
    dropped: int = 0
    """Lost: refused by the collector, tried for too long, pushed out of a full queue, or left at the end."""
    held_bytes: int = 0
    """Of the bodies not sent yet."""

    @property
    def outcomes(self) -> Mapping[str, int]:
        return {"sent": self.sent, "retried": self.retried, "dropped": self.dropped}


class Durations:
    """Counts durations by size. `add` is on the path of every request: a search in 17 numbers and two additions."""

    __slots__ = ("counts", "total_s")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_S) + 1)
        self.total_s = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(BOUNDS_S, seconds)] += 1
        self.total_s += seconds


@dataclass(slots=True)
class Metrics:
    """What happened since the start. Incremented where it happens; nothing here locks or waits."""

    requests: int = 0
    upstream_errors: int = 0
    responses: Counter[int | str] = field(default_factory=Counter)
    """Responses to clients, by HTTP status or name of the gRPC status; `none` where the client left before."""
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


_NUMBERS = ("requests", "upstream_errors", "turns_evicted", "turns_dropped")
_COUNTERS = ("responses", "client_errors")
_DURATIONS = ("request_s", "first_byte_s")


def take_counts(metrics: Metrics) -> dict[str, Any]:
    """What was counted since the last call, in JSON form; `metrics` begins at zero again."""
    counts: dict[str, Any] = {}
    for name in _NUMBERS:
        counts[name] = getattr(metrics, name)
        setattr(metrics, name, 0)
    for name in _COUNTERS:
        counter: Counter[int | str] = getattr(metrics, name)
        counts[name] = [[key, number] for key, number in counter.items()]
        counter.clear()
    for name in _DURATIONS:
        durations: Durations = getattr(metrics, name)
        counts[name] = [durations.total_s, *durations.counts]
        durations.total_s = 0.0
        durations.counts = [0] * len(durations.counts)
    return counts


def add_counts(metrics: Metrics, counts: dict[str, Any]) -> None:
    """Add what `take_counts` returned in another process."""
    for name in _NUMBERS:
        setattr(metrics, name, getattr(metrics, name) + counts[name])
    for name in _COUNTERS:
        for key, number in counts[name]:
            getattr(metrics, name)[key] += number
    for name in _DURATIONS:
        durations: Durations = getattr(metrics, name)
        total_s, *numbers = counts[name]
        durations.total_s += total_s
        durations.counts = [sum(pair) for pair in zip(durations.counts, numbers, strict=True)]
