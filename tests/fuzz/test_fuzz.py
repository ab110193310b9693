"""The fuzzer in the suite: a few rounds, one of another seed each time. `make fuzz` runs it for longer."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import replace

import pytest
from fuzz.__main__ import told
from fuzz.plan import BEHAVIOURS, round_of
from fuzz.push_plan import push_round_of
from fuzz.push_rounds import run_push_round
from fuzz.rounds import run_round
from support.patience import PATIENCE_S
from support.proxy import COMMAND

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

_CONNECTIONS = 40


async def test_nothing_crosses_and_nothing_hangs() -> None:
    """Each round has its own proxy. All rounds and clients play at once, since most of the time they wait."""
    plans = [
        round_of(20, 1, connections=_CONNECTIONS),
        round_of(20, 3, connections=_CONNECTIONS),
        round_of(21, 0, connections=_CONNECTIONS, only=frozenset(BEHAVIOURS)),
        round_of(secrets.randbelow(1_000_000), 0, connections=_CONNECTIONS),
    ]
    at_once = [replace(plan, clients=_CONNECTIONS) for plan in plans]
    webhooks = push_round_of(secrets.randbelow(1_000_000), 0, webhooks=_CONNECTIONS)
    rounds = [run_round(plan, [COMMAND], patience_s=PATIENCE_S) for plan in at_once]
    results = await asyncio.gather(*rounds, run_push_round(webhooks, [COMMAND]))
    outcomes = zip([*plans, webhooks], results, strict=True)
    found = [told(plan, result, result.seconds) for plan, result in outcomes if result.findings]
    assert not found, "\n".join(found)
