"""A short soak of turns: clients, agent and proxy get along, and what is stored can be held against what was done."""

from __future__ import annotations

from pathlib import Path

import pytest
from soak.turns.judge import Fault
from soak.turns.plan import conversations
from soak.turns.proxies import Setup
from soak.turns.run import soak

SEED = 1


@pytest.mark.slow
async def test_every_client_is_shown_the_end_of_every_turn(tmp_path: Path) -> None:
    planned = list(conversations(SEED, 60))
    outcome = await soak(planned, Setup(), tmp_path, seed=SEED, clients=20, kill=False)
    assert [one.turn for one in outcome.records] == [turn for one in planned for turn in one.turns]
    assert all(truth.executed for truth in outcome.truths)
    strange = {Fault.REFUSED, Fault.FOREIGN, Fault.INVENTED, Fault.TWICE, Fault.MISSING}
    assert not [charge for charge in outcome.verdict.charges if charge.fault in strange]
    assert "Traceback" not in outcome.log
