"""Profile: which functions the CPU time of one exchange, and of one event of a stream, goes to.

The CPU time of each thread is divided among its functions as the samples of py-spy are. py-spy samples from outside the
process, all threads, and needs no rights beyond those to the own processes. Time in C counts for the Python function
that calls it: uvloop's for `Runner.run`. Where the main thread leaves no CPU idle, a thread that waits may look active.

Calls are counted in a run of their own, since counting takes longer than most functions. A coroutine counts again each
time that it continues.
"""

from __future__ import annotations

import json
import math
import re
import subprocess
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from support.provision import UnavailableError, python_with

from .part import BehaviourError, Setting, UnavailableTargetError, markdown, number
from .procfs import pin_to, thread_cpu_seconds
from .targets import STAGES, Running, Target, chosen
from .traffic import EVENT_INTERVAL_MS, Bench, benching, check

REQUIREMENTS = Path(__file__).parent / "environments/py-spy.txt"
SAMPLES_PER_S = 250
SAMPLER_STARTS_S = 1.0
COUNTED_S = 1.0
MOST_ROWS = 40
LEAST_SHARE = 0.005
"""Functions that take less of the whole, callees included, are left out, and threads that do."""

_FRAME = re.compile(r"(.+) \((.+):(\d+)\)")
_THREAD = re.compile(r"thread \((\d+)\)(?:: (.*))?")


class Function(NamedTuple):
    """Where it is defined; `name` is qualified."""

    file: str
    line: int
    name: str

    def __str__(self) -> str:
        return f"{self.name} ({'/'.join(Path(self.file).parts[-2:])})"


class Stack(NamedTuple):
    """A stack, outermost function first, and in how many samples it was."""

    thread: str
    thread_id: int
    functions: tuple[Function, ...]
    samples: int


Calls = dict[tuple[str, Function], float]
"""Number of calls of each thread's functions, for one exchange or event."""


@dataclass
class Profiled:
    """Tables in Markdown."""

    tables: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def report(self) -> dict[str, Any]:
        return {"tables": self.tables}

    def table(self) -> str:
        return "\n\n".join(self.tables)


def read_stacks(raw: str) -> list[Stack]:
    """py-spy's format `raw`, with thread names and first lines of functions. Raises ValueError for another one."""
    stacks = []
    for line in raw.splitlines():
        frames, _, samples = line.rpartition(" ")
        thread, *functions = frames.split(";")
        named, found = _THREAD.fullmatch(thread), [_FRAME.fullmatch(function) for function in functions]
        if named is None or None in found:
            raise ValueError(f"py-spy wrote a line of another format: {line[:200]!r}")
        stack = tuple(Function(match[2], int(match[3]), match[1]) for match in found if match)
        stacks.append(Stack(named[2] or "a thread without a name", int(named[1]), stack, int(samples)))
    return stacks


def tables(title: str, stacks: Sequence[Stack], calls: Calls, us: Mapping[int, float]) -> str:
    """A table for each thread, the dearest functions first.

    The microseconds of each thread, by its id, are divided among its functions as the samples are.
    """
    samples: Counter[int] = Counter()
    for stack in stacks:
        samples[stack.thread_id] += stack.samples
    own: dict[tuple[str, Function], float] = defaultdict(float)
    total: dict[tuple[str, Function], float] = defaultdict(float)
    threads: dict[str, float] = defaultdict(float)
    for stack in stacks:
        share_us = us.get(stack.thread_id, 0.0) * stack.samples / samples[stack.thread_id]
        threads[stack.thread] += share_us
        for function in set(stack.functions):
            total[stack.thread, function] += share_us
        for function in stack.functions[-1:]:
            own[stack.thread, function] += share_us
    least_us = LEAST_SHARE * sum(threads.values())
    sections = [f"**{title}: {number(sum(threads.values()))} µs of CPU**"]
    for thread, thread_us in sorted(threads.items(), key=lambda item: -item[1]):
        made = sum(count for (of, _), count in calls.items() if of == thread)
        columns = [f"{thread}, {number(thread_us)} µs, {number(made)} calls", "own, µs", "with callees, µs", "calls"]
        keys = [key for key, with_callees in total.items() if key[0] == thread and with_callees > least_us]
        keys.sort(key=lambda key: (-own[key], -total[key]))
        rows = [[str(key[1]), number(own[key]), number(total[key]), number(calls.get(key, 0.0))] for key in keys]
        if rows:
            sections.append(markdown(columns, rows[:MOST_ROWS]))
    return "\n\n".join(sections)


