"""A plugin of pytest: how long the tests of each room took, and the CPU time they and their processes used."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path

import pytest

_SHOWN = 15
_TESTS = "tests"
_CPU = "cpu_s"


def _cpu_s() -> float:
    """Of this process and of those it started that have ended."""
    return sum(os.times()[:4])


def _sums(spent: list[list[float]]) -> list[float]:
    return [sum(seconds for seconds, _ in spent), sum(cpu_s for _, cpu_s in spent)]


class TimeSpent:
    def __init__(self) -> None:
        self._before = _cpu_s()
        self._rooms: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        now = _cpu_s()
        report.user_properties.append((_CPU, now - self._before))
        self._before = now
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        parts = Path(report.location[0]).parts
        room = "/".join(parts[1 if parts[0] == _TESTS else 0 : -1][:2]) or parts[-1]
        self._rooms[room][0] += report.duration
        self._rooms[room][1] += dict(report.user_properties).get(_CPU, 0.0)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        rooms = sorted(self._rooms.items(), key=lambda room: -room[1][0])
        others = [spent for _, spent in rooms[_SHOWN:]]
        everything = [spent for _, spent in rooms]
        lines = [*rooms[:_SHOWN], ("other rooms", _sums(others)), ("all", _sums(everything))]
        terminalreporter.section("where the time went: seconds of all processes together, and of their CPU")
        for name, (spent_s, cpu_s) in lines:
            terminalreporter.line(f"{spent_s:8.1f} {cpu_s:8.1f}  {name}")
