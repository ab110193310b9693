"""`evaluators NAME`: what a user of suites reads about an evaluator."""

from __future__ import annotations

from a2a_eval_proxy.features.evaluators import explained
from tool_call_evaluators.registry import evaluator_class


def test_an_evaluator_is_explained_in_words_of_suites_with_everything_below_its_heading() -> None:
    text = "\n".join(explained(evaluator_class("tool_trajectory")))
    assert "Skipped without expected_tool_calls (in a suite: expect.tool_calls)." in text
    options = text.partition("\nOptions:\n")[2]
    assert options
    assert all(not line or line.startswith("  ") for line in options.splitlines())
