"""Results in ArkSim's format: order of errors, what is not computed, agents and judges that fail."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.turn_samples import result, turn
from tool_call_evaluators.importers import import_suite
from tool_call_evaluators.importers.arksim import (
    Evaluation,
    check_numeric_thresholds,
    check_qualitative_failure_labels,
)
from tool_call_evaluators.importers.arksim.results import ArksimResults
from tool_call_evaluators.importers.arksim.run_files import ArksimFiles
from tool_call_evaluators.importers.arksim.simulation import Scenarios
from tool_call_evaluators.outcomes.conversations import follow, run_verdict
from tool_call_evaluators.report import build_report
from tool_call_evaluators.suite import Suite

IMPORTED = import_suite(Path(__file__).parents[1] / "fixtures/arksim-scenarios.json")
assert isinstance(IMPORTED.run_files, ArksimFiles)
SCENARIOS = IMPORTED.run_files.scenarios


def results(*turns: dict[str, Any], scenarios: Scenarios = SCENARIOS, **conversations: list[Any]) -> ArksimResults:
    suite = Suite(name="none", cases=IMPORTED.suite.cases) if scenarios is SCENARIOS else None
    verdict = run_verdict(suite or Suite(name="none"), follow(turns, suite)).to_dict()
    report = build_report("r", turns, verdict, suite=suite, conversation_results=conversations)
    return ArksimResults(report, scenarios, "s", "e", "2026-11-22T10:00:00Z")


def evaluation(found: ArksimResults) -> dict[str, Any]:
    text = found.evaluation()
    assert Evaluation.model_validate_json(text).model_dump() == json.loads(text)
    return dict(json.loads(text))


def failing(turn_id: str, label: str, reason: str, case: str, conversation: str, start: float = 0.0) -> dict[str, Any]:
    failure = result("agent_behavior_failure", 0.0, label=label, reason=reason)
    return turn(turn_id, evaluations=[failure], case=case, conversation=conversation, start=start)


@pytest.mark.statement(128, 129, 131, 133, 136)
def test_errors_are_numbered_by_severity_and_then_by_count() -> None:
    found = results(
        failing("1", "repetition", "said it twice", "browse", "c1"),
        failing("2", "disobey user request", "ignored it", "browse", "c1", 1.0),
        failing("3", "disobey user request", "left", "small_talk", "c2", 2.0),
        failing("4", "disobey user request", "left", "return_kettle", "c3", 3.0),
        failing("5", "false information", "made it up", "small_talk", "c2", 4.0),
    )
    mappings = evaluation(found)["error_scenario_mappings"]
    assert [(item["error_index"], item["error_description"], item["severity"]) for item in mappings] == [
        (1, "made it up", "critical"),
        (2, "left", "high"),
        (3, "ignored it", "high"),
        (4, "said it twice", "low"),
    ]
    assert mappings[1]["scenario_ids"] == ["return_kettle", "small_talk"]
    focus = found.focus()
    assert list(focus) == ["error_1.json", "error_2.json", "error_3.json", "error_4.json", "all_failures.json"]
    chosen = [[item["scenario_id"] for item in json.loads(text)["scenarios"]] for text in focus.values()]
    assert chosen[1:] == [
        ["return_kettle", "small_talk"],
        ["browse"],
        ["browse"],
        ["browse", "return_kettle", "small_talk"],
    ]


@pytest.mark.statement(119)
def test_without_a_scenario_file_errors_lead_nowhere() -> None:
    found = results(failing("1", "repetition", "said it twice", "browse", "c1"), scenarios=Scenarios())
    assert len(evaluation(found)["unique_errors"]) == 1
    assert (evaluation(found)["error_scenario_mappings"], found.focus()) == ([], {})


@pytest.mark.statement(123, 124, 125)
def test_scores_and_labels_of_turns_and_conversations() -> None:
    label = result("tone", None, threshold=None, label="kind", status="scored")
    judged = result("agent_behavior_failure", 1.0, label="no failure", reason="none seen")
    checked = {"metadata": {"checked": True}, "judge": {}}
    scores = [result("helpfulness", 4.0, scale=[1.0, 5.0]), result("clarity", 3.0, scale=[0.0, 5.0], details=checked)]
    whole = [
        result("turn_success_ratio", 1.0),
        result("overall_agent_score", 1.0, label="Done"),
        result("suitability", 2.5, scale=[0.0, 5.0]),
        result("needs", None, threshold=None, label="met", status="scored"),
        result("goal_completion", None),
    ]
    found = results(turn("1", evaluations=[*scores, label, judged], case="browse", conversation="c1"), c1=whole)
    (only,) = evaluation(found)["conversations"]
    assert (only["evaluation_status"], only["turn_success_ratio"], only["goal_completion_score"]) == ("Done", 1.0, -1.0)
    (scored,) = only["turn_scores"]
    assert [(item["name"], item["value"], item["scope"], item["metadata"]) for item in scored["scores"]] == [
        ("helpfulness", 4.0, "turn", None),
        ("clarity", 3.0, "turn", {"checked": True}),
    ]
    assert scored["turn_score"] == 3.5
    assert [(item["name"], item["value"]) for item in scored["qual_scores"]] == [("tone", "kind")]
    assert (scored["turn_behavior_failure"], scored["turn_behavior_failure_reason"]) == ("no failure", "none seen")
    assert [(item["name"], item["value"], item["scope"]) for item in only["convo_scores"]] == [
        ("suitability", 2.5, "conversation")
    ]
    assert [(item["name"], item["value"]) for item in only["convo_qual_scores"]] == [("needs", "met")]


def test_the_worse_of_two_failures_is_that_of_the_turn() -> None:
    failures = [
        result("agent_behavior_failure", 0.0, label="repetition", reason="twice"),
        result("tool_call_behavior_failure", 0.0, label="unsafe action", reason="deleted it"),
    ]
    found = evaluation(results(turn("1", evaluations=failures, case="browse", conversation="c1")))
    (scored,) = found["conversations"][0]["turn_scores"]
    assert (scored["turn_behavior_failure"], scored["turn_behavior_failure_reason"]) == ("unsafe action", "deleted it")
    assert len(scored["unique_error_ids"]) == 2


def test_expected_calls_that_were_not_made_are_a_failure_of_the_turn_that_they_count_against() -> None:
    good = result("agent_behavior_failure", 1.0, label="no failure")
    turns = [turn(str(i), evaluations=[good], case="browse", conversation="c1", start=i) for i in range(2)]
    failed = [{"turn": 2, "metric": "tool_trajectory", "label": None, "reason": "a is missing"}]
    whole = [
        result("turn_success_ratio", 0.5, details={"failed": failed}),
        result("tool_trajectory", 0.0, reason="a is missing"),
    ]
    found = evaluation(results(*turns, c1=whole))
    first, second = found["conversations"][0]["turn_scores"]
    assert first["turn_behavior_failure"] == "no failure"
    assert second["turn_behavior_failure"] == "disobey user request"
    assert second["turn_behavior_failure_reason"] == "a is missing"
    (error,) = found["unique_errors"]
    assert second["unique_error_ids"] == [error["unique_error_id"]]
    assert (error["severity"], error["occurrences"]) == ("high", [{"conversation_id": "c1", "turn_id": 1}])
    assert found["error_scenario_mappings"][0]["scenario_ids"] == ["browse"]


@pytest.mark.statement(121)
def test_an_evaluation_that_failed() -> None:
    errored = result("agent_behavior_failure", None, status="errored", reason="no answer")
    whole = [result("turn_success_ratio", 1.0), result("overall_agent_score", 1.0, label="Done")]
    found = evaluation(
        results(
            turn("1", evaluations=[errored], case="browse", conversation="c1"),
            turn("2", case="small_talk", conversation="c2", start=1, state="TASK_STATE_FAILED"),
            c1=whole,
        )
    )
    broken, only = found["conversations"]
    assert broken["turn_scores"][0]["turn_behavior_failure"] == "agent_api_error"
    assert (only["evaluation_status"], only["overall_agent_score"]) == ("Evaluation Failed", -1.0)
    (scored,) = only["turn_scores"]
    assert (scored["turn_behavior_failure"], scored["turn_behavior_failure_reason"]) == (
        "evaluation_run_failed",
        "no answer",
    )
    assert (scored["scores"], scored["turn_score"]) == ([], -1.0)


def judged(number: int, failure: str = "no failure", labels: dict[str, str] | None = None, **scores: float) -> Any:
    return {
        "turn_id": number,
        "scores": [{"name": name, "value": value} for name, value in scores.items()],
        "turn_score": 3.0,
        "turn_behavior_failure": failure,
        "turn_behavior_failure_reason": "",
        "qual_scores": [{"name": name, "value": value} for name, value in (labels or {}).items()],
    }


def talk(name: str, *turns: Any, overall: float = 1.0, goal: float = 1.0, **more: Any) -> Any:
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


def written(*conversations: Any) -> Any:
    return {
        "schema_version": "v1.1",
        "generated_at": "2026-01-01T00:00:00+00:00",
        "evaluator_version": "v1",
        "evaluation_id": "e",
        "simulation_id": "s",
        "conversations": list(conversations),
        "unique_errors": [],
    }


TWO = written(
    talk("a", judged(0, helpfulness=2), judged(1, helpfulness=5), overall=0.7, goal=0.75),
    talk("b", judged(0, helpfulness=4), convo_scores=[{"name": "suitability", "value": 2.5}]),
)


@pytest.mark.statement(107, 108, 113, 114)
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
    skipped = written(talk("a", judged(0), goal=-1.0), talk("b", judged(0, relevance=-1)))
    assert check_numeric_thresholds(skipped, {"goal_completion": 0.8})
    assert "a: goal_completion was not measured and is not compared" in caplog.text


@pytest.mark.parametrize("metric", ["helpfullness", "relevance"])
def test_a_metric_that_was_measured_nowhere_does_not_pass(metric, caplog):
    unmeasured = written(talk("a", judged(0, relevance=-1)))
    assert not check_numeric_thresholds(unmeasured, {metric: 1})
    assert not check_qualitative_failure_labels(unmeasured, {metric: ["x"]})
    assert f"{metric} was measured in no conversation: nothing shows that its limit holds" in caplog.text
    assert not check_numeric_thresholds(written(), {"overall_score": 0})


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
    labelled = written(
        talk("a", judged(0, "skipped_good_performance", {"prohibited_statements": "clean"})),
        talk(
            "b",
            judged(0, "evaluation_run_failed"),
            judged(1, "false information", {"prohibited_statements": "violated"}),
            convo_qual_scores=[{"name": "disclosure", "value": "missing"}],
        ),
    )
    assert check_qualitative_failure_labels(labelled, labels) is passes


@pytest.mark.statement(111)
def test_what_failed_is_logged_with_its_place(caplog):
    caplog.set_level(logging.ERROR)
    check_numeric_thresholds(TWO, {"helpfulness": 3.75})
    check_qualitative_failure_labels(
        written(talk("b", judged(3, "repetition"))), {"agent_behavior_failure": ["repetition"]}
    )
    assert caplog.messages == [
        "a: helpfulness is 3.500, below 3.75",
        "b, turn 3: agent_behavior_failure is 'repetition'",
    ]


def test_objects_of_arksim_itself_are_read_by_their_attributes():
    def objects(value):
        if isinstance(value, dict):
            return SimpleNamespace(**{key: objects(item) for key, item in value.items()})
        return [objects(item) for item in value] if isinstance(value, list) else value

    assert check_numeric_thresholds(objects(TWO), {"helpfulness": 3.5})
    with pytest.raises(ValueError, match="validation error"):
        check_numeric_thresholds({"conversation": []}, {"helpfulness": 3.5})
