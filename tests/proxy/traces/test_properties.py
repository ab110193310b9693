"""Order and repetition of delivery change nothing; no span is lost or counted twice; nothing raises."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from a2a_eval_proxy.traces.trace_records import keys_named, root_ended
from a2a_tool_capture.spans.model import LogEvent, Span, SpanEvent
from a2a_tool_capture.spans.tool_calls import tool_calls
from golden.spans.building import OTHER_TRACE, START, TRACE, asks
from golden.spans.fixtures import Fixture, fixtures
from hypothesis import given
from hypothesis import strategies as st

_text = st.sampled_from(
    ["", "a", "b", "call_1", "call_2", "fc_1", "{}", '{"a": 1}', "{'a': 1}", "__REDACTED__", "Error"]
)
_values = (
    _text
    | st.none()
    | st.booleans()
    | st.integers(-2, 2)
    | st.floats()
    | st.lists(_text, max_size=2)
    | st.dictionaries(_text, _text, max_size=2)
)
_messages = st.lists(
    st.builds(lambda call_id, name: asks((call_id, name, {"a": 1})), _text, st.sampled_from(["a", "b"]))
    | st.builds(lambda call_id, text: {"role": "tool", "tool_call_id": call_id, "content": text}, _text, _text)
    | st.just({"role": "user", "content": "hi"})
    | _values,
    max_size=3,
)
_attributes = st.fixed_dictionaries(
    {},
    optional={
        "gen_ai.operation.name": st.sampled_from(["execute_tool", "chat", "invoke_agent"]) | _values,
        "gen_ai.tool.name": st.sampled_from(["a", "b", "srv_a"]) | _values,
        "gen_ai.tool.call.id": _values,
        "gen_ai.tool.call.arguments": _values,
        "gen_ai.tool.call.result": _values,
        "openinference.span.kind": st.sampled_from(["TOOL", "LLM", "AGENT"]),
        "traceloop.span.kind": st.sampled_from(["tool", "task"]),
        "mcp.method.name": st.sampled_from(["tools/call", "tools/list"]),
        "input.value": _values,
        "output.value": _values | _messages,
        "gen_ai.input.messages": _messages | _messages.map(lambda messages: json.dumps(messages, default=str)),
        "gen_ai.output.messages": _messages,
        "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": _values,
        "error.type": _values,
        "gen_ai.conversation.id": _values,
    },
)
_span_ids = st.sampled_from([f"{number:016x}" for number in range(1, 7)])
_traces = st.sampled_from([TRACE, OTHER_TRACE])
_scopes = st.sampled_from(["app", "pydantic-ai", "openinference.instrumentation.langchain", "gcp.vertex.agent"])
_moments = st.sampled_from([0, *range(START, START + 6)])
_spans = st.builds(
    Span,
    trace_id=_traces,
    span_id=_span_ids,
    parent_span_id=_span_ids | st.just(""),
    name=st.sampled_from(["execute_tool a", "running tool", "tools/call a", "a.tool", ""]),
    kind=st.integers(0, 5),
    scope=_scopes,
    start_ns=_moments,
    end_ns=_moments,
    attributes=_attributes,
    events=st.lists(
        st.builds(
            SpanEvent, st.sampled_from(["exception", "gen_ai.choice", "gen_ai.tool.message"]), _moments, _attributes
        ),
        max_size=1,
    ).map(tuple),
    status_code=st.integers(0, 2),
    status_message=_text,
    parent_is_remote=st.none() | st.booleans(),
)
_logs = st.builds(
    LogEvent,
    trace_id=_traces,
    span_id=_span_ids | st.just(""),
    name=st.sampled_from(["gen_ai.choice", "gen_ai.user.message", "gen_ai.client.inference.operation.details"]),
    time_ns=_moments,
    scope=_scopes,
    attributes=_attributes,
    body=_values,
)


def _read(spans: list[Span], logs: list[LogEvent]) -> Any:
    conversion = tool_calls(spans, logs)
    calls = [call.to_dict() for call in conversion.tool_calls]
    return repr((calls, conversion.findings))


@given(st.lists(_spans, max_size=10), st.lists(_logs, max_size=4), st.randoms(use_true_random=False))
def test_delivery_does_not_matter(spans: list[Span], logs: list[LogEvent], random: Random) -> None:
    again = spans + [random.choice(spans) for _ in spans]
    logs_again = logs + [random.choice(logs) for _ in logs]
    random.shuffle(again)
    random.shuffle(logs_again)

    assert _read(again, logs_again) == _read(spans, logs)


@given(st.lists(_spans, max_size=8))
def test_hints_never_raise(spans: list[Span]) -> None:
    root_ended(spans)
    root_ended(spans, ["1" * 16])
    keys_named(spans)


@given(fixture=st.sampled_from(fixtures()), random=st.randoms(use_true_random=False))
def test_recordings_may_come_in_any_order_and_again(fixture: Fixture, random: Random) -> None:
    spans, logs = fixture.spans, fixture.logs
    again = spans + random.sample(spans, len(spans) // 2)
    random.shuffle(again)

    assert _read(again, [*logs, *logs]) == _read(spans, logs)
