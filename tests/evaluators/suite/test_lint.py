"""Expectations that no evaluator looks at, gates on what none measures."""

from __future__ import annotations

from dataclasses import fields

import pytest
from tool_call_evaluators import evaluator_names, parse_suite
from tool_call_evaluators.suite import Expectation
from tool_call_evaluators.suite.lint import (
    READ_BY,
    unknown_gates,
    unknown_placeholders,
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
}


def of(evaluators, case):
    return unused_expectations(parse_suite(f"suite: x\nevaluators: {evaluators}\ncases: [{{id: a, turns: [{case}]}}]"))


def test_every_expectation_and_only_evaluators_that_there_are():
    assert set(READ_BY) == set(VALUES) == {item.name for item in fields(Expectation)}
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
  - {id: b, turns: [{user: hi, expect: {response: {$regx: b, $ref: c}}}]}
"""
    )
    assert unknown_placeholders(suite) == [
        "$regx in case a and 1 more is no placeholder (did you mean $regex?); known are $any, $type, $regex, $approx, "
        "$literal; it is compared as data",
        "$ref in case b is no placeholder (did you mean $regex?); known are $any, $type, $regex, $approx, $literal; "
        "it is compared as data",
    ]


def test_cases_that_nothing_scores_are_named():
    suite = "suite: x\nevaluators: %s\ncases: [{id: a, turns: [{user: hi}]%s}]"
    assert unscored_cases(parse_suite(suite % ("[]", ""))) == ["no evaluator scores case a: list some in `evaluators`"]
    assert unscored_cases(parse_suite(suite % ("[tool_error]", ", evaluators: []"))) != []
    assert unscored_cases(parse_suite(suite % ("[]", ", evaluators: [tool_error]"))) == []
