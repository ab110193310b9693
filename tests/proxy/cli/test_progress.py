"""What is shown while `run` and `evaluate` work."""

from __future__ import annotations

import asyncio

import pytest
from a2a_eval_proxy.cli.run_display import shown_progress


async def test_without_a_terminal_progress_is_a_line_at_an_interval(capsys: pytest.CaptureFixture[str]) -> None:
    with shown_progress(silent=False, every_s=0) as progress:
        progress.plan(4)
        progress.advance()
        progress.passed_turns += 1
        progress.advance()
        progress.failed_turns += 1
        while "\n" not in (shown := capsys.readouterr().err):
            await asyncio.sleep(0)
    first = shown.splitlines()[0]
    assert first == "2 of 4 turns, 1 passed, 1 failed"
    progress.store.problem = "disk full"
    assert progress.line == "2 of 4 turns, 1 passed, 1 failed, waiting for the store: disk full"
    progress.store.problem = None
    progress.advance(2)
    assert progress.line == "4 of 4 turns, 1 passed, 1 failed"
    progress.store.problem = "disk full"
    assert progress.line == "4 of 4 turns, 1 passed, 1 failed, waiting for the store: disk full"


async def test_a_quiet_run_shows_no_progress(capsys: pytest.CaptureFixture[str]) -> None:
    with shown_progress(silent=True, every_s=0) as progress:
        progress.plan(4)
        for _ in range(10):
            await asyncio.sleep(0)
    assert capsys.readouterr().err == ""
