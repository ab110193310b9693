"""Suites from other tools' files: what is imported, what is noted, what a wrong file is answered with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from a2a_tool_capture import ToolCall
from hypothesis import given
from hypothesis import strategies as st
from tool_call_evaluators import EvalCase, Status, SuiteError, ToolDefinition, evaluate_sync, parse_suite
from tool_call_evaluators.importers import FORMATS, Imported, import_suite, import_text
from tool_call_evaluators.model import CountCriterion, ExpectedCall, ExpectedOutput
from tool_call_evaluators.suite import Case, CaseTurn, EvaluatorSpec, Expectation, GivenTurn, History, Simulation
from tool_call_evaluators.suite.writing import suite_text

FIXTURES = Path(__file__).parents[1] / "fixtures"
FILES = {
    "arksim": "arksim-scenarios.json",
    "google-adk": "adk.evalset.json",
    "uipath": "uipath/eval-sets/weather.json",
    "dokimos": "dokimos.json",
}


def cases(name: str) -> dict:
    return {case.id: case for case in import_suite(FIXTURES / name).suite.cases}


@pytest.mark.parametrize(
    ("form", "name"), [*FILES.items(), ("google-adk", "adk-old.test.json"), ("dokimos", "dokimos.jsonl")]
)
def test_the_format_is_detected_and_may_be_named(form, name):
    detected = import_suite(FIXTURES / name)
    assert detected.format == form
    assert import_suite(str(FIXTURES / name), form) == detected
    assert parse_suite(suite_text(detected.suite)) == detected.suite


# google-adk


def test_adk_evalsets():
    imported = import_suite(FIXTURES / FILES["google-adk"])
    assert imported.suite.name == "Home automation"
    assert [spec.name for spec in imported.suite.evaluators] == ["tool_trajectory", "tool_error"]
    lamp, camel, simulated = imported.suite.cases
    assert lamp.turns == (
        CaseTurn(
            "Switch the lamp on,\nplease.",
            Expectation(
                tool_calls=(ExpectedCall("set_device", {"device": "lamp", "level": {"$literal": {"$any": True}}}),),
                response="The lamp is on.",
            ),
        ),
        CaseTurn("Thanks!", Expectation(tool_calls=())),
        CaseTurn("And what is the weather?"),
    )
    assert camel.turns[0].expect.tool_calls == (ExpectedCall("list_devices", {}),)
    assert simulated.simulate == Simulation(goal="Have all lamps off.", opening="Hello.", max_turns=20)
    assert len(imported.notes) == 1
    assert imported.notes[0].startswith("rubrics of ")


def test_the_older_forms_of_adk():
    (dice,) = cases("adk-old.test.json").values()
    assert dice.id == "dice"
    assert dice.turns[0].expect == Expectation(tool_calls=(), response="I roll dice.")
    assert dice.turns[1].expect == Expectation(tool_calls=(ExpectedCall("roll_die", {"sides": 6}),) * 2)
    bare = import_text(json.dumps([{"query": "Hi", "expected_tool_use": []}]), "folder/greet.test.json")
    assert [(case.id, len(case.turns)) for case in bare.suite.cases] == [("greet", 1)]


# UiPath


def test_uipath_evaluation_sets():
    imported = import_suite(FIXTURES / FILES["uipath"])
    suite = imported.suite
    assert suite.name == "Weather"
    assert {spec.name: dict(spec.options) for spec in suite.evaluators} == {
        "tool_call_args": {"subset": True},
        "tool_call_order": {"strict": True},
        "tool_call_count": {},
        "tool_call_output": {},
        "contains": {"case_sensitive": True},
        "exact_match": {},
        "llm_judge_trajectory": {},
    }
    paris, question, chat = suite.cases
    assert paris.id == "Forecast for Paris"
    assert paris.turns == (
        CaseTurn(
            '{"city": "Paris", "action": "get_forecast"}',
            Expectation(
                tool_calls=(ExpectedCall("get_forecast", {"city": "Paris"}),),
                tool_calls_order=("get_forecast",),
                tool_calls_count={"get_forecast": CountCriterion("=", 1)},
                tool_outputs=(ExpectedOutput("get_forecast", "rain"),),
                response={"forecast": "rain"},
                response_contains="rain",
                behavior="Calls get_forecast once.",
            ),
        ),
    )
    assert question.turns == (CaseTurn("Will it rain?", Expectation(tool_calls=(), response={"forecast": "sun"})),)
    assert [turn.user for turn in chat.turns] == ["Hello", "Will it rain in Paris?"]
    assert chat.turns[0].expect == Expectation()
    assert chat.turns[1].expect == Expectation(
        tool_calls=(ExpectedCall("get_forecast", {"city": "Paris"}),), response="Yes."
    )
    assert set(imported.notes) == {
        "the evaluation made-up has no inputs and was not imported",
        "of several inputs, only message is sent; the others were not imported",
        "model of the evaluator Trajectory was not imported: the judge of the suite is asked",
        "the evaluator Mine has no equivalent here and was not imported",
    }


def test_without_uipaths_evaluators_the_criteria_tell_their_kind():
    criterias = {
        "a": {"toolCalls": [{"name": "f", "args": {}}]},
        "b": {"tool_calls_order": ["f"]},
        "c": {"toolCallsCount": {"f": [">", 0]}},
        "d": {"tool_outputs": [{"name": "f", "output": {"x": 1}}]},
        "e": {"searchText": "x"},
        "LLMJudgeOutputEvaluator": {"expectedOutput": {"x": 2}},
        "ExactMatchEvaluator": {"expectedOutput": {"x": 1}},
        "f": {"expectedOutput": {"x": 1.0}},
        "TrajectoryEvaluator": {"expectedAgentBehavior": "acts"},
        "g": {"unknown": 1},
    }
    evaluation = {"id": "1", "name": "n", "inputs": {"q": "hi"}, "evaluationCriterias": criterias}
    imported = import_text(json.dumps({"version": "1.0", "name": "x", "evaluations": [evaluation]}))
    assert [spec.name for spec in imported.suite.evaluators] == [
        "tool_call_args",
        "tool_call_order",
        "tool_call_count",
        "tool_call_output",
        "contains",
        "llm_judge_output",
        "exact_match",
        "json_similarity",
        "llm_judge_trajectory",
    ]
    (case,) = imported.suite.cases
    assert case.turns[0].user == "hi"
    assert case.turns[0].expect.behavior == "acts"
    assert imported.notes == ("the evaluator g has no equivalent here and was not imported",)


@pytest.mark.parametrize(
    ("criterias", "options"),
    [
        (
            {"ExactMatch": {"expectedOutput": "x"}, "JsonSimilarity": {"expectedOutput": {"x": 1}}},
            [("exact_match", {"expected": "x"}), ("json_similarity", {"expected": {"x": 1}})],
        ),
        (
            {"a": {"toolCallsOrder": ["f"]}, "b": {"toolCallsOrder": ["g"]}, "c": {"searchText": "x"}},
            [
                ("tool_call_order", {"tool_calls_order": ("f",)}),
                ("tool_call_order", {"id": "b", "tool_calls_order": ("g",)}),
                ("contains", {}),
            ],
        ),
        (
            {"a": {"searchText": "x"}, "b": {"searchText": "y"}},
            [("contains", {"search_text": "x"}), ("contains", {"id": "b", "search_text": "y"})],
        ),
        (
            {"a": {"toolCalls": [{"name": "f"}]}, "b": {"toolCalls": []}},
            [
                ("tool_call_args", {"expected_tool_calls": (ExpectedCall("f", {}),)}),
                ("tool_call_args", {"id": "b", "expected_tool_calls": ()}),
            ],
        ),
    ],
)
def test_uipath_evaluators_of_a_case_may_expect_different_things(criterias, options):
    evaluations = [
        {"id": "1", "inputs": {"q": "hi"}, "evaluationCriterias": criterias},
        {"id": "2", "inputs": {"q": "ho"}, "evaluationCriterias": dict([next(iter(criterias.items()))])},
    ]
    suite = import_text(json.dumps({"evaluations": evaluations})).suite
    different, alike = suite.cases
    assert [(spec.name, spec.options) for spec in different.evaluators] == options
    assert alike.evaluators is None
    assert alike.turns[0].expect != Expectation()
    assert suite.build_evaluators("turn", different)
    assert parse_suite(suite_text(suite)).build_evaluators("turn", different) == suite.build_evaluators(
        "turn", different
    )


@pytest.mark.parametrize(
    ("key", "scores"), [("content", [1.0, 1.0]), (["content", "meta.tags[1]"], [1.0, 0.0]), ("none", [0.0, 0.0])]
)
def test_a_uipath_evaluator_may_compare_a_part_of_the_answer(key, scores, tmp_path):
    config = {"targetOutputKey": key, "line_by_line_evaluator": True}
    content = {"id": "Exact", "evaluatorTypeId": "uipath-exact-match", "evaluatorConfig": config}
    (tmp_path / "evaluators").mkdir()
    (tmp_path / "evaluators" / "exact.json").write_text(json.dumps(content))
    expected = {"content": "hello", "meta": {"tags": ["a", "b"]}, "none": 1}
    criterias = {"Exact": {"expectedOutput": expected}}
    guid = "b54f3a0e-6a4b-4b7a-9d7f-0c5a4f3f2e1d"
    evaluation = {"id": guid, "name": "Greeting", "inputs": {"q": "hi"}, "evaluationCriterias": criterias}
    text = json.dumps({"evaluations": [evaluation]})
    imported = import_text(text, str(tmp_path / "eval-sets" / "set.json"))
    assert imported.notes == (
        "line_by_line_evaluator of the evaluator Exact was not imported: here it compares the whole answer",
    )
    (case,) = imported.suite.cases
    assert case.id == "Greeting"
    answers = [{"content": "hello", "meta": {"tags": ["x", tag]}} for tag in ("b", "c")]
    results = [
        evaluate_sync(case.eval_case(0, response_text=json.dumps(answer)), imported.suite.build_evaluators())[0]
        for answer in answers
    ]
    assert [result.score for result in results] == scores
    lacking = evaluate_sync(
        EvalCase(response_text="{}", expected_response={"x": 1}), imported.suite.build_evaluators()
    )[0]
    assert lacking.status is Status.ERRORED
    assert "the expected answer has no" in lacking.reason


@pytest.mark.parametrize(
    ("inputs", "said", "noted"),
    [
        (
            {"query": "Hi", "language": "de"},
            "Hi",
            "of several inputs, only query is sent; the others were not imported",
        ),
        ({"language": "de"}, "de", None),
        ({"city": "Paris", "days": 2}, '{"city": "Paris", "days": 2}', None),
    ],
)
def test_inputs_that_are_not_said_are_noted(inputs, said, noted):
    uipath = {"evaluations": [{"id": "1", "inputs": inputs, "evaluationCriterias": {}}]}
    dokimos = {"examples": [{"inputs": inputs}]}
    for data in (uipath, dokimos):
        imported = import_text(json.dumps(data))
        assert imported.suite.cases[0].turns[0].user == said
        assert imported.notes == ((noted,) if noted else ())


def test_what_of_a_uipath_set_is_not_imported_is_noted(tmp_path):
    strategy = {"type": "llm", "prompt": "Fake it.", "toolsToSimulate": [{"name": "refund"}]}
    criterion = {"toolCalls": [{"name": "look_up", "args": {}, "id": "1", "result": "x"}], "weight": 2}
    evaluation = {
        "id": "1", "inputs": {"message": "Hi"}, "evaluationCriterias": {"Args": criterion}, "mockingStrategy": strategy,
        "simulateTools": True, "toolsToSimulate": [{"name": "refund"}], "simulationInstructions": "",
        "source": "manual", "simulateInput": False, "later": "x",
    }  # fmt: skip
    folder = tmp_path / "evals/eval-sets"
    folder.mkdir(parents=True)
    (tmp_path / "evals/evaluators").mkdir()
    config = {"name": "Args", "strict": False, "partialCredit": True}
    evaluator = {"id": "Args", "evaluatorTypeId": "uipath-tool-call-args", "evaluatorConfig": config, "createdAt": "x"}
    (tmp_path / "evals/evaluators/args.json").write_text(json.dumps(evaluator))
    whole = {
        "id": "s", "version": "1.0", "batchSize": 10, "evaluatorConfigs": [{"ref": "Args", "weight": 0.5}],
        "evaluations": [evaluation], "modelSettings": [{"model": "m"}],
    }  # fmt: skip
    (folder / "set.json").write_text(json.dumps(whole))
    real = "not imported: no tool is simulated here, the agent calls its real ones"
    imported = import_suite(folder / "set.json")
    assert [spec.name for spec in imported.suite.evaluators] == ["tool_call_args"]
    assert sorted(imported.notes) == sorted([
        "modelSettings of the set was not imported",
        "weight of an evaluator of the set was not imported: each metric has a threshold and gates of its own",
        f"mockingStrategy of an evaluation was {real}",
        f"simulateTools of an evaluation was {real}",
        f"toolsToSimulate of an evaluation was {real}",
        "later of an evaluation was not imported",
        "partialCredit of the evaluator Args was not imported",
        "weight of the criteria of Args was not imported: each metric has a threshold and gates of its own",
        "result of an expected call was not imported",
    ])  # fmt: skip


def test_the_older_form_of_uipath():
    evaluation = {"id": "1", "name": "n", "inputs": {"a": 1, "b": "+"}, "expectedOutput": {"result": 2}}
    imported = import_text(json.dumps({"id": "x", "fileName": "f.json", "evaluations": [evaluation]}))
    assert imported.suite.evaluators == (EvaluatorSpec("json_similarity"),)
    assert imported.suite.cases[0].turns == (CaseTurn('{"a": 1, "b": "+"}', Expectation(response={"result": 2})),)


# Dokimos


@pytest.mark.statement(256)
def test_dokimos_datasets():
    imported = import_suite(FIXTURES / FILES["dokimos"])
    assert imported.suite.name == "support"
    assert [spec.name for spec in imported.suite.evaluators] == ["tool_trajectory", "tool_error"]
    policy, refund, golden, inputs = imported.suite.cases
    assert policy.id == "example-1"
    assert policy.turns == (CaseTurn("What is the refund policy?", Expectation(response="30 days.")),)
    assert refund.turns[0].expect == Expectation(
        tool_calls=(ExpectedCall("refund", {"order": "ORD-1"}),), response={"refunded": True}
    )
    assert refund.tools == (ToolDefinition("refund", "Pays back.", {"type": "object"}),)
    assert refund.tasks == ("pay back",)
    assert golden.turns == (CaseTurn("My jug is cracked."), CaseTurn("ORD-7", Expectation(response="Done.")))
    assert (golden.user_goal, golden.tasks) == ("A cracked jug", ("The jug is replaced.",))
    assert inputs.turns[0].user == '{"city": "Paris", "days": 2}'
    assert len(imported.notes) == 2


@pytest.mark.statement(199)
@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("Budget under $500", ("Budget under $500",)),
        (["Budget under $500", "Only this week"], ("Budget under $500", "Only this week")),
        ("", None),
        ([], None),
        (None, None),
    ],
)
def test_constraints_of_dokimos(given, read):
    example = {"input": "Book a trip", "metadata": {"tasks": "book a flight", "constraints": given}}
    (case,) = import_text(json.dumps({"examples": [example]})).suite.cases
    assert (case.tasks, case.constraints) == (("book a flight",), read)
    assert case.eval_case(0).constraints == read


# what is wrong


def test_ids_that_are_repeated_or_odd_become_unique_and_printable():
    scenarios = [{"scenario_id": "a\nb", "goal": "g"}] * 3
    suite = import_text(json.dumps({"scenarios": scenarios})).suite
    assert [case.id for case in suite.cases] == ["a b", "a b-2", "a b-3"]
    assert parse_suite(suite_text(suite)) == suite


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{}", "x.json: is neither a suite (an object with the key `suite`) nor in a format that can be imported"),
        ("[]", "x.json: is neither a suite"),
        ("[{}]", "x.json: is neither a suite"),
        ("3", "x.json: is neither a suite"),
        ('{"scenarios": [\n {"goal": "g"}]}', "x.json:2:2: scenarios[0]: scenario_id is missing"),
        ('{"scenarios": [\n {"scenario_id": "s"}]}', "x.json:2:2: scenarios[0]: goal is missing"),
        ('{"scenarios": [\n 3]}', "x.json:2:2: scenarios[0]: expected an object, got 3"),
        (
            '{"scenarios": [{"scenario_id": "s", "goal": "g", "assertions": [{"type": "tool_calls",\n'
            ' "match_mode": "unorderd", "expected": [{"name": "f"}]}]}]}',
            "x.json:2:2: scenarios[0].assertions[0].match_mode: unknown 'unorderd' (did you mean unordered?)",
        ),
        (
            '{"scenarios": [{"scenario_id": "s", "goal": "g", "assertions": [{"type": "tool_calls", "expected": [\n'
            ' {"name": "f", "arg_match_mode": "exact"},\n {"name": "f", "arg_match_mode": "partial"}]}]}]}',
            "x.json:3:2: scenarios[0].assertions[0].expected[1]: f is expected with arg_match_mode exact and partial",
        ),
        ('{"eval_cases": [\n {"eval_id": "e"}]}', "x.json:2:2: eval_cases[0]: conversation is missing"),
        (
            '{"eval_cases": [{"eval_id": "e",\n "conversation": []}]}',
            "x.json:2:2: eval_cases[0].conversation: needs at least one invocation",
        ),
        (
            '{"eval_cases": [{"eval_id": "e", "conversation": [{\n "user_content": {"parts": [{"file": {}}]}}]}]}',
            "x.json:2:2: eval_cases[0].conversation[0].user_content: has no text",
        ),
        ('[{"name": "n",\n "data": []}]', "x.json:2:2: [0].data: needs at least one invocation"),
        (
            '[{"query": "q", "expected_tool_use": [\n {"tool_input": {}}]}]',
            "x.json:2:2: [0].expected_tool_use[0]: tool_name is missing",
        ),
        ('{"evaluations": [{"id": "e",\n "inputs": []}]}', "x.json:2:2: evaluations[0].inputs: expected an object"),
        (
            '{"evaluations": [{"id": "e", "inputs": {"q": "x"}, "evaluationCriterias": {"c":\n'
            ' {"toolCallsCount": {"f": ["~", 1]}}}}]}',
            "x.json:2:28: evaluations[0].evaluationCriterias.c.toolCallsCount.f[0]: unknown '~'",
        ),
        ('{"examples": [\n {"metadata": {}}]}', "x.json:2:2: examples[0]: input is missing"),
        (
            '{"examples": [{"input": "x", "expectedOutputs": {"toolCalls": [\n {"name": "f", "arguments": 3}]}}]}',
            "x.json:2:16: examples[0].expectedOutputs.toolCalls[0].arguments: expected an object, got 3",
        ),
        ('{"examples": [', "x.json:2:1: "),
        ('{"input": "a"}\n\n{"input": 3}', "x.jsonl:3:2: examples[1].input: expected a string, got 3"),
        ('{"input": "a"}\n{"input', "x.jsonl:2:"),
        ("\n\n", "x.jsonl: is empty"),
    ],
)
def test_a_wrong_file_is_answered_with_one_sentence_and_its_place(text, message):
    with pytest.raises(SuiteError) as caught:
        import_text(text, message.partition(":")[0])
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_a_missing_file_and_an_unknown_format(tmp_path):
    with pytest.raises(SuiteError, match="cannot be read: No such file"):
        import_suite(tmp_path / "gone.json")
    with pytest.raises(ValueError, match="unknown format 'adk'; known are suite, arksim, dokimos, google-adk, uipath"):
        import_text("{}", form="adk")


KEYS = (
    *("name", "arguments", "args", "type", "expected", "assertions", "goal", "scenario_id", "knowledge", "content"),
    *("eval_id", "conversation", "user_content", "parts", "text", "intermediate_data", "tool_uses", "data", "query"),
    *("id", "inputs", "evaluationCriterias", "toolCalls", "conversationalInputs", "conversationHistory"),
    *("input", "expectedOutputs", "metadata", "tools", "turnCount", "tasks"),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["", "a", "tool_calls", "strict"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(KEYS),
            inner,
            max_size=4,
        )
    ),
    max_leaves=15,
)


@given(JSON, st.sampled_from(["scenarios", "eval_cases", "evaluations", "examples", None]))
def test_junk_is_a_suite_or_a_suite_error(junk, key):
    text = json.dumps({key: junk if isinstance(junk, list) else [junk]} if key else junk)
    for form in (None, *FORMATS):
        try:
            imported = import_text(text, "x.json", form)
        except SuiteError:
            continue
        assert parse_suite(suite_text(imported.suite)) == imported.suite


# ── evalsets of google-adk ───────────────────────────────────────────────────────────────────────────────────────────


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


EVENTS = [
    {"author": "user", "content": {"role": "user", "parts": [{"text": "My order is ORD-7"}]}},
    {"author": "shop", "content": {"role": "model", "parts": [{"text": "Noted."}]}},
]


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
    session = {"app_name": "a", "user_id": "u", "state": {"tier": "gold"}, "events": EVENTS}
    case = {"eval_id": "a", "conversation": [invocation], "sessionInput": session, "finalSessionState": {"x": 1}}
    imported = import_text(json.dumps({"eval_cases": [case], "later": [1]}))
    assert imported.suite.cases[0].given == History(turns=(GivenTurn("My order is ORD-7"),))
    assert imported.notes == (
        "later of the evalset was not imported",
        "finalSessionState of a case was not imported",
        "state of the session input was not imported: the session has none",
        "of the events of a session, only the messages of the user were imported: the agent answers them",
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
