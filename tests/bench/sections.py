"""The sections of the benchmark. A new one is a function, its metrics and a line in SECTIONS."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from .load import LoadGenerator
from .targets import Running

Values = dict[str, float | None]
"""Measured values by metric key; None or absent where a metric does not apply to a target."""

CONNECTIONS = (1, 16, 64)
STREAMS = (100, 500)
EVENT_INTERVAL_MS = 20


@dataclass(frozen=True)
class Plan:
    """How much is measured. Times in seconds."""

    rounds: int = 3
    unary_s: float = 3.0
    events: int = 150  # per stream
    stage_s: float = 1.5
    stage_events: int = 100
    warm_up_requests: int = 2000
    traces: int = 3000  # of some 14 spans each
    flood_mb: int = 256
    turns: int = 1000  # with traces of their own
    queued: int = 20_000  # turns that are scored by workers
    scoring_s: float = 1.0  # of CPU time, for each rule and size

    @classmethod
    def quick(cls) -> Plan:
        return cls(
            rounds=1,
            unary_s=0.3,
            events=25,
            stage_s=0.5,
            stage_events=50,
            warm_up_requests=200,
            traces=150,
            flood_mb=8,
            turns=50,
            queued=200,
            scoring_s=0.05,
        )


@dataclass
class Bench:
    """What sections work with. `warn` collects what a reader of the figures must know."""

    load: LoadGenerator
    plan: Plan
    warnings: list[str] = field(default_factory=list)

    def warn(self, target: Running, message: str) -> None:
        self.warnings.append(f"{target.name}: {message}")

    def warm_up(self, target: Running) -> None:
        """Bring the target to its working state: pools filled, code paths run, buffers allocated."""
        self.load.unary(target.port, connections=16, seconds=2, requests=self.plan.warm_up_requests)
        self.load.streams(target.port, streams=10, events=5, interval_ms=EVENT_INTERVAL_MS)
        self.settle(target)

    def settle(self, target: Running) -> None:
        if not target.settle():
            self.warn(target, "still had work queued when its CPU time was read: CPU figures are too low")

    def cpu_during(
        self, target: Running, load: Callable[[], dict[str, Any]], *, asks: bool = False
    ) -> tuple[dict[str, Any], float | None]:
        """The result of `load` and the CPU seconds the target spent on it, work put off included (None: no proxy)."""
        before = target.cpu_seconds()
        result = load()
        self.settle(target)
        after = target.cpu_seconds()
        if result["with_tool_calls"] and not asks:
            self.warn(target, f"{result['with_tool_calls']} answers carried tool calls nobody had asked for")
        return result, None if before is None or after is None else after - before


@dataclass(frozen=True)
class Metric:
    """One row of the table. `minus_direct`: the direct call's value of the same round is taken off.

    `compared`: whether targets' ratios are of interest."""

    key: str
    group: str
    label: str
    minus_direct: bool = False
    compared: bool = True


@dataclass(frozen=True)
class Section:
    """Measures one target, started afresh for it."""

    name: str
    metrics: tuple[Metric, ...]
    measure: Callable[[Running, Bench], Values]


# ---- unary ----


def measure_unary(target: Running, bench: Bench) -> Values:
    bench.warm_up(target)
    values: Values = {}
    for connections in CONNECTIONS:
        load = partial(bench.load.unary, target.port, connections=connections, seconds=bench.plan.unary_s)
        result, cpu_s = bench.cpu_during(target, load)
        if result["failed"]:
            bench.warn(target, f"{result['failed']} of its requests failed at {connections} connections")
        key = f"unary_{connections}"
        values[f"{key}_requests_per_s"] = result["requests"] / result["elapsed_s"]
        values[f"{key}_cpu_us"] = per(cpu_s, result["requests"])
        values[f"{key}_p50_ms"] = ms(result["latency_us"]["p50"])
        values[f"{key}_p99_ms"] = ms(result["latency_us"]["p99"])
    return values


def unary_metrics(connections: int) -> tuple[Metric, ...]:
    key, group = f"unary_{connections}", f"Unary, {connections} connection{'s' * (connections > 1)}"
    return (
        Metric(f"{key}_requests_per_s", group, "requests/s"),
        Metric(f"{key}_cpu_us", group, "CPU per request, µs"),
        Metric(f"{key}_p50_ms", group, "added latency p50, ms", minus_direct=True),
        Metric(f"{key}_p99_ms", group, "added latency p99, ms", minus_direct=True),
    )


# ---- streams ----


def measure_streams(target: Running, bench: Bench) -> Values:
    bench.warm_up(target)
    values: Values = {}
    for streams in STREAMS:
        load = partial(bench.load.streams, target.port, events=bench.plan.events, interval_ms=EVENT_INTERVAL_MS)
        result, cpu_s = bench.cpu_during(target, partial(load, streams=streams))
        key = f"streams_{streams}"
        values[f"{key}_complete"] = result["complete"]
        values[f"{key}_p50_ms"] = ms(result["delay_us"]["p50"])
        values[f"{key}_p99_ms"] = ms(result["delay_us"]["p99"])
        values[f"{key}_cpu_us"] = per(cpu_s, result["events"])
    return values


def streams_metrics(streams: int) -> tuple[Metric, ...]:
    key, group = f"streams_{streams}", f"{streams} SSE streams, {EVENT_INTERVAL_MS} ms between events"
    return (
        Metric(f"{key}_complete", group, "complete streams"),
        Metric(f"{key}_p50_ms", group, "delay per event p50, ms"),
        Metric(f"{key}_p99_ms", group, "delay per event p99, ms"),
        Metric(f"{key}_cpu_us", group, "CPU per event, µs"),
    )


# ---- start and memory ----

HELD_STREAMS = 500


def measure_footprint(target: Running, bench: Bench) -> Values:
    """Memory right after the start, then what open streams add to it, each of them between two events."""
    idle = target.rss_bytes()
    if idle is None:
        return {}
    bench.warm_up(target)
    before = target.rss_bytes()
    values: Values = {"ready_s": target.ready_s, "idle_mb": idle / 1e6}

    def when_open(opened: int) -> None:
        during = target.rss_bytes()
        if opened and before is not None and during is not None:
            values["kb_per_stream"] = (during - before) / opened / 1e3
        if opened < HELD_STREAMS:
            bench.warn(target, f"memory per stream is that of {opened} streams: it did not open {HELD_STREAMS}")

    bench.load.streams(target.port, streams=HELD_STREAMS, events=4, interval_ms=500, when_open=when_open)
    return values


FOOTPRINT_METRICS = (
    Metric("ready_s", "Start and memory", "start to ready, s"),
    Metric("idle_mb", "Start and memory", "memory idle (RSS), MB"),
    Metric("kb_per_stream", "Start and memory", f"memory per open stream (of {HELD_STREAMS}), KB"),
)


# ---- helpers ----


def per(cpu_s: float | None, count: int) -> float | None:
    """Microseconds of CPU time for each of `count`; None where nothing was measured."""
    return cpu_s * 1e6 / count if cpu_s is not None and count else None


def ms(microseconds: float | None) -> float | None:
    return None if microseconds is None else microseconds / 1e3


SECTIONS = (
    Section("unary", tuple(metric for n in CONNECTIONS for metric in unary_metrics(n)), measure_unary),
    Section("streams", tuple(metric for n in STREAMS for metric in streams_metrics(n)), measure_streams),
    Section("footprint", FOOTPRINT_METRICS, measure_footprint),
)
