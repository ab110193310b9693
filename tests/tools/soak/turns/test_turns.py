"""A short soak of turns."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.soak.turns.plan import conversations
from tools.soak.turns.run import soak

SEED = 1


@pytest.mark.slow
async def test_what_is_stored_is_what_was_done(tmp_path: Path) -> None:
    planned = list(conversations(SEED, 60))
    outcome = await soak(planned, 1, tmp_path, seed=SEED, clients=20, kill=False)
    assert [one.turn for one in outcome.records] == [turn for one in planned for turn in one.turns]
    assert all(truth.executed for truth in outcome.truths)
    assert outcome.verdict.charges == []
    assert "Traceback" not in outcome.log
