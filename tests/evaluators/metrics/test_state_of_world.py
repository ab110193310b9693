"""state_of_world: what a probe saw, compared with what is expected of it."""

from __future__ import annotations

import pytest
from tool_call_evaluators import EvalCase, get_evaluator

RIGHT, WRONG = "The world is as expected.", "The world is not as expected: world"
NOT_PROBED = "the world was not probed: `run` does that, as soon as the agent has answered"


@pytest.mark.parametrize(
    ("matcher", "world", "expected", "status", "reason"),
    [
        ("exact", {"seen": {"status": "refunded"}}, {"status": {"$one_of": ["refunded", "closed"]}}, "passed", RIGHT),
        ("exact", {"seen": None}, None, "passed", RIGHT),
        ("exact", {"seen": {"a": 1}}, {"a": 2}, "failed", f"{WRONG}.a: expected 2, got 1."),
        ("exact", {"seen": None}, {"a": 2}, "failed", f'{WRONG}: expected {{"a": 2}}, got null.'),
        ("exact", {"seen": {"a": 1, "b": 2}}, {"a": 1}, "failed", f"{WRONG}.b was not expected (got 2)."),
        ("subset", {"seen": {"a": 1, "b": 2}}, {"a": 1}, "passed", RIGHT),
        ("exact", {"seen": 42}, {"$regex": "[0-9]+"}, "passed", RIGHT),
        ({"trim": True}, {"seen": " open"}, "open", "passed", RIGHT),
        ("ignore", {"seen": "closed"}, "open", "failed", f'{WRONG}: expected "open", got "closed".'),
        ("exact", {"error": "HTTP 503"}, 1, "errored", "ProbeError: HTTP 503"),
        ("exact", None, 1, "skipped", NOT_PROBED),
    ],
)
def test_the_world_is_as_expected_or_not_or_it_is_not_known(matcher, world, expected, status, reason):
    case = EvalCase(world=world, expected_world={"equals": expected})
    result = get_evaluator("state_of_world", matcher=matcher).evaluate(case)
    assert (result.status, result.reason) == (status, reason)
    assert result.details.get("seen") == (world or {}).get("seen")
