"""Stages: what each part of the proxy adds to the price of a request and of an event, in the same load.

All targets run at once, idle but for the one that is measured, so that a round takes seconds and rounds alternate.
"""

from __future__ import annotations

import io
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from .agent import running_agent
from .compiling import compile_c
from .load import LoadGenerator
from .part import Measured, Part, Setting
from .preflight import BehaviourError
from .revision import ROOT
from .sections import EVENT_INTERVAL_MS, Bench, Metric, Values, per
from .targets import DIRECT, Running, TargetUnavailableError, launch_stage, launched, running

CONNECTIONS = (1, 16)
STREAMS = 100
METRICS = (
    *(
        Metric(f"stage_unary_{count}_us", "CPU per request, µs", f"{count} connection{'s' * (count > 1)}")
        for count in CONNECTIONS
    ),
    Metric("stage_event_us", "CPU per event, µs", f"{STREAMS} streams"),
    Metric("stage_per_s", "requests/s", "16 connections", compared=False),
)
BASELINES = ("nginx", "floor")
_CHECKS = 3


@dataclass(frozen=True)
class Stage:
    """A target of the table. `asks`: clients ask for tool calls, so that all agents' answers are alike."""

    name: str
    part: str = ""
    """What `servers/stage.py` leaves on; "": another program."""
    options: tuple[str, ...] = ()
    asks: bool = True
    reads: bool = False
    stores: bool = False
    tree: Path | None = None
    """The packages' source; None: those of this environment."""

    def started(self, agent_port: int, folder: Path, cpus: set[int]) -> AbstractContextManager[Running]:
        if not self.part:
            return running(self.name, agent_port, folder, cpus)
        upstream = f"127.0.0.1:{agent_port}"
        launch = launch_stage(upstream, folder, self.part, "--no-otlp", *self.options, tree=self.tree)
        return launched(self.name, launch, folder, cpus)


STAGES = (
    Stage(DIRECT),
    Stage("nginx"),
    Stage("floor"),
    Stage("forwarding", "forwarding", ("--negotiate", "never")),
    Stage("capture", "capture", reads=True),
    Stage("filter", "capture", asks=False, reads=True),
    Stage("store", "all", ("--no-evaluate",), asks=False, reads=True, stores=True),
    Stage("scoring", "all", asks=False, reads=True, stores=True),
)
NAMES = tuple(stage.name for stage in STAGES)


def stages(only: Sequence[str], against: str | None = None) -> Part:
    """The part, for the stages named; each of the proxy's own also in the revision or source folder `against`."""
    return Part(
        "stages", METRICS, "scoring", BASELINES, lambda setting: _measure(setting, only, against), by_target=True
    )


def _measure(setting: Setting, only: Sequence[str], against: str | None) -> Measured:
    chosen = [stage for stage in STAGES if stage.name in only]
    if against is not None:
        tree = checked_out(against, setting.folder)
        chosen += [
            Stage(f"{stage.name} at {against}", stage.part, stage.options, stage.asks, stage.reads, stage.stores, tree)
            for stage in chosen
            if stage.part
        ]
    bench = Bench(LoadGenerator(compile_c("load", setting.folder), setting.other_cpus), setting.plan)
    measured = Measured([])
    with ExitStack() as stack:
        agent = stack.enter_context(running_agent(compile_c("upstream", setting.folder), setting.other_cpus))
        targets = dict(_started(setting, stack, chosen, agent, bench, measured.warnings))
        measured.targets = [stage.name for stage in targets]
        for number in range(1, setting.plan.rounds + 1):
            measured.rounds.append({})
            for stage, target in targets.items():
                setting.progress(f"round {number} of {setting.plan.rounds}: {stage.name}")
                measured.rounds[-1][stage.name] = measure_stage(stage, target, bench)
    measured.warnings += dict.fromkeys(bench.warnings)
    return measured


def _started(
    setting: Setting, stack: ExitStack, chosen: Sequence[Stage], agent_port: int, bench: Bench, warnings: list[str]
) -> Iterator[tuple[Stage, Running]]:
    """Start each and look whether it does its part. A stage of another tree that does not start is left out."""
    for stage in chosen:
        folder = Path(tempfile.mkdtemp(dir=setting.folder))
        try:
            target = stack.enter_context(stage.started(agent_port, folder, setting.subject_cpus))
        except TargetUnavailableError as error:
            if stage.tree is None:
                raise
            warnings.append(f"{stage.name} is left out: {str(error).splitlines()[-1]}")
            continue
        check(stage, target, bench.load)
        warm_up(stage, target, bench)
        yield stage, target


def check(stage: Stage, target: Running, load: LoadGenerator) -> None:
    """Send a few requests; clients see tool calls where they ask, and turns are read and stored where they are to be.

    Raises BehaviourError.
    """
    unary = load.unary(target.port, connections=1, seconds=5, requests=_CHECKS, ask=stage.asks)
    streams = load.streams(target.port, streams=_CHECKS, events=3, interval_ms=5, ask=stage.asks)
    target.settle()
    found = {
        "answers": unary["requests"] + streams["complete"],
        "answers with tool calls": unary["with_tool_calls"] + streams["with_tool_calls"],
    }
    expected = {"answers": 2 * _CHECKS, "answers with tool calls": 2 * _CHECKS * stage.asks}
    if target.admin_url is not None:
        found["turns read"] = target.counter("turns_closed")
        expected["turns read"] = 2 * _CHECKS * stage.reads
        found["turns stored"] = len(target.stored_turns())
        expected["turns stored"] = 2 * _CHECKS * stage.stores
    if found != expected:
        raise BehaviourError(f"{stage.name}: {found}, expected {expected}")


def warm_up(stage: Stage, target: Running, bench: Bench) -> None:
    bench.load.unary(target.port, connections=16, seconds=2, requests=bench.plan.warm_up_requests, ask=stage.asks)
    bench.settle(target)


def measure_stage(stage: Stage, target: Running, bench: Bench) -> Values:
    """CPU per request at each number of connections, and per event."""
    values: Values = {}
    for connections in CONNECTIONS:
        load = partial(
            bench.load.unary, target.port, connections=connections, seconds=bench.plan.stage_s, ask=stage.asks
        )
        result, cpu_s = bench.cpu_during(target, load, asks=stage.asks)
        values[f"stage_unary_{connections}_us"] = per(cpu_s, result["requests"])
        values["stage_per_s"] = result["requests"] / result["elapsed_s"]
    load = partial(
        bench.load.streams,
        target.port,
        streams=STREAMS,
        events=bench.plan.stage_events,
        interval_ms=EVENT_INTERVAL_MS,
        ask=stage.asks,
    )
    result, cpu_s = bench.cpu_during(target, load, asks=stage.asks)
    values["stage_event_us"] = per(cpu_s, result["events"])
    return values


def checked_out(name: str, folder: Path) -> Path:
    """The folder `name`, or a copy of that revision's packages in `folder`. Raises TargetUnavailableError."""
    if Path(name).is_dir():
        return Path(name).resolve()
    command = ["git", "-C", str(ROOT), "archive", name, "extension", "evaluators", "proxy"]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        raise TargetUnavailableError(f"{name} is no folder and no revision: {done.stderr.decode().strip()}")
    tree = folder / "against"
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(tree, filter="data")
    return tree
