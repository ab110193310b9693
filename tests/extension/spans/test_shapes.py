"""The shapes of instrumentations: what is read of each, and what cannot be read makes the calls unknown."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone
from enum import Enum
from itertools import count
from typing import Any, NamedTuple

import pytest
from a2a_tool_capture.json_limits import ATTRIBUTE
from a2a_tool_capture.models import ToolCall, ToolCallSource, calls_unknown_by
from a2a_tool_capture.spans.content import as_text, parse, parse_object
from a2a_tool_capture.spans.conventions import CONTENT_OF_MESSAGE, KEYED_PARTS, PARTS, PartRole, shows_genai_work
from a2a_tool_capture.spans.in_memory import log_of, span_of
from a2a_tool_capture.spans.model import (
    KIND_CLIENT,
    KIND_SERVER,
    MAX_TEXT,
    STATUS_ERROR,
    STATUS_UNSET,
    CutText,
    LogEvent,
    Span,
    SpanEvent,
)
from a2a_tool_capture.spans.tool_calls import tool_calls
from golden.spans.building import START, TRACE, a_span, a_tool_span, an_llm_span, answers, asks, exception, user
from golden.spans.fixtures import Fixture, fixtures
from golden.spans.sdk_forms import sdk_log, sdk_span
from hypothesis import given
from hypothesis import strategies as st

CALL = {"type": "tool_call", "id": "c1", "name": "w", "arguments": {"city": "Paris"}}
TEXT = {"role": "assistant", "parts": [{"type": "text", "content": "Sunny."}]}


def unknown(*spans: Span, logs: list[LogEvent] | None = None) -> str | None:
    """The code of the finding that makes the calls unknown."""
    found = calls_unknown_by(tool_calls(spans, logs or []).findings)
    return None if found is None else found.code


def said(part: Any) -> dict[str, Any]:
    return {"role": "assistant", "parts": [part]}


def answering(messages: Any) -> Span:
    """A model call with these output messages."""
    return a_span(1, {"gen_ai.operation.name": "chat", "gen_ai.output.messages": messages})


# ── wrappers and parts ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "messages",
    [
        {"version": "0.1.0", "messages": [said(CALL)]},
        {"messages": {"messages": [said(CALL)]}},
        {"version": "0.1.0", "messages": json.dumps([said(CALL)])},
        {"choices": [{"index": 0, "message": said(CALL)}]},
        {"candidates": [{"content": said(CALL)}]},
        {"messages": [TEXT], "output": [said(CALL)]},
        [{"index": 0, "message": {"role": "assistant", "content": "x"}, "tool_calls": [CALL]}],
        [{"role": "assistant", "content": "", "invalid_tool_calls": [{"name": "w", "args": "{", "id": "c1"}]}],
        [{"role": "assistant", "blocks": [], "additional_kwargs": {"tool_calls": [CALL]}}],
        [said([CALL])],
        [[said(CALL)]],
        [said(CALL), {"role": "tool", "tool_call_id": "c1", "content": [{"type": "widget"}]}],  # of any kind
    ],
)
@pytest.mark.parametrize("encode", [json.dumps, lambda value: value], ids=["text", "structured"])
def test_a_known_wrapper_is_taken_off(messages: Any, encode: Any) -> None:
    span = answering(encode(messages))

    assert [call.name for call in tool_calls([span]).tool_calls] == ["w"]
    assert unknown(span) is None


@pytest.mark.parametrize(
    ("messages", "code"),
    [
        ({"version": "9", "transcript": [said(CALL)]}, "unknown_kind"),
        ([{"payload": said(CALL)}], "unknown_kind"),
        ([{"role": "assistant", "actions": [CALL]}], "unknown_kind"),
        ([{**TEXT, "tool_invocations": [CALL]}], "unknown_kind"),
        ([said({"type": "remote_call", "name": "w"})], "unknown_kind"),
        ([said({"remoteCall": {"name": "w"}})], "unknown_kind"),
        ([said({"type": "text", "content": "x", "tool_invocation": CALL})], "unknown_kind"),
        ([said(7)], "unknown_kind"),
        ([7], "unknown_kind"),
        ([said({"type": "tool_call", "id": "c1", "arguments": {}})], "content_withheld"),
        ([said({"type": "tool_call", "name": "[REDACTED]"})], "content_withheld"),
        ([said("<elided>")], "content_withheld"),
        (["<elided>"], "content_withheld"),
        ("<elided>", "content_withheld"),
        ([{"role": "assistant", "content": "<elided>"}], "content_withheld"),
        ([{"role": "assistant", "parts": "[content removed]"}], "content_withheld"),
        ({"messages": "***"}, "content_withheld"),
        ('[{"role": "assistant", "parts": [{"type": "tool_c', "content_withheld"),
        ([{"role": "assistant", "parts": [], "finish_reason": "tool_call"}], "content_withheld"),
        ([{"role": "assistant", "content": "x", "stop_reason": "tool_use"}], "content_withheld"),
        ([{"message": TEXT, "finish_reason": "TOOL_CALLS"}], "content_withheld"),
        ([answers("c1", "Sunny")], "content_withheld"),
        ([{**TEXT, "x": [{"type": "tool_call_response", "name": "w"}]}], "unknown_kind"),
        ([{"role": "assistant", "content": "x", "y": [{"type": "tool_call_response", "name": "w"}]}], "unknown_kind"),
        ([{**TEXT, "x": {"y": [{"type": "tool_result", "tool_use_id": "c1", "content": "Sunny"}]}}], "unknown_kind"),
        ([{**TEXT, "x": [{"type": "web_search_call", "status": "completed"}]}], "unknown_kind"),
        ([{**TEXT, "x": [{"type": "PLUGIN_CALL", "plugin": "w"}]}], "unknown_kind"),
        ([{**TEXT, "x": [{"role": "tool", "tool_call_id": "c1", "content": "Sunny"}]}], "unknown_kind"),
        ([said(CALL), said({"type": "tool_call_response", "id": "c1", "name": "v"})], "content_withheld"),
        ({"messages": [TEXT], "steps": [{"type": "tool_call_response", "id": "c1"}]}, "unknown_kind"),
        ([{**TEXT, "content": [CALL]}], "unknown_kind"),
        ([said({"type": "text", "content": [CALL]})], "unknown_kind"),
        ([said({"role": "tool", "tool_call_id": "c1", "content": "Sunny"})], "content_withheld"),
        ([said({"part_kind": "tool-return", "tool_name": "w", "content": "Sunny"})], "unknown_kind"),
        (json.dumps([{"role": "assistant", "parts": [{"type": "widget"}]}]), "unknown_kind"),
    ],
)
def test_what_is_not_understood_makes_the_calls_unknown(messages: Any, code: str) -> None:
    assert unknown(answering(messages if isinstance(messages, str) else json.dumps(messages))) == code


@pytest.mark.parametrize(
    "messages",
    [
        [TEXT],
        "Sunny.",
        [],
        ["Sunny."],
        {"version": "0.1.0", "messages": []},
        [said({"text": "Sunny.", "thoughtSignature": "x"})],
        [{**TEXT, "usage": {"server_tool_use": {"web_search_requests": 0}}}],
        [{**TEXT, "x": {"tools": [{"type": "function", "function": {"name": "w"}}]}}],
        [said({"part_kind": "text", "content": "Sunny."})],
        [{"role": "assistant", "content": "[Note] it is sunny", "annotations": [{"url": "x"}]}],
        [said({"type": "reasoning", "content": "<elided>"})],
        [said({"type": "blob", "modality": "image", "content": "AA=="}), said({"type": "compaction"})],
    ],
)
def test_what_is_known_to_be_no_call_is_none(messages: Any) -> None:
    assert tool_calls([answering(messages)]) == ([], [])


@pytest.mark.parametrize("encode", [lambda kind: {"type": kind}, lambda kind: {kind: {"name": "w"}}])
def test_every_known_part_is_read(encode: Any) -> None:
    """A call is one, or known to lack its name; an answer alone tells of a call."""
    typed = "type" in encode("x")
    for name, kind in (PARTS if typed else KEYED_PARTS).items():
        span = answering([said(encode(name) | ({"name": "w"} if typed else {}))])
        calls = [call.name for call in tool_calls([span]).tool_calls]
        if kind.role is PartRole.CALL:
            assert calls == ["w"], name
        else:
            assert (calls, unknown(span)) == ([], "content_withheld" if kind.role is PartRole.RESPONSE else None), name


def test_a_call_that_the_provider_ran_is_one() -> None:
    call = {"type": "server_tool_call", "id": "ws_1", "name": "web_search", "server_tool_call": {
        "type": "web_search", "query": "kettle news"}}  # fmt: skip
    response = {"type": "server_tool_call_response", "id": "ws_1", "server_tool_call_response": {"status": "completed"}}

    (found,) = tool_calls([answering([{"role": "assistant", "parts": [call, response]}])]).tool_calls

    assert (found.name, found.arguments, found.result) == (
        "web_search",
        {"query": "kettle news"},
        '{"status": "completed"}',
    )


@pytest.mark.parametrize(
    ("item", "call"),
    [
        ({"type": "web_search_call", "id": "ws_1", "action": {"query": "x"}}, ("web_search", {"query": "x"}, None)),
        ({"type": "code_interpreter_call", "id": "ci_1", "code": "1+1", "outputs": [{"type": "logs", "text": "2"}]},
         ("code_interpreter", {"code": "1+1"}, "2")),
        ({"type": "mcp_call", "id": "m1", "name": "add", "arguments": '{"a": 1}', "output": "1"},
         ("add", {"a": 1}, "1")),
        ({"type": "custom_tool_call", "call_id": "c1", "name": "sql", "input": "select 1"}, ("sql", None, None)),
        ({"executableCode": {"code": "1+1", "language": "PYTHON"}},
         ("code_execution", {"code": "1+1", "language": "PYTHON"}, None)),
        ({"type": "tool-call", "toolCallId": "c1", "toolName": "w", "input": {"a": 1}}, ("w", {"a": 1}, None)),
    ],
)  # fmt: skip
def test_arguments_and_results_of_hosted_tools(item: Any, call: Any) -> None:
    (found,) = tool_calls([answering([said(item)])]).tool_calls

    assert (found.name, found.arguments, found.result) == call


# ── spans ───────────────────────────────────────────────────────────────────────────────────────────────────


def choice(**attributes: Any) -> Span:
    return a_span(1, events=(SpanEvent("gen_ai.choice", START, attributes),))


@pytest.mark.parametrize(
    ("span", "call"),
    [
        (choice(message={"role": "assistant"}, tool_calls=[CALL]), ("c1", "w")),
        (choice(message=json.dumps({"content": "x"}), tool_calls=json.dumps([CALL])), ("c1", "w")),
        (choice(message=[{"toolUse": {"toolUseId": "c1", "name": "w", "input": {}}}]), ("c1", "w")),
        (a_span(1, {"ai.response.toolCalls": json.dumps([{"toolCallId": "c1", "toolName": "w"}])}), ("c1", "w")),
        (a_span(1, {"gen_ai.operation.name": "Execute_Tool", "gen_ai.tool.name": "w"}), ("", "w")),
    ],
    ids=["beside the message", "as text", "as a list of blocks", "in an attribute of their own", "in another case"],
)
def test_calls_in_other_places(span: Span, call: tuple[str, str]) -> None:
    assert [(found.id, found.name) for found in tool_calls([span]).tool_calls] == [call]


@pytest.mark.parametrize(
    ("span", "code"),
    [
        (a_span(1, {"gen_ai.operation.name": "invoke_tool"}, name="invoke_tool w"), "unknown_kind"),
        (a_span(1, {"openinference.span.kind": "FUNCTION"}, name="w"), "unknown_kind"),
        (a_span(1, {"gen_ai.operation.name": "step", "gen_ai.tool.name": "w"}), "unknown_kind"),
        (a_span(1, {"gen_ai.tool.call.arguments": "{}"}), "unknown_kind"),
        (a_span(1, {"gen_ai.operation.name": "execute_tool"}, name="step"), "content_withheld"),
        (a_span(1, {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "[REDACTED]"}), "content_withheld"),
        (a_span(1, {"gen_ai.operation.name": "chat", "gen_ai.response.finish_reasons": ["tool_calls"]}),
         "content_withheld"),
        (a_span(1, {"gen_ai.operation.name": "chat", "gen_ai.response.finish_reasons": "['toolUse']"}),
         "content_withheld"),
        (a_span(1, {"gen_ai.operation.name": "chat", "gen_ai.response.finish_reasons": ["MALFORMED_FUNCTION_CALL"]}),
         None),
        (a_span(1, {"gen_ai.operation.name": "chat", "gen_ai.completion": json.dumps([said({"type": "remote_call"})])}),
         "unknown_kind"),
        (a_span(1, {"gen_ai.operation.name": "chat", "gen_ai.completion": "It is sunny."}), None),
        (a_span(1, events=(SpanEvent("gen_ai.content.completion", START,
                                     {"gen_ai.completion": json.dumps([said({"type": "remote_call"})])}),)),
         "unknown_kind"),
        (a_span(1, name="execute_tool w"), "unknown_kind"),
        (a_span(1, {"gen_ai.operation.name": "rerank"}), None),
        (a_span(1, {"gen_ai.operation.name": "invoke_workflow"}), None),
        (a_span(1, {"mcp.method.name": "tools/list"}), None),
        (a_span(1, {"http.request.method": "POST"}), None),
    ],
)  # fmt: skip
def test_a_span_that_may_be_a_call_makes_the_calls_unknown(span: Span, code: str | None) -> None:
    assert unknown(span) == code


def test_spans_of_an_unknown_operation_are_no_evidence_that_none_was_made() -> None:
    agent = a_span(1, {"gen_ai.operation.name": "invoke_agent"})

    assert shows_genai_work([agent])
    assert not shows_genai_work([agent, a_span(2, {"gen_ai.operation.name": "rerank"})])


def test_what_is_missing_is_named_and_a_log_event_that_lost_attributes_may_have_had_a_call() -> None:
    lost = LogEvent(TRACE, "", "gen_ai.client.inference.operation.details", START, dropped=1)
    (finding,) = tool_calls([an_llm_span(1, [user(), answers("c7", "Sunny")])]).findings

    assert unknown(logs=[lost]) == "content_withheld"
    assert "'c7'" in finding.message


def test_no_recording_of_a_real_library_is_needlessly_unknown() -> None:
    assert [(one.name, code) for one in fixtures() if (code := unknown(*one.spans, logs=one.logs))] == []


# ── placeholders ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "text",
    [
        *("<elided>", "[REDACTED]", "***", "<redacted>", "[content removed]", "__REDACTED__", "REDACTED", "[Filtered]"),
        *("<not specified>", "[Scrubbed due to 'auth']", "redacted-by-litellm", "[truncated]", "(hidden)", "N/A"),
        *("[too large]", "«redacted»", "$REDACTED$", "_redacted_", "[***]", "<deleted>", "[no content captured]"),
        *("{{REDACTED}}", "<REDACTED:pii>", "[EMAIL_REDACTED]", " [redacted] ", '"<elided>"', "████", "[not captured]"),
    ],
)
def test_a_placeholder_is_unknown(text: str) -> None:
    assert parse(text) is None
    assert as_text(text) is None
    assert as_text([{"text": text}]) is None
    assert parse_object({"city": {"name": text}}) is None
    span = a_tool_span(1, "w", text, [{"type": "text", "text": text}])
    (call,) = tool_calls([span]).tool_calls
    assert (call.arguments, call.result) == (None, None)
    asked = an_llm_span(1, [user(), asks(("c1", "w", text)), answers("c1", text)], [])
    (call,) = tool_calls([asked]).tool_calls
    assert (call.arguments, call.result) == (None, None)


@pytest.mark.parametrize(
    "text",
    ["removed", "hidden", '["removed"]', "['removed']", '{"removed": 1}', "The file was removed.", "**", "[]", "[1]",
     "<p>Sunny</p>", "[Paris, removed]", "Sunny [truncated]"],
)  # fmt: skip
def test_a_word_is_no_placeholder(text: str) -> None:
    assert as_text(text) == text


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(
            [an_llm_span(1, [user(), said({"type": "remote_call"}), user("and now?")], [TEXT])],
            None,
            id="what the user said earlier is not of this turn",
        ),
        pytest.param(
            [
                an_llm_span(
                    1,
                    [*[user(), said({"type": "remote_call"}), user("and now?")], said({"type": "remote_call"})],
                    [TEXT],
                )
            ],
            "unknown_kind",
            id="what the user said earlier is not of this turn (2)",
        ),
        pytest.param(
            [an_llm_span(1, [said({"type": "remote_call"}), TEXT], [TEXT])],
            "unknown_kind",
            id="history without a message of the user is of this turn",
        ),
        pytest.param(
            [a_span(1, {"gen_ai.input.messages": '[{"role": "user", "parts": [{"ty'})],
            "content_withheld",
            id="history that is cut hides nothing where the outputs are whole",
        ),
        pytest.param(
            [
                a_span(
                    1,
                    {"gen_ai.input.messages": '[{"role": "user", "parts": [{"ty'}
                    | {"gen_ai.output.messages": json.dumps([TEXT])},
                )
            ],
            None,
            id="history that is cut hides nothing where the outputs are whole (2)",
        ),
        pytest.param(
            [
                a_span(
                    1,
                    {
                        "gen_ai.output.messages": "<elided>",
                        "llm.output_messages.0.message.role": "assistant",
                        "llm.output_messages.0.message.content": "Sunny.",
                    },
                )
            ],
            None,
            id="messages that one source withholds may be in another",
        ),
        pytest.param(
            [a_span(1, {"openinference.span.kind": "LLM"} | {"output.value": '{"temperature": {"celsius": 21}}'})],
            None,
            id="the answer of a model may be any json",
        ),
        pytest.param(
            [a_span(1, {"openinference.span.kind": "LLM"} | {"output.value": '{"steps": [{"tool": "w"}]}'})],
            "unknown_kind",
            id="the answer of a model may be any json (2)",
        ),
        pytest.param(
            [Span(TRACE, "1" * 16, name="w", start_ns=START, dropped=3), a_tool_span(3)],
            "content_withheld",
            id="a span that lost attributes may have been a call",
        ),
        pytest.param(
            [Span(TRACE, "2" * 16, name="chat", attributes={"gen_ai.operation.name": "chat"}, dropped=3)],
            "content_withheld",
            id="a span that lost attributes may have been a call (2)",
        ),
        pytest.param(
            [
                Span(TRACE, "2" * 16, name="chat", attributes={"gen_ai.operation.name": "chat"}, dropped=3),
                a_tool_span(3),
            ],
            None,
            id="a span that lost attributes may have been a call (3)",
        ),
        pytest.param(
            [answering("__REDACTED__"), a_tool_span(2)],
            None,
            id="content that is off hides nothing where tools have spans",
        ),
        pytest.param(
            [answering([said({"type": "remote_call"})]), a_tool_span(2)],
            "unknown_kind",
            id="content that is off hides nothing where tools have spans (2)",
        ),
    ],
)
def test_whether_spans_leave_the_calls_unknown(given: list[Any], expected: Any) -> None:
    """The code of the finding, or None."""
    assert unknown(*given) == expected


Json = dict[str, Any]
CALLS = [name for name, kind in PARTS.items() if kind.role is PartRole.CALL]
KEYED = [name for name, kind in KEYED_PARTS.items() if kind.role is PartRole.CALL]
RESPONSES = [name for name, kind in PARTS.items() if kind.role is PartRole.RESPONSE]
CONTENT = [name for name, kind in PARTS.items() if kind.role is PartRole.CONTENT]
UNKNOWN = st.sampled_from(["remote_call", "toolRun", "x", "step", "agent_action", "call_v9", "payload", "items"])
ID = st.sampled_from(["", "c1", "fc_1", "<not specified>"])
ARGUMENTS = st.sampled_from([{}, {"a": 1}, "{}", "<elided>", None, '{"a": '])
DETAILS = "gen_ai.client.inference.operation.details"


@st.composite
def calls(draw: st.DrawFn, name: str) -> Json:
    """A call of `name` in any form, known or not."""
    body = {"name": name, "arguments": draw(ARGUMENTS)}
    if draw(st.booleans()):
        body["id"] = draw(ID)
    forms: list[Callable[[], Json]] = [
        lambda: {"type": draw(st.sampled_from(CALLS)), **body},
        lambda: {draw(st.sampled_from(KEYED)): body},
        lambda: {"type": draw(UNKNOWN), **body},
        lambda: {draw(UNKNOWN): body},
        lambda: {"type": "function", "function": body},
        lambda: {"type": draw(st.sampled_from(RESPONSES)), "name": name, "id": draw(ID)},
        lambda: {"type": "text", "content": "x", draw(UNKNOWN): [body]},
        lambda: {"type": draw(UNKNOWN), draw(UNKNOWN): json.dumps([body])},
    ]
    return draw(st.sampled_from(forms))()


@st.composite
def messages(draw: st.DrawFn, names: list[str]) -> Json:
    parts: list[Any] = [draw(calls(name)) for name in names]
    for kind in draw(st.lists(st.sampled_from(CONTENT), max_size=2)):
        parts.insert(draw(st.integers(0, len(parts))), {"type": kind, "content": "Sunny."})
    message: Json = {"role": draw(st.sampled_from(["assistant", "model", "planner", "ai"]))}
    where = draw(st.sampled_from([*CONTENT_OF_MESSAGE, "tool_calls", "beside", "spread"]))
    if where == "beside":
        message |= {"content": "Sunny.", draw(UNKNOWN): parts}
    elif where == "spread":
        message |= {"parts": parts[:1], draw(UNKNOWN): parts[1:]}
    else:
        message[where] = json.dumps(parts) if draw(st.booleans()) else parts
    return message


@st.composite
def wrapped(draw: st.DrawFn, names: list[str]) -> Any:
    value: Any = [draw(messages(names))]
    for wrapper in draw(
        st.lists(st.sampled_from(["messages", "choices", "list", "text", "unknown", "message"]), max_size=3)
    ):
        match wrapper:
            case "list":
                value = [value]
            case "text":
                value = json.dumps(value)
            case "unknown":
                value = {"version": "1", draw(UNKNOWN): value}
            case "message":
                value = {"message": value, "index": 0}
            case _:
                value = {"version": "1", wrapper: value}
    return value


@st.composite
def pieces(draw: st.DrawFn, number: int, names: list[str]) -> tuple[Span | LogEvent, list[str]]:
    """A span or a log event of an agent, and those of the tools that it names."""
    kinds = ["output", "input", "event", "choice", "log", "tool", "operation", "attribute"]
    kind = draw(st.sampled_from(kinds)) if names else "output"
    if kind == "tool":
        tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": names[0]}
        return a_span(number, tool, at=number), names[:1]
    if kind == "operation":
        operation = draw(st.sampled_from(["invoke_tool", "Function", "mcp_call", "run_skill"]))
        attribute = draw(st.sampled_from(["gen_ai.operation.name", "openinference.span.kind", "traceloop.span.kind"]))
        return a_span(number, {attribute: operation}, name=names[0]), names[:1]
    if kind == "attribute":
        return a_span(number, {"gen_ai.operation.name": draw(UNKNOWN), "gen_ai.tool.name": names[0]}), names[:1]
    if kind == "choice":
        choice = SpanEvent("gen_ai.choice", START, {"message": draw(messages(names))})
        return a_span(number, events=(choice,)), names
    value = draw(wrapped(names))
    if kind == "input":
        return a_span(number, {"gen_ai.input.messages": value}), names
    output = {"gen_ai.output.messages": value}
    if kind == "event":
        return a_span(number, events=(SpanEvent(DETAILS, START, output),)), names
    if kind == "log":
        return LogEvent(TRACE, f"{number:016x}", DETAILS, START, "", output), names
    return a_span(number, output), names


@st.composite
def traces(draw: st.DrawFn) -> tuple[list[Span], list[LogEvent], set[str]]:
    """Spans and log events, and the tools that they name."""
    numbers = count(1)
    drawn = [
        draw(pieces(number, [f"w{next(numbers)}" for _ in range(draw(st.integers(0, 2)))])) for number in range(2, 5)
    ]
    found = [one for one, _ in drawn]
    spans = [a_span(1, {"gen_ai.operation.name": "invoke_agent"}), *(one for one in found if isinstance(one, Span))]
    return spans, [one for one in found if isinstance(one, LogEvent)], {name for _, names in drawn for name in names}


@given(traces())
def test_a_call_that_any_piece_names_is_seen_or_the_calls_are_unknown(
    trace: tuple[list[Span], list[LogEvent], set[str]],
) -> None:
    spans, logs, named = trace

    calls, findings = tool_calls(spans, logs)

    assert named <= {call.name for call in calls} or calls_unknown_by(findings) is not None


# ── shapes ───────────────────────────────────────────────────────────────────────────────────────────────────────────


FIXTURES = fixtures()


def test_converts_to_the_expected_calls(subtests: pytest.Subtests) -> None:
    """Also: calls have the times of their outermost span, and no id of a span becomes the id of a call."""
    for fixture in FIXTURES:
        with subtests.test(fixture.name):
            calls = tool_calls(fixture.spans, fixture.logs).tool_calls
            assert [_comparable(call) for call in calls] == _wanted(fixture)
            for call, wanted in zip(calls, fixture.expected["tool_calls"], strict=True):
                if "start_unix_nano" in wanted:
                    assert (call.started_at, call.ended_at) == (
                        _time(wanted["start_unix_nano"]),
                        _time(wanted["end_unix_nano"]),
                    )
            assert not {span.span_id for span in fixture.spans} & {call.id for call in calls}


def _comparable(call: ToolCall) -> dict[str, Any]:
    assert call.source is ToolCallSource.OTEL_TRACE
    return {
        "id": call.id,
        "name": call.name,
        "arguments": call.arguments,
        "result": _as_json(call.result),
        "error": call.error,
    }


def _wanted(fixture: Fixture) -> list[dict[str, Any]]:
    return [
        {
            "id": _wanted_id(call, truth),
            "name": call["name"],
            "arguments": _first_known(call, "arguments"),
            "result": _as_json(_wanted_result(call)),
            "error": call["error"],
        }
        for call, truth in zip(
            fixture.expected["tool_calls"],
            fixture.expected["truth"][: len(fixture.expected["tool_calls"])],
            strict=True,
        )
    ]


def _wanted_id(call: dict[str, Any], truth: dict[str, Any]) -> str:
    """The span's, else the messages'; where these name the output item (`fc_...`), the call's own."""
    known = _first_known(call, "id") or ""
    return truth["llm_tool_call_id"] if known.startswith("fc_") else known


