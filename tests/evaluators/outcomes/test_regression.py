"""The gate of a comparison: how often it fires for nothing, and what it sees. Simulated, with fixed seeds."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from support.later import Later
from support.turn_samples import call, result, turn
from tool_call_evaluators.outcomes.comparison import compare
from tool_call_evaluators.outcomes.regression import (
    DETERMINISTIC_RUNS,
    FALSE_ALARMS,
    MARGIN,
    Answer,
    Sides,
    decide,
    find_drops,
    sensitivity_of,
)
from tools.bench.gate import RATES, REPETITIONS, SPECIAL, Setting, facts, worse

stats = Later("scipy.stats")

COMPARISONS = {5: 120, 20: 60, 100: 12}
"""By the number of cases: some two seconds together. `make simulate` makes all of `gate.CASES`, and more."""


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


@pytest.mark.parametrize("drop", [0.2, 0.5])
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


DECISIONS = 200
MOST_WRONG = 20 / DECISIONS
"""Of 200 comparisons more than 20 have a probability of 0.2 % at 5 %."""


def answers(
    setting: Setting, after: float | None = None, margin: float = MARGIN, comparisons: int = DECISIONS
) -> Counter[Answer]:
    found: Counter[Answer] = Counter()
    for cases in setting.samples(comparisons, after):
        decision = decide(cases, find_drops(cases), **facts(cases) | {"deterministic": False}, margin=margin)
        found[decision.answer] += 1
    return found


@pytest.mark.parametrize("setting", [Setting(20, 1, 0.9), Setting(50, 1, 0.95), Setting(20, 5, 0.8)], ids=str)
def test_an_unchanged_agent_is_rarely_called_worse_or_better(setting: Setting) -> None:
    found = answers(setting)
    assert found["worse"] <= MOST_WRONG * DECISIONS
    assert found["better"] <= MOST_WRONG * DECISIONS


def test_large_changes_are_seen_in_either_direction() -> None:
    assert answers(Setting(50, 3, 0.9), 0.7)["worse"] >= 0.8 * DECISIONS
    assert answers(Setting(50, 3, 0.7), 0.9)["better"] >= 0.8 * DECISIONS


@pytest.mark.parametrize(("setting", "after"), [(Setting(200, 1, 0.95), 0.9), (Setting(100, 3, 0.9), 0.85)])
def test_an_agent_that_changed_by_the_margin_is_rarely_called_equivalent(setting: Setting, after: float) -> None:
    assert answers(setting, after)["equivalent"] <= MOST_WRONG * DECISIONS


def test_many_equal_cases_are_equivalent_and_few_tell_nothing() -> None:
    """Without a failure, all comparisons are the same."""
    assert answers(Setting(100, 1, 1.0), comparisons=1) == {"equivalent": 1}
    assert answers(Setting(10, 1, 1.0), comparisons=1) == {"undecided": 1}
    assert answers(Setting(200, 10, 0.9), margin=0.1, comparisons=20)["equivalent"] >= 0.8 * 20


def run(scores: dict[str, list[float]], orders: str = "one") -> list[dict[str, Any]]:
    return [
        turn(
            f"{case}-{number}",
            calls=[call("look_up", id=orders if orders != "random" else f"{case}{number}")],
            evaluations=[result("tool_error", score)],
            case=case,
            start=number,
        )
        for case, repeated in scores.items()
        for number, score in enumerate(repeated)
    ]


def test_a_deterministic_agent_needs_no_statistics() -> None:
    good, bad = {"a": [1.0] * 3, "b": [1.0] * 3}, {"a": [0.0] * 3, "b": [1.0] * 3}
    assert compare(run(good), run(bad)).decision.answer == "undecided", "one run does not show it"
    before, after = (
        [{**one, "run": str(number)} for number in range(DETERMINISTIC_RUNS) for one in run(scores)]
        for scores in (good, bad)
    )
    comparison = compare(before, run(bad))
    assert (comparison.decision.answer, comparison.decision.is_deterministic) == ("worse", True)
    assert comparison.regressed
    assert compare(before, run(good)).decision.answer == "equivalent"
    assert compare(after, run(good)).decision.answer == "better"


@pytest.mark.parametrize(
    ("before", "after", "orders"),
    [
        ({"a": [1.0], "b": [1.0]}, {"a": [0.0], "b": [1.0]}, "one"),  # once is not enough to tell
        ({"a": [1.0] * 3, "b": [1.0] * 3}, {"a": [0.0, 0.0, 1.0], "b": [1.0] * 3}, "one"),
        ({"a": [1.0] * 2, "b": [1.0] * 2}, {"a": [0.0] * 2, "b": [1.0] * 2}, "random"),
    ],
)
def test_an_agent_that_may_vary_is_not_taken_for_deterministic(
    before: dict[str, list[float]], after: dict[str, list[float]], orders: str
) -> None:
    comparison = compare(run(before, orders), run(after, orders))
    assert not comparison.decision.is_deterministic
    assert comparison.decision.answer == "undecided"
    assert comparison.fails_on(["newly-failing"])
    assert comparison.fails_on(["undecided"])
    assert not comparison.fails_on(["regression"])
