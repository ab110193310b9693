"""The lines that `serve` prints for turns."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from a2a_eval_proxy.cli.turn_lines import LineWriter, TurnLines, turn_line
from a2a_eval_proxy.turn import Turn
from a2a_tool_capture import Finding, Severity, ToolCall
from support.turn_samples import result

CLOCK = r"\d\d:\d\d:\d\d"


def turn(*calls: str, **fields: Any) -> Turn:
    given = {"case_id": "order-status", "state": "TASK_STATE_COMPLETED", "ended_at": 100.166, **fields}
    tool_calls = [ToolCall(name, {}, error="out of stock" if name == "refund" else None) for name in calls]
    return Turn("t", "r", "http://agent", "JSONRPC", "1.0", 100.0, tool_calls=tool_calls, **given)


class Shown:
    """In place of a `LineWriter`: keeps the lines."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def write(self, line: Callable[..., str], *args: Any) -> None:
        self.lines.append(line(*args))

    def without_times(self) -> list[str]:
        assert all(re.match(rf"{CLOCK}  ", line) for line in self.lines)
        return [line.partition("  ")[2] for line in self.lines]


FAILED, PASSED, SKIPPED = result("tool_trajectory", 0.5), result("tool_error", 1.0), result("judged", None)
UNSEEN = Finding("no_capture", "the card does not declare it", Severity.WARNING, "capture")


@pytest.mark.parametrize(
    ("one", "results", "line"),
    [
        (turn("lookup", "refund"), [PASSED, SKIPPED], "order-status  lookup, refund (error)  passed  166 ms"),
        (turn("lookup", case_id=None), None, "-  lookup  stored  166 ms"),
        (turn("lookup", case_id=None, agent_name="orders"), None, "orders  -  lookup  stored  166 ms"),
        (turn("a"), [FAILED, PASSED], "order-status  a  failed (tool_trajectory 0.50)  166 ms"),
        (turn("a"), [FAILED, SKIPPED | {"status": "errored"}], "order-status  a  errored (judged)  166 ms"),
        (turn("a"), [SKIPPED], "order-status  a  unscored  166 ms"),
        (turn("a"), [], "order-status  a  unscored  166 ms"),
        (
            turn(state="TASK_STATE_FAILED"),
            [result("turn_succeeded", 0.0) | {"label": "task_failed"}, PASSED],
            "order-status  tool calls not visible  failed (task_failed)  166 ms",
        ),
        (turn(findings=[UNSEEN]), [], "order-status  tool calls not visible  unscored  166 ms"),
    ],
)
def test_a_turn_is_one_line(one: Turn, results: list[dict[str, Any]] | None, line: str) -> None:
    """When it is stored, scored, and scored again; it names what decides the verdict."""
    shown = Shown()
    listener = TurnLines(shown, scores=results is not None)
    listener.stored([one])
    if results is not None:
        listener.scored([(one, results, False)])
        listener.scored([(one, results, True)])
    assert shown.without_times() == [line]


def test_calls_that_arrive_after_such_a_line_have_one_of_their_own() -> None:
    shown = Shown()
    listener = TurnLines(shown, scores=True)
    unseen, arrived = turn(), turn("lookup")
    for scored, status, again in ((unseen, "skipped", False), (unseen, "skipped", True), (arrived, "passed", True)):
        listener.scored([(scored, [result("tool_error", None if status == "skipped" else 1.0)], again)])
    listener.scored([(arrived, [result("tool_error", 1.0)], True)])
    assert shown.without_times() == [
        "order-status  tool calls not visible  unscored  166 ms",
        "order-status  lookup  passed, now that its spans came  166 ms",
    ]


def test_names_neither_steer_the_terminal_nor_fill_it() -> None:
    hostile = turn(*["\x1b]0;x\x07\u202e\nname" + "y" * 500] * 151, case_id="a\tb\r\nc")
    line = turn_line(hostile, "passed")
    assert line.isprintable()
    assert len(line) < 1_000
    assert "  a b c  " in line
    assert " and 141 more  " in line


# ── the writer ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


async def test_lines_are_cleaned_and_those_that_are_left_out_not_made(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    made: list[int] = []

    def line(number: int) -> str:
        made.append(number)
        return f"{number} secret"

    lines = LineWriter(lambda line: line.replace("secret", "***"), writer)
    for number in range(50):
        lines.write(line, number)
    lines.close()
    assert made == list(range(20))
    assert os.read(reader, 10_000).decode().splitlines()[:20] == [f"{number} ***" for number in range(20)]


async def test_lines_are_written_without_waiting_for_the_end(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    lines = LineWriter(str, writer)
    lines.write(str, "one")
    assert await asyncio.to_thread(os.read, reader, 100) == b"one\n"
    lines.close()


@pytest.mark.parametrize("length", [10, 100_000])
async def test_a_reader_that_reads_too_little_stops_nobody_and_hears_how_many_lines_it_missed(
    length: int, pipe: tuple[int, int]
) -> None:
    reader, writer = pipe  # which holds less than the longer lines
    lines = LineWriter(str, writer)
    for _ in range(100):
        lines.write(str, "x" * length)
    read, missed, told = b"", [], 0
    while told < 100:
        read += await asyncio.to_thread(os.read, reader, 1_000_000)
        missed = re.findall(rb"^(\d+) lines? not shown: too many for the reader of stderr$", read, re.MULTILINE)
        told = read.count(b"x\n") + sum(map(int, missed))
    assert missed
    assert told == 100
    lines.close()


async def test_a_closed_stderr_stops_nobody() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    lines = LineWriter(str, writer)
    lines.write(str, "one")
    lines.close()
    os.close(writer)
