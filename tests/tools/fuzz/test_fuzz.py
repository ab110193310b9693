"""The fuzzer in the suite: two short rounds of each kind, of another seed each time. `make fuzz` runs it for longer."""

from __future__ import annotations

import asyncio
import secrets

import pytest
from support.patience import PATIENCE_S
from tools.fuzz.__main__ import KINDS, SEEDS, parse, play

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


@pytest.mark.parametrize("kind", KINDS)
async def test_nothing_is_found(kind: str) -> None:
    """The rounds play at once, since most of the time they wait."""
    seed, options = secrets.randbelow(SEEDS), parse(["--connections", "20", "--patience", str(PATIENCE_S)])
    played = await asyncio.gather(*(play(kind, seed, index, options) for index in (1, 2)))
    assert not any(result.findings for _, result in played), "\n".join(told for told, _ in played)
