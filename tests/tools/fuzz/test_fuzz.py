"""The fuzzer in the suite: one short round of each kind, the same each time. `make fuzz` runs others for longer."""

from __future__ import annotations

import pytest
from support.patience import PATIENCE_S
from tools.fuzz.__main__ import KINDS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


@pytest.mark.parametrize("kind", KINDS)
async def test_nothing_is_found(kind: str) -> None:
    findings: list[str] = []
    await KINDS[kind](7, 1, 20, PATIENCE_S, findings)
    assert findings == []
