"""Hostility: what clients of 39 agents notice of a fortieth that hangs, floods, resets or closes.

For each kind, rounds alternate between a fortieth agent that answers as the others do and one that is hostile, with the
same load on the others: an open loop, so that no delay hides requests. The noise is the same comparison of two loads
without hostility: of each one with the next.
"""

from __future__ import annotations

import itertools
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from a2a_eval_proxy.memory import share
from support.ports import held_ports
from support.processes import ChildProcess

from . import procfs
from .part import BehaviourError, Measured, Part, Setting
from .report import Metric, Values, ms
from .subjects.hostile import KINDS, USUAL, WELL
from .targets import SUBJECTS, Launch, Running, launched
from .traffic import Bench, benching

GOOD = 39
CONNECTIONS = 64
LATENCIES = ("p50_ms", "p99_ms")
METRICS = (
    Metric("p50_ms_well", "latency p50, ms", "the fortieth answers"),
    Metric("p50_ms", "latency p50, ms", "it is hostile"),
    Metric("p50_ms_ratio", "latency p50", "ratio"),
    Metric("p99_ms_well", "latency p99, ms", "the fortieth answers"),
    Metric("p99_ms", "latency p99, ms", "it is hostile"),
    Metric("p99_ms_ratio", "latency p99", "ratio"),
    Metric("per_s", "requests/s", "of the others"),
    Metric("cpu_well", "CPU, %", "the fortieth answers"),
    Metric("cpu", "CPU, %", "it is hostile"),
    Metric("peak_mb", "memory at most, MB", "it is hostile"),
)


def hostile(kinds: Sequence[str] = tuple(KINDS)) -> Part:
    """The part, with some of the kinds."""

    def measure(setting: Setting) -> Measured:
        return _measure(setting, kinds)

    return Part("hostile", METRICS, "", (), measure, by_target=True)


def _measure(setting: Setting, kinds: Sequence[str]) -> Measured:
    measured = Measured(list(kinds))
    well: list[Values] = []
    with benching(setting) as bench, _forty(setting, bench) as (proxy, fortieth, grpc_port):
        measured.warnings = bench.warnings

        def load(kind: str) -> Values:
            fortieth.say(f"{kind} {proxy.port} {grpc_port}")
            try:
                return _values(proxy, bench, kind)
            finally:
                setting.progress(f"requests of the fortieth agent that ended: {fortieth.ask('')}")
                bench.settle(proxy)

        for number in range(1, setting.plan.rounds + 1):
            values = measured.next_round()
            for kind in kinds:
                setting.progress(f"round {number} of {setting.plan.rounds}: {kind}")
                well.append(load(WELL))
                values[kind] = found = load(kind)
                found |= {f"{key}_well": value for key, value in well[-1].items()}
                found |= {f"{key}_ratio": _ratio(found, well[-1], key) for key in LATENCIES}
    measured.warnings += list(_judged(measured, well))
    return measured


def _values(proxy: Running, bench: Bench, kind: str) -> Values:
    """Of the clients of the others, while those of the fortieth are there."""
    assert proxy.pid is not None
    procfs.forget_peak(proxy.pid)
    before = procfs.cpu_seconds(proxy.pid)
    rate, seconds = GOOD * USUAL, bench.plan.hostile_s
    result = bench.load.unary(proxy.port, connections=CONNECTIONS, seconds=seconds, rate=rate, agents=GOOD)
    cpu_s = procfs.cpu_seconds(proxy.pid) - before
    if result["failed"]:
        bench.warn(proxy, f"{result['failed']} requests of the others failed ({kind})")
    return {
        "p50_ms": ms(result["latency_us"]["p50"]),
        "p99_ms": ms(result["latency_us"]["p99"]),
        "per_s": result["requests"] / result["elapsed_s"],
        "cpu": 100 * cpu_s / result["elapsed_s"],
        "peak_mb": procfs.peak_rss_bytes(proxy.pid) / 1e6,
    }


def _judged(measured: Measured, well: Sequence[Values]) -> Iterator[str]:
    """What is beyond the noise, and the bound of memory."""
    kinds = measured.targets
    for key in LATENCIES:
        ratios = [_ratio(after, before, key) for before, after in itertools.pairwise(well)]
        noise = max(statistics.median(ratios[start :: len(kinds)]) for start in range(min(len(kinds), len(ratios))))
        found = {kind: statistics.median(of[kind][f"{key}_ratio"] or 0 for of in measured.rounds) for kind in kinds}
        beyond = [f"{kind} ({ratio:.2f})" for kind, ratio in found.items() if ratio > noise]
        name = key.partition("_")[0]
        yield f"{name}: loads without hostility differ by up to {noise:.2f}; beyond that: {', '.join(beyond) or 'none'}"
    most = max(of[kind]["peak_mb"] or 0 for of in measured.rounds for kind in kinds)
    yield f"memory: {most:.0f} MB at most; the bound is {share(1) / 1e6:.0f} MB"


def _ratio(values: Values, to: Values, key: str) -> float:
    above, below = values[key], to[key]
    if above is None or below is None:
        raise BehaviourError("no request to the others was answered")
    return above / below


@contextmanager
def _forty(setting: Setting, bench: Bench) -> Iterator[tuple[Running, ChildProcess, int]]:
    """The proxy, the hostile agent, and the proxy's port for gRPC."""
    folder = Path(tempfile.mkdtemp(dir=setting.folder))
    with ChildProcess([sys.executable, "-m", "tools.bench.subjects.hostile"]) as fortieth, held_ports(3) as ports:
        upstream, grpc_upstream = fortieth.read_line().split()
        os.sched_setaffinity(fortieth.process.pid, setting.other_cpus)
        agents: dict[str, Any] = {f"a{number}": f"http://127.0.0.1:{bench.agent_port}" for number in range(GOOD)}
        agents |= {"bad": upstream, "grpc": grpc_upstream}
        (config := folder / "agents.yaml").write_text(json.dumps({"agents": agents}))
        port, admin, grpc_port = (f"127.0.0.1:{one}" for one in ports)
        command = [sys.executable, str(SUBJECTS / "stage.py"), "all", "--config", str(config), "--no-otlp"]
        command += ["--listen", port, "--admin", admin, "--grpc", grpc_port, "--store", str(folder / "turns.db")]
        launch = Launch(command, ports[0], f"http://{admin}/readyz", f"http://{admin}")
        with launched("proxy", launch, folder, setting.subject_cpus) as proxy:
            warm_up = setting.plan.warm_up_requests
            bench.load.unary(proxy.port, connections=CONNECTIONS, seconds=10, requests=warm_up, agents=GOOD)
            yield proxy, fortieth, ports[2]
