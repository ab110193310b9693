"""What may be a call and cannot be read as one makes the calls unknown; what is known to be none does not."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
from a2a_tool_capture.models import calls_unknown_by
from a2a_tool_capture.spans.content import as_text, parse, parse_object
from a2a_tool_capture.spans.conventions import CONTENT_OF_MESSAGE, KEYED_PARTS, PARTS, PartRole, shows_genai_work
from a2a_tool_capture.spans.model import LogEvent, Span, SpanEvent
from a2a_tool_capture.spans.tool_calls import tool_calls
from golden.spans.building import START, TRACE, a_span, a_tool_span, an_llm_span, answers, asks, user
from golden.spans.fixtures import fixtures
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
