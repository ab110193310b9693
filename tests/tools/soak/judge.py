"""What a soak must not show, as values: an error without an outage, an answer that is another's, growth. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import median

AFTERMATH_S = 5.0
"""How long after the agent is back an exchange may still fail: its connections have to be made again."""

LONG_S = 600.0
"""From here on a run is long enough for caches and allocators to be full after its first third."""

MEMORY_LIMIT_MB = 512
"""Of the chart, by default."""

_MB = 1024 * 1024


class Outcome(StrEnum):
    ANSWERED = "answered"
    LEFT = "left"
    """The client went before the end, as it had meant to."""
    FAILED = "failed"
    """With an error of its own: a status of the proxy, or a cut."""
    WRONG = "wrong"
    """With what it had not asked for."""
    HUNG = "hung"


@dataclass
class Outages:
    """When the agent was away, in seconds on one clock; an open end is one that lasts."""

    spans: list[tuple[float, float | None]] = field(default_factory=list)

    def begin(self, now: float) -> None:
        self.spans.append((now, None))

    def end(self, now: float) -> None:
        """The agent is back."""
        start, _ = self.spans.pop()
        self.spans.append((start, now))

    def touch(self, start: float, end: float) -> bool:
        """Whether an exchange from `start` to `end` may have met one of them, or what came right after it."""
        return any(
            start <= (back + AFTERMATH_S if back is not None else end) and away <= end for away, back in self.spans
        )


@dataclass
class Tally:
    """All exchanges of a run, by kind of traffic and outcome; and what there is to complain of."""

    outages: Outages = field(default_factory=Outages)
    counts: Counter[tuple[str, Outcome]] = field(default_factory=Counter)
    complaints: list[str] = field(default_factory=list)

    def add(self, kind: str, outcome: Outcome, start: float, end: float, detail: str = "") -> None:
        """One exchange, from `start` to `end`."""
        self.counts[kind, outcome] += 1
        unexplained = outcome is Outcome.FAILED and not self.outages.touch(start, end)
        if unexplained or outcome in (Outcome.WRONG, Outcome.HUNG):
            self.complaints.append(f"{kind} {outcome} after {end - start:.1f} s: {detail}")


@dataclass(frozen=True)
class Trend:
    """A figure that was sampled at even intervals: its medians in the middle and in the last third."""

    name: str
    middle: float
    last: float
    allowed: float
    """By how much the last may exceed the middle one."""

    @property
    def flat(self) -> bool:
        return self.last - self.middle <= self.allowed


def memory_trend(samples: Sequence[int], seconds: float) -> Trend:
    """Resident memory, in MB: 5 % more, at least 6 MB, in a long run; 30 %, at least 30 MB, in a short one."""
    middle, last = _thirds(samples)
    share, least = (0.05, 6.0) if seconds >= LONG_S else (0.3, 30.0)
    return Trend("memory (MB)", middle / _MB, last / _MB, max(share * middle / _MB, least))


def too_much_memory(samples: Sequence[int]) -> list[str]:
    """What there is to complain of where a container with the chart's limit would have been killed."""
    peak = max(samples) / _MB
    return (
        [f"memory (MB): {peak:.0f} at its peak, the chart allows {MEMORY_LIMIT_MB}"] if peak > MEMORY_LIMIT_MB else []
    )


def descriptor_trend(samples: Sequence[int]) -> Trend:
    """Open descriptors: half as many more, at least 10. They follow how many clients are there at the moment."""
    middle, last = _thirds(samples)
    return Trend("descriptors", middle, last, max(0.5 * middle, 10.0))


def _thirds(samples: Sequence[int]) -> tuple[float, float]:
    third = len(samples) // 3
    if not third:
        raise ValueError(f"{len(samples)} samples have no thirds")
    return median(samples[third : 2 * third]), median(samples[2 * third :])
