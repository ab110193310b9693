"""What in a suite has no effect, and the schema that editors complete suites with."""

from __future__ import annotations

from dataclasses import fields

import jsonschema
import pytest
from support.turn_samples import result
from support.turn_samples import turn as turn_sample
from tool_call_evaluators import SuiteError, evaluator_class, evaluator_names, parse_suite
from tool_call_evaluators.gates import Gate, RunGates
from tool_call_evaluators.outcomes.conversations import follow, run_verdict
from tool_call_evaluators.suite import AgentDefaults, Case, CaseTurn, Expectation, Simulation, Suite
from tool_call_evaluators.suite.lint import (
    READ_BY,
    missing_inputs,
    unknown_gates,
    unknown_placeholders,
    unmeasurable_gates,
    unscored_cases,
    unused_expectations,
)
from tool_call_evaluators.suite.schema import suite_schema
from tool_call_evaluators.suite.yaml_document import read_document

VALUES = {
    "tool_calls": "[]",
    "tool_calls_order": "[f]",
    "tool_calls_count": '{f: ["=", 1]}',
    "tool_outputs": "[{name: f, output: x}]",
    "response": "x",
    "response_contains": "x",
    "behavior": "x",
    "forbidden_calls": "[{name: f}]",
    "skills": "[]",
    "forbidden_skills": "[f]",
    "agents": "[orders]",
    "state_of_world": "{command: [ls], equals: x}",
    "approval": "{tool: f}",
}


def of(evaluators, case):
    return unused_expectations(parse_suite(f"suite: x\nevaluators: {evaluators}\ncases: [{{id: a, turns: [{case}]}}]"))


def test_every_expectation_and_only_evaluators_that_there_are():
    assert set(READ_BY) == set(VALUES) == {item.name for item in fields(Expectation)} - {"state"}
    assert {name for names in READ_BY.values() for name in names} <= set(evaluator_names())


@pytest.mark.parametrize("key", VALUES)
def test_what_nobody_looks_at_is_named_with_who_would(key):
    turn = f"{{user: hi, expect: {{{key}: {VALUES[key]}}}}}"
    (sentence,) = of("[tool_error]", turn)
    assert sentence.startswith(f"{key} is expected in case a, but no evaluator reads it (")
    assert all(name in sentence for name in READ_BY[key])
    for name in READ_BY[key]:
        assert of(f"[{name}]", turn) == []
        assert of(f"[{{{name}: {{scope: conversation}}}}]", turn) != [], "that looks elsewhere"


def test_a_run_with_such_an_expectation_fails_by_name():
    turn = "{user: hi, expect: {tool_calls: [], response_contains: NEVER SAID}}"
    text = f"suite: x\nevaluators: [tool_trajectory]\ncases: [{{id: a, turns: [{turn}]}}]"
    passed = turn_sample("t", "hi", case="a", evaluations=[result("tool_trajectory", 1.0)])
    verdicts = [
        run_verdict(one, follow([passed], one))
        for one in map(parse_suite, (text, f"{text}\ntolerate: [unread_expectation]"))
    ]
    assert [[reason.message for reason in verdict.reasons] for verdict in verdicts] == [
        ["response_contains is expected in case a, but no evaluator reads it (add contains)"],
        [],
    ]


@pytest.mark.parametrize("key", VALUES)
def test_an_evaluator_without_its_expectation_is_named(key):
    for name in READ_BY[key]:
        suite = f"suite: x\nevaluators: [{name}]\ncases: [{{id: a, turns: [{{user: hi}}]}}, {{id: b, turns: [%s]}}]"
        (sentence,) = missing_inputs(parse_suite(suite % "{user: hi}"))
        before, _, lacking = sentence.partition(" expect.")
        assert (before, key in lacking) == (f"{name} skips case a and 1 more: no turn has", True)
        given = f"{{user: first}}, {{user: hi, expect: {{{key}: {VALUES[key]}}}}}"
        assert missing_inputs(parse_suite(suite % given)) == [
            before.replace(" and 1 more", "") + f" expect.{lacking.removesuffix(UNMEASURED)}"
        ]


HI = "cases: [{id: a, turns: [{user: hi}]}]"
NO_CALLS = "{user: hi, expect: {tool_calls: []}}"
KNOWN = "it is compared as data"
UNMEASURED = "; the run fails as unmeasured"
NO_ANSWER = "no turn has expect.response, and the option expected is not set"