def _wanted_result(call: dict[str, Any]) -> Any:
    """The span's, else the messages'; none of a failed call, unless its error is but a type."""
    if call["error"] in (None, "TOOL_ERROR"):
        return _first_known(call, "result")
    return None


def _first_known(call: dict[str, Any], key: str) -> Any:
    return call[key] if call[key] is not None else call.get("from_messages", {}).get(key)


def _as_json(text: Any) -> Any:
    try:
        return json.loads(text)
    except (TypeError, ValueError):
        return text


def _time(unix_nano: str) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=int(unix_nano) // 1000)


PARIS = {"city": "Paris"}
ARGS = json.dumps(PARIS)
TRACEBACK = 'no such city\n\nTraceback (most recent call last):\n  File "app.py", line 1'
TOOL = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "w"}
OPENINFERENCE = {"openinference.span.kind": "TOOL", "tool.name": "w"}
LANGCHAIN, LLAMA, ADK = (f"openinference.instrumentation.{name}" for name in ("langchain", "llama_index", "google_adk"))
TRACELOOP = {"traceloop.span.kind": "tool"}
MCP = {"mcp.method.name": "tools/call", "gen_ai.tool.name": "w"}
ASKED, ANSWERED = asks(("c1", "w", PARIS)), [user(), asks(("c1", "w", PARIS)), answers("c1", "Sunny")]
OF_DETAILS = "gen_ai.client.inference.operation.details"

