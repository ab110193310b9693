"""pass@k and pass^k of repeated cases."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations, product

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
        "cases_not_estimable": 0,
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


def made_until_decided(outcomes: Iterable[bool], planned: int, must_pass: int) -> Attempts:
    made: dict[str, AttemptStatus] = {}
    for number, outcome in enumerate(outcomes):
        made[f"a #{number}"] = "passed" if outcome else "failed"
        attempts = Attempts("a", dict(made), planned, must_pass)
        if attempts.decided:
            return attempts
    raise AssertionError("not decided")


@pytest.mark.parametrize(("planned", "must_pass"), [(3, 2), (5, 2), (5, 4), (10, 8)])
@pytest.mark.parametrize("rate", [0.3, 0.7, 0.95])
def test_the_rate_of_attempts_that_may_end_early_is_unbiased(planned: int, must_pass: int, rate: float) -> None:
    """Its mean over all sequences of outcomes; that of the share that passed is not the rate."""
    mean = share = 0.0
    for outcomes in product([True, False], repeat=planned):
        weight = rate ** sum(outcomes) * (1 - rate) ** (planned - sum(outcomes))
        attempts = made_until_decided(outcomes, planned, must_pass)
        mean += weight * (attempts.pass_rate or 0.0)
        share += weight * attempts.passed / attempts.made
    assert mean == pytest.approx(rate, abs=1e-9)
    assert abs(share - rate) > 0.004


def test_what_an_early_end_makes_unestimable_is_counted() -> None:
    early = made_until_decided([True, False, True], 3, 2)
    rates = pass_rates([attempts("a", 1, 1), early])
    assert (list(rates.at), list(rates.hat), rates.ended_early) == ([0.5], [0.5], 1)
    one = made_until_decided([True], 3, 1)
    assert one.pass_rate is None
    rates = pass_rates([attempts("a", 1, 1), one])
    assert (list(rates.at), rates.ended_early, rates.not_estimable) == ([0.5], 1, 1)
    whole = Attempts("a", {"1": "passed", "2": "passed", "3": "failed"}, 3, 2, whole=True)
    assert whole.pass_rate == pytest.approx(2 / 3)
    assert pass_rates([whole]).hat == pytest.approx([2 / 3, 1 / 3, 0.0])
    excluded = Attempts("a", {"1": "passed", "2": "excluded", "3": "passed"}, 3, 2, {"2": "evaluator_error"})
    assert excluded.pass_rate is None
    assert excluded.to_dict()["excluded_for"] == {"evaluator_error": 1}
