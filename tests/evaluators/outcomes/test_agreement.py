"""Every statistic of agreement against a library of statistics, and what holds for any ratings."""

from __future__ import annotations

import math
import random
from statistics import NormalDist

import krippendorff
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.later import Later
from tool_call_evaluators.outcomes.agreement import (
    Confusion,
    Estimate,
    cohen_kappa,
    corrected_rate,
    krippendorff_alpha,
    proportion,
)

rating = Later("statsmodels.stats.inter_rater")

EXACT = 1e-9
Z = NormalDist().inv_cdf(0.975)
VERDICTS = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=60)
ITEMS = st.lists(st.lists(st.integers(1, 5), min_size=0, max_size=4), min_size=2, max_size=30)


def test_a_rate_of_nothing_is_undefined():
    assert proportion(0, 0) == Estimate(None, None, 0, "there are no such items")
    assert cohen_kappa([]).value is krippendorff_alpha([], "nominal").value is None


@settings(max_examples=20)
@given(VERDICTS)
def test_kappa_as_statsmodels(pairs):
    found = cohen_kappa(pairs)
    if len({rating for pair in pairs for rating in pair}) == 1:
        assert (found.value, found.interval, found.undefined) == (None, None, "all ratings are the same")
        return
    table = np.zeros((2, 2))
    for one, other in pairs:
        table[int(one), int(other)] += 1
    with np.errstate(divide="ignore", invalid="ignore"):
        assert found.value == pytest.approx(rating.cohens_kappa(table).kappa, abs=EXACT)


@pytest.mark.parametrize("level", ["nominal", "ordinal"])
@settings(max_examples=10)
@given(items=ITEMS)
def test_alpha_as_krippendorff(level, items):
    found = krippendorff_alpha(items, level)
    counted = [item for item in items if len(item) > 1]
    assert found.n == len(counted)
    if len({rating for item in counted for rating in item}) < 2:
        assert found.value is None
        assert found.undefined
        return
    matrix = np.array([item + [np.nan] * (4 - len(item)) for item in items], dtype=float).T
    theirs = krippendorff.alpha(reliability_data=matrix, level_of_measurement=level)
    assert found.value == pytest.approx(theirs, abs=EXACT)
    assert found.interval is None or found.interval[0] <= found.value <= found.interval[1]


def test_a_corrected_rate_by_known_figures():
    """Of 200 turns the judge passes 60 %; it finds 90 % of 100 good and 80 % of 50 bad ones: (.6 + .8 - 1) / .7."""
    found = corrected_rate([1.0] * 120 + [0.0] * 80, Confusion(90, 100, 40, 50))
    theta = 0.4 / 0.7
    variance = 0.24 / 200 + (1 - theta) ** 2 * 0.16 / 50 + theta**2 * 0.09 / 100
    width = Z * math.sqrt(variance) / 0.7
    assert found.value == pytest.approx(theta, abs=EXACT)
    assert found.interval == pytest.approx((theta - width, theta + width), abs=EXACT)


def test_a_corrected_rate_covers_the_truth():
    """The truth is 0.7; the judge's own rate, 0.68, is lower."""
    covered = 0
    for seed in range(200):
        chance = random.Random(seed)

        def judged(passes: bool, chance: random.Random = chance) -> bool:
            return chance.random() < (0.88 if passes else 0.2)

        labels = [chance.random() < 0.7 for _ in range(200)]
        judge = Confusion.of((label, judged(label)) for label in labels)
        turns = [float(judged(chance.random() < 0.7)) for _ in range(300)]
        low, high = corrected_rate(turns, judge).interval
        covered += low <= 0.7 <= high
    assert 183 <= covered <= 198


def test_repetitions_of_a_case_are_no_more_evidence_than_the_case():
    judge = Confusion(90, 100, 80, 100)
    cases = [1.0] * 8 + [0.0] * 2
    repeated = corrected_rate(cases, judge, [5] * 10)
    alone = corrected_rate(cases, judge)
    assert repeated.value == alone.value
    assert repeated.interval[1] - repeated.interval[0] >= alone.interval[1] - alone.interval[0]


@pytest.mark.parametrize(
    ("judge", "why"),
    [
        (Confusion(5, 10, 5, 10), "chance"),  # a coin
        (Confusion(2, 10, 3, 10), "chance"),  # worse than one
        (Confusion(7, 10, 7, 10), "chance"),  # the interval touches
        (Confusion(60, 60, 0, 0), "no label says fails"),
        (Confusion(0, 0, 60, 60), "no label says passes"),
    ],
)
def test_a_correction_that_means_nothing_is_refused(judge, why):
    found = corrected_rate([1.0, 0.0] * 40, judge)
    assert (found.value, found.interval) == (None, None)
    assert why in found.undefined


@given(VERDICTS, st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=50))
def test_a_corrected_rate_stays_a_rate(pairs, shares):
    found = corrected_rate(shares, Confusion.of(pairs))
    assert (found.value is None) == bool(found.undefined)
    if found.value is not None:
        assert 0 <= found.interval[0] <= found.value <= found.interval[1] <= 1
