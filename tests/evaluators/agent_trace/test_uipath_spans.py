"""Spans as UiPath's Tool Call Args evaluator reads them: `tool.name`, and `input.value` as a Python literal or JSON."""

from __future__ import annotations

import warnings

import pytest
from tool_call_evaluators import AgentTrace


def plain(name, arguments, number):
    return {"name": name, "start_time": number, "attributes": {"tool.name": name, "input.value": arguments}}


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
