"""Messages of every API and framework are found wherever they are, and read alike."""

from __future__ import annotations

import json
from typing import Any

import pytest
from a2a_tool_capture.spans.messages import (
    Answered,
    Asked,
    Item,
    UserSaid,
    paired,
    read_flattened,
    read_messages,
    transcripts,
)
from a2a_tool_capture.spans.model import LogEvent, Span, SpanEvent, Unread
from golden.spans.building import START, TRACE, a_span, an_llm_span, answers, asks, user
from hypothesis import given
from hypothesis import strategies as st

PARIS = {"city": "Paris"}
CALL = Asked("get_weather", PARIS, "call_1")
ANSWER = Answered("call_1", "", "Sunny")
NAMED_ANSWER = Answered("call_1", "get_weather", "Sunny")

_words = st.sampled_from(
    ["user", "tool", "assistant", "tool_call", "tool_use", "function_call", "ai", "id1", "{}", "[]"]
)
_keys = st.sampled_from(
    [
        *("role", "type", "parts", "content", "tool_calls", "id", "name", "arguments", "args", "input", "function"),
        *("call_id", "tool_call_id", "tool_use_id", "response", "result", "output", "toolUse", "toolResult", "text"),
        *("functionCall", "message", "kwargs", "lc", "data", "choices", "generations", "messages"),
    ]
)
_junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3) | _words,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_keys, inner, max_size=5),
    max_leaves=15,
)


@given(_junk)
def test_anything_is_read(value: Any) -> None:
    paired(read_messages(value) or [])
    paired(read_messages(json.dumps(value)) or [])


@given(st.dictionaries(st.lists(st.sampled_from(["0", "1", "message", "role", "x", "²"])).map(".".join), _junk))
def test_any_flattened_attributes_are_read(attributes: dict[str, Any]) -> None:
    spread = {f"llm.input_messages.{key}": value for key, value in attributes.items()}

    paired(read_flattened(spread, "llm.input_messages.") or [])


@pytest.mark.parametrize(
    ("messages", "items"),
    [
        pytest.param(
            [
                {"role": "user", "parts": [{"type": "text", "content": "hi"}]},
                {
                    "role": "assistant",
                    "parts": [{"type": "tool_call", "id": "call_1", "name": "get_weather", "arguments": PARIS}],
                },
                {"role": "tool", "parts": [{"type": "tool_call_response", "id": "call_1", "response": "Sunny"}]},
            ],
            [UserSaid(), CALL, ANSWER],
            id="otel",
        ),
        pytest.param(
            [
                {
                    "role": "user",
                    "parts": [{"type": "tool_call_response", "id": "call_1", "name": "get_weather", "result": "Sunny"}],
                }
            ],
            [NAMED_ANSWER],
            id="pydantic-ai",
        ),
        pytest.param(
            [
                {"role": "user", "content": "hi"},
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [
                        {
                            "id": "call_1",
                            "type": "function",
                            "function": {"name": "get_weather", "arguments": json.dumps(PARIS)},
                        }
                    ],
                },
                {"role": "tool", "tool_call_id": "call_1", "content": "Sunny"},
            ],
            [UserSaid(), CALL, ANSWER],
            id="openai-chat",
        ),
        pytest.param(
            [
                {"role": "user", "content": "hi"},
                {
                    "type": "function_call",
                    "id": "fc_9",
                    "call_id": "call_1",
                    "name": "get_weather",
                    "arguments": json.dumps(PARIS),
                },
                {"type": "function_call_output", "call_id": "call_1", "output": "Sunny"},
            ],
            [UserSaid(), CALL, ANSWER],
            id="openai-responses",
        ),
        pytest.param(
            [
                {"role": "user", "content": [{"type": "text", "text": "hi"}]},
                {
                    "role": "assistant",
                    "content": [{"type": "tool_use", "id": "call_1", "name": "get_weather", "input": PARIS}],
                },
                {
                    "role": "user",
                    "content": [
                        {"type": "tool_result", "tool_use_id": "call_1", "content": [{"type": "text", "text": "Sunny"}]}
                    ],
                },
            ],
            [UserSaid(), CALL, ANSWER],
            id="anthropic",
        ),
        pytest.param(
            [
                {
                    "role": "assistant",
                    "content": json.dumps(
                        [{"toolUse": {"toolUseId": "call_1", "name": "get_weather", "input": PARIS}}]
                    ),
                },
                {
                    "role": "tool",
                    "content": json.dumps([{"toolResult": {"toolUseId": "call_1", "content": [{"text": "Sunny"}]}}]),
                },
            ],
            [CALL, ANSWER],
            id="bedrock",
        ),
        pytest.param(
            [
                {"role": "user", "parts": [{"text": "hi"}]},
                {"role": "model", "parts": [{"function_call": {"id": "call_1", "name": "get_weather", "args": PARIS}}]},
                {
                    "role": "user",
                    "parts": [
                        {"functionResponse": {"id": "call_1", "name": "get_weather", "response": {"result": "Sunny"}}}
                    ],
                },
            ],
            [UserSaid(), CALL, NAMED_ANSWER],
            id="gemini",
        ),
        pytest.param(
            [
                {"type": "human", "data": {"content": "hi"}},
                {
                    "lc": 1,
                    "kwargs": {
                        "type": "ai",
                        "content": "",
                        "tool_calls": [{"id": "call_1", "name": "get_weather", "args": PARIS, "type": "tool_call"}],
                    },
                },
                {
                    "type": "tool",
                    "data": {"content": "Sunny", "tool_call_id": "call_1", "name": "get_weather", "id": "m3"},
                },
            ],
            [UserSaid(), CALL, NAMED_ANSWER],
            id="langchain",
        ),
        pytest.param([json.dumps([{"role": "user", "content": "hi"}])], [UserSaid()], id="a list as text in a list"),
        pytest.param(
            [{"payload": "hi", 7: "ho"}],
            [Unread.unknown("an object with 'payload', '7' in place of messages")],
            id="what is unknown",
        ),
    ],
)
def test_shapes(messages: list[Any], items: list[Item]) -> None:
    assert read_messages(messages) == items
    assert read_messages(json.dumps(messages)) == items


