"""A short soak of trees: every edge by trace context or reference is certain and right, no certain one is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.soak.trees.plan import WHOLE, conversations
from tools.soak.trees.run import Setup, soak

SEED = 3


@pytest.mark.slow
@pytest.mark.parametrize(
    "setup",
    [
        pytest.param(Setup(), id="one proxy"),
        pytest.param(Setup(named=True), id="four agents of one proxy"),
        pytest.param(Setup(proxies=3), id="three proxies", marks=pytest.mark.database),
    ],
)
async def test_trees_are_as_agents_asked(setup: Setup, tmp_path: Path) -> None:
    planned = list(conversations(SEED, 8, traced_users=setup.names_turns))
    outcome = await soak(planned, setup, tmp_path, SEED)
    assert outcome.problems == []
    assert outcome.right[WHOLE, True] > 30
    assert outcome.is_right, "\n".join(outcome.lines())
