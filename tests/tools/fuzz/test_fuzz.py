"""The fuzzer in the suite: a few rounds, one of another seed each time. `make fuzz` runs it for longer."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from support.patience import PATIENCE_S
from support.proxy import COMMAND
from tools.fuzz.__main__ import told
from tools.fuzz.agents_rounds import AgentsRound, run_agents_round
from tools.fuzz.differential.rounds import DifferentialRound, run_differential_round
from tools.fuzz.octets.rounds import OctetsRound, run_octets_round
from tools.fuzz.plan import BEHAVIOURS, round_of
from tools.fuzz.push_plan import push_round_of
from tools.fuzz.push_rounds import run_push_round
from tools.fuzz.rounds import Result, run_round

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

_CONNECTIONS = 40


async def test_nothing_crosses_and_nothing_hangs() -> None:
    """Each round has its own proxy. All rounds and clients play at once, since most of the time they wait."""
    plans = [
        round_of(20, 1, connections=_CONNECTIONS),
        round_of(20, 3, connections=_CONNECTIONS),
        round_of(21, 0, connections=_CONNECTIONS, only=frozenset(BEHAVIOURS)),
        round_of(secrets.randbelow(1_000_000), 0, connections=_CONNECTIONS),
        round_of(secrets.randbelow(1_000_000), 0, connections=_CONNECTIONS, agents=5),
    ]
    at_once = [replace(plan, clients=_CONNECTIONS) for plan in plans]
    webhooks = push_round_of(secrets.randbelow(1_000_000), 0, webhooks=_CONNECTIONS)
    rounds = [run_round(plan, [COMMAND], patience_s=PATIENCE_S) for plan in at_once]
    results = await asyncio.gather(*rounds, run_push_round(webhooks, [COMMAND]))
    _hold(["hostile"] * len(plans) + ["push"], [*plans, webhooks], results)


@pytest.mark.parametrize("negotiates", [True, False], ids=["asks", "never asks"])
async def test_the_proxy_changes_only_what_the_profile_lists(negotiates: bool) -> None:
    plan = DifferentialRound(secrets.randbelow(1_000_000), 0, connections=_CONNECTIONS, negotiates=negotiates)
    result = await run_differential_round(plan, [COMMAND], patience_s=2 * PATIENCE_S)
    _hold(["differential"], [plan], [result])


async def test_nothing_of_an_agent_is_taken_for_that_of_another() -> None:
    plans = [AgentsRound(secrets.randbelow(1_000_000), index) for index in (0, 1)]
    results = await asyncio.gather(*(run_agents_round(plan, [COMMAND]) for plan in plans))
    _hold(["agents"] * len(plans), plans, results)


async def test_no_bytes_end_a_listener() -> None:
    plan = OctetsRound(secrets.randbelow(1_000_000), 0, connections=60)
    _hold(["octets"], [plan], [await run_octets_round(plan, [COMMAND])])


def _hold(kinds: Sequence[str], plans: Sequence[Any], results: Sequence[Result]) -> None:
    outcomes = zip(kinds, plans, results, strict=True)
    found = [told(kind, plan, result, result.seconds) for kind, plan, result in outcomes if result.findings]
    assert not found, "\n".join(found)
