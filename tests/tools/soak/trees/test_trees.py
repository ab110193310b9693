"""A short soak of trees: every edge by trace context or reference is certain and right, no certain one is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.soak.trees.plan import WHOLE, conversations
from tools.soak.trees.run import CERTAIN, soak

SEED = 3


@pytest.mark.slow
@pytest.mark.parametrize("proxies", [1, pytest.param(3, marks=pytest.mark.database)])
async def test_trees_are_as_agents_asked(proxies: int, tmp_path: Path) -> None:
    planned = list(conversations(SEED, 8, traced_users=proxies > 1))
    outcome = await soak(planned, proxies, tmp_path, SEED)
    assert outcome.problems == []
    assert outcome.edges[WHOLE, CERTAIN] > 30
