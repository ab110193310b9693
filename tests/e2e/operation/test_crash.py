"""The store is the queue: what was captured survives a crash, and is scored once."""

from __future__ import annotations

import sqlite3
import time
import uuid
from contextlib import closing, suppress
from pathlib import Path

import pytest
from e2e.contracts import GetAgent
from support.patience import POLL_S
from support.processes import ChildProcess
from support.proxy import Proxy, Turn
from support.raw_a2a import Wire

SUITE = """\
suite: crash
evaluators: [tool_error, {tool_trajectory: {mode: strict}}]
cases:
  - id: weather
    turns:
      - user: whatever
        expect:
          tool_calls:
            - {name: search, arguments: {q: weather Berlin}}
            - {name: convert, arguments: {c: 21}}
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    path = tmp_path / "suite.yaml"
    path.write_text(SUITE)
    return path


def say(proxy: Proxy, text: str) -> None:
    request = Wire("1.0", "JSONRPC").message(text, stream=True)
    assert request.plus(("A2A-Eval-Case", "weather")).to(proxy.url).complete


def wait_until_stored(store: Path, count: int, child: ChildProcess | None = None) -> None:
    """Reads the store from outside until that many turns are committed, as long as the process runs."""
    found = 0
    while found < count:
        assert child is None or child.process.poll() is None, child.stderr()
        time.sleep(POLL_S)
        with (
            suppress(sqlite3.OperationalError),
            closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as database,
        ):
            (found,) = database.execute("SELECT count(*) FROM turns").fetchone()


def assert_scored_once(turn: Turn) -> None:
    assert turn["status"] == "done"
    assert [call["name"] for call in turn["tool_calls"]] == ["search", "convert"]
    assert sorted(result["evaluator"] for result in turn["evaluations"]) == ["tool_error", "tool_trajectory"]
    assert all(result["passed"] for result in turn["evaluations"])


def test_turns_left_pending_by_a_crash_are_scored_after_restart(agent: GetAgent, suite: Path, tmp_path: Path) -> None:
    upstream, store = agent("v1"), tmp_path / "turns.db"
    texts = [f"chunks {uuid.uuid4()}" for _ in range(3)]
    with Proxy(upstream, store, "--no-evaluate", "--run", "before") as proxy:
        for text in texts:
            say(proxy, text)
        wait_until_stored(store, len(texts))
        assert {turn["status"] for turn in proxy.turns()} == {"pending"}
        proxy.kill()

    with Proxy(upstream, store, "--suite", str(suite), "--run", "after") as proxy:
        scored = [proxy.turn_of(text) for text in texts]
    for turn in scored:
        assert_scored_once(turn)
        assert turn["run"] == "before"

    with Proxy(upstream, store, "--suite", str(suite)) as proxy:
        assert [proxy.turn_of(text) for text in texts] == scored


def test_crash_right_after_the_answer(agent: GetAgent, suite: Path, tmp_path: Path) -> None:
    """Killed at whatever point of scoring it was: after the restart each turn is there and scored once."""
    upstream, store = agent("v1"), tmp_path / "turns.db"
    texts: list[str] = []
    for round_number in range(1, 5):
        with Proxy(upstream, store, "--suite", str(suite)) as proxy:
            text = f"chunks {uuid.uuid4()}"
            say(proxy, text)
            texts.append(text)
            wait_until_stored(store, round_number)
            proxy.kill()

    with Proxy(upstream, store, "--suite", str(suite)) as proxy:
        for text in texts:
            assert_scored_once(proxy.turn_of(text))
