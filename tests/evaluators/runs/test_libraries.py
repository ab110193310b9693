"""Every statistic of attempts and comparisons against a library of statistics: scipy, statsmodels, inspect_ai.

inspect_ai is too large to be installed here: fixtures/inspect_ai.json has what it returns, and the command for that.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from statistics import NormalDist, fmean

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.later import Later
from tool_call_evaluators.attempts import early_pass_rate, pass_at, pass_hat
from tool_call_evaluators.runs.regression import _upper_share, power
from tool_call_evaluators.runs.significance import (
    DropTest,
    drawn,
    draws_in_units,
    mean_interval,
    permutation,
    significant_drops,
)

stats, proportion = Later("scipy.stats"), Later("statsmodels.stats.proportion")
tables_of, tests_of, weights = (
    Later(f"statsmodels.stats.{name}") for name in ("contingency_tables", "multitest", "weightstats")
)

EXACT = 1e-9
INSPECT = json.loads((Path(__file__).parents[1] / "fixtures" / "inspect_ai.json").read_text("utf-8"))
OUTCOMES = st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=12)
GRADES = st.lists(st.integers(0, 4).map(lambda step: step / 4), min_size=2, max_size=5)


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


@given(st.integers(2, 12), st.data(), st.floats(0.05, 0.95))
def test_the_rate_of_attempts_that_end_early_is_unbiased(planned: int, data: st.DataObject, rate: float) -> None:
    """Its mean over the distribution of when the attempts end, by scipy."""
    if planned == 2:
        assert early_pass_rate(2, 2, 2, 2) is None
        return
    must_pass = data.draw(st.integers(2, planned - 1))
    allowed = planned - must_pass + 1
    mean = 0.0
    for failed in range(allowed):
        weight = stats.nbinom(must_pass, rate).pmf(failed)
        mean += weight * (early_pass_rate(must_pass, must_pass + failed, planned, must_pass) or 0.0)
    for passed in range(must_pass):
        weight = stats.nbinom(allowed, 1 - rate).pmf(passed)
        mean += weight * (early_pass_rate(passed, passed + allowed, planned, must_pass) or 0.0)
    assert mean == pytest.approx(rate, abs=EXACT)


@given(st.lists(st.sampled_from([(0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (1.0, 1.0)]), min_size=1, max_size=200))
def test_one_attempt_in_both_runs_is_mcnemars_test(pairs: list[tuple[float, float]]) -> None:
    found = drawn(draws_in_units([([before], after) for before, after in pairs]))
    risen, fallen = (sum(pair == side for pair in pairs) for side in ((0.0, 1.0), (1.0, 0.0)))
    if not risen + fallen:
        assert found.p_value == 1
        return
    less = stats.binomtest(risen, risen + fallen, alternative="less").pvalue
    assert found.p_value == pytest.approx(less, abs=EXACT)
    two_sided = tables_of.mcnemar([[0, fallen], [risen, 0]], exact=True).pvalue
    if risen < fallen:
        assert 2 * found.p_value == pytest.approx(two_sided, abs=EXACT)


@given(st.lists(st.integers(-4, 4).map(lambda step: step / 4), min_size=2, max_size=9))
def test_one_earlier_run_is_the_paired_permutation_test(differences: list[float]) -> None:
    expected = stats.permutation_test(
        (np.array(differences), np.zeros(len(differences))),
        lambda after, before, axis: np.sum(after - before, axis=axis),
        permutation_type="samples",
        alternative="less",
        n_resamples=np.inf,
        vectorized=True,
    )
    found = drawn(draws_in_units([([0.0], difference) for difference in differences]))
    assert found.p_value == pytest.approx(expected.pvalue, abs=EXACT)


def strata() -> st.SearchStrategy[list[tuple[list[float], float]]]:
    values = st.integers(0, 3).map(lambda step: step / 3)
    return st.lists(st.tuples(st.lists(values, min_size=1, max_size=6), values), min_size=1, max_size=12)


@given(strata())
def test_several_earlier_runs_are_drawn_from_by_case(cases: list[tuple[list[float], float]]) -> None:
    """The distribution of the sum, as numpy convolves it."""
    distribution = np.array([1.0])
    for before, after in cases:
        counts = np.bincount([round(3 * value) for value in (*before, after)], minlength=4)
        distribution = np.convolve(distribution, counts / counts.sum())
    observed = round(3 * sum(after for _, after in cases))
    assert drawn(draws_in_units(cases)).p_value == pytest.approx(distribution[: observed + 1].sum(), abs=EXACT)


def test_many_cases_and_runs_are_tested_as_by_mantel_and_haenszel() -> None:
    """The exact distribution is near the normal one of statsmodels."""
    chance = np.random.default_rng(5)
    for rate in (0.7, 0.95):
        outcomes = (chance.random((400, 11)) < rate).astype(float)
        outcomes[:, -1] = (chance.random(400) < rate - 0.02).astype(float)
        cases = [(list(row[:-1]), float(row[-1])) for row in outcomes]
        tables = [[[row[-1], 1 - row[-1]], [row[:-1].sum(), 10 - row[:-1].sum()]] for row in outcomes]
        expected = (
            tables_of.StratifiedTable([np.array(table) for table in tables]).test_null_odds(correction=True).pvalue / 2
        )
        exact = drawn(draws_in_units(cases)).p_value
        assert 0.0005 < exact < 0.6
        assert exact == pytest.approx(expected, rel=0.3)


def test_where_counting_takes_too_long_the_approximation_agrees(monkeypatch: pytest.MonkeyPatch) -> None:
    from tool_call_evaluators.runs import significance

    chance = np.random.default_rng(6)
    for rate, runs in [(0.99, 20), (0.9, 5), (0.7, 2)]:
        for count, dropped in product((300, 600), (1000, 100, 50, 20)):
            outcomes = (chance.random((count, runs + 1)) < rate).astype(float)
            outcomes[: count // dropped, -1] = 0.0
            cases = [(list(row[:-1]), float(row[-1])) for row in outcomes]
            exact = drawn(draws_in_units(cases)).p_value
            with monkeypatch.context() as patched:
                patched.setattr(significance, "MAX_BITS", 0)
                approximate = drawn(draws_in_units(cases)).p_value
            assert approximate == pytest.approx(exact, rel=0.02), (rate, runs, count)


@given(OUTCOMES, OUTCOMES)
def test_the_attempts_of_a_case_are_fishers_exact_test(before: list[float], after: list[float]) -> None:
    found = permutation(before, after)
    if len({*before, *after}) == 1:
        assert found == DropTest(1.0, 1.0)
        return
    passed, passed_now = int(sum(before)), int(sum(after))
    table = [[passed_now, len(after) - passed_now], [passed, len(before) - passed]]
    assert found.p_value == pytest.approx(stats.fisher_exact(table, alternative="less").pvalue, abs=EXACT)


@given(GRADES, GRADES)
def test_the_scores_of_a_case_are_the_permutation_test(before: list[float], after: list[float]) -> None:
    found = permutation(before, after)
    if len({*before, *after}) == 1 or (4 * (max(*before, *after) - min(*before, *after))) % 3 == 0:
        return  # thirds of a span are exact on the grid of the test, and not in these numbers
    expected = stats.permutation_test(
        (np.array(after), np.array(before)),
        lambda one, _, axis: np.sum(one, axis=axis),
        permutation_type="independent",
        alternative="less",
        n_resamples=np.inf,
        vectorized=True,
    )
    assert found.p_value == pytest.approx(expected.pvalue, abs=EXACT)


@settings(max_examples=25)  # each takes statsmodels 50 ms
@given(st.lists(st.floats(0, 0.2), min_size=1, max_size=30), st.sampled_from([0.01, 0.05]))
def test_holms_correction_as_statsmodels(p_values: list[float], level: float) -> None:
    expected = tests_of.multipletests(p_values, level, method="holm")[0]
    found = significant_drops([DropTest(p_value, 0.0) for p_value in p_values], level)
    assert found == set(np.flatnonzero(expected))


@given(st.integers(1, 400), st.data())
def test_the_limit_of_a_share_is_that_of_clopper_and_pearson(total: int, data: st.DataObject) -> None:
    found = data.draw(st.integers(0, total))
    _, upper = proportion.proportion_confint(found, total, alpha=0.1, method="beta")
    assert _upper_share(found, total) == pytest.approx(1.0 if found == total else upper, abs=EXACT)


def test_the_interval_of_many_cases_is_that_of_the_normal_distribution() -> None:
    values = list(np.random.default_rng(3).beta(2, 1, 700))
    assert mean_interval(values, None, "x") == pytest.approx(weights.zconfint(values), abs=EXACT)


def test_the_interval_of_few_cases_is_a_bootstrap_over_cases() -> None:
    values = list(np.random.default_rng(4).beta(2, 1, 80))
    expected = stats.bootstrap((values,), np.mean, method="percentile", n_resamples=20_000, rng=1).confidence_interval
    assert mean_interval(values, None, "x") == pytest.approx(tuple(expected), abs=0.01)


@pytest.mark.parametrize("recorded", INSPECT["clustered"], ids=lambda recorded: str(len(recorded["cases"])))
def test_the_error_over_cases_is_the_clustered_one(recorded: dict[str, object]) -> None:
    """Of equal numbers of attempts, over the means of the cases: inspect_ai's, but for its factor for few clusters."""
    cases = recorded["cases"]
    assert isinstance(cases, list)
    means = [fmean(case) for case in cases]
    low, high = mean_interval(means * 600, None, "x") or (0.0, 0.0)  # many: by the error, not by resampling
    error = (high - low) / 2 / NormalDist().inv_cdf(0.975) * math.sqrt(600 * (1 - 1 / (600 * len(means))))
    few = math.sqrt(len(means) / (len(means) - 1))
    assert error * few == pytest.approx(recorded["stderr"], abs=EXACT)