@pytest.mark.parametrize(
    ("lint", "text", "sentences"),
    [
        (unused_expectations, "evaluators: [{external: {command: [score]}}]\n"
            "cases: [{id: a, turns: [{user: hi, expect: {response: x}}]}]", []),
        (
            unused_expectations,
            """
evaluators: [tool_error, {tool_trajectory: {scope: conversation}}]
cases:
  - {id: a, turns: [{user: hi, expect: {response: x}}], evaluators: [exact_match]}
  - {id: b, turns: [{user: hi, expect: {response: x}}], expect: {tool_calls: []}}
  - {id: c, turns: [{user: hi, expect: {response: x}}]}
  - {id: d, turns: [{user: hi}], expect: {response_contains: x}}
""",
            [
                "response is expected in case b and 1 more, but no evaluator reads it "
                "(add exact_match, json_similarity or llm_judge_output)",
                "response_contains is expected in case d, but no evaluator reads it (add contains)",
            ],
        ),
        (
            unknown_gates,
            f"evaluators: [tool_error]\ngates: {{tool_eror: 1}}\n{HI}",
            ["gate tool_eror names no evaluator of the suite (did you mean tool_error?); known are tool_error"],
        ),
        (unknown_gates, f"evaluators: [tool_error]\ngates: {{tool_error: 1, captured: 1}}\n{HI}", []),
        (
            unknown_placeholders,
            """
evaluators: [tool_trajectory, json_similarity]
cases:
  - id: a
    turns:
      - user: hi
        expect: {tool_calls: [{name: f, arguments: {x: [{$regx: a}], y: {$any: true}, z: {$literal: {$a: 1}}}}]}
  - {id: b, turns: [{user: hi, expect: {response: {$regx: b, a: {$one_of: [{$ref: c}]}}}}]}
""",
            [
                f"$regx in case a and 1 more is no placeholder (did you mean $regex?); {KNOWN}",
                f"$ref in case b is no placeholder (did you mean $regex?); {KNOWN}",
            ],
        ),
        (
            unknown_placeholders,
            "evaluators: [state_of_world]\ncases: [{id: a, turns: [{user: hi, expect: {state_of_world: {command: [ls], "
            "equals: {$any: 1, x: 2}}}}]}]",
            ["$any in case a stands beside other keys, and is no placeholder there; it is compared as data"],
        ),
        (unscored_cases, f"evaluators: []\n{HI}", ["no evaluator scores case a: list some in `evaluators`"]),
        (unscored_cases, "evaluators: []\ncases: [{id: a, turns: [{user: hi}], evaluators: [tool_error]}]", []),
        (unscored_cases, "evaluators: []\ncases: [{id: a, turns: [{user: hi, expect: {state: failed}}]}]", []),
        (
            missing_inputs,
            f"""
evaluators: [exact_match, tool_trajectory, goal_completion]
cases:
  - {{id: answer, user_goal: g, turns: [{{user: hi, expect: {{response: x}}}}]}}
  - {{id: calls, user_goal: g, turns: [{NO_CALLS}]}}
  - {{id: goalless, turns: [{NO_CALLS}]}}
""",
            ["goal_completion skips case goalless: the case has no user_goal"],
        ),
        *(
            (missing_inputs, f"evaluators: [exact_match]\n{spared}\n{HI}", [f"exact_match skips case a: {NO_ANSWER}"])
            for spared in ("tolerate: [unmeasured]", "gates: {pass_rate: 0}")
        ),
        *(
            (missing_inputs, f"evaluators: {given}\ntools: [{{name: f}}]\ncases: [{{id: a, simulate: {{goal: g}}}}]",
             [])
            for given in (
                "[{exact_match: {expected: x}}]",
                "[{tool_call_args: {expected_tool_calls: []}}]",
                "[{llm_judge_output: {criteria: polite}}]",
                "[goal_completion, tool_call_validity, helpfulness, tool_error]",
            )
        ),
        (
            missing_inputs,
            "evaluators: [{tool_trajectory: {scope: conversation, id: t}}]\n"
            f"cases: [{{id: a, turns: [{NO_CALLS}]}}]",
            [f"t skips case a: the case has no expect.tool_calls{UNMEASURED}"],
        ),
        (
            missing_inputs,
            f"""
evaluators: [tool_trajectory]
cases: [{{id: a, turns: [{NO_CALLS}]}}, {{id: b, turns: [{{user: hi}}], evaluators: [exact_match]}}]
""",
            [f"exact_match skips case b: {NO_ANSWER}{UNMEASURED}"],
        ),
        (
            unmeasurable_gates,
            f"evaluators: [exact_match]\ngates: {{exact_match: 1}}\n{HI}",
            [f"gate exact_match cannot be met, as exact_match skips every case: {NO_ANSWER}"],
        ),
        (unmeasurable_gates, f"evaluators: [exact_match]\ngates: {{exact_match: 1}}\ntolerate: [unmeasured]\n{HI}", []),
        (
            unmeasurable_gates,
            "evaluators: [exact_match]\ngates: {exact_match: 1}\n"
            "cases: [{id: a, turns: [{user: hi}]}, {id: b, turns: [{user: hi, expect: {response: x}}]}]",
            [],
        ),
    ],
)  # fmt: skip
def test_what_has_no_effect_is_named_with_its_cases(lint, text, sentences):
    assert lint(parse_suite(f"suite: x\n{text}")) == sentences


# ── the schema ───────────────────────────────────────────────────────────────────────────────────────────────────────


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
