"""google-adk's own evalsets as suites; its criteria, read from `test_config.json` in the same folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from a2a_tool_capture import ToolCall
from tool_call_evaluators import EvalCase, evaluate_sync
from tool_call_evaluators.importers import Imported, import_suite, import_text
from tool_call_evaluators.suite import Case, EvaluatorSpec, Simulation, SuiteError

EVALSETS = Path(__file__).parents[1] / "fixtures/google-adk"

FILE = {"inlineData": {"mimeType": "image/png", "data": "AA=="}}
ERROR = EvaluatorSpec("tool_error")


def imported(name: str) -> Imported:
    return import_suite(EVALSETS / name)


def test_what_the_criteria_do_not_name_is_not_evaluated() -> None:
    trip = imported("trip_planner_agent/test_files/trip_inquiry_sub_agent.test.json")
    assert trip.suite.evaluators == (ERROR,)
    assert set(trip.notes) == {
        "the criterion response_match_score was not imported",
        "state of the session input was not imported: the session has none",
    }


def test_a_persona_may_be_described() -> None:
    persona = {
        "id": "HURRIED",
        "description": "Has no time.",
        "behaviors": [{"name": "b", "behavior_instructions": ["Write short messages.", "Do not greet."]}],
    }
    scenario = {"startingPrompt": "Hi", "conversationPlan": "Get help.", "userPersona": persona}
    (case,) = import_text(json.dumps({"eval_cases": [{"eval_id": "a", "conversation_scenario": scenario}]})).suite.cases
    assert case == Case(
        id="a",
        simulate=Simulation(
            goal="Get help.",
            opening="Hi",
            profile="Has no time.\nWrite short messages.\nDo not greet.",
            max_turns=20,
        ),
    )


def test_the_configuration_of_the_simulated_user(tmp_path: Path) -> None:
    config = {"model": "gemini-2.5-pro", "max_allowed_invocations": 10, "custom_instructions": "{stop_signal}"}
    whole = {"criteria": {}, "user_simulator_config": config, "custom_metrics": {"m": {}}, "live_model_config": None}
    (tmp_path / "test_config.json").write_text(json.dumps(whole), "utf-8")
    scenario = {"starting_prompt": "Hi", "conversation_plan": "Say bye."}
    file = tmp_path / "a.evalset.json"
    file.write_text(json.dumps({"eval_cases": [{"eval_id": "a", "conversation_scenario": scenario}]}), "utf-8")
    imported = import_suite(file)
    (case,) = imported.suite.cases
    assert case.simulate is not None
    assert case.simulate.max_turns == 10
    assert imported.notes == (
        "custom_metrics of test_config.json was not imported",
        "model of user_simulator_config was not imported: `simulated_user` of the suite names the model",
        "custom_instructions of user_simulator_config was not imported: the simulated user has our instructions",
    )


def test_what_is_not_imported_is_noted() -> None:
    invocation = {
        "invocation_id": "i",
        "user_content": {"role": "user", "parts": [{"text": "Hi"}, {"function_response": {"name": "f"}}, FILE]},
        "intermediate_data": {
            "tool_uses": [{"id": "1", "name": "f", "args": {}, "will_continue": True}],
            "tool_responses": [{"name": "f", "response": {}}],
            "intermediate_responses": [],
        },
        "later_key": 1,
    }
    session = {"app_name": "a", "user_id": "u", "state": {"tier": "gold"}, "events": [{"author": "user"}]}
    case = {"eval_id": "a", "conversation": [invocation], "sessionInput": session, "finalSessionState": {"x": 1}}
    assert import_text(json.dumps({"eval_cases": [case], "later": [1]})).notes == (
        "later of the evalset was not imported",
        "finalSessionState of a case was not imported",
        "state of the session input was not imported: the session has none",
        "events of the session input was not imported: the conversation begins without them",
        "later_key of an invocation was not imported",
        "files in user messages were not imported",
        "function_response of a part was not imported",
        "tool_responses of the intermediate data was not imported",
        "will_continue of an expected call was not imported",
    )


def with_criteria(folder: Path, **criteria: Any) -> Imported:
    (folder / "test_config.json").write_text(json.dumps({"criteria": criteria}), "utf-8")
    calls = [{"name": "search", "args": {"q": "a"}}, {"name": "pay", "args": {"sum": 1}}]
    turn = {"user_content": {"parts": [{"text": "Hi"}]}, "intermediate_data": {"tool_uses": calls}}
    silent = {"user_content": {"parts": [{"text": "Ho"}]}, "intermediate_data": {"tool_uses": []}}
    cases = [{"eval_id": "a", "conversation": [turn, silent]}]
    (folder / "x.evalset.json").write_text(json.dumps({"eval_cases": cases}), "utf-8")
    return import_suite(folder / "x.evalset.json")


@pytest.mark.parametrize(
    ("criterion", "passes"),
    [
        (1.0, ["equal"]),
        ({"threshold": 1.0, "match_type": "EXACT"}, ["equal"]),
        ({"threshold": 1.0, "matchType": "IN_ORDER"}, ["equal", "more"]),
        ({"threshold": 1.0, "match_type": "any_order"}, ["equal", "more", "swapped"]),
        ({"threshold": 1.0, "match_type": 2, "ignore_args": True}, ["equal", "more", "swapped", "other"]),
    ],
)
def test_ways_to_compare_calls(tmp_path: Path, criterion: Any, passes: list[str]) -> None:
    suite = with_criteria(tmp_path, tool_trajectory_avg_score=criterion).suite
    search, pay, log = ToolCall("search", {"q": "a"}), ToolCall("pay", {"sum": 1}), ToolCall("log")
    made = {
        "equal": [search, pay],
        "more": [search, log, pay],
        "swapped": [pay, search],
        "other": [ToolCall("search"), pay],
        "fewer": [search],
    }
    expected, silent = (turn.expect for turn in suite.cases[0].turns)
    evaluators = [spec.build() for spec in suite.evaluators if spec != ERROR]

    def passed(calls: list[ToolCall], expect: Any) -> bool:
        case = EvalCase(
            tool_calls=calls, expected_tool_calls=expect.tool_calls, tool_calls_order=expect.tool_calls_order
        )
        return all(result.passed is not False for result in evaluate_sync(case, evaluators))

    assert [name for name, calls in made.items() if passed(calls, expected)] == passes
    assert passed([log], silent) == (len(passes) > 1)


def test_a_threshold_below_1_limits_the_mean_of_each_conversation(tmp_path: Path) -> None:
    suite = with_criteria(tmp_path, tool_trajectory_avg_score=0.5).suite
    assert suite.gates["tool_trajectory"].conversation_mean == 0.5


@pytest.mark.parametrize(
    ("criterion", "problem"),
    [
        ({"threshold": 1.0, "match_type": "FUZZY"}, "match_type: expected EXACT, IN_ORDER or ANY_ORDER"),
        ("high", "tool_trajectory_avg_score"),
    ],
)
def test_criteria_that_cannot_be_read(tmp_path: Path, criterion: Any, problem: str) -> None:
    with pytest.raises(SuiteError, match=problem) as raised:
        with_criteria(tmp_path, tool_trajectory_avg_score=criterion)
    assert raised.value.filename == str(tmp_path / "test_config.json")
