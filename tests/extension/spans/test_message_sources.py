"""Messages are found wherever spans and log events keep them, and read once."""

from __future__ import annotations

import json
from typing import Any

import pytest
from a2a_tool_capture.spans.messages import Answered, Asked, UserSaid, transcripts
from a2a_tool_capture.spans.model import LogEvent, SpanEvent
from golden.spans.building import START, TRACE, a_span, an_llm_span, answers, asks, user

CALL = ("call_1", "get_weather", {"city": "Paris"})
INPUTS = [UserSaid(), Asked("get_weather", {"city": "Paris"}, "call_1"), Answered("call_1", "", "Sunny")]
MESSAGES = [user(), asks(CALL), answers("call_1", "Sunny")]
OPENAI_CALL = {"id": "call_1", "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'}}


@pytest.mark.parametrize("attribute", ["gen_ai.input.messages", "pydantic_ai.all_messages", "all_messages_events"])
@pytest.mark.parametrize("encode", [json.dumps, lambda value: value], ids=["text", "structured"])
def test_message_attributes(attribute: str, encode: Any) -> None:
    (found,) = transcripts([a_span(1, {attribute: encode(MESSAGES)})], [])

    assert (found.inputs, found.outputs) == (INPUTS, None)


def test_outputs() -> None:
    (found,) = transcripts([an_llm_span(1, outputs=[asks(CALL)])], [])

    assert found.outputs == [Asked("get_weather", {"city": "Paris"}, "call_1")]


def test_span_events_of_one_name_each() -> None:
    events = (
        SpanEvent("gen_ai.user.message", 1, {"content": "hi"}),
        SpanEvent("gen_ai.assistant.message", 2, {"tool_calls": json.dumps([OPENAI_CALL])}),
        SpanEvent("gen_ai.tool.message", 3, {"content": "Sunny", "id": "call_1"}),
        SpanEvent("gen_ai.choice", 4, {"message": json.dumps({"role": "assistant", "tool_calls": [OPENAI_CALL]})}),
    )

    (found,) = transcripts([a_span(1, events=events)], [])

    assert found.inputs == INPUTS
    assert found.outputs == [Asked("get_weather", {"city": "Paris"}, "call_1")]


def test_the_details_event_of_a_span() -> None:
    events = (
        SpanEvent("gen_ai.client.inference.operation.details", 1, {"gen_ai.input.messages": json.dumps(MESSAGES)}),
    )

    (found,) = transcripts([a_span(1, events=events)], [])

    assert found.inputs == INPUTS


def test_log_events_of_one_name_each_make_one_transcript() -> None:
    span = a_span(1, {"gen_ai.operation.name": "chat"}, scope="llm")

    def log(time: int, name: str, body: Any) -> LogEvent:
        return LogEvent(TRACE, span.span_id, name, time, "llm", {}, body)

    logs = [
        log(4, "gen_ai.choice", {"index": 0, "message": {"role": "assistant", "tool_calls": [OPENAI_CALL]}}),
        log(1, "gen_ai.user.message", {"content": "hi"}),
        log(2, "gen_ai.assistant.message", {"tool_calls": [OPENAI_CALL]}),
        log(3, "gen_ai.tool.message", {"content": "Sunny", "id": "call_1"}),
    ]

    (found,) = transcripts([span], logs + logs)

    assert found.inputs == INPUTS
    assert found.outputs == [Asked("get_weather", {"city": "Paris"}, "call_1")]


def test_a_log_event_without_its_span_is_a_transcript_of_its_own() -> None:
    log = LogEvent(
        TRACE, "", "gen_ai.client.inference.operation.details", START, "llm", {"gen_ai.input.messages": MESSAGES}
    )

    (found,) = transcripts([], [log])

    assert (found.trace_id, found.start_ns, found.inputs) == (TRACE, START, INPUTS)


def test_messages_that_are_there_twice_are_read_once() -> None:
    attributes = {"gen_ai.input.messages": json.dumps(MESSAGES)}
    span = a_span(1, attributes, events=(SpanEvent("gen_ai.client.inference.operation.details", 1, attributes),))
    log = LogEvent(TRACE, span.span_id, "gen_ai.client.inference.operation.details", 1, "", attributes)

    (found,) = transcripts([span], [log])

    assert found.inputs == INPUTS


def test_openai_agents_under_openinference_keeps_documents_only() -> None:
    call = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "w", "arguments": "{}"}
    span = a_span(
        1,
        {
            "openinference.span.kind": "LLM",
            "llm.input_messages.0.message.role": "user",
            "llm.input_messages.0.message.content": "hi",
            "output.value": json.dumps([call]),
        },
    )

    (found,) = transcripts([span], [])

    assert found.outputs == [Asked("w", {}, "call_1")]


def test_spans_without_messages_have_no_transcript() -> None:
    assert transcripts([a_span(1, {"gen_ai.operation.name": "chat", "gen_ai.prompt_id": "x"})], []) == []


@pytest.mark.parametrize(
    ("scope", "name", "expected"),
    [
        ("pydantic-ai", "final_result_City", True),
        ("smolagents", "final_answer", True),
        ("openai", "final_result", False),
    ],
)
def test_answering_is_no_tool(scope: str, name: str, expected: bool) -> None:
    (found,) = transcripts([an_llm_span(1, inputs=MESSAGES, scope=scope)], [])

    assert found.is_answer(name) is expected
