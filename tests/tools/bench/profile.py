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
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from support.provision import UnavailableError, python_with

from .part import BehaviourError, Setting
from .procfs import pin_to, thread_cpu_seconds
from .report import markdown, number
from .revision import checked_out
from .targets import STAGES, Running, Target, TargetUnavailableError
from .traffic import EVENT_INTERVAL_MS, Bench, benching, check

REQUIREMENTS = Path(__file__).parent / "environments/py-spy.txt"
SAMPLES_PER_S = 250
SAMPLER_STARTS_S = 1.0
COUNTED_S = 1.0
MOST_ROWS = 40
LEAST_SHARE, LEAST_THREAD_SHARE = 0.005, 0.02
"""Functions that take less of the whole, callees included, are left out, and threads that do."""

NAMELESS = "a thread without a name"
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


@dataclass(frozen=True)
class Cost:
    """A function's microseconds and calls for one exchange or event; `total_us` is with what it calls."""

    thread: str
    function: str
    own_us: float
    total_us: float
    calls: float


@dataclass(frozen=True)
class Profile:
    """What one exchange or event costs: CPU and Python calls by thread, and functions, the dearest first."""

    title: str
    threads: dict[str, float]
    calls: dict[str, float]
    costs: list[Cost]


@dataclass
class Profiled:
    profiles: list[Profile] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


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
        stacks.append(Stack(named[2] or NAMELESS, int(named[1]), stack, int(samples)))
    return stacks


def profile_of(title: str, stacks: Sequence[Stack], calls: Calls, us: Mapping[int, float]) -> Profile:
    """Divide the microseconds of each thread, by its id, among its functions as the samples are."""
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
    costs = [
        Cost(thread, str(function), own[thread, function], with_callees, calls.get((thread, function), 0.0))
        for (thread, function), with_callees in total.items()
        if with_callees > least_us and (own[thread, function] > least_us or with_callees < 0.99 * threads[thread])
    ]
    costs.sort(key=lambda cost: (-cost.own_us, -cost.total_us))
    calls_of: dict[str, float] = defaultdict(float)
    for (thread, _), count in calls.items():
        calls_of[thread] += count
    return Profile(title, dict(sorted(threads.items(), key=lambda item: -item[1])), dict(calls_of), costs)


def tables(profile: Profile) -> str:
    """A table for each thread, under its share."""
    whole_us = sum(profile.threads.values())
    sections = [f"**{profile.title}: {number(whole_us)} µs of CPU**"]
    for thread, us in profile.threads.items():
        if us < LEAST_THREAD_SHARE * whole_us:
            continue
        calls = number(profile.calls.get(thread, 0.0))
        columns = [f"{thread}, {number(us)} µs, {calls} calls", "own, µs", "with callees, µs", "calls"]
        rows = [
            [cost.function, number(cost.own_us), number(cost.total_us), number(cost.calls)]
            for cost in profile.costs
            if cost.thread == thread
        ]
        sections.append(markdown(columns, rows[:MOST_ROWS]))
    return "\n\n".join(sections)


@dataclass(frozen=True)
class ProfilePart:
    """Of the stages named, also of the revision or folder `against`."""

    only: Sequence[str]
    against: str | None = None
    name: str = "profile"

    def measure(self, setting: Setting) -> Profiled:
        try:
            sampler = python_with(REQUIREMENTS).with_name("py-spy")
        except UnavailableError as error:
            raise TargetUnavailableError(f"py-spy is not there: {error}") from error
        targets = [stage for stage in STAGES if stage.part and stage.name in self.only]
        if self.against is not None:
            tree = checked_out(self.against, setting.folder)
            targets += [replace(one, name=f"{one.name} at {self.against}", tree=tree) for one in targets]
        with benching(setting) as bench:
            profiled = Profiled(warnings=bench.warnings)
            for target in targets:
                profiled.profiles += _profiles(setting, bench, target, sampler)
        return profiled

    def report(self, profiled: Profiled) -> dict[str, Any]:
        return {"profiles": [asdict(profile) for profile in profiled.profiles]}

    def table(self, profiled: Profiled) -> str:
        return "\n\n".join(map(tables, profiled.profiles))


class _Kind(NamedTuple):
    """What is done over and over; `key` counts it in the result of `load`."""

    title: str
    key: str
    load: Callable[[Bench, Running, float], tuple[dict[str, Any], float | None]]


def _exchanges(bench: Bench, process: Running, seconds: float) -> tuple[dict[str, Any], float | None]:
    return bench.unary(process, 16, seconds)


def _events(bench: Bench, process: Running, seconds: float) -> tuple[dict[str, Any], float | None]:
    return bench.streams(process, 100, int(seconds * 1000 / EVENT_INTERVAL_MS))


_KINDS = (
    _Kind("an exchange, 16 connections", "requests", _exchanges),
    _Kind("an event, 100 streams", "events", _events),
)


def _profiles(setting: Setting, bench: Bench, target: Target, sampler: Path) -> Iterator[Profile]:
    """A profile of each kind."""

    def started(calls: Path | None = None) -> AbstractContextManager[Running]:
        folder = Path(tempfile.mkdtemp(dir=setting.folder))
        return target.started(bench.agent_port, folder, setting.subject_cpus, calls)

    file, seconds = Path(tempfile.mkdtemp(dir=setting.folder)) / "calls", setting.plan.profile_s
    with started(file) as counted, started() as sampled:
        pid = sampled.pid or 0
        check(target, sampled, bench.load, [target.asks])
        bench.warm_up(sampled)
        bench.warm_up(counted)
        for kind in _KINDS:
            setting.progress(f"{target.name}: {kind.title}")
            calls = counted_calls(file, lambda kind=kind: kind.load(bench, counted, COUNTED_S)[0][kind.key])
            with _sampling(sampler, sampled, seconds, setting) as stacks:
                before = thread_cpu_seconds(pid)
                result, _ = kind.load(bench, sampled, seconds + SAMPLER_STARTS_S)
                spent = {thread: cpu_s - before.get(thread, 0.0) for thread, cpu_s in thread_cpu_seconds(pid).items()}
            us = {thread: cpu_s * 1e6 / result[kind.key] for thread, cpu_s in spent.items()}
            yield profile_of(f"{target.name}, {kind.title}", stacks, calls, us)


def counted_calls(file: Path, load: Callable[[], int]) -> Calls:
    """Calls in the process that writes them to `file`, divided by the number of exchanges that `load` returns."""
    _request(file.with_suffix(".reset"))
    count = load()
    _request(file.with_suffix(".write"))
    return read_calls(file.read_text(), count)


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
    """A list that holds the stacks after the block, sampled while it ran. Raises TargetUnavailableError."""
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
        raise TargetUnavailableError(f"py-spy cannot sample {process.name}: {said.strip()}")
    stacks += read_stacks(output.read_text())


def read_calls(content: str, count: int) -> Calls:
    """What subjects/stage.py wrote, for each of `count` exchanges or events."""
    return {
        (thread, Function(file, line, name)): calls / count for thread, file, line, name, calls in json.loads(content)
    }
