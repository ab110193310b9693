"""Computations of threads leave the interpreter to the event loop between their steps."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from a2a_eval_proxy import in_steps


class Clock:
    """Time passes only as the test says. Stands in for the module `time`."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept_at: list[float] = []

    def perf_counter(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.slept_at.append(self.now)
        self.now += seconds


def test_a_computation_rests_after_each_step_and_a_short_one_never(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(in_steps, "time", clock)

    def pieces(durations: list[float]) -> Iterator[float]:
        for duration in durations:
            clock.now += duration
            yield duration

    short = [in_steps.STEP_S / 4] * 3
    assert list(in_steps.in_steps(pieces(short))) == short
    assert clock.slept_at == []
    long = [in_steps.STEP_S * 0.6] * 6
    assert list(in_steps.in_steps(pieces(long))) == long
    assert len(clock.slept_at) == 3


def test_the_time_of_the_consumer_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(in_steps, "time", clock)
    for _ in in_steps.in_steps("abc"):
        clock.now += in_steps.STEP_S * 2
    assert len(clock.slept_at) == 3
