"""pass@k and pass^k of repeated cases."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tool_call_evaluators.attempts import Attempts, AttemptStatus, pass_at, pass_hat, pass_rates


def attempts(case_id: str, passed: int, failed: int, excluded: int = 0) -> Attempts:
    made: list[AttemptStatus] = ["passed"] * passed + ["failed"] * failed + ["excluded"] * excluded
    return Attempts(case_id, {f"{case_id} #{number}": status for number, status in enumerate(made)}, len(made))


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
    verdicts = [attempts("a", *counts).verdict for counts in [(3, 0), (0, 3), (1, 2), (0, 0, 3)]]
    assert verdicts == ["passed", "failed", "flaky", "unscored"]


def test_rates_end_where_a_case_has_no_further_attempts() -> None:
    rates = pass_rates([attempts("a", 3, 1), attempts("b", 1, 1, 2), attempts("c", 0, 0, 4)])
    assert rates.at == pytest.approx([0.625, 1.0])
    assert rates.hat == pytest.approx([0.625, 0.25])
    assert rates.short == 1
    assert pass_rates([]).to_dict() == {
        "pass_at": {},
        "pass_hat": {},
        "cases_with_fewer_attempts": 0,
        "cases_ended_early": 0,
    }


STATUSES = st.lists(st.sampled_from(["passed", "failed", "excluded"]), max_size=12)


@given(STATUSES, st.integers(1, 12), st.integers(1, 12))
def test_attempts_are_decided_where_no_outcome_of_the_others_changes_the_verdict(
    statuses: list[AttemptStatus], planned: int, must_pass: int
) -> None:
    made = Attempts("a", {f"a #{number}": status for number, status in enumerate(statuses)}, planned, must_pass)
    left = max(0, planned - len(statuses))
    verdicts = {made.passed + further >= must_pass for further in range(left + 1)}
    assert made.decided == (len(verdicts) == 1)
    assert made.accepted == (made.passed >= must_pass)


def test_attempts_that_ended_early_are_in_no_rate() -> None:
    early = Attempts("b", {"b #1": "passed"}, 3, 1)
    rates = pass_rates([attempts("a", 1, 1), early])
    assert (list(rates.at), list(rates.hat), rates.ended_early) == ([0.5, 1.0], [0.5, 0.0], 1)
