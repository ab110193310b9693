"""Spans as UiPath's Tool Call Args evaluator reads them: `tool.name`, and `input.value` as a Python literal or JSON."""

from __future__ import annotations

import json
import re
import warnings
from datetime import UTC, datetime

import pytest
from support.provision import source_of
from tool_call_evaluators import AgentTrace, Status
from tool_call_evaluators.importers.dokimos import eval_test_case
from tool_call_evaluators.metrics.tool_error import ToolError


def plain(name, arguments, number):
    return {"name": name, "start_time": number, "attributes": {"tool.name": name, "input.value": arguments}}


def test_spans_without_a_tool_call_say_so():
    spans = [{"name": "call", "attributes": {"function": "pay", "args": "{}"}}]
    with pytest.warns(UserWarning, match=r"none of 1 span\(s\) shows a tool call.*these have function, args"):
        assert AgentTrace.from_spans(spans).tool_calls == ()
    with pytest.warns(UserWarning, match="the tool calls are unknown.*these have no attributes"):
        trace = AgentTrace.from_spans([{"name": "llm"}])
    for case in (trace.case(), trace.conversation(), eval_test_case("Hi", trace.to_output_map())):
        assert ToolError().evaluate(case).status is Status.SKIPPED
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        agent = {"name": "agent", "attributes": {"gen_ai.operation.name": "invoke_agent"}}
        for spans in ([], [agent]):
            assert AgentTrace.from_spans(spans).case().calls_unseen is None


def test_a_tool_that_a_model_is_only_offered_was_not_called():
    offered = {"name": "llm", "attributes": {"openinference.span.kind": "LLM", "tool.name": "pay"}}
    with pytest.warns(UserWarning, match="shows a tool call"):
        assert AgentTrace.from_spans([offered]).tool_calls == ()


def test_what_is_no_literal_is_unknown():
    trace = AgentTrace.from_spans([plain("pay", "__import__('os')", 0)])
    assert trace.tool_calls[0].arguments is None


def test_spans_as_uipath_exports_them():
    attributes = {
        "tool.name": "pay",
        "input.value": "{'sum': 2}",
        "output.value": "no",
        "openinference.span.kind": "TOOL",
    }
    early, late = "2025-10-17T10:02:12.782046", "2025-10-17T10:02:13"
    exported = {"Id": "1", "Name": "x", "Attributes": json.dumps(attributes), "StartTime": late, "EndTime": late}
    spans = [
        {**exported, "Status": 1},
        {"Id": "2", "Name": "model", "Attributes": "{}", "StartTime": early, "Status": 1},
        {**exported, "Id": "3", "StartTime": early, "Status": 2},
        {**exported, "Id": "4", "Attributes": "not JSON"},
    ]
    first, second = AgentTrace.from_spans(spans).tool_calls
    assert (first.name, first.arguments, first.result, first.error) == ("pay", {"sum": 2}, None, "no")
    assert (second.error, second.started_at) == (None, datetime(2025, 10, 17, 10, 2, 13, tzinfo=UTC))


@pytest.mark.installs
def test_a_trace_of_uipaths_own_tests():
    text = (source_of("uipath-langchain") / "testcases/company-research-agent/expected_raw.json").read_text("utf-8")
    spans = [json.loads(span) for span in re.split(r"(?<=\n})\n", text) if span]  # objects, one after the other
    calls = AgentTrace.from_spans(spans).tool_calls
    assert [call.name for call in calls] == ["duckduckgo_results_json"] * 12
    assert calls[0].arguments == {"query": "UiPath company overview 2023"}
    assert [call.started_at for call in calls[:8]] == sorted(call.started_at for call in calls[:8])
    assert [call.started_at for call in calls[8:]] == [None] * 4  # a second run, cut off when the model had asked
