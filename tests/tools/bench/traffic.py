"""Traffic: the proxy compared with the direct call, nginx, the floor and a naive proxy, in front of the same agent."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from .part import BehaviourError, Measured, Part, Plan, Setting
from .programs import LoadGenerator, compile_c, running_agent
from .report import DIRECT, Metric, Values, ms, per
from .targets import TRAFFIC_TARGETS, Running, Target

CONNECTIONS = (1, 16, 64)
STREAMS = (100, 500)
EVENT_INTERVAL_MS = 20
CHECKS = 3
"""Requests of each kind in a check."""


@dataclass
class Bench:
    """What targets are measured with. `warnings` are what a reader of the figures must know."""

    load: LoadGenerator
    plan: Plan
    agent_port: int
    subject_cpus: set[int]
    warnings: list[str] = field(default_factory=list)

    def warn(self, target: Running, message: str) -> None:
        warning = f"{target.name}: {message}"
        if warning not in self.warnings:
            self.warnings.append(warning)

    def warm_up(self, target: Running) -> None:
        """Bring the target to its working state: pools filled, code paths run, buffers allocated."""
        requests = self.plan.warm_up_requests
        self.load.unary(target.port, connections=16, seconds=2, requests=requests, ask=target.asks)
        self.load.streams(target.port, streams=10, events=5, interval_ms=EVENT_INTERVAL_MS, ask=target.asks)
        self.settle(target)

    def settle(self, target: Running) -> None:
        if not target.settle():
            self.warn(target, "still had work queued when its CPU time was read: CPU figures are too low")

    def unary(self, target: Running, connections: int, seconds: float) -> tuple[dict[str, Any], float | None]:
        """The load's result, and the CPU seconds that the target spent on it, later work included (None: no proxy)."""
        load = partial(self.load.unary, target.port, connections=connections, seconds=seconds, ask=target.asks)
        result, cpu_s = self._cpu_during(target, load)
        if result["failed"]:
            self.warn(target, f"{result['failed']} of its requests failed at {connections} connections")
        return result, cpu_s

    def streams(self, target: Running, streams: int, events: int) -> tuple[dict[str, Any], float | None]:
        """As `unary`, for streams of `events`, one every EVENT_INTERVAL_MS."""
        load = partial(self.load.streams, target.port, streams=streams, events=events, ask=target.asks)
        return self._cpu_during(target, partial(load, interval_ms=EVENT_INTERVAL_MS))

    def _cpu_during(self, target: Running, load: Callable[[], dict[str, Any]]) -> tuple[dict[str, Any], float | None]:
        before = target.cpu_seconds()
        result = load()
        self.settle(target)
        after = target.cpu_seconds()
        if result["with_tool_calls"] and not target.asks:
            self.warn(target, f"{result['with_tool_calls']} responses carried tool calls that no client had requested")
        return result, None if before is None or after is None else after - before


@contextmanager
def benching(setting: Setting) -> Iterator[Bench]:
    """An agent that runs, and the load for the proxies in front of the agent."""
    load = LoadGenerator(compile_c("load", setting.folder), setting.other_cpus)
    with running_agent(compile_c("upstream", setting.folder), setting.other_cpus) as port:
        yield Bench(load, setting.plan, port, setting.subject_cpus)


def check(target: Target, process: Running, load: LoadGenerator, asks: Sequence[bool] = (False, True)) -> None:
    """Send a few requests of each kind, so that no figures are taken of a target that does not do its part.

    Clients get tool calls where they ask, and turns are read and stored if they are to be. Raises BehaviourError.
    """
    for ask in asks:
        unary = load.unary(process.port, connections=1, seconds=5, requests=CHECKS, ask=ask)
        streams = load.streams(process.port, streams=CHECKS, events=3, interval_ms=5, ask=ask)
        _expect(target, f"answers to SendMessage (asking for tool calls: {ask})", unary["requests"], CHECKS)
        _expect(target, f"complete streams (asking for tool calls: {ask})", streams["complete"], CHECKS)
        carrying = unary["with_tool_calls"] + streams["with_tool_calls"]
        _expect(target, f"answers with tool calls (asked for: {ask})", carrying, 2 * CHECKS * ask)
    if process.admin_url is not None:
        if not process.settle():
            raise BehaviourError(f"{target.name}: {process.admin_url}/api/flush does not finish")
        turns, exchanges = process.stored_turns(), 2 * CHECKS * len(asks)
        _expect(target, "turns read", process.counter("turns_closed"), exchanges * target.reads)
        _expect(target, "turns stored", len(turns), exchanges * target.stores)
        calls = sum(len(turn["tool_calls"]) for turn in turns)
        _expect(target, "tool calls stored", calls, 2 * exchanges * target.stores)


def _expect(target: Target, what: str, found: int, expected: int) -> None:
    if found != expected:
        raise BehaviourError(f"{target.name}: {found} {what}, expected {expected}")


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
        result, cpu_s = bench.unary(target, connections, bench.plan.unary_s)
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
        result, cpu_s = bench.streams(target, streams, bench.plan.events)
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

    bench.load.streams(
        target.port, streams=HELD_STREAMS, events=4, interval_ms=500, ask=target.asks, when_open=when_open
    )
    return values


FOOTPRINT_METRICS = (
    Metric("ready_s", "Start and memory", "start to ready, s"),
    Metric("idle_mb", "Start and memory", "memory idle (RSS), MB"),
    Metric("kb_per_stream", "Start and memory", f"memory per open stream (of {HELD_STREAMS}), KB"),
)


SECTIONS = (
    Section("unary", tuple(metric for n in CONNECTIONS for metric in unary_metrics(n)), measure_unary),
    Section("streams", tuple(metric for n in STREAMS for metric in streams_metrics(n)), measure_streams),
    Section("footprint", FOOTPRINT_METRICS, measure_footprint),
)


def traffic(only: Sequence[str]) -> Part:
    """The part, for the targets named, and the direct call, from which added latency is measured."""
    targets = [target for target in TRAFFIC_TARGETS if target.name in (DIRECT, *only)]
    metrics = tuple(metric for section in SECTIONS for metric in section.metrics)
    return Part("traffic", metrics, "proxy", ("nginx", "floor", "naive"), lambda setting: _measure(setting, targets))


def _measure(setting: Setting, targets: Sequence[Target]) -> Measured:
    """Every section for every target in turn, round after round."""
    plan = setting.plan
    measured = Measured([target.name for target in targets])
    with benching(setting) as bench:

        def started(target: Target) -> AbstractContextManager[Running]:
            folder = Path(tempfile.mkdtemp(dir=setting.folder))
            return target.started(bench.agent_port, folder, setting.subject_cpus)

        for target in targets:
            setting.progress(f"checking {target.name}")
            with started(target) as process:
                check(target, process, bench.load)
        for number in range(1, plan.rounds + 1):
            values = measured.next_round()
            for target in targets:
                for section in SECTIONS:
                    setting.progress(f"round {number} of {plan.rounds}: {target.name}, {section.name}")
                    with started(target) as process:
                        values[target.name] |= section.measure(process, bench)
    measured.warnings = bench.warnings
    return measured
