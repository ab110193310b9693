"""Every statistic of attempts against a library of statistics: scipy, inspect_ai.

inspect_ai is too large to be installed here: fixtures/inspect_ai.json has what it returns, and the command for that.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.later import Later
from tool_call_evaluators.attempts import pass_at, pass_hat

stats = Later("scipy.stats")

EXACT = 1e-9
INSPECT = json.loads((Path(__file__).parents[1] / "fixtures" / "inspect_ai.json").read_text("utf-8"))


@pytest.mark.parametrize("recorded", INSPECT["reducers"], ids=lambda recorded: f"{recorded['scores']}, {recorded['k']}")
def test_pass_at_k_and_pass_hat_k_as_inspect_ai(recorded: dict[str, object]) -> None:
    scores, k = recorded["scores"], recorded["k"]
    assert isinstance(scores, list)
    assert isinstance(k, int)
    scored = [score for score in scores if score is not None]
    passed = int(sum(scored))
    for name, ours in (("pass_at", pass_at), ("pass_k", pass_hat)):
        expected = recorded[name]
        if expected is None:
            assert ours(passed, len(scored), k) is None
        else:
            assert ours(passed, len(scored), k) == pytest.approx(expected, abs=EXACT)


@given(st.integers(1, 60), st.data())
def test_pass_at_k_is_a_hypergeometric_probability(scored: int, data: st.DataObject) -> None:
    passed, k = data.draw(st.integers(0, scored)), data.draw(st.integers(1, scored))
    drawn_passes = stats.hypergeom(scored, passed, k)
    assert pass_at(passed, scored, k) == pytest.approx(drawn_passes.sf(0), abs=EXACT)
    assert pass_hat(passed, scored, k) == pytest.approx(drawn_passes.pmf(k), abs=EXACT)
