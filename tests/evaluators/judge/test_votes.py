"""One verdict out of several."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tool_call_evaluators.judge.panel import dissent, majority, most_given, spread

LABELS = ("worst", "bad", "fine")


@given(st.lists(st.integers(1, 5), min_size=1))
def test_the_spread_is_the_distance_of_the_extremes(scores):
    assert spread(scores) == max(scores) - min(scores)
    assert spread([scores[0]] * len(scores)) == 0


@given(st.lists(st.sampled_from(LABELS), min_size=1))
def test_the_most_given_label(labels):
    chosen = most_given(labels, LABELS)
    assert labels.count(chosen) == max(map(labels.count, labels))
    assert 0 <= dissent(labels, chosen) < 1


@pytest.mark.parametrize(
    ("labels", "chosen", "against"),
    [
        (["fine"], "fine", 0.0),
        (["fine", "bad", "fine"], "fine", 1 / 3),
        (["fine", "worst"], "worst", 0.5),
        (["fine", "worst", "bad"], "worst", 2 / 3),
        (["fine", "bad", "bad", "fine"], "bad", 0.5),
    ],
)
def test_a_draw_goes_to_the_worse(labels, chosen, against):
    assert most_given(labels, LABELS) == chosen
    assert dissent(labels, chosen) == pytest.approx(against)


def test_a_draw_is_a_no():
    votes = [{"a": True, "b": True, "c": False}, {"a": True, "b": False, "c": False}]
    assert majority(votes) == {"a": True, "b": False, "c": False}
