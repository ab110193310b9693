"""`record`: a suite from stored turns, which the same agent then passes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from a2a_eval_proxy.demo.agent import run_agent
from support.prefork import run as command
from support.stored_runs import store_turns
from support.turn_samples import call, turn
from tool_call_evaluators import load_suite

DEMO = Path(__file__).parents[3] / "proxy/a2a_eval_proxy/demo/suite.yaml"


def test_a_suite_on_standard_output(tmp_path: Path) -> None:
    store = tmp_path / "turns.db"
    store_turns(store, [turn("1", "Where is it?", [call("lookup", key="4f1d2c3b4a5968778695a4b3c2d1e0f9")])], "good")
    store_turns(store, [turn("2", "Something else")], "other")
    done = command("record", "--store", store, "--run", "good")
    assert (done.returncode, done.stderr) == (0, "recorded 1 case\n")
    (tmp_path / "suite.yaml").write_text(done.stdout)
    suite = load_suite(tmp_path / "suite.yaml")
    assert suite.name == "good"
    (case,) = suite.cases
    (expected,) = case.turns[0].expect.tool_calls or ()
    assert (case.id, expected.name) == ("where-is-it", "lookup")
    assert expected.arguments == {"key": {"$regex": "[0-9a-fA-F]{16,}"}}
    store_turns(store, [turn("3", state="TASK_STATE_FAILED")], "bad")
    left_out = "Left out, failed conversations: 1.\n"
    assert command("record", "--store", store).stderr == f"{left_out}recorded 2 cases\n"


def test_an_edited_suite_is_not_overwritten(tmp_path: Path) -> None:
    store, out = tmp_path / "turns.db", tmp_path / "suite.yaml"
    store_turns(store, [turn("1")])
    done = command("record", "--store", store, "--out", out)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", f"recorded 1 case to {out}\n")
    out.write_text("edited")
    again = command("record", "--store", store, "--out", out)
    assert (again.returncode, out.read_text()) == (2, "edited")
    assert str(out) in again.stderr
    assert len(again.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--store", "no-such.db"], "no-such.db"),
        (["--store", "{store}", "--run", "nope"], "the store has bad"),
        (
            ["--store", "{store}"],
            "no conversation of 1 turn can be recorded: each failed, or its tool",
        ),
    ],
)
def test_nothing_to_record(arguments: list[str], named: str, tmp_path: Path) -> None:
    store = tmp_path / "turns.db"
    store_turns(store, [turn("1", state="TASK_STATE_FAILED")], "bad")
    done = command("record", *(text.format(store=store) for text in arguments))
    assert (done.returncode, done.stdout) == (2, "")
    assert named in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    store, out = tmp_path / "turns.db", tmp_path / "no" / "such" / "suite.yaml"
    store_turns(store, [turn("1")])
    done = command("record", "--store", store, "--out", out)
    assert done.returncode == 2
    assert str(out) in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.slow
async def test_an_agent_passes_the_recording_of_itself(tmp_path: Path) -> None:
    store, recorded = tmp_path / "turns.db", tmp_path / "recorded.yaml"
    async with run_agent(tmp_path / "shop.db") as url:
        first = await asyncio.to_thread(command, "run", DEMO, "--agent", url, "--store", store, "--run", "good")
    assert first.returncode == 1, first.stderr  # three cases of the demo fail; what the agent did is taken as good
    assert command("record", "--store", store, "--run", "good", "--out", recorded).returncode == 0
    async with run_agent(tmp_path / "another-shop.db") as url:
        second = await asyncio.to_thread(command, "run", recorded, "--agent", url, "--store", store, "--run", "again")
    assert second.returncode == 0, second.stdout
