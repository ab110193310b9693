"""Spans as UiPath's Tool Call Args evaluator reads them: `tool.name`, and `input.value` as a Python literal or JSON."""

from __future__ import annotations

import json
import warnings

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from tool_call_evaluators import AgentTrace, get_evaluator


def readable(name, arguments, number):
    return ReadableSpan(
        name=name, start_time=number, end_time=number, attributes={"tool.name": name, "input.value": arguments}
    )


def plain(name, arguments, number):
    return {"name": name, "start_time": number, "attributes": {"tool.name": name, "input.value": arguments}}


UPDATE = {"user_id": 123, "fields": {"email": "new@example.com", "active": True, "note": None}, "notify": True}
MAIL = {"to": "ann@example.com", "subject": "Welcome"}
EXTRA = {**MAIL, "priority": "high"}
CASES = [
    ([("update_user", UPDATE)], [("update_user", UPDATE)], {}, 1.0),
    ([("update_user", UPDATE)], [("update_user", UPDATE)], {"strict": True}, 1.0),
    (
        [("a", {"x": 1}), ("b", {"x": 1}), ("c", {"x": 9})],
        [("a", {"x": 1}), ("b", {"x": 1}), ("c", {"x": 1})],
        {},
        2 / 3,
    ),
    ([("send", EXTRA)], [("send", MAIL)], {"subset": True}, 1.0),
    ([("a", {"x": 1}), ("a", {"x": 2})], [("a", {"x": 1}), ("a", {"x": 2})], {}, 1.0),
    ([("book", {"trip": {"days": [1, 2], "ok": False}})], [("book", {"trip": {"days": [1, 2], "ok": False}})], {}, 1.0),
]


@pytest.mark.parametrize("written", [str, json.dumps], ids=["literal", "json"])
@pytest.mark.parametrize("span", [readable, plain])
@pytest.mark.parametrize(("made", "expected", "options", "score"), CASES)
def test_scores_as_printed(made, expected, options, score, span, written):
    spans = [span(name, written(arguments), number) for number, (name, arguments) in enumerate(made)]
    wanted = [{"name": name, "arguments": arguments} for name, arguments in expected]
    case = AgentTrace.from_spans(spans).case(expected_tool_calls=wanted)
    assert get_evaluator("tool_call_args", **options).evaluate(case).score == pytest.approx(score)


def test_spans_without_a_tool_call_say_so():
    spans = [{"name": "call", "attributes": {"function": "pay", "args": "{}"}}]
    with pytest.warns(UserWarning, match=r"none of 1 span\(s\) is a tool call.*these have function, args"):
        assert AgentTrace.from_spans(spans).tool_calls == ()
    with pytest.warns(UserWarning, match="these have no attributes"):
        AgentTrace.from_spans([{"name": "llm"}])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        AgentTrace.from_spans([])


def test_a_tool_that_a_model_is_only_offered_was_not_called():
    offered = {"name": "llm", "attributes": {"openinference.span.kind": "LLM", "tool.name": "pay"}}
    with pytest.warns(UserWarning, match="is a tool call"):
        assert AgentTrace.from_spans([offered]).tool_calls == ()


def test_what_is_no_literal_is_unknown():
    trace = AgentTrace.from_spans([plain("pay", "__import__('os')", 0)])
    assert trace.tool_calls[0].arguments is None
