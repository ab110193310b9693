"""A part of the benchmark: something measured beside what it compares with, in a table of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .results import Round
from .sections import Metric, Plan


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


@dataclass(frozen=True)
class Part:
    """`subject` is compared with each of the `baselines`; with `by_target`, each target is, in a row of its own."""

    name: str
    metrics: tuple[Metric, ...]
    subject: str
    baselines: tuple[str, ...]
    measure: Callable[[Setting], Measured]
    by_target: bool = False
