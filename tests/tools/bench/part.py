"""A part of the benchmark: something measured with what it is compared with, in a table of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .report import Metric, Round, figures, table, table_by_target


class BehaviourError(RuntimeError):
    """A target does not do what it is measured for."""


@dataclass(frozen=True)
class Plan:
    """How much is measured. Times in seconds."""

    rounds: int = 3
    unary_s: float = 3.0
    events: int = 150  # per stream
    stage_s: float = 1.5
    stage_events: int = 100
    warm_up_requests: int = 2000
    profile_s: float = 10.0
    traces: int = 3000  # of some 14 spans each
    flood_mb: int = 256
    turns: int = 1000  # with traces of their own
    queued: int = 20_000  # turns that are scored by workers
    cases: int = 1000  # of a whole run
    scoring_s: float = 1.0  # of CPU time, for each rule and size
    unread_clients: int = 60  # that read nothing of what they asked for
    unread_s: float = 20.0
    hostile_s: float = 2.5

    @classmethod
    def quick(cls) -> Plan:
        return cls(
            rounds=1,
            unary_s=0.3,
            events=25,
            stage_s=0.5,
            stage_events=50,
            warm_up_requests=200,
            profile_s=3.0,
            traces=150,
            flood_mb=8,
            turns=50,
            queued=200,
            cases=20,
            scoring_s=0.05,
            unread_clients=4,
            unread_s=1.0,
            hostile_s=0.3,
        )


@dataclass(frozen=True)
class Setting:
    """What every part is measured with: how much, where files go, and the CPUs of the subject and of all else."""

    plan: Plan
    folder: Path
    subject_cpus: set[int]
    other_cpus: set[int]
    progress: Callable[[str], None]


@dataclass
class Measured:
    """What came out. `targets` are the columns, in order; warnings are what a reader of the figures must know."""

    targets: Sequence[str]
    rounds: list[Round] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def next_round(self) -> Round:
        self.rounds.append({target: {} for target in self.targets})
        return self.rounds[-1]


@dataclass(frozen=True)
class Part:
    """`subject` is compared with each of the `baselines`; with `by_target`, each target is, in a row of its own."""

    name: str
    metrics: tuple[Metric, ...]
    subject: str
    baselines: tuple[str, ...]
    measure: Callable[[Setting], Measured]
    by_target: bool = False

    def report(self, measured: Measured) -> dict[str, Any]:
        """What is written to JSON."""
        found = figures(measured.rounds, self.metrics)
        return {"targets": list(measured.targets), "figures": found, "rounds": measured.rounds}

    def table(self, measured: Measured) -> str:
        """The figures in Markdown."""
        found = figures(measured.rounds, self.metrics)
        if self.by_target:
            return table_by_target(found, self.metrics, measured.targets, self.baselines)
        return table(found, self.metrics, measured.targets, self.subject, self.baselines)
