"""Expectations that no evaluator reads, evaluators without their input, gates that cannot be met."""

from __future__ import annotations

import json
from dataclasses import fields

import pytest
from support.turn_samples import result
from support.turn_samples import turn as turn_sample
from tool_call_evaluators import evaluator_names, parse_suite
from tool_call_evaluators.importers import import_text
from tool_call_evaluators.outcomes.conversations import follow, run_verdict
from tool_call_evaluators.report import build_report
from tool_call_evaluators.report.html import html_report
from tool_call_evaluators.report.json_output import json_report
from tool_call_evaluators.report.junit import junit_xml
from tool_call_evaluators.report.markdown import markdown_summary
from tool_call_evaluators.suite import Expectation
from tool_call_evaluators.suite.lint import (
    READ_BY,
    missing_inputs,
    unknown_gates,
    unknown_placeholders,
    unmeasurable_gates,
    unscored_cases,
    unused_expectations,
)

VALUES = {
    "tool_calls": "[]",
    "tool_calls_order": "[f]",
    "tool_calls_count": '{f: ["=", 1]}',
    "tool_outputs": "[{name: f, output: x}]",
    "response": "x",
    "response_contains": "x",
    "behavior": "x",
    "forbidden_calls": "[{name: f}]",
    "agents": "[orders]",
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


def test_a_run_with_such_an_expectation_fails_by_name_in_every_form():
    evaluators = "[tool_trajectory]"
    turn = "{user: hi, expect: {tool_calls: [], response_contains: NEVER SAID}}"
    text = f"suite: x\nevaluators: {evaluators}\ncases: [{{id: a, turns: [{turn}]}}]"
    suite, passed = parse_suite(text), turn_sample("t", "hi", case="a", evaluations=[result("tool_trajectory", 1.0)])
    verdict = run_verdict(suite, follow([passed], suite))
    sentence = "response_contains is expected in case a, but no evaluator reads it (add contains)"
    assert [(reason.code, reason.message) for reason in verdict.reasons] == [("unread_expectation", sentence)]
    made = build_report("r", [passed], verdict.to_dict(), suite=suite)
    escaped = sentence.replace("_", r"\_").replace("(", r"\(").replace(")", r"\)")
    shown = [(html_report, sentence), (json_report, sentence), (junit_xml, sentence), (markdown_summary, escaped)]
    assert [form.__name__ for form, words in shown if words not in form(made)] == []
    assert run_verdict(parse_suite(f"{text}\ntolerate: [unread_expectation]"), follow([passed], suite)).passed


def test_an_imported_file_that_holds_more_than_its_evaluators_read_says_so_and_passes():
    example = {"input": "hi", "expectedOutput": "x", "expectedOutputs": {"toolCalls": []}}
    suite = import_text(json.dumps({"name": "x", "examples": [example]})).suite
    assert suite.tolerate == {"unread_expectation"}
    assert "response is expected" in unused_expectations(suite)[0]


def test_evaluators_of_another_s_making_may_look_at_anything():
    turn = "{user: hi, expect: {response: x}}"
    assert of("[{external: {command: [score]}}]", turn) == []


def test_cases_have_evaluators_of_their_own_and_expectations_of_the_whole():
    suite = parse_suite(
        """
suite: x
evaluators: [tool_error, {tool_trajectory: {scope: conversation}}]
cases:
  - {id: a, turns: [{user: hi, expect: {response: x}}], evaluators: [exact_match]}
  - {id: b, turns: [{user: hi, expect: {response: x}}], expect: {tool_calls: []}}
  - {id: c, turns: [{user: hi, expect: {response: x}}]}
  - {id: d, turns: [{user: hi}], expect: {response_contains: x}}
"""
    )
    assert unused_expectations(suite) == [
        "response is expected in case b and 1 more, but no evaluator reads it "
        "(add exact_match, json_similarity or llm_judge_output)",
        "response_contains is expected in case d, but no evaluator reads it (add contains)",
    ]


def test_a_gate_on_what_nobody_measures_is_named():
    suite = "suite: x\nevaluators: [tool_error]\ngates: {%s: 1}\ncases: [{id: a, turns: [{user: hi}]}]"
    assert unknown_gates(parse_suite(suite % "tool_eror")) == [
        "gate tool_eror names no evaluator of the suite (did you mean tool_error?); known are tool_error"
    ]
    assert unknown_gates(parse_suite(suite % "tool_error")) == unknown_gates(parse_suite(suite % "captured")) == []


def test_a_misspelt_placeholder_is_named():
    suite = parse_suite(
        """
suite: x
evaluators: [tool_trajectory, json_similarity]
cases:
  - id: a
    turns:
      - user: hi
        expect: {tool_calls: [{name: f, arguments: {x: [{$regx: a}], y: {$any: true}, z: {$literal: {$a: 1}}}}]}
  - {id: b, turns: [{user: hi, expect: {response: {$regx: b, a: {$one_of: [{$ref: c}]}}}}]}
"""
    )
    known = "known are $any, $type, $regex, $approx, $one_of, $optional, $literal; it is compared as data"
    assert unknown_placeholders(suite) == [
        f"$regx in case a and 1 more is no placeholder (did you mean $regex?); {known}",
        f"$ref in case b is no placeholder (did you mean $regex?); {known}",
    ]


def test_cases_that_nothing_scores_are_named():
    suite = "suite: x\nevaluators: %s\ncases: [{id: a, turns: [{user: hi}]%s}]"
    assert unscored_cases(parse_suite(suite % ("[]", ""))) == ["no evaluator scores case a: list some in `evaluators`"]
    assert unscored_cases(parse_suite(suite % ("[tool_error]", ", evaluators: []"))) != []
    assert unscored_cases(parse_suite(suite % ("[]", ", evaluators: [tool_error]"))) == []


@pytest.mark.parametrize("key", VALUES)
def test_an_evaluator_without_its_expectation_is_named(key):
    for name in READ_BY[key]:
        suite = f"suite: x\nevaluators: [{name}]\ncases: [{{id: a, turns: [{{user: hi}}]}}, {{id: b, turns: [%s]}}]"
        (sentence,) = missing_inputs(parse_suite(suite % "{user: hi}"))
        assert sentence.startswith(f"{name} skips case a and 1 more: no turn has expect.{key}")
        given = f"{{user: first}}, {{user: hi, expect: {{{key}: {VALUES[key]}}}}}"
        assert missing_inputs(parse_suite(suite % given)) == [sentence.replace(" and 1 more", "")]


def test_a_case_that_expects_something_else_is_no_mistake():
    suite = """
suite: x
evaluators: [exact_match, tool_trajectory, goal_completion]
cases:
  - {id: answer, user_goal: g, turns: [{user: hi, expect: {response: x}}]}
  - {id: calls, user_goal: g, turns: [{user: hi, expect: {tool_calls: []}}]}
  - {id: goalless, turns: [{user: hi, expect: {tool_calls: []}}]}
"""
    assert missing_inputs(parse_suite(suite)) == ["goal_completion skips case goalless: the case has no user_goal"]


def test_an_input_may_stand_elsewhere():
    """As an option, in the case of a conversation, in a simulated user, or with other criteria."""
    suite = """
suite: x
evaluators: %s
tools: [{name: f, parameters: {}}]
cases: [{id: a, simulate: {goal: g}}]
"""
    for given in (
        "[{exact_match: {expected: x}}]",
        "[{tool_call_args: {expected_tool_calls: []}}]",
        "[{llm_judge_output: {criteria: polite}}]",
        "[goal_completion, tool_call_validity, helpfulness, tool_error]",
        "[{external: {command: [score]}}]",
    ):
        assert missing_inputs(parse_suite(suite % given)) == []
    turn = "suite: x\nevaluators: [{tool_trajectory: {scope: %s, id: t}}]\ncases: [{id: a, turns: [{user: hi%s}]%s}]"
    expect = ", expect: {tool_calls: []}"
    assert missing_inputs(parse_suite(turn % ("conversation", expect, ""))) == [
        "t skips case a: the case has no expect.tool_calls"
    ]
    both = turn.replace("cases:", "gates: {t: 1}\ncases:") % ("conversation", "", expect)
    assert missing_inputs(parse_suite(both)) == unmeasurable_gates(parse_suite(both)) == []


def test_cases_with_their_own_evaluators_are_read_with_these():
    suite = """
suite: x
evaluators: [tool_trajectory]
cases:
  - {id: a, turns: [{user: hi, expect: {tool_calls: []}}]}
  - {id: b, turns: [{user: hi}], evaluators: [exact_match]}
"""
    assert missing_inputs(parse_suite(suite)) == [
        "exact_match skips case b: no turn has expect.response, and the option expected is not set"
    ]


def test_a_gate_whose_evaluator_skips_every_case_cannot_be_met():
    suite = "suite: x\nevaluators: [exact_match]\n%sgates: {exact_match: 1}\ncases: [{id: a, turns: [{user: hi}]}%s]"
    assert unmeasurable_gates(parse_suite(suite % ("", ""))) == [
        "gate exact_match cannot be met, as exact_match skips every case: no turn has expect.response, and the option "
        "expected is not set"
    ]
    measured = ", {id: b, turns: [{user: hi, expect: {response: x}}]}"
    assert unmeasurable_gates(parse_suite(suite % ("", measured))) == []
    assert unmeasurable_gates(parse_suite(suite % ("tolerate: [unmeasured]\n", ""))) == []