Call = tuple[str, str, Any, str | None, str | None]
"""Id, name, arguments, result and error."""
WHOLE: Call = ("", "w", PARIS, "Sunny", None)
WITH_ID: Call = ("c1", "w", PARIS, "Sunny", None)


class Shape(NamedTuple):
    name: str
    spans: list[Span]
    calls: list[Call]
    logs: list[LogEvent] = []  # noqa: RUF012  # never changed


def content(**content: Any) -> dict[str, Any]:
    """Attributes by the GenAI conventions."""
    return TOOL | {f"gen_ai.tool.call.{key}": value for key, value in content.items()}


def event(name: str, **attributes: Any) -> SpanEvent:
    return SpanEvent(name, START, attributes)


def failed(name: str, error: str | None, *events: SpanEvent, **attributes: Any) -> Shape:
    """A shape of a failed call, whose text is known."""
    given = {key.replace("_", "."): value for key, value in attributes.items()}
    return Shape(name, [a_span(1, content(arguments=ARGS) | given, error=error, events=events)], [FAILED])


FAILED: Call = ("", "w", PARIS, None, "no such city")

SHAPES = [
    # OpenTelemetry's GenAI conventions
    Shape("arguments as JSON text", [a_span(1, content(id="c1", arguments=ARGS, result="Sunny"))], [WITH_ID]),
    Shape("arguments as structure", [a_span(1, content(arguments=PARIS, result="Sunny"))], [WHOLE]),
    Shape("name in the span's name", [a_span(1, {"gen_ai.operation.name": "execute_tool"}, name="execute_tool w")],
          [("", "w", None, None, None)]),
    Shape("content is off", [a_span(1, content(id="c1"))], [("c1", "w", None, None, None)]),
    failed("error in the status", "no such city"),
    failed("error in error.type alone", None, error_type="no such city"),
    failed("error in an exception, with its traceback", "ToolError", exception(TRACEBACK)),
    # frameworks
    Shape("pydantic-ai 2", [a_span(1, {"gen_ai.tool.name": "w", "tool_arguments": ARGS, "tool_response": "Sunny"},
                                   name="running tool", scope="pydantic-ai")], [WHOLE]),
    Shape("google-adk, schema 1", [a_span(1, TOOL | {"gcp.vertex.agent.tool_call_args": ARGS,
                                   "gcp.vertex.agent.tool_response": '{"result": "Sunny"}'})], [WHOLE]),
    Shape("google-adk, error inside the response",
          [a_span(1, TOOL | {"gcp.vertex.agent.tool_call_args": ARGS,
                             "gcp.vertex.agent.tool_response": '{"error": "no such city"}'})], [FAILED]),
    Shape("strands, content in events",
          [a_span(1, TOOL | {"gen_ai.tool.status": "success"}, scope="strands.telemetry.tracer",
                  events=(event("gen_ai.tool.message", content=ARGS),
                          event("gen_ai.choice", message='[{"text": "Sunny"}]')))], [WHOLE]),
    Shape("strands, failed by gen_ai.tool.status",
          [a_span(1, content(arguments=ARGS) | {"gen_ai.tool.status": "error"}, scope="strands.telemetry.tracer",
                  events=(event("gen_ai.choice", message='[{"text": "no such city"}]'),))], [FAILED]),
    Shape("autogen, nothing but the exception", [a_span(1, content(id="c1"), error="", events=(exception("late"),))],
          [("c1", "w", None, None, "late")]),
    # OpenInference
    Shape("OpenInference", [a_span(1, OPENINFERENCE | {"input.value": ARGS, "output.value": "Sunny"})], [WHOLE]),
    Shape("OpenInference, tool_call.id", [a_span(1, OPENINFERENCE | {"tool_call.id": "c1", "input.value": ARGS,
                                                                     "output.value": "Sunny"})], [WITH_ID]),
    Shape("OpenInference, tool.id", [a_span(1, OPENINFERENCE | {"tool.id": "c1", "input.value": ARGS,
                                                                "output.value": "Sunny"})], [WITH_ID]),
    Shape("OpenInference, tool.call_id", [a_span(1, OPENINFERENCE | {"tool.call_id": "c1", "input.value": ARGS,
                                                                     "output.value": "Sunny"})], [WITH_ID]),
    Shape("OpenInference, the name is the span's", [a_span(1, {"openinference.span.kind": "TOOL", "input.value": ARGS,
                                                               "output.value": "Sunny"}, name="w")], [WHOLE]),
    Shape("OpenInference, arguments below kwargs",
          [a_span(1, OPENINFERENCE | {"input.value": json.dumps({"args": [], "kwargs": PARIS}),
                                      "output.value": '{"raw_output": "Sunny"}'}, scope=LLAMA)], [WHOLE]),
    Shape("OpenInference, LangChain's message",
          [a_span(1, OPENINFERENCE | {"input.value": str(PARIS), "output.value": json.dumps(
              {"type": "tool", "data": {"content": "Sunny", "tool_call_id": "c1"}})}, scope=LANGCHAIN)], [WITH_ID]),
    Shape("OpenInference, google-adk's response",
          [a_span(1, OPENINFERENCE | {"input.value": ARGS, "output.value": json.dumps(
              {"id": "c1", "name": "w", "response": {"result": "Sunny"}})}, scope=ADK)], [WITH_ID]),
    Shape("OpenInference, reprs of Python",
          [a_span(1, OPENINFERENCE | {"input.value": str(PARIS), "output.value": str(PARIS)})],
          [("", "w", PARIS, str(PARIS), None)]),
    Shape("OpenInference, tool.parameters is the schema",
          [a_span(1, OPENINFERENCE | {"tool.parameters": '{"city": {"type": "string"}}', "output.value": "Sunny"})],
          [("", "w", None, "Sunny", None)]),
    # OpenLLMetry, LangSmith, MCP, UiPath
    Shape("OpenLLMetry", [a_span(1, TRACELOOP | {"traceloop.entity.input": ARGS, "traceloop.entity.output": "Sunny"},
                                 name="w.tool")], [WHOLE]),
    Shape("OpenLLMetry, wrapped, with the id",
          [a_span(1, TRACELOOP | {"traceloop.entity.input": json.dumps({"input_str": str(PARIS), "inputs": PARIS,
                                                                        "kwargs": {"tool_call_id": "c1"}}),
                                  "traceloop.entity.output": '{"output": "Sunny", "kwargs": {}}'},
                  name="execute_tool w")], [WITH_ID]),
    Shape("LangSmith", [a_span(1, {"langsmith.span.kind": "tool", "gen_ai.prompt": ARGS, "gen_ai.completion": "Sunny"},
                               name="w")], [WHOLE]),
    Shape("MCP's server", [a_span(1, MCP | {"error.type": "tool_error"}, kind=KIND_SERVER, name="tools/call w")],
          [("", "w", None, None, "tool_error")]),
    Shape("MCP's client",
          [a_span(1, {"mcp.method.name": "tools/call"}, kind=KIND_CLIENT, name="MCP send tools/call w")],
          [("", "w", None, None, None)]),
    Shape("UiPath", [a_span(1, {"tool.name": "w", "input.value": str(PARIS), "output.value": "Sunny"})], [WHOLE]),
    # model calls alone
    Shape("messages in attributes, the history repeated",
          [an_llm_span(1, [user()], [ASKED]), an_llm_span(2, ANSWERED, [], at=2)], [WITH_ID]),
    Shape("messages in a log event", [], [WITH_ID], [LogEvent(TRACE, "", OF_DETAILS, START, attributes={
        "gen_ai.input.messages": ANSWERED})]),
    Shape("messages in an event of the span", [a_span(1, {"gen_ai.operation.name": "chat"}, events=(
        event(OF_DETAILS, **{"gen_ai.input.messages": json.dumps(ANSWERED)}),))], [WITH_ID]),
    Shape("messages spread over attributes", [a_span(1, {
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.tool_calls.0.tool_call.id": "c1",
        "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "w",
        "llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments": ARGS})],
        [("c1", "w", PARIS, None, None)]),
    Shape("an item's id is not the call's", [an_llm_span(1, [
        user(), {"type": "function_call", "id": "fc_1", "name": "w", "arguments": ARGS},
        {"type": "function_call_output", "call_id": "c1", "output": "Sunny"}], [])], [WITH_ID]),
    # several spans
    Shape("ids and results come from messages", [an_llm_span(1, ANSWERED, []), a_tool_span(2, "w", PARIS, at=1)],
          [WITH_ID]),
    Shape("repeats are real", [a_tool_span(number, "w", PARIS, "Sunny", at=number) for number in (1, 2)], [WHOLE] * 2),
    Shape("two instrumentations saw one call", [a_tool_span(1, "w", PARIS, scope="one"),
                                                a_tool_span(2, "w", PARIS, "Sunny", at=0.1, scope="other")], [WHOLE]),
    Shape("agent, client, transport and server saw one call",
          [a_tool_span(1, "srv_w", PARIS, call_id="c1", took=4),
           a_span(2, MCP, parent=1, kind=KIND_CLIENT, at=1, took=3),
           a_span(3, {"mcp.method.name": "tools/call"}, name="MCP send tools/call w", parent=2, at=2, took=2),
           a_span(4, MCP | {"error.type": "tool_error"}, parent=3, kind=KIND_SERVER, at=3)],
          [("c1", "srv_w", PARIS, None, "tool_error")]),
    Shape("look-alikes", [
        a_span(1, TOOL | {"gen_ai.tool.name": "(merged tools)"}, name="execute_tool (merged)"),
        a_span(2, {"openinference.span.kind": "CHAIN"}, name="tools"),
        a_span(3, {"traceloop.span.kind": "task"}, name="execute_task w"),
        a_span(4, {"mcp.method.name": "tools/list"}, name="tools/list"),
        a_span(5, OPENINFERENCE | {"tool.name": "final_answer"}, scope="openinference.instrumentation.smolagents"),
    ], []),
    Shape("withheld, cut and placeholders are unknown", [
        a_span(1, content(id="<not specified>", arguments="__REDACTED__", result="__REDACTED__")),
        a_span(2, content(id="", arguments='{"city": "Par'), at=1),
        a_span(3, content(arguments=CutText(ARGS)), at=2)], [("", "w", None, None, None)] * 3),
]  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_a_shape_is_read(shape: Shape) -> None:
    """In any order of arrival, and delivered repeatedly: children come before parents. Also in the SDK's form."""
    for spans in (shape.spans, shape.spans[::-1], shape.spans * 2):
        assert [seen(call) for call in tool_calls(spans, shape.logs).tool_calls] == shape.calls
    in_memory = map(span_of, map(sdk_span, shape.spans)), map(log_of, map(sdk_log, shape.logs))
    assert [seen(call) for call in tool_calls(*in_memory).tool_calls] == shape.calls


