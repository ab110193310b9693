"""The turns evaluators are measured on, and that peers which are installed score them alike."""

from __future__ import annotations

import sys

import pytest
from bench import procfs
from bench.part import BehaviourError
from bench.scoring import MODES, RULES, SCORERS, SIZES, check_scores, reversed_turns, score, varied_turns
from support.provision import provided_python

pytestmark = pytest.mark.installs

OURS, *PEERS = SCORERS


def scored(scorer, python, size=5):
    return score(scorer, python, varied_turns(size), [*RULES, *MODES], 0.0, procfs.split_cpus()[0])


@pytest.mark.parametrize("size", SIZES)
def test_turns_differ_from_what_is_expected_in_one_way_each(size):
    turns = varied_turns(size)

    assert {len(turn["expected"]) for turn in turns} == {size}
    assert [len(turn["calls"]) - size for turn in turns] == [0, 0, -1, 0, 1]
    assert [turn["calls"] == turn["expected"] for turn in turns] == [True, False, False, False, False]


def test_half_of_the_reversed_calls_match():
    (turn,) = reversed_turns(200)

    assert sum(call in turn["expected"] for call in turn["calls"]) == 100


def test_our_scorer_knows_every_rule_and_mode():
    found = scored(OURS, sys.executable)

    assert found.keys() == {*RULES, *MODES}
    assert found["arguments"]["scores"] == [1.0, 0.8, 0.8, 1.0, 1.0]


@pytest.mark.slow
@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
def test_peers_score_as_we_do(peer):
    python = provided_python(peer.requirements)
    if python is None:
        pytest.skip(f"{peer.name} is installed by `make bench` only")

    found = {OURS.name: scored(OURS, sys.executable), peer.name: scored(peer, python)}

    assert found[peer.name]
    check_scores(found)


def test_other_scores_are_told():
    result = {"turns_per_s": 1.0, "scores": [1.0]}
    other = {"turns_per_s": 1.0, "scores": [0.5]}

    check_scores({"ours": {"names": result, "arguments": result}, "deepeval": {"arguments": other}})
    with pytest.raises(BehaviourError, match=r"names: we score \[1.0\], uipath \[0.5\]"):
        check_scores({"ours": {"names": result}, "uipath": {"names": other}})
