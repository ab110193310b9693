"""Profile: which functions are called for one exchange, and for one event of a stream, and how often.

A coroutine counts again each time that it continues. Counting takes longer than most functions: for times, attach a
sampler such as py-spy to a proxy under load.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from .part import BehaviourError, Setting, markdown, number
from .targets import STAGES, Target, chosen
from .traffic import EVENT_INTERVAL_MS, Bench, benching, check

MOST_ROWS = 100


class Function(NamedTuple):
    """Where it is defined; `name` is qualified."""

    file: str
    line: int
    name: str

    def __str__(self) -> str:
        return f"{self.name} ({'/'.join(Path(self.file).parts[-2:])})"


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


def profile(setting: Setting) -> Profiled:
    """Of the stages named, by default of the last."""
    setting = replace(setting, only=setting.only or [STAGES[-1].name])
    with benching(setting) as bench:
        profiled = Profiled(warnings=bench.warnings)
        for target in chosen(STAGES, setting):
            profiled.tables += _profiles(setting, bench, target)
    return profiled


def _profiles(setting: Setting, bench: Bench, target: Target) -> Iterator[str]:
    """The tables of an exchange, and of an event."""
    seconds, folder = setting.plan.profile_s, Path(tempfile.mkdtemp(dir=setting.folder))
    events, file = int(seconds * 1000 / EVENT_INTERVAL_MS), folder / "calls"
    with target.started(bench.agent_port, folder, setting.subject_cpus, file) as process:
        check(target, process, bench.load)
        bench.warm_up(process)
        for title, load in {
            "an exchange, 16 connections": lambda: bench.unary(process, 16, seconds)[0]["requests"],
            "an event, 100 streams": lambda: bench.streams(process, 100, events)[0]["events"],
        }.items():
            setting.progress(f"{target.name}: {title}")
            made = sorted(counted_calls(file, load).items(), key=lambda item: -item[1])[:MOST_ROWS]
            rows = [[f"{function}, {thread}", number(count)] for (thread, function), count in made]
            yield markdown([f"{target.name}, {title}", "calls"], rows)


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
