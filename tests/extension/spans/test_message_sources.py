"""Messages are found wherever spans and log events keep them, and read once."""

from __future__ import annotations

import json
from typing import Any

import pytest
from a2a_tool_capture.spans.messages import Answered, Asked, UserSaid, transcripts
from a2a_tool_capture.spans.model import LogEvent, Span, SpanEvent
from golden.spans.building import START, TRACE, a_span, an_llm_span, answers, asks, user

CALL = ("call_1", "get_weather", {"city": "Paris"})
INPUTS = [UserSaid(), Asked("get_weather", {"city": "Paris"}, "call_1"), Answered("call_1", "", "Sunny")]
MESSAGES = [user(), asks(CALL), answers("call_1", "Sunny")]
OPENAI_CALL = {"id": "call_1", "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'}}


DETAILS = "gen_ai.client.inference.operation.details"
WHOLE = {"gen_ai.input.messages": json.dumps(MESSAGES)}
ASKED = [Asked("get_weather", {"city": "Paris"}, "call_1")]
CHAT = a_span(1, {"gen_ai.operation.name": "chat"}, scope="llm")
NAMED = [
    ("gen_ai.choice", {"index": 0, "message": {"role": "assistant", "tool_calls": [OPENAI_CALL]}}),
    ("gen_ai.user.message", {"content": "hi"}),
    ("gen_ai.assistant.message", {"tool_calls": [OPENAI_CALL]}),
    ("gen_ai.tool.message", {"content": "Sunny", "id": "call_1"}),
]
LOGS = [
    LogEvent(TRACE, CHAT.span_id, name, (number - 1) % 4, "llm", {}, body) for number, (name, body) in enumerate(NAMED)
]


@pytest.mark.parametrize(
    ("spans", "logs", "inputs", "outputs"),
    [
        *(
            ([a_span(1, {attribute: encode(MESSAGES)})], [], INPUTS, None)
            for attribute in ("gen_ai.input.messages", "pydantic_ai.all_messages", "all_messages_events")
            for encode in (json.dumps, list)
        ),
        ([an_llm_span(1, outputs=[asks(CALL)])], [], [], ASKED),
        (
            [
                a_span(
                    1,
                    events=(
                        SpanEvent("gen_ai.user.message", 1, {"content": "hi"}),
                        SpanEvent("gen_ai.assistant.message", 2, {"tool_calls": json.dumps([OPENAI_CALL])}),
                        SpanEvent("gen_ai.tool.message", 3, {"content": "Sunny", "id": "call_1"}),
                        SpanEvent("gen_ai.choice", 4, {"message": json.dumps(NAMED[0][1]["message"])}),
                    ),
                )
            ],
            [],
            INPUTS,
            ASKED,
        ),
        ([a_span(1, events=(SpanEvent(DETAILS, 1, WHOLE),))], [], INPUTS, None),
        ([CHAT], LOGS + LOGS, INPUTS, ASKED),
        ([], [LogEvent(TRACE, "", DETAILS, START, "llm", {"gen_ai.input.messages": MESSAGES})], INPUTS, None),
        (
            [a_span(1, WHOLE, events=(SpanEvent(DETAILS, 1, WHOLE),))],
            [LogEvent(TRACE, a_span(1).span_id, DETAILS, 1, "", WHOLE)],
            INPUTS,
            None,
        ),
    ],
)
def test_the_messages_of_a_model_call(
    spans: list[Span], logs: list[LogEvent], inputs: list[Any], outputs: list[Any] | None
) -> None:
    """In attributes, in events of the span or of the log; what is there twice is read once."""
    (found,) = transcripts(spans, logs)

    assert (found.inputs or [], found.outputs) == (inputs, outputs)


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
