"""Stages: what each part of the proxy adds to the price of a request and of an event, under the same load.

All targets run at once, idle but for the one that is measured, so that a round takes seconds and rounds alternate.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from .part import Measured, Part, Setting
from .procfs import fixed_loop_ms
from .report import Metric, Values, ms, per
from .revision import checked_out
from .targets import STAGES, Running, Target, TargetUnavailableError
from .traffic import Bench, benching, check

CONNECTIONS = (1, 16)
STREAMS = 100
METRICS = (
    Metric("stage_unary_1_us", "CPU per request, µs", "1 connection"),
    Metric("stage_unary_16_us", "CPU per request, µs", "16 connections"),
    Metric("stage_event_us", "CPU per event, µs", f"{STREAMS} streams"),
    Metric("stage_p50_ms", "latency p50, ms", "1 connection", compared=False),
    Metric("stage_p99_ms", "latency p99, ms", "1 connection", compared=False),
    Metric("stage_loop_ms", "a fixed loop, ms", "during the load", compared=False),
)


def stages(only: Sequence[str], against: str | None = None) -> Part:
    """The part, for the stages named; each of the proxy's own also of the revision or folder `against`."""

    def measure(setting: Setting) -> Measured:
        return _measure(setting, [stage for stage in STAGES if stage.name in only], against)

    whole = STAGES[-1].name
    return Part("stages", METRICS, whole, ("nginx", "floor", f"{whole} at {against}"), measure, by_target=True)


def _measure(setting: Setting, chosen: Sequence[Target], against: str | None) -> Measured:
    if against is not None:
        tree = checked_out(against, setting.folder)
        chosen = [*chosen, *(replace(one, name=f"{one.name} at {against}", tree=tree) for one in chosen if one.part)]
    with benching(setting) as bench, ExitStack() as stack:
        targets = dict(_started(setting, stack, chosen, bench))
        measured = Measured([target.name for target in targets], warnings=bench.warnings)
        for number in range(1, setting.plan.rounds + 1):
            values = measured.next_round()
            for target, process in targets.items():
                setting.progress(f"round {number} of {setting.plan.rounds}: {target.name}")
                values[target.name] = measure_stage(process, bench)
    return measured


def _started(
    setting: Setting, stack: ExitStack, chosen: Sequence[Target], bench: Bench
) -> Iterator[tuple[Target, Running]]:
    """Start each and check that it does its part. One of another revision that does not start is left out."""
    for target in chosen:
        folder = Path(tempfile.mkdtemp(dir=setting.folder))
        try:
            process = stack.enter_context(target.started(bench.agent_port, folder, setting.subject_cpus))
        except TargetUnavailableError as error:
            if target.tree is None:
                raise
            bench.warnings.append(f"{target.name} is left out: {str(error).splitlines()[-1]}")
            continue
        check(target, process, bench.load, [target.asks])
        bench.warm_up(process)
        yield target, process


def measure_stage(process: Running, bench: Bench) -> Values:
    """CPU per request at each number of connections, and per event; latency at one connection.

    And how long a fixed loop takes on the same CPU: hosts of virtual machines change their speed within a minute.
    """
    values: Values = {}
    loops = [fixed_loop_ms(bench.subject_cpus)]
    for connections in CONNECTIONS:
        result, cpu_s = bench.unary(process, connections, bench.plan.stage_s)
        values[f"stage_unary_{connections}_us"] = per(cpu_s, result["requests"])
        loops.append(fixed_loop_ms(bench.subject_cpus))
        if connections == 1:
            values |= {f"stage_{key}_ms": ms(result["latency_us"][key]) for key in ("p50", "p99")}
    result, cpu_s = bench.streams(process, STREAMS, bench.plan.stage_events)
    values["stage_event_us"] = per(cpu_s, result["events"])
    values["stage_loop_ms"] = statistics.median(loops)
    return values
