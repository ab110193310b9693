"""Cases as a page shows them."""

from __future__ import annotations

from a2a_eval_proxy.features.pages.run_pages import MAX_CALLS, expectations
from tool_call_evaluators import parse_suite
from tool_call_evaluators.suite import Expectation


def expected(text: str) -> dict[str, list[str]]:
    suite = parse_suite(f"suite: s\ncases: [{{id: a, turns: [{{user: x, expect: {text}}}]}}]")
    (turn,) = suite.cases[0].turns
    return {name: list(values) for name, values in expectations(turn.expect).items()}


def test_expected_calls_are_written_for_people():
    arguments = "{id: {$regex: 'O-[0-9]+'}, sum: {$approx: 2, tolerance: 1}}"
    calls = f"[{{name: pay, arguments: {arguments}}}, {{name: f, arguments: null}}]"
    assert expected(f"{{tool_calls: {calls}}}") == {
        "tool calls": ["pay(id=/O-[0-9]+/, sum=≈ 2 ± 1)", "f(any arguments)"]
    }
    assert expected("{tool_calls: []}") == {"tool calls": ["no call"]}
    outcome = "{name: f, arguments: {to: {$one_of: [a, b]}, by: {$optional: c}}, result: {n: 1}, succeeded: true}"
    assert expected(f"{{tool_calls: [{outcome}]}}") == {
        "tool calls": ['f(to="a" or "b", by="c" or nothing), result: {"n": 1}, succeeded: true']
    }
    many = expected(f"{{tool_calls: [{', '.join(['{name: f}'] * (MAX_CALLS + 2))}]}}")["tool calls"]
    assert many[0] == "f()"
    assert many[-1] == "… and 2 more"


def test_every_other_expectation_has_its_words():
    found = expected(
        "{tool_calls_order: [f, g], tool_calls_count: {f: ['>=', 2]}, tool_outputs: [{name: f, output: done}],"
        " response: {a: 1}, response_contains: ok, behavior: asks first}"
    )
    assert found == {
        "order of tools": ["f → g"],
        "number of calls": ["f >= 2"],
        "tool outputs": ["f: done"],
        "response": ['{"a": 1}'],
        "response contains": ["ok"],
        "behaviour": ["asks first"],
    }
    assert expectations(Expectation()) == {}
