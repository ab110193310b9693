"""pass@k and pass^k of repeated cases."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tool_call_evaluators.runs.attempts import Attempts, pass_at, pass_hat, pass_rates


@given(st.lists(st.booleans(), min_size=1, max_size=9), st.integers(1, 9))
def test_the_rates_are_those_of_all_choices_of_k_attempts(outcomes: list[bool], k: int) -> None:
    passed, scored = sum(outcomes), len(outcomes)
    chosen = list(combinations(outcomes, k))
    if not chosen:
        assert pass_at(passed, scored, k) is pass_hat(passed, scored, k) is None
        return
    assert pass_at(passed, scored, k) == pytest.approx(sum(map(any, chosen)) / len(chosen), abs=1e-12)
    assert pass_hat(passed, scored, k) == pytest.approx(sum(map(all, chosen)) / len(chosen), abs=1e-12)


def test_cases_are_passed_failed_or_flaky() -> None:
    verdicts = [Attempts("a", *counts).verdict for counts in [(3, 0), (0, 3), (1, 2), (0, 0, 3)]]
    assert verdicts == ["passed", "failed", "flaky", "unscored"]


def test_rates_end_where_a_case_has_no_further_attempts() -> None:
    rates = pass_rates([Attempts("a", 3, 1), Attempts("b", 1, 1, 2), Attempts("c", 0, 0, 4)])
    assert rates.at == pytest.approx([0.625, 1.0])
    assert rates.hat == pytest.approx([0.625, 0.25])
    assert rates.short == 1
    assert pass_rates([]).to_dict() == {"pass_at": {}, "pass_hat": {}, "cases_with_fewer_attempts": 0}
