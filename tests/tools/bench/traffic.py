"""Traffic: the proxy compared with the direct call, nginx and a naive proxy, in front of the same agent.

And its stages: what each part of the proxy adds to the price of a request and of an event, under the same load. All
targets run at once, idle but for the one that is measured, so that a round takes seconds and rounds alternate.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from .part import BehaviourError, Measured, Metric, Plan, Setting, UnavailableTargetError, Values, per
from .procfs import fixed_loop_ms
from .programs import LoadGenerator, compile_c, running_agent
from .targets import STAGES, TRAFFIC_TARGETS, Running, Target, chosen

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


def check(target: Target, process: Running, load: LoadGenerator) -> None:
    """Send a few requests of each kind, so that no figures are taken of a target that does not do its part.

    Clients get tool calls where they ask, and turns are read and stored if they are to be. Raises BehaviourError.
    """
    unary = load.unary(process.port, connections=1, seconds=5, requests=CHECKS, ask=target.asks)
    streams = load.streams(process.port, streams=CHECKS, events=3, interval_ms=5, ask=target.asks)
    carrying = unary["with_tool_calls"] + streams["with_tool_calls"]
    found = {"answers": unary["requests"], "complete streams": streams["complete"], "with tool calls": carrying}
    expected = {"answers": CHECKS, "complete streams": CHECKS, "with tool calls": 2 * CHECKS * target.asks}
    if process.admin_url is not None:
        process.settle()
        turns = process.stored_turns()
        found |= {"turns read": process.counter("turns_closed"), "turns stored": len(turns)}
        found["tool calls stored"] = sum(len(turn["tool_calls"]) for turn in turns)
        expected |= {"turns read": 2 * CHECKS * target.reads, "turns stored": 2 * CHECKS * target.stores}
        expected["tool calls stored"] = 4 * CHECKS * target.stores
    if found != expected:
        raise BehaviourError(f"{target.name}: {found}, expected {expected}")


def _metrics(connections: Sequence[int], streams: Sequence[int]) -> Iterator[Metric]:
    for n in connections:
        group = f"Unary, {n} connection{'s' * (n > 1)}"
        yield Metric(f"unary_{n}_requests_per_s", group, "requests/s")
        yield Metric(f"unary_{n}_cpu_us", group, "CPU per request, µs")
        yield Metric(f"unary_{n}_p50_ms", group, "latency p50, ms")
        yield Metric(f"unary_{n}_p99_ms", group, "latency p99, ms")
    for n in streams:
        group = f"{n} SSE streams, {EVENT_INTERVAL_MS} ms between events"
        yield Metric(f"streams_{n}_complete", group, "complete streams")
        yield Metric(f"streams_{n}_p50_ms", group, "delay per event p50, ms")
        yield Metric(f"streams_{n}_p99_ms", group, "delay per event p99, ms")
        yield Metric(f"streams_{n}_cpu_us", group, "CPU per event, µs")
    group = "Start, memory and the machine"
    yield Metric("ready_s", group, "start to ready, s")
    yield Metric("idle_mb", group, "memory idle (RSS), MB")
    yield Metric("kb_per_stream", group, "memory per open stream, KB")
    yield Metric("loop_ms", group, "a fixed loop on the same CPU, ms")


def traffic(setting: Setting) -> Measured:
    return _measured(setting, TRAFFIC_TARGETS, (1, 16, 64), (100, 500), "proxy", ["nginx", "naive"])


def stages(setting: Setting) -> Measured:
    return _measured(setting, STAGES, (1, 16), (100,), "scoring", ["nginx"])


def _measured(
    setting: Setting,
    targets: Sequence[Target],
    connections: Sequence[int],
    streams: Sequence[int],
    subject: str,
    baselines: Sequence[str],
) -> Measured:
    with benching(setting) as bench, ExitStack() as stack:
        running = list(_started(setting, stack, chosen(targets, setting), bench))
        metrics, names = tuple(_metrics(connections, streams)), [process.name for process, _ in running]
        baselines = [*baselines, f"{subject} at {setting.against}"]
        measured = Measured(metrics, names, subject, baselines, warnings=bench.warnings)
        for number in range(1, setting.plan.rounds + 1):
            values = measured.next_round()
            for process, idle in running:
                setting.progress(f"round {number} of {setting.plan.rounds}: {process.name}")
                values[process.name] = idle | _loaded(process, bench, connections, streams) | _held(process, bench)
    return measured


def _started(
    setting: Setting, stack: ExitStack, targets: Sequence[Target], bench: Bench
) -> Iterator[tuple[Running, Values]]:
    """Start each and check that it does its part. One of another revision that does not start is left out."""
    for target in targets:
        folder = Path(tempfile.mkdtemp(dir=setting.folder))
        try:
            process = stack.enter_context(target.started(bench.agent_port, folder, setting.subject_cpus))
        except UnavailableTargetError as error:
            if target.tree is None:
                raise
            bench.warnings.append(f"{target.name} is left out: {str(error).splitlines()[-1]}")
            continue
        idle: Values = {"ready_s": process.ready_s, "idle_mb": process.rss_mb()}
        check(target, process, bench.load)
        bench.warm_up(process)
        yield process, idle


def _loaded(process: Running, bench: Bench, connections: Sequence[int], streams: Sequence[int]) -> Values:
    """And how long a fixed loop takes on the same CPU: hosts of virtual machines change their speed within a minute."""
    values: Values = {"loop_ms": fixed_loop_ms(bench.subject_cpus)}
    for n in connections:
        result, cpu_s = bench.unary(process, n, bench.plan.unary_s)
        values[f"unary_{n}_requests_per_s"] = result["requests"] / result["elapsed_s"]
        values[f"unary_{n}_cpu_us"] = per(cpu_s, result["requests"])
        values |= _latency(f"unary_{n}", result["latency_us"])
    for n in streams:
        result, cpu_s = bench.streams(process, n, bench.plan.events)
        values[f"streams_{n}_complete"] = result["complete"]
        values[f"streams_{n}_cpu_us"] = per(cpu_s, result["events"])
        values |= _latency(f"streams_{n}", result["delay_us"])
    return values


def _latency(key: str, us: dict[str, float | None]) -> Values:
    found = {percentile: us[percentile] for percentile in ("p50", "p99")}
    return {f"{key}_{name}_ms": None if value is None else value / 1e3 for name, value in found.items()}


def _held(process: Running, bench: Bench) -> Values:
    """What open streams add to the memory, each of them between two events."""
    values: Values = {}
    before, streams = process.rss_mb(), bench.plan.held_streams

    def when_open(opened: int) -> None:
        during = process.rss_mb()
        if opened and before is not None and during is not None:
            values["kb_per_stream"] = (during - before) / opened * 1e3
        if opened < streams:
            bench.warn(process, f"memory per stream is that of {opened} streams: it did not open {streams}")

    bench.load.streams(
        process.port,
        streams=streams,
        events=4,
        interval_ms=bench.plan.held_s * 250,
        ask=process.asks,
        when_open=when_open,
    )
    return values
