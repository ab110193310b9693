"""One line on stderr for each turn that `serve` captures."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, ParamSpec

from a2a_tool_capture.recent import RecentKeys
from jinja2 import PackageLoader
from tool_call_evaluators.report.templating import plain_text
from tool_call_evaluators.texts import counted, one_line, printable
from tool_call_evaluators.visibility import TURN_SUCCEEDED

from ..telemetry.turn_listener import ScoredTurn, TurnListener
from ..turn import Turn

P = ParamSpec("P")

_STDERR = 2
_TEMPLATES = PackageLoader(__package__ or "", "")
_LONGEST = 500  # characters of a text in a line
_EVERY_S = 0.1
_MOST_LINES = 20
"""Lines that wait. People cannot read two hundred a second, and each line costs as much as a call of an evaluator."""
_MOST_REMEMBERED = 1_000
_CLOSE_S = 1.0


class TurnLines(TurnListener):
    """Has a line written for each turn once it is scored, or stored where nothing is scored (`scores`).

    A turn whose tool calls were not visible has another one if spans show what it did.
    """

    def __init__(self, lines: LineWriter, *, scores: bool) -> None:
        self._lines = lines
        self._scores = scores
        self._not_visible = RecentKeys[str](_MOST_REMEMBERED)  # ids of turns whose lines say so

    def stored(self, turns: Sequence[Turn]) -> None:
        for turn in () if self._scores else turns:
            self._lines.write(turn_line, turn, "stored")

    def scored(self, scored: Sequence[ScoredTurn]) -> None:
        for turn, results, again in scored:
            if not again:
                self._lines.write(self._first_line, turn, results)
            elif turn.turn_id in self._not_visible and turn.visibility.unknown is None:
                self._not_visible.discard(turn.turn_id)
                self._lines.write(turn_line, turn, ", now that its spans came", results)

    def _first_line(self, turn: Turn, results: Sequence[Mapping[str, Any]]) -> str:
        if turn.visibility.unknown is not None:
            self._not_visible.add(turn.turn_id)
        return turn_line(turn, "", results)


def turn_line(turn: Turn, said: str, results: Sequence[Mapping[str, Any]] | None = None) -> str:
    """Time, agent (of several), case, called tools, the verdict of the results (as in the table of `run`) with what is
    `said` beside it, and duration of a turn; nothing in it can steer a terminal or end the line."""
    ended = turn.started_at if turn.ended_at is None else turn.ended_at
    return plain_text(
        "turn_line.txt",
        _TEMPLATES,
        _shown,
        turn=turn,
        clock=datetime.fromtimestamp(ended).strftime("%H:%M:%S"),  # local, as the times of the log
        seconds=ended - turn.started_at,
        unseen=turn.visibility.unknown,
        results=results,
        said=said,
        turn_succeeded=TURN_SUCCEEDED,
    )


def _shown(text: str) -> str:
    return one_line(printable(text), _LONGEST)


class LineWriter:
    """Writes lines to a file descriptor, from a thread: a reader that reads nothing must not stop the traffic.

    `clean` is applied to each line. Of more than 200 lines a second, and while the reader takes nothing, the rest is
    left out, and their number is written.
    """

    def __init__(self, clean: Callable[[str], str], descriptor: int = _STDERR) -> None:
        self._clean = clean
        self._descriptor = descriptor
        self._waiting: deque[str] = deque()
        self._omitted = 0
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._work, name="turn lines", daemon=True)
        self._thread.start()

    def write(self, line: Callable[P, str], *args: P.args, **kwargs: P.kwargs) -> None:
        """Write what `line` returns soon. It is called now, if the line is not left out. Never waits."""
        if len(self._waiting) < _MOST_LINES:
            self._waiting.append(line(*args, **kwargs))
        else:
            self._omitted += 1

    def close(self) -> None:
        """Write what is left, if the reader takes it within a second; else the thread ends with the process."""
        self._closed.set()
        self._thread.join(_CLOSE_S)

    def _work(self) -> None:
        told, ended = 0, False
        while not ended:
            ended = self._closed.wait(_EVERY_S)
            lines = [self._waiting.popleft() for _ in range(len(self._waiting))]
            if missed := self._omitted - told:
                lines.append(f"{counted(missed, 'line')} not shown: too many for the reader of stderr")
                told += missed
            data = "".join(f"{self._clean(line)}\n" for line in lines).encode("utf-8", "replace")
            try:
                while data:
                    data = data[os.write(self._descriptor, data) :]
            except OSError:  # stderr is closed: nobody reads
                return
