"""What a comparison decides, and how often it is wrong. Simulated, with fixed seeds."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from support.turn_samples import call, result, turn
from tool_call_evaluators.outcomes.comparison import compare
from tool_call_evaluators.outcomes.regression import DETERMINISTIC_RUNS, MARGIN, Answer, decide, find_drops
from tools.bench.gate import Setting, facts

COMPARISONS = 200
MOST_WRONG = 20 / COMPARISONS
"""Of 200 comparisons more than 20 have a probability of 0.2 % at 5 %."""


def answers(
    setting: Setting, after: float | None = None, margin: float = MARGIN, comparisons: int = COMPARISONS
) -> Counter[Answer]:
    found: Counter[Answer] = Counter()
    for cases in setting.samples(comparisons, after):
        decision = decide(cases, find_drops(cases), **facts(cases) | {"deterministic": False}, margin=margin)
        found[decision.answer] += 1
    return found


@pytest.mark.parametrize("setting", [Setting(20, 1, 0.9), Setting(50, 1, 0.95), Setting(20, 5, 0.8)], ids=str)
def test_an_unchanged_agent_is_rarely_called_worse_or_better(setting: Setting) -> None:
    found = answers(setting)
    assert found["worse"] <= MOST_WRONG * COMPARISONS
    assert found["better"] <= MOST_WRONG * COMPARISONS


def test_large_changes_are_seen_in_either_direction() -> None:
    assert answers(Setting(50, 3, 0.9), 0.7)["worse"] >= 0.8 * COMPARISONS
    assert answers(Setting(50, 3, 0.7), 0.9)["better"] >= 0.8 * COMPARISONS


@pytest.mark.parametrize(("setting", "after"), [(Setting(200, 1, 0.95), 0.9), (Setting(100, 3, 0.9), 0.85)])
def test_an_agent_that_changed_by_the_margin_is_rarely_called_equivalent(setting: Setting, after: float) -> None:
    assert answers(setting, after)["equivalent"] <= MOST_WRONG * COMPARISONS


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


def test_the_repetitions_that_would_tell_are_named() -> None:
    many = {str(n): [1.0, 1.0, 1.0] for n in range(20)}
    fewer = many | {str(n): [1.0, 0.0, 1.0] for n in range(4)}
    repetitions = compare(run(many), run(fewer)).decision.repetitions
    assert repetitions is not None
    assert repetitions > 3
