"""The gate of a comparison: how often it fires for nothing, and what it sees. Simulated, with fixed seeds."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from support.later import Later
from tool_call_evaluators.outcomes.regression import FALSE_ALARMS, Sides, find_drops, sensitivity_of
from tools.bench.gate import RATES, REPETITIONS, SPECIAL, Setting, worse

stats = Later("scipy.stats")

COMPARISONS = {5: 120, 20: 60, 100: 12, 500: 3}
"""By the number of cases: some three seconds together. `make simulate` makes all of `gate.CASES`, and more."""


def most(comparisons: int, probability: float = 1e-4) -> int:
    """More false alarms than this have that probability in that many comparisons, if their rate is `FALSE_ALARMS`."""
    return int(stats.binom.isf(probability, comparisons, FALSE_ALARMS))


@pytest.mark.parametrize("cases", COMPARISONS)
def test_an_unchanged_agent_is_called_worse_in_at_most_five_percent(cases: int) -> None:
    """Over pass rates from .6 to 1 and 1 to 10 attempts: each setting, and those of a rate or of a number together."""
    found: Counter[object] = Counter()
    made: Counter[object] = Counter()
    for repetitions in REPETITIONS:
        for rate in RATES:
            comparisons = COMPARISONS[cases] if rate < 1 else 1  # without a failure, all are the same
            alarms = worse(Setting(cases, repetitions, rate), comparisons)
            for key in (rate, f"{repetitions} attempts", (rate, repetitions), "all"):
                found[key] += alarms
                made[key] += comparisons
    assert {key: (found[key], made[key]) for key in found if found[key] > most(made[key])} == {}


@pytest.mark.parametrize("setting", [one for one in SPECIAL if one.metrics <= 10], ids=str)
def test_nor_where_runs_and_cases_differ(setting: Setting) -> None:
    """Several earlier runs, other numbers of attempts, attempts that end early or are excluded, several metrics."""
    assert worse(setting, 60) <= most(60)


@pytest.mark.parametrize(
    ("cases", "repetitions", "after", "least"),
    [(20, 1, 0.7, 0.2), (50, 1, 0.7, 0.65), (20, 5, 0.7, 0.9), (50, 1, 0.5, 0.95)],
)
def test_losses_that_are_seen(cases: int, repetitions: int, after: float, least: float) -> None:
    assert worse(Setting(cases, repetitions, 0.9), 200, after) >= 200 * least


def test_several_earlier_runs_show_more_than_one() -> None:
    one, five = (worse(Setting(20, 1, 0.9, runs=runs), 200, 0.7) for runs in (1, 5))
    assert five > one + 20


@pytest.mark.parametrize(
    "setting",
    [Setting(20, 1, 1.0), Setting(20, 3, 0.9), Setting(50, 1, 0.95), Setting(100, 5, 0.9), Setting(50, 1, 0.9, runs=5)],
    ids=str,
)
def test_the_drop_that_is_said_to_be_detected_is_detected(setting: Setting) -> None:
    (sample,) = setting.samples(1)
    sensitivity = sensitivity_of(sample, find_drops(sample).overall.level)
    assert sensitivity.pass_rate is not None
    at_rate = Setting(setting.cases, setting.repetitions, sensitivity.pass_rate, runs=setting.runs)
    share = worse(at_rate, 200, sensitivity.detected_rate) / 200
    assert 0.7 <= share <= 0.97


def test_few_cases_can_show_no_drop_together():
    cases = {str(n): {None: Sides([[1.0]], [0.0])} for n in range(4)}
    drops = find_drops(cases)
    assert not drops.overall.dropped
    assert sensitivity_of(cases, drops.overall.level).detected_rate is None
    assert find_drops(cases | {"4": {None: Sides([[1.0]], [0.0])}}).overall.dropped == {None}


def test_repetitions_that_only_one_run_has_are_no_evidence():
    """Ten repetitions before and one after: half of the differences are rare and large, the others frequent and
    small, so that neither sign is as likely as the other."""
    chance, dropped, comparisons = random.Random(7), 0, 120
    for _ in range(comparisons):
        sides = (([float(chance.random() < 0.9) for _ in range(10)], [float(chance.random() < 0.9)]) for _ in range(20))
        dropped += bool(
            find_drops({str(n): {None: Sides([pair[0]], pair[1])} for n, pair in enumerate(sides)}).overall.dropped
        )
    assert dropped <= most(comparisons)


@pytest.mark.parametrize("drop", [0.1, 0.2, 0.5])
def test_the_number_of_attempts_that_shows_a_drop_is_the_smallest(drop):
    def sample(times):
        return {str(case): {None: Sides([[1.0] * (times - 1) + [0.0]], [1.0] * times)} for case in range(20)}

    rate = 0.9
    asked = sensitivity_of(sample(10), find_drops(sample(10)).overall.level, drop)
    assert asked.pass_rate == pytest.approx(rate)
    needed = asked.asked_repetitions
    assert needed is not None
    assert worse(Setting(20, needed, rate), 200, rate - drop) >= 140
    if needed > 1:
        assert worse(Setting(20, max(1, needed // 2), rate), 200, rate - drop) < 160


def test_a_drop_that_few_cases_cannot_show_is_named_as_such():
    few = {str(case): {None: Sides([[1.0]], [1.0])} for case in range(3)}
    assert sensitivity_of(few, find_drops(few).overall.level, 0.1).asked_repetitions is None
