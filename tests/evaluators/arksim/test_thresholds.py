"""arksim's gates as functions of an evaluation."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest
from tool_call_evaluators.importers.arksim import (
    Evaluation,
    check_numeric_thresholds,
    check_qualitative_failure_labels,
)


def turn(number: int, failure: str = "no failure", labels: dict[str, str] | None = None, **scores: float) -> Any:
    return {
        "turn_id": number,
        "scores": [{"name": name, "value": value} for name, value in scores.items()],
        "turn_score": 3.0,
        "turn_behavior_failure": failure,
        "turn_behavior_failure_reason": "",
        "qual_scores": [{"name": name, "value": value} for name, value in (labels or {}).items()],
    }


def conversation(name: str, *turns: Any, overall: float = 1.0, goal: float = 1.0, **more: Any) -> Any:
    return {
        "conversation_id": name,
        "goal_completion_score": goal,
        "goal_completion_reason": "",
        "turn_success_ratio": 1.0,
        "overall_agent_score": overall,
        "evaluation_status": "Done",
        "turn_scores": list(turns),
        **more,
    }


def evaluation(*conversations: Any) -> Any:
    return {
        "schema_version": "v1.1",
        "generated_at": "2026-01-01T00:00:00+00:00",
        "evaluator_version": "v1",
        "evaluation_id": "e",
        "simulation_id": "s",
        "conversations": list(conversations),
        "unique_errors": [],
    }


TWO = evaluation(
    conversation("a", turn(0, helpfulness=2), turn(1, helpfulness=5), overall=0.7, goal=0.75),
    conversation("b", turn(0, helpfulness=4), convo_scores=[{"name": "suitability", "value": 2.5}]),
)


@pytest.mark.statement(107, 108, 113)
@pytest.mark.parametrize(
    ("thresholds", "passes"),
    [
        ({"helpfulness": 3.5}, True),
        ({"helpfulness": 3.6}, False),
        ({"overall_score": 0.7}, True),
        ({"overall_score": 0.71}, False),
        ({"goal_completion": 0.75}, True),
        ({"goal_completion": 0.8}, False),
        ({"suitability": 2.5}, True),
        ({"suitability": 2.6}, False),
        ({"helpfulness": 3.5, "overall_score": 0.9}, False),
        ({}, True),
        (None, True),
    ],
)
def test_every_conversation_must_reach_the_threshold(thresholds, passes):
    assert check_numeric_thresholds(TWO, thresholds) is passes
    assert check_numeric_thresholds(Evaluation.model_validate(TWO), thresholds) is passes


@pytest.mark.statement(110)
def test_a_conversation_without_the_metric_is_left_out(caplog):
    skipped = evaluation(conversation("a", turn(0), goal=-1.0), conversation("b", turn(0, relevance=-1)))
    assert check_numeric_thresholds(skipped, {"goal_completion": 0.8})
    assert "a: goal_completion was not measured and is not compared" in caplog.text


@pytest.mark.parametrize("metric", ["helpfullness", "relevance"])
def test_a_metric_that_was_measured_nowhere_does_not_pass(metric, caplog):
    unmeasured = evaluation(conversation("a", turn(0, relevance=-1)))
    assert not check_numeric_thresholds(unmeasured, {metric: 1})
    assert not check_qualitative_failure_labels(unmeasured, {metric: ["x"]})
    assert f"{metric} was measured in no conversation: nothing shows that its limit holds" in caplog.text
    assert not check_numeric_thresholds(evaluation(), {"overall_score": 0})


@pytest.mark.statement(109, 113)
@pytest.mark.parametrize(
    ("labels", "passes"),
    [
        ({"agent_behavior_failure": ["false information"]}, False),
        ({"agent_behavior_failure": ["repetition"]}, True),
        ({"prohibited_statements": ["violated"]}, False),
        ({"prohibited_statements": ["odd"]}, True),
        ({"disclosure": ["missing"]}, False),
        ({"agent_behavior_failure": []}, True),
        (None, True),
    ],
)
def test_no_turn_and_no_conversation_may_have_a_label(labels, passes):
    labelled = evaluation(
        conversation("a", turn(0, "skipped_good_performance", {"prohibited_statements": "clean"})),
        conversation(
            "b",
            turn(0, "evaluation_run_failed"),
            turn(1, "false information", {"prohibited_statements": "violated"}),
            convo_qual_scores=[{"name": "disclosure", "value": "missing"}],
        ),
    )
    assert check_qualitative_failure_labels(labelled, labels) is passes


@pytest.mark.statement(111)
def test_what_failed_is_logged_with_its_place(caplog):
    caplog.set_level(logging.ERROR)
    check_numeric_thresholds(TWO, {"helpfulness": 3.75})
    check_qualitative_failure_labels(
        evaluation(conversation("b", turn(3, "repetition"))), {"agent_behavior_failure": ["repetition"]}
    )
    assert caplog.messages == [
        "a: helpfulness is 3.500, below 3.75",
        "b, turn 3: agent_behavior_failure is 'repetition'",
    ]


@pytest.mark.statement(114)
def test_a_gate_of_ones_own_reads_the_conversations():
    low = [
        item.conversation_id for item in Evaluation.model_validate(TWO).conversations if item.overall_agent_score < 0.8
    ]
    assert low == ["a"]


def test_objects_of_arksim_itself_are_read_by_their_attributes():
    def objects(value):
        if isinstance(value, dict):
            return SimpleNamespace(**{key: objects(item) for key, item in value.items()})
        return [objects(item) for item in value] if isinstance(value, list) else value

    assert check_numeric_thresholds(objects(TWO), {"helpfulness": 3.5})
    with pytest.raises(ValueError, match="validation error"):
        check_numeric_thresholds({"conversation": []}, {"helpfulness": 3.5})