def profile(setting: Setting) -> Profiled:
    """Of the stages named, by default of the last."""
    try:
        sampler = python_with(REQUIREMENTS).with_name("py-spy")
    except UnavailableError as error:
        raise UnavailableTargetError(f"py-spy is not there: {error}") from error
    setting = replace(setting, only=setting.only or [STAGES[-1].name])
    with benching(setting) as bench:
        profiled = Profiled(warnings=bench.warnings)
        for target in chosen(STAGES, setting):
            profiled.tables += _profiles(setting, bench, target, sampler)
    return profiled


def _profiles(setting: Setting, bench: Bench, target: Target, sampler: Path) -> Iterator[str]:
    """The tables of an exchange, and of an event."""
    kinds = {
        "an exchange, 16 connections": lambda process, s: bench.unary(process, 16, s)[0]["requests"],
        "an event, 100 streams": lambda process, s: bench.streams(process, 100, int(s * 1000 / EVENT_INTERVAL_MS))[0][
            "events"
        ],
    }
    folders = [Path(tempfile.mkdtemp(dir=setting.folder)) for _ in range(2)]
    file, seconds = folders[0] / "calls", setting.plan.profile_s
    with (
        target.started(bench.agent_port, folders[0], setting.subject_cpus, file) as counted,
        target.started(bench.agent_port, folders[1], setting.subject_cpus) as sampled,
    ):
        pid = sampled.pid or 0
        check(target, sampled, bench.load)
        bench.warm_up(sampled)
        bench.warm_up(counted)
        for title, load in kinds.items():
            setting.progress(f"{target.name}: {title}")
            calls = counted_calls(file, lambda load=load: load(counted, COUNTED_S))
            with _sampling(sampler, sampled, seconds, setting) as stacks:
                before = thread_cpu_seconds(pid)
                count = load(sampled, seconds + SAMPLER_STARTS_S)
                spent = {thread: cpu_s - before.get(thread, 0.0) for thread, cpu_s in thread_cpu_seconds(pid).items()}
            us = {thread: cpu_s * 1e6 / count for thread, cpu_s in spent.items()}
            yield tables(f"{target.name}, {title}", stacks, calls, us)


def counted_calls(file: Path, load: Callable[[], int]) -> Calls:
    """Calls in the process that writes them to `file`, divided by the number of exchanges that `load` returns."""
    _request(file.with_suffix(".reset"))
    count = load()
    _request(file.with_suffix(".write"))
    return {
        (thread, Function(source, line, name)): calls / count
        for thread, source, line, name, calls in json.loads(file.read_text())
    }


def _request(file: Path) -> None:
    """Create the file that subjects/stage.py waits for, and wait until it has deleted the file again."""
    file.touch()
    give_up = time.monotonic() + 60
    while file.exists():
        if time.monotonic() > give_up:
            raise BehaviourError(f"the proxy does not count calls: nothing happened to {file}")
        time.sleep(0.01)


@contextmanager
def _sampling(sampler: Path, process: Running, seconds: float, setting: Setting) -> Iterator[list[Stack]]:
    """A list that holds the stacks after the block, sampled while it ran. Raises UnavailableTargetError."""
    output = Path(tempfile.mkdtemp(dir=setting.folder)) / "stacks"
    command = [str(sampler), "record", "--pid", str(process.pid), "--duration", str(math.ceil(seconds))]
    command += ["--rate", str(SAMPLES_PER_S), "--format", "raw", "--output", str(output)]
    command += ["--function", "--threads", "--full-filenames"]
    stacks: list[Stack] = []
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, preexec_fn=pin_to(setting.other_cpus)
    ) as sampling:
        yield stacks
        said, _ = sampling.communicate(timeout=60)
    if sampling.returncode or not output.exists():
        raise UnavailableTargetError(f"py-spy cannot sample {process.name}: {said.strip()}")
    stacks += read_stacks(output.read_text())
