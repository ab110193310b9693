"""The exact tests against known figures and against counting every arrangement."""

from __future__ import annotations

from itertools import combinations, product
from math import comb
from statistics import NormalDist

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tool_call_evaluators.runs.significance import DropTest, drawn, draws_in_units, permutation, significant_drops

GRID = st.integers(-6, 6).map(lambda step: step / 6)
SCORES = st.lists(st.integers(0, 4).map(lambda step: step / 4), min_size=1, max_size=5)


def sign_flip(differences: list[float]) -> DropTest:
    """One earlier value for each case."""
    return drawn(draws_in_units([([0.0], difference) for difference in differences]))


def test_sign_flip_by_known_figures():
    assert sign_flip([]).p_value == 1
    assert sign_flip([0.0, 0.0]).p_value == 1
    assert sign_flip([0.1 + 0.2 - 0.3] * 20).p_value == 1  # a rounding error is no change
    assert sign_flip([-1.0] * 5).p_value == 1 / 32
    assert sign_flip([-1.0] * 8 + [1.0] * 2).p_value == pytest.approx(0.0546875)  # McNemar: binomial, 10 pairs, 2 up
    assert sign_flip([1.0] * 8).p_value == 1
    # Darwin's maize, after Fisher (1935): 863 of 32,768 arrangements at least as far
    maize = [49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48]
    assert sign_flip([-height for height in maize]).p_value == pytest.approx(863 / 32768, rel=0.05)


def test_permutation_by_known_figures():
    assert permutation([], [1.0]).p_value == 1
    assert permutation([1.0], [1.0]).p_value == 1
    assert permutation([1.0] * 10, [0.0] * 10).p_value == 1 / comb(20, 10)
    assert permutation([1.0] * 3 + [0.0], [1.0] + [0.0] * 3).p_value == pytest.approx(17 / 70)  # Fisher's tea


@given(st.lists(GRID, max_size=8))
def test_sign_flip_counts_every_arrangement(differences):
    total = sum(differences)
    changed = [difference for difference in differences if difference]
    sums = [
        sum(x * sign for x, sign in zip(changed, signs, strict=True)) for signs in product((1, -1), repeat=len(changed))
    ]
    test = sign_flip(differences)
    assert test.p_value == pytest.approx(sum(found <= total + 1e-9 for found in sums) / len(sums))
    assert test.least == pytest.approx(1 / len(sums))


@given(SCORES, SCORES)
def test_permutation_counts_every_arrangement(before, after):
    sums = [sum(chosen) for chosen in combinations([*before, *after], len(after))]
    test = permutation(before, after)
    if len({*before, *after}) == 1:
        assert test == DropTest(1.0, 1.0)
        return
    span = max(*before, *after) - min(*before, *after)
    if (span * 4) % 3:  # thirds of a span are exact on the grid of the test as well, but not in these floats
        assert test.p_value == pytest.approx(sum(found <= sum(after) + 1e-9 for found in sums) / len(sums))
        assert test.least == pytest.approx(sum(found <= min(sums) + 1e-9 for found in sums) / len(sums))


@given(st.lists(GRID, min_size=1, max_size=40), st.floats(0.001, 1000))
def test_the_unit_of_a_score_does_not_matter(differences, factor):
    assert sign_flip(differences) == sign_flip([difference * factor for difference in differences])


@pytest.mark.slow
def test_many_scores_are_tested_by_an_approximation_that_agrees():
    fallen = [-1.0] * 170 + [1.0] * 130
    exact, approximate = sign_flip(fallen).p_value, sign_flip([*fallen, -1e-3]).p_value
    assert approximate == pytest.approx(exact, rel=0.1)
    assert approximate == pytest.approx(NormalDist().cdf(-40 / 300**0.5), rel=0.2)
    before, after = [0.5, 1.0, 0.0] * 50, [0.5, 0.0, 0.5] * 50
    more = permutation([*before, 0.5], [*after, 0.5]).p_value
    assert more == pytest.approx(permutation(before, after).p_value, rel=0.2)


def test_what_cannot_reject_needs_no_correction():
    sure, hopeless = DropTest(0.04, 0.001), DropTest(1.0, 1.0)
    assert significant_drops([sure] + [hopeless] * 100, 0.05) == {0}
    assert significant_drops([sure, DropTest(0.9, 0.001)], 0.05) == set()


def test_holm_steps_down():
    tests = [DropTest(p_value, 0.0) for p_value in (0.024, 0.01, 0.04, 0.9)]
    assert significant_drops(tests, 0.05) == {1}
    assert significant_drops([DropTest(p_value, 0.0) for p_value in (0.012, 0.016, 0.02, 0.05)], 0.05) == {0, 1, 2, 3}
