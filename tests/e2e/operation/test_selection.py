"""`run` and `evaluate` with some of a suite's cases, and what they print."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from e2e.contracts import GetAgent
from support.prefork import run

SUITE = """\
suite: weather
evaluators: [tool_error, {exact_match: {scope: turn}}]
cases:
  - {id: search-good, tags: [quick], turns: [{user: artifact please}]}
  - {id: search-wrong, tags: [quick], turns: [{user: artifact please, expect: {response: nothing}}]}
  - {id: words, turns: [{user: message please}]}
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    path = tmp_path / "suite.yaml"
    path.write_text(SUITE)
    return path


def cases(store: Path, name: str) -> list[str]:
    shown = run("show", name, "--output", "json", "--store", store)
    return [turn["case_id"] for turn in json.loads(shown.stdout)["items"]]


def test_the_newest_run_is_evaluated_and_other_cases_keep_their_results(
    agent: GetAgent, suite: Path, tmp_path: Path
) -> None:
    store = ("--store", tmp_path / "turns.db")
    run("run", suite, "--agent", agent("v1"), "--run", "old", "--case", "words", *store, cwd=tmp_path)
    run("run", suite, "--agent", agent("v1"), "--run", "new", *store, cwd=tmp_path)
    before = run("export", "--run", "new", *store).stdout.splitlines()
    strict = tmp_path / "strict.yaml"
    strict.write_text(SUITE.replace("tool_error", "tool_call_validity"))
    again = run("evaluate", "--suite", strict, "--case", "search-good", *store, cwd=tmp_path)
    assert again.stderr == "run new, the newest of 2 runs; choose another with --run NAME\n"
    assert "run new: 1 turn" in again.stdout
    after = run("export", "--run", "new", *store).stdout.splitlines()
    changed = [json.loads(new)["case_id"] for old, new in zip(before, after, strict=True) if old != new]
    assert changed == ["search-good"]
    everything = run("evaluate", "--suite", suite, "--run", "old", "-q", *store, cwd=tmp_path)
    assert (everything.returncode, everything.stderr) == (1, "")
    assert "search-good" in everything.stdout


def test_no_conversation_begins_after_one_that_failed(agent: GetAgent, suite: Path, tmp_path: Path) -> None:
    store = tmp_path / "turns.db"
    command = ["run", suite, "--agent", agent("v1"), "--store", store, "--run", "r", "--concurrency", "1"]
    result = run(*command, "--fail-fast", cwd=tmp_path)
    assert result.returncode == 1
    assert "case words and later ones are not run: one failed (--fail-fast)" in result.stderr
    assert cases(store, "r") == ["search-good", "search-wrong"]
    run(*command, "--resume", cwd=tmp_path)
    assert cases(store, "r") == ["search-good", "search-wrong", "words"]
