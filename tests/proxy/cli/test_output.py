"""What commands print: in any encoding, and without what others' text could make a terminal or a CI job do."""

from __future__ import annotations

import asyncio
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from a2a_eval_proxy.cli.output import GuardedStream, guarded_output, unguarded
from a2a_eval_proxy.cli.run_display import shown_progress
from agents.scenario_agent import scenario_agent
from rich.console import Console
from support.commands import ended
from support.stored_runs import store_turns
from support.turn_samples import call, result, turn
from tool_call_evaluators.suite import parse_suite

Print = Callable[..., str]
TEXT = "für 5 € 订单 \N{THUMBS UP SIGN} \ud83d …"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Two runs: the second made another call, and failed."""
    path = tmp_path / "turns.db"
    for run, order, score in (("monday", "A-1", 1.0), ("tuesday", TEXT, 0.0)):
        calls = [call("lookup", order=order, result=TEXT)]
        made = turn("t", TEXT, calls, [result("tool_error", score)], case="größe ✓", response_text=TEXT)
        store_turns(path, [made], run=run)
    return path


@pytest.fixture(params=["cp1252", "ascii"])
def printed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Print:
    """Run a command whose standard output has that encoding; returns what it printed."""

    def run(*words: str, encoding: str = "") -> str:
        out = io.TextIOWrapper(io.BytesIO(), encoding=request.param)
        monkeypatch.setattr("sys.stdout", out)
        assert ended("", *words) == 0
        out.flush()
        return out.buffer.getvalue().decode(encoding or request.param)  # type: ignore[attr-defined]

    return run


def test_text_is_printed_in_any_encoding(printed: Print, store: Path) -> None:
    where = ("--store", str(store))
    assert "monday" in printed("runs", *where)
    assert "lookup" in printed("show", "tuesday", *where)
    assert "lookup(order=" in printed("show", "tuesday-t", *where)
    assert "turn 1: " in printed("compare", "monday", "tuesday", *where)
    with scenario_agent() as agent:
        assert "completed, " in printed("send", "artifact now", "--agent", agent.url)


def test_files_are_utf_8_and_whole_in_any_encoding(printed: Print, store: Path) -> None:
    where = ("--store", str(store))
    exported = json.loads(printed("export", "--run", "tuesday", *where, encoding="utf-8"))
    shown = json.loads(printed("show", "tuesday-t", "--output", "json", *where, encoding="utf-8"))
    assert exported == shown
    assert exported["case_id"] == "größe ✓"
    assert exported["tool_calls"][0]["arguments"]["order"].startswith("für 5 € 订单 \N{THUMBS UP SIGN}")
    compared = printed("compare", "monday", "tuesday", "--format", "json", *where, encoding="utf-8")
    assert json.loads(compared)["cases"][0]["case"] == "größe ✓"
    text = printed("record", "--run", "monday", *where, encoding="utf-8")
    assert [case.id for case in parse_suite(text).cases] == ["größe ✓"]


HOSTILE = "::error::x\n \t::add-mask::x\n##[error]x ##vso[task.setvariable]x\r::warning::x \x1b]0;x\x07 \x9b1m \u202e"


@pytest.mark.parametrize("size", [1, 2, 3, 1_000])
def test_text_of_others_commands_no_ci_job_and_no_terminal(size: int) -> None:
    out = io.StringIO()
    stream = GuardedStream(out)
    for start in range(0, len(HOSTILE), size):
        stream.write(HOSTILE[start : start + size])
    lines = out.getvalue().splitlines()
    assert not any(line.strip().startswith("::") for line in lines)
    assert not [part for part in ("##[", "##vso[", "\x1b", "\x07", "\r") if part in out.getvalue()]
    assert out.getvalue().isascii()
    assert json.loads(f'"{out.getvalue()}"', strict=False) == HOSTILE, "nothing is lost"


def test_our_own_commands_colours_and_progress_pass() -> None:
    out = io.StringIO()
    stream = GuardedStream(out)
    Console(file=stream, force_terminal=True, legacy_windows=False).print("[red]wrong[/red]")  # type: ignore[arg-type]
    stream.write("\r\x1b[2K")
    assert out.getvalue() == "\x1b[31mwrong\x1b[0m\n\r\x1b[2K"
    with guarded_output():
        assert unguarded(sys.stdout) is not sys.stdout


async def test_without_a_terminal_progress_is_a_line_at_an_interval(capsys: pytest.CaptureFixture[str]) -> None:
    with shown_progress(silent=False, every_s=0) as progress:
        progress.plan(4)
        progress.advance()
        progress.passed_turns += 1
        progress.advance()
        progress.failed_turns += 1
        while "\n" not in (shown := capsys.readouterr().err):
            await asyncio.sleep(0)
    line = "2 of 4 turns, 1 passed, 1 failed"
    assert shown.splitlines()[0] == line
    progress.store.problem = "disk full"
    assert progress.line == f"{line}, waiting for the store: disk full"


def test_the_list_of_evaluators_names_one_that_cannot_be_used(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr("tool_call_evaluators.evaluator_names", lambda: ["broken", "tool_error"])
    assert ended("evaluators") == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[1:] if not line.startswith(" ")]
    assert [row[0] for row in rows] == ["broken", "tool_error"]
    assert rows[0][3] == "cannot"
