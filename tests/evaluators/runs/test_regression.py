"""The gate of a comparison: how often it fires for nothing, and what it sees. Simulated, with fixed seeds."""

from __future__ import annotations

import functools
import random

import pytest
from bench.gate import SETTINGS, Setting, false_alarms, seen
from support.turn_samples import result, turn
from tool_call_evaluators.runs.comparison import compare
from tool_call_evaluators.runs.regression import FALSE_ALARMS, Sides, find_drops

COMPARISONS = 120
alarms_of = functools.cache(false_alarms)
QUICK = [setting for setting in SETTINGS if setting.metrics <= 10]
"""The others take longer; the table of evaluators/docs/runs.md has them."""


@pytest.mark.slow
@pytest.mark.parametrize("setting", QUICK, ids=str)
def test_an_unchanged_agent_is_rarely_called_worse(setting: Setting):
    """At most 5 % of all; of 120 comparisons more than 13 have a probability of 0.2 % at 5 %."""
    assert alarms_of(setting, COMPARISONS) <= 13 / COMPARISONS


def test_false_alarms_over_all_settings():
    """The settings together are enough comparisons to distinguish 5 % from 6 %."""
    rates = [alarms_of(setting, COMPARISONS) for setting in QUICK]
    assert sum(rates) / len(rates) <= FALSE_ALARMS


@pytest.mark.parametrize(
    ("cases", "repetitions", "after", "least"),
    [(20, 1, 0.7, 0.2), (50, 1, 0.7, 0.65), (20, 5, 0.7, 0.9), (50, 1, 0.5, 0.95)],
)
def test_falls_that_are_seen(cases, repetitions, after, least):
    assert seen(Setting(cases, repetitions, 0.9), after, 200) >= least


@pytest.mark.parametrize(("cases", "repetitions", "rate"), [(20, 1, 1.0), (20, 3, 0.9), (50, 1, 0.95), (100, 5, 0.9)])
def test_the_drop_that_is_said_to_be_detected_is_detected(cases, repetitions, rate):
    setting = Setting(cases, repetitions, rate)
    sensitivity = find_drops(setting.sample(random.Random(1))).sensitivity
    share = seen(Setting(cases, repetitions, sensitivity.pass_rate), sensitivity.detected_rate, 200)
    assert 0.7 <= share <= 0.97


def test_few_cases_can_show_no_drop_together():
    cases = {str(n): {None: Sides([[1.0]], [0.0])} for n in range(4)}
    drops = find_drops(cases)
    assert not drops.dropped
    assert drops.sensitivity.detected_rate is None
    assert find_drops(cases | {"4": {None: Sides([[1.0]], [0.0])}}).dropped == {None}


def test_repetitions_that_only_one_run_has_are_no_evidence():
    """Ten repetitions before and one after: half of the differences are rare and large, the others frequent and
    small, so that neither sign is as likely as the other."""
    chance, dropped = random.Random(7), 0
    for _ in range(COMPARISONS):
        sides = (([float(chance.random() < 0.9) for _ in range(10)], [float(chance.random() < 0.9)]) for _ in range(20))
        dropped += bool(find_drops({str(n): {None: Sides([pair[0]], pair[1])} for n, pair in enumerate(sides)}).dropped)
    assert dropped / COMPARISONS <= 13 / COMPARISONS


def run(chance: random.Random, rate: float):
    """Thirty cases in two repetitions, one metric that passes or fails and one that is graded, as turns."""
    turns = []
    for number in range(60):
        grade = max(1.0, min(5.0, chance.gauss(4.0, 1.0)))
        said = [
            result("tool_error", float(chance.random() < rate)),
            result("helpfulness", grade, threshold=1.0, scale=[1.0, 5.0]),
        ]
        turns.append(turn(str(number), evaluations=said, case=f"case-{number % 30}", start=number))
    return turns


@pytest.mark.slow
def test_comparisons_of_whole_runs():
    chance = random.Random(3)
    alarms = sum(compare(run(chance, 0.9), run(chance, 0.9)).regressed for _ in range(8))
    assert alarms <= 3
    assert all(compare(run(chance, 0.95), run(chance, 0.5)).regressed for _ in range(3))


@pytest.mark.parametrize("drop", [0.1, 0.2, 0.5])
def test_the_number_of_attempts_that_shows_a_drop_is_the_smallest(drop):
    def sample(times):
        return {str(case): {None: Sides([[1.0] * (times - 1) + [0.0]], [1.0] * times)} for case in range(20)}

    rate = 0.9
    asked = find_drops(sample(10), drop).sensitivity
    assert asked.pass_rate == pytest.approx(rate)
    needed = asked.asked_repetitions
    assert needed is not None
    assert seen(Setting(20, needed, rate), rate - drop, 200) >= 0.7
    if needed > 1:
        assert seen(Setting(20, max(1, needed // 2), rate), rate - drop, 200) < 0.8


def test_a_drop_that_few_cases_cannot_show_is_named_as_such():
    few = {str(case): {None: Sides([[1.0]], [1.0])} for case in range(3)}
    assert find_drops(few, 0.1).sensitivity.asked_repetitions is None
