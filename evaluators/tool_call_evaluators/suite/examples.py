"""A whole example suite for each built-in evaluator, and the calls and answer of an agent that meets it."""

from __future__ import annotations

from typing import Any

from ..judged.base import JudgedEvaluator
from ..registry import evaluator_class
from .lint import READ_BY
from .writing import block

CALLS = [
    {"name": "lookup_order", "arguments": {"order_id": "ORD-1002"}, "result": "delivered"},
    {"name": "issue_refund", "arguments": {"order_id": "ORD-1002", "amount_eur": 14.5}, "result": "REF-1002"},
]
ANSWER = "Your refund has the reference REF-1002."

USER = "Please refund 14.50 EUR of order ORD-1002, one mug came broken."
_EXPECT: dict[str, Any] = {
    "tool_calls": [{"name": call["name"], "arguments": call["arguments"]} for call in CALLS],
    "tool_calls_order": [call["name"] for call in CALLS],
    "tool_calls_count": {"issue_refund": ["=", 1], "cancel_order": ["=", 0]},
    "tool_outputs": [{"name": "lookup_order", "output": "delivered"}],
    "response": ANSWER,
    "response_contains": "REF-1002",
    "forbidden_calls": [{"name": "issue_refund", "arguments": {"amount_eur": {"$type": "string"}}}],
    "agents": [{"name": "orders", "given": ["ORD-1002"]}, {"name": "payroll", "at_most": 0}],
    "behavior": "Looks the order up before it refunds, and refunds no more than was asked for.",
}
_CASE: dict[str, Any] = {
    "user_goal": "Get 14.50 EUR back for a broken mug.",
    "knowledge": "Broken items are refunded within 30 days of delivery.",
    "tasks": ["Refund 14.50 EUR", "Name the reference of the refund"],
    "tools": [
        {
            "name": name,
            "description": description,
            "parameters": {
                "type": "object",
                "properties": properties,
                "required": list(properties),
                "additionalProperties": False,
            },
        }
        for name, description, properties in (
            ("lookup_order", "Returns an order.", {"order_id": {"type": "string", "description": "As in ORD-1001."}}),
            (
                "issue_refund",
                "Refunds a part of an order.",
                {
                    "order_id": {"type": "string", "description": "As in ORD-1001."},
                    "amount_eur": {"type": "number", "description": "Above 0."},
                },
            ),
        )
    ],
}


def example_text(name: str) -> str:
    """A suite, as YAML, that scores one case with the evaluator `name`. Raises OptionError for an unknown name."""
    cls = evaluator_class(name)
    used: list[Any] = [{cls.name: dict(cls.example)} if cls.example else cls.name]
    of_turns = cls.scope == "conversation" and "turns" in cls.needs
    if of_turns:
        used = ["agent_behavior_failure", "goal_completion", *used]
    expect = {key: _EXPECT[key] for key, readers in READ_BY.items() if cls.name in readers}
    needs = {"user_goal"} if of_turns else set(cls.needs)
    case = {
        "id": "partial-refund",
        **{key: value for key, value in _CASE.items() if key in needs},
        "turns": [{"user": USER} | ({"expect": expect} if expect else {})],
    }
    judged = issubclass(cls, JudgedEvaluator) or of_turns
    lines = block({"suite": "example", **({"judge": {"model": "gpt-5-mini"}} if judged else {}), "evaluators": used})
    return "\n".join([*lines, "", "cases:", *block([case], 2)]) + "\n"
