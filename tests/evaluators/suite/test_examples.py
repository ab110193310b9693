"""The example suite of each evaluator: it is a suite, every part is read, and an agent that meets it passes."""

from __future__ import annotations

import pytest
from tool_call_evaluators import evaluator_names
from tool_call_evaluators.agent_tree import AgentTurn, AskedBy, EdgeEvidence
from tool_call_evaluators.evaluator import evaluate_sync, is_built_in
from tool_call_evaluators.registry import evaluator_class
from tool_call_evaluators.suite import parse_suite
from tool_call_evaluators.suite.examples import ANSWER, CALLS, example_text
from tool_call_evaluators.suite.lint import unused_expectations

SURE = AskedBy(EdgeEvidence.TRACE_CONTEXT, certain=True, reason="")
ORDERS = AgentTurn("t2", "orders", 1.0, user_text="refund ORD-1002", response_text="REF-1002", asked=SURE)
TREE = AgentTurn("t1", "desk", 0.0, children=(ORDERS,))

NAMES = [name for name in evaluator_names() if is_built_in(evaluator_class(name))]


@pytest.mark.parametrize("name", NAMES)
def test_an_agent_that_meets_it_passes_and_everything_in_it_is_used(name: str) -> None:
    suite = parse_suite(example_text(name))
    assert name in suite.metrics
    assert unused_expectations(suite) == []
    computed = [item for item in suite.build_evaluators("turn") if not item.is_async and item.name != "external"]
    results = evaluate_sync(suite.cases[0].eval_case(0, tool_calls=CALLS, response_text=ANSWER, tree=TREE), computed)
    assert [result.status for result in results] == ["passed"] * len(computed)


@pytest.mark.parametrize(
    "name", sorted({name for name in NAMES if evaluator_class(name).criterion} - {"forbidden_calls"})
)
def test_an_agent_that_does_nothing_fails(name: str) -> None:
    suite = parse_suite(example_text(name))
    computed = [item for item in suite.build_evaluators("turn") if not item.is_async]
    results = evaluate_sync(suite.cases[0].eval_case(0, tool_calls=[], response_text="No."), computed)
    assert all(result.status == "failed" for result in results)