def seen(call: ToolCall) -> Call:
    return call.id, call.name, call.arguments, call.result, call.error


# ── in memory ────────────────────────────────────────────────────────────────────────────────────────────────────────


KEYS = st.sampled_from(
    [
        "name",
        "Name",
        "attributes",
        "Attributes",
        "context",
        "parent",
        "parent_id",
        "status",
        "Status",
        "code",
        "kind",
        "start_time",
        "EndTime",
        "events",
        "scope",
        "trace_id",
        "span_id",
        "Id",
        "arguments",
        "error",
        "timestamp",
        "log_record",
        "body",
        "event_name",
        "gen_ai.operation.name",
        "tool.name",
        "input.value",
        "id",
        "result",
    ]
)
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4) | st.binary(max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.tuples(inner) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=12,
)


@given(st.lists(JUNK, max_size=3), st.lists(JUNK, max_size=2))
def test_anything_is_read_or_refused(spans: list[Any], logs: list[Any]) -> None:
    with suppress(ValueError):
        tool_calls([span_of(span, place) for place, span in enumerate(spans)], map(log_of, logs))


class Kind(Enum):
    CLIENT = 2


@pytest.mark.parametrize("kind", [Kind.CLIENT, "CLIENT", "SpanKind.CLIENT", "SPAN_KIND_CLIENT"])
def test_kinds(kind: Any) -> None:
    assert span_of({"kind": kind}).kind == KIND_CLIENT


