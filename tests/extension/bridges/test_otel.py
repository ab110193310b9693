"""The OpenTelemetry bridge with the real SDK: which spans are tool calls, and whose."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest
from a2a_tool_capture import ToolCallRecorder
from a2a_tool_capture.bridges.otel import ToolSpanProcessor
from a2a_tool_capture.recorder import CallRecording
from a2a_tool_capture.spans.conventions import OPERATIONS
from a2a_tool_capture.spans.model import Span as SpanValue
from a2a_tool_capture.spans.observations import read_span
from a2a_tool_capture.spans.tool_calls import tool_calls
from golden.spans.fixtures import fixtures
from golden.spans.sdk_forms import sdk_span
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import Tracer

EXECUTE_TOOL = {"gen_ai.operation.name": "execute_tool"}
TOOL = {"openinference.span.kind": "TOOL"}


@pytest.fixture
def recorder() -> ToolCallRecorder:
    return ToolCallRecorder()


@pytest.fixture
def provider(recorder: ToolCallRecorder) -> Iterator[TracerProvider]:
    provider = TracerProvider()
    provider.add_span_processor(ToolSpanProcessor(recorder))
    yield provider
    provider.shutdown()


@pytest.fixture
def tracer(provider: TracerProvider) -> Tracer:
    return provider.get_tracer("test")


@pytest.fixture
def recording(recorder: ToolCallRecorder) -> Iterator[CallRecording]:
    with recorder.request() as current:
        assert current is not None
        yield current


MCP = {"mcp.method.name": "tools/call", "gen_ai.tool.name": "search"}


def test_nested_spans_of_one_call_are_that_call(tracer: Tracer, recording: CallRecording) -> None:
    with tracer.start_as_current_span("search", attributes=TOOL) as outer:
        with tracer.start_as_current_span("POST"), tracer.start_as_current_span("client", attributes=MCP) as inner:
            inner.set_attribute("gen_ai.tool.call.arguments", '{"q": "kettle"}')
        assert recording.tool_calls == []
        outer.set_attribute("output.value", "KET-01")
    (call,) = recording.tool_calls
    assert (call.name, call.arguments, call.result) == ("search", {"q": "kettle"}, "KET-01")


@pytest.mark.parametrize("first", ["one", "other"])
def test_two_instrumentations_count_once(provider: TracerProvider, recording: CallRecording, first: str) -> None:
    """Their spans are siblings, overlap, and end in either order; the second completes the first."""
    contents = {"one": {**TOOL, "input.value": '{"q": "kettle"}'}, "other": {**TOOL, "input.value": "{'q': 'kettle'}"}}
    open_spans = {
        scope: provider.get_tracer(scope).start_span("search", attributes=content)
        for scope, content in contents.items()
    }
    open_spans["other"].set_attribute("output.value", "KET-01")
    open_spans.pop(first).end()
    for span in open_spans.values():
        span.end()
    assert [(call.arguments, call.result) for call in recording.tool_calls] == [({"q": "kettle"}, "KET-01")]
    with provider.get_tracer("one").start_as_current_span("search", attributes=contents["one"]):
        pass
    assert len(recording.tool_calls) == 2  # a repeat is real


def test_a_span_may_end_where_no_request_is_known(tracer: Tracer, recording: CallRecording) -> None:
    span = tracer.start_span("execute_tool search", attributes=EXECUTE_TOOL)
    thread = threading.Thread(target=span.end)
    thread.start()
    thread.join()
    assert [call.name for call in recording.tool_calls] == ["search"]


def test_a_span_that_outlives_its_request_is_dropped(recorder: ToolCallRecorder, tracer: Tracer) -> None:
    with recorder.request():
        span = tracer.start_span("execute_tool search", attributes=EXECUTE_TOOL)
    with recorder.request() as later:
        span.end()
        assert later is not None
        assert later.tool_calls == []


def test_recordings_are_recorded_as_the_proxy_reads_their_tool_spans() -> None:
    for replayed in fixtures():
        recorder = ToolCallRecorder()
        processor = ToolSpanProcessor(recorder)
        moments = [(span.start_ns, 0, -span.end_ns, processor.on_start, span) for span in replayed.spans]
        moments += [(span.end_ns, 1, -span.start_ns, processor.on_end, span) for span in replayed.spans]
        with recorder.request() as current:
            for *_, take, span in sorted(moments, key=lambda moment: moment[:3]):
                take(sdk_span(span))
        assert current is not None
        read = tool_calls(span if read_span(span) else without_messages(span) for span in replayed.spans).tool_calls
        seen, expected = ([call.to_dict() | PROCESS for call in calls] for calls in (current.tool_calls, read))
        assert sorted(seen, key=repr) == sorted(expected, key=repr), replayed.name


PROCESS = {"id": "", "ended_at": ""}
"""Of a recorded call: an id for one without, and the time at which it was recorded."""


def without_messages(span: SpanValue) -> SpanValue:
    return replace(
        span, attributes={key: span.attributes[key] for key in OPERATIONS if key in span.attributes}, events=()
    )
