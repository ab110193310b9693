"""The fuzzer in the suite: one short round of each kind, the same each time. `make fuzz` runs others for longer."""

from __future__ import annotations

import pytest
from support.patience import PATIENCE_S
from tools.fuzz.__main__ import KINDS, parse, play

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


@pytest.mark.parametrize("kind", KINDS)
async def test_nothing_is_found(kind: str) -> None:
    options = parse(["--connections", "20", "--patience", str(PATIENCE_S)])
    told, result = await play(kind, 7, 1, options)
    assert not result.findings, told
