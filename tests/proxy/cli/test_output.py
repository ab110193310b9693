"""What commands print: in any encoding, and without what others' text could make a terminal or a CI job do."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from a2a_eval_proxy.cli import main
from a2a_eval_proxy.cli.output import GuardedStream, guarded_output, unguarded
from agents.scenario_agent import scenario_agent
from rich.console import Console
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


@pytest.fixture(params=["cp1252", "latin-1", "ascii", "utf-8"])
def printed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Print:
    """Run a command whose standard output has that encoding; returns what it printed."""

    def run(*words: str, encoding: str = "", code: int = 0) -> str:
        out = io.TextIOWrapper(io.BytesIO(), encoding=request.param)
        monkeypatch.setattr("sys.stdout", out)
        monkeypatch.setattr("sys.argv", ["a2a-eval-proxy", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        out.flush()
        assert (ended.value.code or 0) == code
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


def test_json_is_valid_and_whole_in_any_encoding(printed: Print, store: Path) -> None:
    where = ("--store", str(store))
    exported = json.loads(printed("export", "--run", "tuesday", *where, encoding="utf-8"))
    shown = json.loads(printed("show", "tuesday-t", "--output", "json", *where, encoding="utf-8"))
    assert exported == shown
    assert exported["case_id"] == "größe ✓"
    assert exported["tool_calls"][0]["arguments"]["order"].startswith("für 5 € 订单 \N{THUMBS UP SIGN}")
    compared = printed("compare", "monday", "tuesday", "--format", "json", *where, encoding="utf-8")
    assert json.loads(compared)["cases"][0]["case"] == "größe ✓"


def test_a_suite_is_utf_8_in_any_encoding(printed: Print, store: Path) -> None:
    text = printed("record", "--run", "monday", "--store", str(store), encoding="utf-8")
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
    assert "##[" not in out.getvalue()
    assert "##vso[" not in out.getvalue()
    assert out.getvalue().isascii()
    assert not {"\x1b", "\x07", "\r"} & set(out.getvalue())
    assert json.loads(f'"{out.getvalue()}"', strict=False) == HOSTILE, "nothing is lost"


def test_our_own_commands_colours_and_progress_pass() -> None:
    out = io.StringIO()
    stream = GuardedStream(out)
    Console(file=stream, force_terminal=True, legacy_windows=False).print("[red]wrong[/red]")  # type: ignore[arg-type]
    stream.write("\r\x1b[2K")
    assert out.getvalue() == "\x1b[31mwrong\x1b[0m\n\r\x1b[2K"
    with guarded_output():
        assert unguarded(sys.stdout) is not sys.stdout
