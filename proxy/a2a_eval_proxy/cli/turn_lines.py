"""One line on stderr for each turn that `serve` captures."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, ParamSpec

from a2a_tool_capture.recent import RecentKeys
from tool_call_evaluators.texts import counted, duration_text, one_line, printable, score_text
from tool_call_evaluators.visibility import TURN_SUCCEEDED

from ..telemetry.turn_listener import ScoredTurn, TurnListener
from ..turn import Turn

P = ParamSpec("P")

_STDERR = 2
_LONGEST_NAME, _MOST_NAMES = 60, 10
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
    `said` beside it, and duration of a turn; nothing in it can steer a terminal or end the line.

    It is written here and not in a template: it is made for each turn while the traffic waits.
    """
    ended = turn.started_at if turn.ended_at is None else turn.ended_at
    clock = datetime.fromtimestamp(ended).strftime("%H:%M:%S")  # local, as the times of the log
    case = _name(turn.case_id) if turn.case_id else "-"
    agent = f"{turn.agent_name}  " if turn.agent_name else ""
    verdict = ("" if results is None else _verdict(results)) + said
    return f"{clock}  {agent}{case}  {_calls(turn)}  {verdict}  {duration_text(ended - turn.started_at)}"


def _calls(turn: Turn) -> str:
    unseen = turn.visibility.unknown
    if not turn.tool_calls:
        return "tool calls not visible" if unseen else "no tool calls"
    names = [_name(call.name) + (" (error)" if call.error else "") for call in turn.tool_calls[:_MOST_NAMES]]
    more = len(turn.tool_calls) - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "") + (", others not visible" if unseen else "")


def _verdict(results: Sequence[Mapping[str, Any]]) -> str:
    said = [result for result in results if result["status"] != "skipped"]
    for result in said:
        if result["evaluator"] == TURN_SUCCEEDED and result["status"] == "failed":
            return f"failed ({result['label']})"
    for status in ("errored", "failed"):
        if bad := [result for result in said if result["status"] == status]:
            scores = [
                "" if result["score"] is None else f" {score_text(result['score'], result['scale'])}" for result in bad
            ]
            named = (_name(result["evaluator"]) + score for result, score in zip(bad, scores, strict=True))
            return f"{status} ({', '.join(named)})"
    return "passed" if said else "unscored"


def _name(text: str) -> str:
    return one_line(printable(text), _LONGEST_NAME)


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
