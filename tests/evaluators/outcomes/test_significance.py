"""The tests of a comparison: known figures, and those of libraries that count or draw every arrangement."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.later import Later
from tool_call_evaluators.outcomes.regression import (
    UNTESTABLE,
    DropTest,
    drawn,
    in_units,
    largest_difference,
    mean_interval,
    permutation,
    significant_drops,
)

stats = Later("scipy.stats")
tests_of = Later("statsmodels.stats.multitest")

EXACT = 1e-9
GRADES = st.lists(st.integers(0, 4).map(lambda step: step / 4), min_size=2, max_size=5)


def sign_flip(differences: Sequence[float]) -> DropTest:
    """One earlier value for each case."""
    return drawn(in_units([[0.0, difference] for difference in differences]))


def unpaired(before: Sequence[float], after: Sequence[float]) -> DropTest:
    (units,) = in_units([[*before, *after]])
    return permutation(units, len(after))


def test_permutation_by_known_figures() -> None:
    assert permutation((), 0) == permutation((1,), 1) == unpaired([1.0], [1.0]) == UNTESTABLE
    assert unpaired([1.0] * 10, [0.0] * 10) == pytest.approx((1 / comb(20, 10), 1 / comb(20, 10)))
    assert unpaired([1.0] * 3 + [0.0], [1.0] + [0.0] * 3).p_value == pytest.approx(17 / 70)  # Fisher's tea


@given(st.lists(st.sampled_from([(0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (1.0, 1.0)]), min_size=1, max_size=200))
def test_one_attempt_in_both_runs_is_mcnemars_test(pairs: list[tuple[float, float]]) -> None:
    risen, fallen = (sum(pair == side for pair in pairs) for side in ((0.0, 1.0), (1.0, 0.0)))
    less = stats.binomtest(risen, risen + fallen, alternative="less").pvalue if risen + fallen else 1
    assert drawn(in_units(pairs)).p_value == pytest.approx(less, abs=EXACT)


@given(st.lists(st.lists(st.integers(0, 3).map(lambda step: step / 3), min_size=3, max_size=3), max_size=5, min_size=2))
def test_equal_numbers_of_earlier_runs_are_the_permutation_test_of_samples(strata: list[list[float]]) -> None:
    expected = stats.permutation_test(
        np.array(strata).T,
        lambda *runs, axis: np.sum(runs[-1], axis=axis),
        permutation_type="samples",
        alternative="less",
        n_resamples=np.inf,
        vectorized=True,
    )
    assert drawn(in_units(strata)).p_value == pytest.approx(expected.pvalue, abs=EXACT)


@given(GRADES, GRADES)
def test_the_scores_of_a_case_are_the_permutation_test(before: list[float], after: list[float]) -> None:
    found = unpaired(before, after)
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
    assert found.least <= found.p_value + EXACT


@given(st.lists(st.booleans(), min_size=2, max_size=300), st.data())
def test_passes_of_a_case_are_fishers_test(passes: list[bool], data: st.DataObject) -> None:
    taken = data.draw(st.integers(1, len(passes) - 1))
    found = permutation(tuple(map(int, passes)), taken)
    of_ones = len(passes), sum(passes), taken
    expected = (
        stats.hypergeom.cdf(sum(passes[-taken:]), *of_ones),
        stats.hypergeom.pmf(stats.hypergeom.support(*of_ones)[0], *of_ones),
    )
    assert found == pytest.approx(expected, abs=EXACT)


@pytest.mark.parametrize("before", [[4, 2, 4, 2, 3] * 60, [4] * 300 + [0, 1, 2, 3] * 10])
@pytest.mark.parametrize("after", [[4, 2, 1, 4, 2] * 40, [4] * 130 + [3] * 30 + [0, 1] * 4])
def test_very_many_scores_of_a_case_are_tested_almost_as_if_they_were_counted(
    before: list[int], after: list[int]
) -> None:
    """And better than by Student's test."""
    ways = np.zeros((len(after) + 1, sum(after) + 1), np.longdouble)  # by the number of values chosen, and their sum
    ways[0, 0] = 1
    for unit in before + after:
        ways[1:, unit:] += ways[:-1, : ways.shape[1] - unit]
    counted = float(ways[-1].sum() / np.longdouble(comb(len(before + after), len(after))))
    student = stats.ttest_ind(after, before, alternative="less").pvalue
    assert abs(permutation((*before, *after), len(after)).p_value - counted) <= abs(student - counted) + EXACT


@given(st.lists(st.integers(-6, 6).map(lambda step: step / 6), min_size=1, max_size=40), st.floats(0.001, 1000))
def test_the_unit_of_a_score_does_not_matter(differences: list[float], factor: float) -> None:
    assert sign_flip(differences) == sign_flip([difference * factor for difference in differences])


@settings(max_examples=25)  # each takes statsmodels 50 ms
@given(st.lists(st.floats(0, 0.2), min_size=1, max_size=30), st.sampled_from([0.01, 0.05]))
def test_holms_correction_as_statsmodels(p_values: list[float], level: float) -> None:
    expected = tests_of.multipletests(p_values, level, method="holm")[0]
    tests = {place: DropTest(p_value, 0.0) for place, p_value in enumerate(p_values)}
    assert significant_drops(tests, level) == set(np.flatnonzero(expected))


def test_what_cannot_reject_needs_no_correction() -> None:
    hopeless = {f"hopeless {number}": DropTest(1.0, 1.0) for number in range(100)}
    assert significant_drops({"sure": DropTest(0.04, 0.001), **hopeless}, 0.05) == {"sure"}
    assert significant_drops({"sure": DropTest(0.04, 0.001), "other": DropTest(0.9, 0.001)}, 0.05) == set()


@given(st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.5, 1.0]), min_size=1, max_size=100), st.integers(0, 1000))
def test_a_difference_is_bounded_with_few_changes_and_with_many(changes: list[float], unchanged: int) -> None:
    differences = [*changes, *[0.0] * unchanged]
    differing = np.count_nonzero(differences)
    expected = stats.binomtest(differing, len(differences)).proportion_ci(0.9, "exact").high
    if differing >= 20:
        expected = np.abs(stats.ttest_1samp(differences, 0).confidence_interval(0.9)).max()
    assert largest_difference(differences) == pytest.approx(expected, abs=1e-6)


def difference_of_means(one: Any, other: Any = None, *, axis: int) -> Any:
    return one.mean(axis) - (0 if other is None else other.mean(axis))


@pytest.mark.parametrize("sides", [([0.0, 0.5, 1.0, 1.0] * 5,), ([0.5, 0.75] * 10, [0.25, 1.0, 0.0] * 5)])
def test_an_interval_is_that_of_the_bootstrap(sides: tuple[list[float], ...]) -> None:
    found = mean_interval(*sides)
    assert found is not None
    expected = stats.bootstrap(sides, difference_of_means, method="percentile", rng=0)
    assert found == pytest.approx(tuple(expected.confidence_interval), abs=0.05)
    assert mean_interval(*sides) == found
    assert mean_interval([1.0]) is None
