"""How far `run` and `evaluate` are: a bar on a terminal, else a line every ten seconds."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from tool_call_evaluators.report.wording import counted, duration_text

from ..runs.run_result import RunWatch

_LINE_EVERY_S = 10.0
_MINUTE_S = 60


class RunProgress(RunWatch):
    """The numbers of a run in progress; `bar` shows them on a terminal."""

    def __init__(self, bar: Progress) -> None:
        super().__init__()
        self._bar = bar
        self._began = time.monotonic()
        self._task = bar.add_task("starting", total=None, counts=self)  # last: the bar's thread may ask at once

    def plan(self, turns: int) -> None:
        super().plan(turns)
        self._bar.update(self._task, description="running", total=turns)

    def advance(self, turns: int = 1) -> None:
        super().advance(turns)
        self._bar.update(self._task, advance=turns)

    def __str__(self) -> str:
        """`110 passed, 10 failed`, and what is wrong with the store, if anything. The bar asks at each refresh."""
        problem = self.store.problem
        waiting = f", waiting for the store: {problem}" if problem else ""
        return f"{self.passed_turns:,} passed, {self.failed_turns:,} failed{waiting}"

    @property
    def line(self) -> str:
        """`120 of 1,000 turns, 110 passed, 10 failed, about 3 min 20 s left`."""
        text = f"{self.done:,} of {counted(self.planned, 'turn')}, {self}"
        if not 0 < self.done < self.planned:
            return text
        left = math.ceil((time.monotonic() - self._began) / self.done * (self.planned - self.done))
        return f"{text}, about {f'{left} s' if left < _MINUTE_S else duration_text(left)} left"

    async def lines(self, every_s: float) -> None:
        """Write `line` to standard error at that interval, until cancelled."""
        while True:
            await asyncio.sleep(every_s)
            click.echo(self.line, err=True)


@contextmanager
def shown_progress(*, silent: bool, every_s: float = _LINE_EVERY_S) -> Iterator[RunProgress]:
    """Show progress on standard error until the end of the block, in a running event loop."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[counts]}", markup=False),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=silent or not console.is_terminal) as bar:
        progress = RunProgress(bar)
        lines = None
        if not (silent or console.is_terminal):
            lines = asyncio.get_running_loop().create_task(progress.lines(every_s))
        try:
            yield progress
        finally:
            if lines:
                lines.cancel()
