"""The soak's judge sees what it is there for."""

from __future__ import annotations

import pytest
from soak.judge import AFTERMATH_S, Outages, Outcome, Tally, descriptor_trend, memory_trend, too_much_memory

MB = 1024 * 1024


@pytest.fixture
def tally() -> Tally:
    """With an outage from 10 to 12."""
    outages = Outages()
    outages.begin(10.0)
    outages.end(12.0)
    return Tally(outages)


@pytest.mark.parametrize(
    ("start", "end", "excused"),
    [(1.0, 9.0, False), (1.0, 10.5, True), (11.0, 11.1, True), (12.1, 13.0, True), (12.1 + AFTERMATH_S, 20.0, False)],
)
def test_an_error_needs_an_outage(tally: Tally, start: float, end: float, excused: bool) -> None:
    tally.add("unary", Outcome.FAILED, start, end)
    assert (tally.complaints == []) is excused


def test_an_outage_that_lasts_excuses_all_that_comes() -> None:
    outages = Outages()
    outages.begin(10.0)
    assert outages.touch(500.0, 501.0)
    assert not outages.touch(1.0, 2.0)


@pytest.mark.parametrize("outcome", [Outcome.WRONG, Outcome.HUNG])
def test_no_outage_excuses_a_wrong_answer_or_a_hang(tally: Tally, outcome: Outcome) -> None:
    tally.add("unary", outcome, 11.0, 11.5)
    assert len(tally.complaints) == 1


@pytest.mark.parametrize("outcome", [Outcome.ANSWERED, Outcome.LEFT])
def test_what_went_well_is_counted(tally: Tally, outcome: Outcome) -> None:
    tally.add("stream", outcome, 1.0, 2.0)
    assert tally.complaints == []
    assert tally.counts == {("stream", outcome): 1}


def test_growth_of_memory_is_seen_in_a_long_run() -> None:
    leaking = [(60 + second // 60) * MB for second in range(1800)]
    assert not memory_trend(leaking, 1800).flat
    assert memory_trend([(100 + second % 3) * MB for second in range(1800)], 1800).flat


def test_what_comes_before_the_middle_third_is_no_growth() -> None:
    assert memory_trend([60 * MB] * 600 + [90 * MB] * 1200, 1800).flat


def test_descriptors_that_pile_up_are_seen() -> None:
    assert not descriptor_trend(list(range(40, 340))).flat
    assert descriptor_trend([40, 60, 45] * 100).flat


def test_memory_that_the_chart_does_not_allow_is_seen() -> None:
    assert too_much_memory([100 * MB, 512 * MB, 100 * MB]) == []
    assert len(too_much_memory([100 * MB, 513 * MB, 100 * MB])) == 1
