"""`compare`: two runs of a store side by side, and the exit codes that a pipeline goes by."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from a2a_eval_proxy.runs.compare import compare_runs
from a2a_eval_proxy.runs.stored_turns import open_existing_store
from a2a_eval_proxy.store import ConversationKey, ScoredConversation
from support.commands import run
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


def compare(store: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run("compare", "--store", store, *arguments)


def test_as_text_and_as_a_page(store: Path, tmp_path: Path) -> None:
    folder = tmp_path / "pages"
    done = compare(store, "monday", "tuesday", "--report", folder)
    assert (done.returncode, done.stderr) == (0, f"page {folder / 'comparison.html'}\n")
    assert done.stdout.startswith(
        "monday → tuesday: not enough runs to decide (1 newly failing, 1 fixed, 1 unchanged)\n"
    )
    assert "newly failing: a (1 of 1 passed, now 0 of 1 passed)\n" in done.stdout
    assert CHANGED in done.stdout
    assert "monday → tuesday" in (folder / "comparison.html").read_text("utf-8")


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


@pytest.mark.parametrize(
    ("changes", "code"), [("regression", 0), ("regression,newly-failing", 1), ("undecided", 1), ("x", 2)]
)
def test_a_pipeline_may_stop_at_a_failure_that_may_be_chance(store: Path, changes: str, code: int) -> None:
    assert compare(store, "monday", "tuesday", "--fail-on", changes).returncode == code


def test_a_pipeline_is_told_that_another_judge_measured(tmp_path: Path) -> None:
    asked = {
        "details": {"judge": {"model": "small", "prompt": "helpfulness@1", "votes": 1}},
        "evaluator": "helpfulness",
    }
    other = asked | {"details": {"judge": {"model": "large", "prompt": "helpfulness@1", "votes": 1}}}
    done = gate(tmp_path, several("a", [1.0] * 20, **asked), several("a", [0.0] * 20, **other))
    assert done.returncode == 2
    assert "not compared: helpfulness: judge model small in monday, large in tuesday" in done.stdout
    assert "they share no metric measured in the same way" in done.stderr


async def test_what_was_said_of_whole_conversations_counts(store: Path) -> None:
    said = [
        ScoredConversation(ConversationKey(run, "conversation-c-0", "c"), 1, [result("goal_completion", score)])
        for run, score in (("monday", 1.0), ("tuesday", 0.0))
    ]
    async with open_existing_store(str(store)) as kept:
        kept.finish_conversations(said, lambda: None)
        await kept.drained()
    comparison = await compare_runs(str(store), "monday", "tuesday")
    assert {case.case: case.status for case in comparison.cases}["c"] == "newly_failing"
