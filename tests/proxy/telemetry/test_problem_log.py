"""A problem that repeats is one line for each minute, whatever its rate, and no count is lost."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest
from a2a_eval_proxy.telemetry.problem_log import ProblemLog
from hypothesis import given
from hypothesis import strategies as st

logger = logging.getLogger("problem_log_test")


class Clock:
    """The scheduler, by hand: `tick` lets a minute pass."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []

    def later(self, _: float, callback: Callable[[], None]) -> None:
        self.waiting.append(callback)

    def tick(self) -> None:
        due, self.waiting = self.waiting, []
        for callback in due:
            callback()


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == logger.name]


def test_what_is_counted_is_logged_when_the_process_stops(caplog: pytest.LogCaptureFixture) -> None:
    problem = ProblemLog(logger, "{count} lost", later=Clock().later)
    problem.seen()
    problem.close()
    problem.seen(7)
    problem.close()
    assert lines(caplog)[1:] == ["7 lost"]


@given(st.lists(st.integers(0, 50), max_size=30))
def test_at_most_one_line_a_minute_and_one_timer(counts: list[int]) -> None:
    said: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    quiet = logging.Logger("apart")  # noqa: LOG001  # not in the tree: hypothesis runs this many times
    quiet.addHandler(handler)
    clock = Clock()
    problem = ProblemLog(quiet, "{count}", later=clock.later)
    for count in counts:
        before = len(said)
        for _ in range(count):
            problem.seen()
        assert len(said) - before <= 1
        assert len(clock.waiting) <= 1
        before = len(said)
        clock.tick()
        assert len(said) - before <= 1
