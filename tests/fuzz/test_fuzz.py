"""The fuzzer in the suite: a few rounds, the last of another seed each time. `make fuzz` runs it for longer."""

from __future__ import annotations

import secrets

import pytest
from e2e.proxy import COMMAND
from fuzz.__main__ import told
from fuzz.plan import BEHAVIOURS, round_of
from fuzz.rounds import run_round

PATIENCE_S = 90.0
"""The machine may be busy with other tests."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


@pytest.mark.parametrize("index", [1, 3])
async def test_nothing_crosses_and_nothing_hangs(index: int) -> None:
    await _play(seed=20, index=index)


async def test_nothing_crosses_and_nothing_hangs_with_another_seed() -> None:
    await _play(seed=secrets.randbelow(1_000_000), index=0)


async def test_all_behaviours_at_once() -> None:
    await _play(seed=21, index=0, only=frozenset(BEHAVIOURS))


async def _play(seed: int, index: int, only: frozenset[str] = frozenset()) -> None:
    plan = round_of(seed, index, connections=40, only=only)
    result = await run_round(plan, [COMMAND], patience_s=PATIENCE_S)
    assert not result.findings, told(plan, result, result.seconds)