@pytest.mark.parametrize(
    ("status", "code", "message"),
    [
        ({"status_code": "ERROR", "description": "late"}, STATUS_ERROR, "late"),
        ({"code": 2, "message": "late"}, STATUS_ERROR, "late"),
        ({"code": "STATUS_CODE_ERROR"}, STATUS_ERROR, ""),
        ("error", STATUS_ERROR, ""),
        (2, STATUS_ERROR, ""),
        (None, STATUS_UNSET, ""),
        ({}, STATUS_UNSET, ""),
        ("odd", STATUS_UNSET, ""),
    ],
)
def test_statuses(status: Any, code: int, message: str) -> None:
    span = span_of({"status": status})
    assert (span.status_code, span.status_message) == (code, message)


NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
NOON_NS = 1_769_860_800 * 10**9


@pytest.mark.parametrize(
    ("time", "nanoseconds"),
    [
        (NOON_NS + 1, NOON_NS + 1),
        (NOON, NOON_NS),
        (NOON.replace(tzinfo=None), NOON_NS),
        (NOON.astimezone(timezone(timedelta(hours=1))), NOON_NS),
        ("2026-01-31T12:00:00.000001Z", NOON_NS + 1000),
        ("2026-01-31T12:00:00", NOON_NS),
        ("noon", 0),
        (None, 0),
        (1.5, 0),
    ],
)
def test_times(time: Any, nanoseconds: int) -> None:
    assert span_of({"start_time": time}).start_ns == log_of({"timestamp": time}).time_ns == nanoseconds


