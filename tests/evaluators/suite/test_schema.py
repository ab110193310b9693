"""The schema that editors complete suites with: it says what the loader says."""

from __future__ import annotations

import jsonschema
import pytest
from tool_call_evaluators import SuiteError, evaluator_class, evaluator_names, parse_suite
from tool_call_evaluators.gates import Gate, RunGates
from tool_call_evaluators.suite import AgentDefaults, Case, CaseTurn, Expectation, Simulation, Suite
from tool_call_evaluators.suite.schema import suite_schema
from tool_call_evaluators.suite.yaml_document import read_document

SCHEMA = suite_schema()
VALIDATOR = jsonschema.Draft7Validator(SCHEMA)


def errors(text: str) -> list[str]:
    return [error.message for error in VALIDATOR.iter_errors(read_document(text).value)]


def test_every_built_in_evaluator_and_option_is_in_it():
    by_name = SCHEMA["definitions"]["evaluator"]["anyOf"][1]["properties"]
    built_in = [
        name for name in evaluator_names() if evaluator_class(name).__module__.startswith("tool_call_evaluators.")
    ]
    assert list(by_name) == built_in
    assert all(schema["description"] for schema in by_name.values())


CASE = "cases: [{id: a, turns: [{user: hi%s}]%s}]"


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "suite: 7",
        "suite: ' '",
        "suite: x\ncase: []",
        "suite: x\nevaluators: [tool_eror]",
        "suite: x\nevaluators: [{tool_eror: {}}]",
        "suite: x\nevaluators: [{tool_error: {treshold: 1}}]",
        "suite: x\nevaluators: [{tool_error: {threshold: 2}}]",
        "suite: x\nevaluators: [{tool_error: {}, tool_call_args: {}}]",
        "suite: x\nevaluators: [{}]",
        "suite: x\nevaluators: [external]",
        "suite: x\nevaluators: [{tool_trajectory: {mode: inorder}}]",
        "suite: x\nevaluators: [{tool_trajectory: {matcher: {mode: exakt}}}]",
        "suite: x\nevaluators: [{tool_call_args: {strict: 1}}]",
        "suite: x\nevaluators: [{tool_error: {scope: run}}]",
        "suite: x\nevaluators: [{overall_agent_score: {scope: turn}}]",
        "suite: x\nevaluators: 3",
        "suite: x\njudge: {modell: small}",
        "suite: x\nagent: {url: agent.example}",
        "suite: x\nagent: {binding: SOAP}",
        "suite: x\nagent: {timeout: 0}",
        "suite: x\ngates: {tool_error: high}",
        "suite: x\ngates: {tool_error: {}}",
        "suite: x\ngates: {tool_error: {means: 1}}",
        "suite: x\ngates: {findings: {fatal: 0}}",
        "suite: x\ngates: {captured: 2}",
        "suite: x\ntolerate: [errors]",
        "suite: x\ncases: [{id: a}]",
        "suite: x\ncases: [{id: a, turns: []}]",
        "suite: x\ncases: [{id: a, simulate: {}}]",
        "suite: x\ncases: [{id: a, simulate: {goal: x, max_turns: 0}}]",
        "suite: x\ncases: [{id: a, simulate: {goal: x, turns: []}}]",
        "suite: x\ncases: [{turns: [{user: hi}]}]",
        "suite: x\n" + CASE % ("", ", repeat: 0"),
        "suite: x\n" + CASE % ("", ", tags: smoke"),
        "suite: x\n" + CASE % ("", ", evaluators: [tool_eror]"),
        "suite: x\n" + CASE % (", expect: {tool_call: []}", ""),
        "suite: x\n" + CASE % (", expect: {tool_calls: [{arguments: {}}]}", ""),
        "suite: x\n" + CASE % (", expect: {tool_calls: [{name: f, arguments: 3}]}", ""),
        "suite: x\n" + CASE % (", expect: {tool_calls: [{name: f, arg: {}}]}", ""),
        "suite: x\n" + CASE % (", expect: {tool_calls_count: {f: ['~', 1]}}", ""),
        "suite: x\n" + CASE % (", expect: {tool_outputs: [{name: f}]}", ""),
    ],
)
def test_what_the_loader_refuses_the_schema_refuses(text):
    with pytest.raises(SuiteError):
        parse_suite(text)
    assert errors(text) != []


def test_plugins_may_bring_evaluators_of_their_own(tmp_path):
    text = "suite: x\nplugins: [mine.py]\nevaluators: [my_metric, {my_other: {anything: 1}}]"
    assert errors(text) == []
    assert errors(text + "\n" + CASE % ("", ", evaluators: [my_metric]")) == []
    assert errors(text.replace("plugins: [mine.py]\n", "")) != []


@pytest.mark.parametrize("declared", [Suite, Case, CaseTurn, Simulation, Expectation, AgentDefaults, Gate, RunGates])
def test_every_declared_key_is_in_the_schema(declared):
    described = {**SCHEMA["definitions"], "Suite": SCHEMA, "RunGates": SCHEMA["properties"]["gates"]}
    form = described[declared.__name__]
    assert set(form.get("properties") or form["anyOf"][1]["properties"]) == {*declared.keys()}
