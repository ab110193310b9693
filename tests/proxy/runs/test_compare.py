"""`compare`: two runs of a store side by side, and the exit codes that a pipeline goes by."""

from __future__ import annotations

import asyncio
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest
from a2a_eval_proxy.runs.compare import compare_runs
from a2a_eval_proxy.store import ConversationKey, ScoredConversation, StoreError, open_store
from support.prefork import run
from support.stored_runs import store_turns
from support.turn_samples import call, result, turn

CHANGED = 'turn 1: ≠ lookup_order: order_id: "ORD-1" → "ORD-2"'


def case(name: str, score: float, order: str = "ORD-1", number: int = 0) -> dict[str, Any]:
    made = [call("lookup_order", order_id=order)]
    return turn(f"{name}-{number}", calls=made, evaluations=[result("tool_error", score)], case=name, start=number)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "turns.db"
    store_turns(path, [case("a", 1.0), case("b", 0.0), case("c", 1.0)], "monday")
    store_turns(path, [case("a", 0.0, "ORD-2"), case("b", 1.0), case("c", 1.0)], "tuesday")
    return path


def compare(store: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return run("compare", "--store", store, *arguments, **environment)


def test_as_text(store: Path) -> None:
    done = compare(store, "monday", "tuesday")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(
        "monday → tuesday: not enough runs to decide (1 newly failing, 1 fixed, 1 unchanged)\n"
    )
    assert "newly failing: a (1 of 1 passed, now 0 of 1 passed)\n" in done.stdout
    assert CHANGED in done.stdout


def test_as_a_page(store: Path, tmp_path: Path) -> None:
    folder = tmp_path / "pages"
    done = compare(store, "monday", "tuesday", "--report", folder)
    assert (done.returncode, done.stderr) == (0, f"page {folder / 'comparison.html'}\n")
    page = (folder / "comparison.html").read_text("utf-8")
    assert "monday → tuesday" in page
    assert compare(store, "monday", "tuesday", "--format", "html").stdout == page


def several(name: str, scores: list[float], **fields: Any) -> list[dict[str, Any]]:
    made = [case(f"{name}{number}", score, number=number) for number, score in enumerate(scores)]
    return [item | {"evaluations": [item["evaluations"][0] | fields]} for item in made]


def gate(tmp_path: Path, before: list[dict[str, Any]], after: list[dict[str, Any]]) -> subprocess.CompletedProcess[str]:
    path = tmp_path / "gate.db"
    store_turns(path, before, "monday")
    store_turns(path, after, "tuesday")
    return compare(path, "monday", "tuesday", "--fail-on", "regression")


def test_a_pipeline_stops_at_what_got_worse(tmp_path: Path) -> None:
    done = gate(tmp_path, several("a", [1.0] * 20), several("a", [0.0] * 8 + [1.0] * 12))
    assert (done.returncode, done.stderr) == (1, "")
    assert "monday → tuesday: worse (" in done.stdout


def test_a_pipeline_may_stop_at_a_failure_that_may_be_chance(store: Path) -> None:
    assert compare(store, "monday", "tuesday", "--fail-on", "regression").returncode == 0
    assert compare(store, "monday", "tuesday", "--fail-on", "regression,newly-failing").returncode == 1
    assert compare(store, "monday", "tuesday", "--fail-on", "undecided").returncode == 1
    assert "expected one or more of regression, newly-failing" in compare(store, "a", "b", "--fail-on", "x").stderr


def test_a_pipeline_is_told_that_another_judge_measured(tmp_path: Path) -> None:
    asked = {
        "details": {"judge": {"model": "small", "prompt": "helpfulness@1", "votes": 1}},
        "evaluator": "helpfulness",
    }
    other = asked | {"details": {"judge": {"model": "large", "prompt": "helpfulness@1", "votes": 1}}}
    done = gate(tmp_path, several("a", [1.0] * 20, **asked), several("a", [0.0] * 20, **other))
    assert done.returncode == 2
    assert "monday → tuesday: cannot be compared" in done.stdout
    assert "not compared: helpfulness: judge model small in monday, large in tuesday" in done.stdout
    assert "they share no metric measured in the same way" in done.stderr


async def test_of_many_runs_the_newest_are_named(tmp_path: Path) -> None:
    path = tmp_path / "turns.db"
    store_turns(path, [case("a", 1.0, number=number) | {"run": f"run-{number}"} for number in range(25)])
    with pytest.raises(StoreError, match=r"^no run 'x'; the store has run-5, .*run-24 and 5 older$"):
        await compare_runs(str(path), "x", "run-1")


async def test_what_was_said_of_whole_conversations_counts(store: Path) -> None:
    kept = open_store(str(store))
    done = threading.Event()
    said = [
        ScoredConversation(ConversationKey(run, "conversation-c-0", "c"), 1, [result("goal_completion", score)])
        for run, score in (("monday", 1.0), ("tuesday", 0.0))
    ]
    kept.finish_conversations(said, done.set)
    await asyncio.to_thread(done.wait, 30)
    kept.close()
    comparison = await compare_runs(str(store), "monday", "tuesday")
    assert {case.case: case.status for case in comparison.cases}["c"] == "newly_failing"