@pytest.mark.parametrize(("cases", "attempts", "runs"), [(50, 3, 1), (20, 10, 1), (200, 1, 5)])
@pytest.mark.parametrize("drop", [0.05, 0.1, 0.2])
def test_power_is_that_of_the_normal_approximation(cases: int, attempts: int, runs: int, drop: float) -> None:
    """By hand with scipy; `test_regression` compares it with simulations."""
    rate, level = 0.9, 0.02
    lower = rate - drop
    spread = (rate * (1 - rate) / runs + lower * (1 - lower)) / attempts
    pooled = (runs * rate + lower) / (runs + 1)
    null = pooled * (1 - pooled) * (1 + 1 / runs) / attempts if runs > 1 else spread + drop**2
    half_a_step = 0.5 / (cases * attempts)
    limit = stats.norm.isf(level, scale=math.sqrt(null / cases)) + half_a_step
    expected = stats.norm.sf(limit, loc=drop, scale=math.sqrt(spread / cases))
    assert power(rate, lower, cases, attempts, level, runs) == pytest.approx(expected, abs=EXACT)


def test_the_number_of_attempts_is_near_millers() -> None:
    """E. Miller, 2411.00640: n = (z_a + z_b)^2 (s_a^2 / K + s_b^2 / K) / d^2 for attempts that are all that varies."""
    rate, lower, cases, level = 0.9, 0.8, 100, 0.025
    spread = rate * (1 - rate) + lower * (1 - lower)
    quantiles: Sequence[float] = stats.norm.isf([level, 0.2])
    miller = sum(quantiles) ** 2 * spread / (0.1**2 * cases)
    needed = next(count for count in range(1, 100) if power(rate, lower, cases, count, level) >= 0.8)
    assert miller <= needed <= miller + 2