OPENAI_CALL = {"id": "call_1", "function": {"name": "get_weather", "arguments": PARIS}}
LANGCHAIN_CALL = {"id": "call_1", "name": "get_weather", "args": PARIS}


@pytest.mark.parametrize(
    "document",
    [
        {"choices": [{"message": {"role": "assistant", "tool_calls": [OPENAI_CALL]}}]},
        {"output": [{"type": "function_call", "call_id": "call_1", "name": "get_weather", "arguments": PARIS}]},
        {"content": [{"type": "tool_use", "id": "call_1", "name": "get_weather", "input": PARIS}]},
        {"generations": [[{"message": {"lc": 1, "kwargs": {"tool_calls": [LANGCHAIN_CALL]}}}]]},
        {"messages": [[{"role": "assistant", "tool_calls": [LANGCHAIN_CALL]}]]},
    ],
)
def test_documents(document: Any) -> None:
    assert read_messages(json.dumps(document)) == [CALL]


def test_flattened_messages() -> None:
    attributes = {
        "llm.input_messages.1.message.role": "assistant",
        "llm.input_messages.1.message.tool_calls.0.tool_call.id": "call_1",
        "llm.input_messages.1.message.tool_calls.0.tool_call.function.name": "'get_weather'",
        "llm.input_messages.1.message.tool_calls.0.tool_call.function.arguments": json.dumps(PARIS),
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.contents.0.message_content.text": "hi",
        "llm.input_messages.2.message.role": "tool",
        "llm.input_messages.2.message.tool_call_id": "call_1",
        "llm.input_messages.2.message.content": "Sunny",
        "llm.output_messages.0.message.role": "assistant",
    }

    assert read_flattened(attributes, "llm.input_messages.") == [UserSaid(), CALL, ANSWER]


@pytest.mark.parametrize(
    ("items", "answers"),
    [
        (
            [Asked("w", PARIS, "1"), Asked("w", PARIS, "2"), Answered("2", "", "two"), Answered("1", "", "one")],
            [("w", "1", "one", True), ("w", "2", "two", True)],
        ),
        (
            [
                *(Asked(name, {}) for name in "wfw"),
                *(Answered("", name, text) for name, text in (("w", "one"), ("f", "two"), ("w", "three"))),
            ],
            [("w", "", "one", True), ("f", "", "two", True), ("w", "", "three", True)],
        ),
        (
            [UserSaid(), Asked("old", {}), UserSaid(), Asked("new", {})],
            [("old", "", None, False), ("new", "", None, True)],
        ),
    ],
    ids=["by id", "by name in order", "of this turn or not"],
)
def test_answers_go_to_their_calls(items: list[Item], answers: list[Any]) -> None:
    assert [(call.name, call.call_id, call.answer, of_this_turn) for call, of_this_turn in paired(items)] == answers


def test_an_item_id_is_no_call_id_but_the_answer_tells_it() -> None:
    messages = [
        {"parts": [{"type": "tool_call", "id": "fc_7", "name": "w", "arguments": {}}]},
        {"parts": [{"type": "tool_call", "id": "fc_8", "name": "f", "arguments": {}}]},
        {"parts": [{"type": "tool_call_response", "id": "call_1", "response": "one"}]},
    ]

    calls = [call for call, _ in paired(read_messages(messages) or [])]

    assert [(call.name, call.call_id, call.answer) for call in calls] == [("w", "call_1", "one"), ("f", "", None)]


def test_a_tools_object_is_not_unwrapped_beyond_recognition() -> None:
    part = {"type": "tool_call_response", "id": "call_1", "response": {"result": 1, "unit": "C"}}

    assert read_messages([{"role": "tool", "parts": [part]}]) == [Answered("call_1", "", '{"result": 1, "unit": "C"}')]


# ── where messages are ───────────────────────────────────────────────────────────────────────────────────────────────


CALLED = ("call_1", "get_weather", {"city": "Paris"})
INPUTS = [UserSaid(), Asked("get_weather", {"city": "Paris"}, "call_1"), Answered("call_1", "", "Sunny")]
MESSAGES = [user(), asks(CALLED), answers("call_1", "Sunny")]
CALLED_FUNCTION = {"id": "call_1", "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'}}


DETAILS = "gen_ai.client.inference.operation.details"
WHOLE = {"gen_ai.input.messages": json.dumps(MESSAGES)}
ASKED = [Asked("get_weather", {"city": "Paris"}, "call_1")]
CHAT = a_span(1, {"gen_ai.operation.name": "chat"}, scope="llm")
NAMED = [
    ("gen_ai.choice", {"index": 0, "message": {"role": "assistant", "tool_calls": [CALLED_FUNCTION]}}),
    ("gen_ai.user.message", {"content": "hi"}),
    ("gen_ai.assistant.message", {"tool_calls": [CALLED_FUNCTION]}),
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
        ([an_llm_span(1, outputs=[asks(CALLED)])], [], [], ASKED),
        (
            [
                a_span(
                    1,
                    events=(
                        SpanEvent("gen_ai.user.message", 1, {"content": "hi"}),
                        SpanEvent("gen_ai.assistant.message", 2, {"tool_calls": json.dumps([CALLED_FUNCTION])}),
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
