"""What a serving process counts, on its way to the metrics of the main process."""

from __future__ import annotations

from collections import Counter
from typing import Any

from ..telemetry.counters import Durations, Metrics

_NUMBERS = ("requests", "upstream_errors", "turns_evicted", "turns_dropped")
_COUNTERS = ("responses", "client_errors")
_DURATIONS = ("request_s", "first_byte_s")


def take_counts(metrics: Metrics) -> dict[str, Any]:
    """What was counted since the last call, in JSON form; `metrics` begins at zero again."""
    counts: dict[str, Any] = {}
    for name in _NUMBERS:
        counts[name] = getattr(metrics, name)
        setattr(metrics, name, 0)
    for name in _COUNTERS:
        counter: Counter[int | str] = getattr(metrics, name)
        counts[name] = [[key, number] for key, number in counter.items()]
        counter.clear()
    for name in _DURATIONS:
        durations: Durations = getattr(metrics, name)
        counts[name] = [durations.total_s, *durations.counts]
        durations.total_s = 0.0
        durations.counts = [0] * len(durations.counts)
    return counts


def add_counts(metrics: Metrics, counts: dict[str, Any]) -> None:
    """Add what `take_counts` returned in another process."""
    for name in _NUMBERS:
        setattr(metrics, name, getattr(metrics, name) + counts[name])
    for name in _COUNTERS:
        for key, number in counts[name]:
            getattr(metrics, name)[key] += number
    for name in _DURATIONS:
        durations: Durations = getattr(metrics, name)
        total_s, *numbers = counts[name]
        durations.total_s += total_s
        durations.counts = [sum(pair) for pair in zip(durations.counts, numbers, strict=True)]