def test_ids() -> None:
    context = {"trace_id": "0x" + "0A" * 16, "span_id": 10}
    span = span_of({"context": context, "parent_id": "0x" + "0b" * 8})
    assert (span.trace_id, span.span_id, span.parent_span_id) == ("0a" * 16, "000000000000000a", "0b" * 8)
    assert span_of({"span_id": "0" * 16}, 1).key != span_of({}, 2).key


def test_values_are_bounded_as_those_of_the_receiver_are() -> None:
    deep: Any = "x"
    for _ in range(ATTRIBUTE + 1):
        deep = (deep,)
    given = {"text": "x" * (MAX_TEXT + 1), "deep": deep, "list": (1, {"a": (2,)})}
    attributes = span_of({"attributes": given}).attributes
    assert isinstance(attributes["text"], CutText)
    assert len(attributes["text"]) == MAX_TEXT
    assert attributes["list"] == [1, {"a": [2]}]
    assert "x" not in str(attributes["deep"])


def test_logs() -> None:
    record = {"trace_id": 1, "attributes": {"event.name": "choice"}, "body": {"a": (1,)}, "observed_timestamp": 5}
    log = log_of({"log_record": record, "instrumentation_scope": {"name": "app"}})
    assert (log.name, log.trace_id, log.span_id, log.time_ns) == ("choice", f"{1:032x}", "", 5)
    assert (log.scope, log.body) == ("app", {"a": [1]})
