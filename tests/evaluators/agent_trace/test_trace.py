"""What an agent did, from its own messages and spans, and from the recorded spans of every instrumentation."""

from __future__ import annotations

import json
import re
import warnings
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from a2a_eval_proxy.traces.merge import TraceEvidence
from a2a_eval_proxy.turn import Turn
from a2a_tool_capture.models import ToolCall
from golden.spans.fixtures import fixtures
from golden.spans.sdk_forms import in_json, sdk_log, sdk_span
from hypothesis import given
from hypothesis import strategies as st
from support.provision import source_of
from tool_call_evaluators import AgentTrace, EvalCase, Status, ToolDefinition
from tool_call_evaluators.agent_trace import TraceTurn
from tool_call_evaluators.importers.dokimos import eval_test_case
from tool_call_evaluators.metrics.tool_error import ToolError

LOOKUP = ToolCall("lookup", {"id": "7"}, "c1", "sent")
MAIL = ToolCall("mail", {"to": "Ann"}, "c2", None, "no such address")
EXPECTED = (
    TraceTurn("Where is 7? Write to Ann.", (LOOKUP, MAIL), "It was sent; Ann could not be informed."),
    TraceTurn("Thanks", (), "Welcome"),
)


def chat_call(call_id, name, arguments):
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


CHAT = [
    {"role": "system", "content": "You are kind."},
    {"role": "user", "content": [{"type": "text", "text": "Where is 7? "}, {"type": "text", "text": "Write to Ann."}]},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [chat_call("c1", "lookup", {"id": "7"}), chat_call("c2", "mail", {"to": "Ann"})],
    },
    {"role": "tool", "tool_call_id": "c2", "content": "no such address"},
    {"role": "tool", "tool_call_id": "c1", "content": "sent"},
    {"role": "assistant", "content": "It was sent; Ann could not be informed."},
    {"role": "user", "content": "Thanks"},
    {"role": "assistant", "content": "Welcome", "refusal": None},
]  # fmt: skip


class Dumped:
    """An object of an SDK: pydantic's interface, nothing else."""

    def __init__(self, data):
        self._data = data

    def model_dump(self):
        return self._data


LANGCHAIN = [
    {"type": "system", "content": "You are kind."},
    {"type": "human", "content": "Where is 7? Write to Ann."},
    {
        "type": "ai",
        "content": [{"type": "text", "text": ""}, {"type": "tool_use", "id": "c1", "name": "lookup", "input": {}}],
        "tool_calls": [
            {"name": "lookup", "args": {"id": "7"}, "id": "c1", "type": "tool_call"},
            {"name": "mail", "args": {"to": "Ann"}, "id": "c2", "type": "tool_call"},
        ],
    },
    {"type": "tool", "content": "sent", "tool_call_id": "c1", "status": "success"},
    {"type": "tool", "content": "no such address", "tool_call_id": "c2", "status": "error"},
    {"type": "ai", "content": "It was sent; Ann could not be informed.", "tool_calls": []},
    {"type": "human", "content": "Thanks"},
    {"type": "ai", "content": "Welcome"},
]
CLASSES = {"system": "SystemMessage", "human": "HumanMessage", "ai": "AIMessage", "tool": "ToolMessage"}


FORMS = [
    dict,
    lambda m: SimpleNamespace(**m),
    Dumped,
    lambda m: {"type": m["type"], "data": m},
    lambda m: {"lc": 1, "type": "constructor", "id": ["langchain", "schema", CLASSES[m["type"]]], "kwargs": m},
    lambda m: {
        **{key: value for key, value in m.items() if key != "type"},
        "role": {"human": "user", "ai": "assistant"}.get(m["type"], m["type"]),
    },
]
TOLD = (
    replace(EXPECTED[0], tool_calls=(LOOKUP, ToolCall("mail", {"to": "Ann"}, "c2", "no such address"))),
    EXPECTED[1],
)
"""Messages of OpenAI do not say that a result is an error."""
RESPONSES = [
    {"role": "user", "content": "Where is 7? Write to Ann."},
    {"type": "reasoning", "summary": []},
    {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "lookup", "arguments": '{"id": "7"}'},
    {"type": "function_call", "id": "fc_2", "call_id": "c2", "name": "mail", "arguments": '{"to": "Ann"}'},
    {"type": "function_call_output", "call_id": "c1", "output": "sent"},
    {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": MAIL.error}]},
    {"role": "assistant", "content": [{"type": "output_text", "text": EXPECTED[0].response_text}]},
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Thanks"}]},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Welcome"}]},
]  # fmt: skip
REASONING = [
    {"role": "user", "content": "Where is 7?"},
    {"type": "reasoning", "summary": [{"type": "summary_text", "text": "It is an order."}]},
    {"type": "function_call", "call_id": "c1", "name": "lookup", "arguments": "{}"},
    {"role": "assistant", "content": "Sent.", "reasoning_content": "The result says so."},
]
ODD = [
    {"role": "user", "content": "a"},
    {"role": "user", "content": "b"},
    {"role": "assistant", "content": "Let me see", "function_call": {"name": "f", "arguments": "{}"}},
    {"role": "function", "name": "f", "content": "1"},
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "x", "function": {"name": "g", "arguments": "{oops"}}],
    },
    {"role": "tool", "tool_call_id": "nobody's", "content": "lost"},
    {
        "role": "assistant",
        "tool_calls": [{"id": "y", "type": "custom", "custom": {"name": "h", "input": "free text"}}],
    },
    "not a message",
    None,
]
INVALID = {"type": "ai", "invalid_tool_calls": [{"name": "f", "args": "{oo", "id": "1", "error": "bad JSON"}]}
SAID = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]
HELLO = (TraceTurn("hi", (), "hello"),)
OPENAI, FROM_LANGCHAIN = AgentTrace.from_openai_messages, AgentTrace.from_langchain_messages


@pytest.mark.parametrize(
    ("read", "messages", "turns"),
    [
        pytest.param(OPENAI, CHAT, TOLD, marks=pytest.mark.statement(249, 250, 258)),
        (OPENAI, RESPONSES, TOLD),
        (OPENAI, list(map(Dumped, CHAT)), TOLD),
        pytest.param(
            OPENAI,
            REASONING,
            (
                TraceTurn(
                    "Where is 7?", (ToolCall("lookup", {}, "c1"),), "Sent.", ("It is an order.", "The result says so.")
                ),
            ),
            marks=pytest.mark.statement(239),
        ),
        (
            OPENAI,
            ODD,
            (
                TraceTurn(
                    "a\nb",
                    (ToolCall("f", {}, "", "1"), ToolCall("g", None, "x"), ToolCall("h", None, "y")),
                    "Let me see",
                ),
            ),
        ),
        (OPENAI, {"model": "m", "messages": SAID}, HELLO),
        (OPENAI, iter(SAID), HELLO),
        (OPENAI, [], ()),
        *((FROM_LANGCHAIN, list(map(form, LANGCHAIN)), EXPECTED) for form in FORMS),
        (FROM_LANGCHAIN, [INVALID], (TraceTurn(None, (ToolCall("f", None, "1", None, "bad JSON"),)),)),
        (FROM_LANGCHAIN, {"messages": [("human", "hi"), ("ai", "hello")]}, HELLO),
    ],
)
def test_messages_are_turns(read, messages, turns):
    assert read(messages).turns == turns


json_data = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(["role", "type", "content", "tool_calls", "function", "name", "args", "arguments", "id", "data",
                         "kwargs", "call_id", "output", "text"]), inner, max_size=5),
    max_leaves=15,
)  # fmt: skip


roles = st.sampled_from(["user", "assistant", "tool"])
messages_like = st.fixed_dictionaries({"role": roles, "content": json_data, "tool_calls": json_data})


@given(st.lists(json_data | messages_like, max_size=4))
def test_whatever_the_messages_hold_it_is_a_trace(messages):
    for read in (AgentTrace.from_openai_messages, AgentTrace.from_langchain_messages):
        trace = read(messages)
        trace.conversation()


# ── spans ───────────────────────────────────────────────────────────────────────────────────────────────────────


NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
TOOL = {"gen_ai.operation.name": "execute_tool"}
MAILED = {
    "name": "execute_tool mail",
    "attributes": TOOL
    | {"gen_ai.tool.name": "mail", "gen_ai.tool.call.id": "c2", "gen_ai.tool.call.arguments": {"to": "Ann"}},
    "start_time": "2026-01-31T12:00:02+00:00",
    "status": {"code": "ERROR", "message": "no such address"},
}
LOOKED_UP = {
    "name": "execute_tool lookup",
    "attributes": TOOL
    | {
        "gen_ai.tool.name": "lookup",
        "gen_ai.tool.call.id": "c1",
        "gen_ai.tool.call.arguments": '{"id": "7"}',
        "gen_ai.tool.call.result": "sent",
    },
    "start_time": int(NOON.timestamp()) * 10**9,
}
OF_AN_SDK = SimpleNamespace(
    name="mail",
    attributes={"openinference.span.kind": "TOOL", "input.value": "Ann", "output.value": "{}", "error.type": "Timeout"},
    start_time=1,
    end_time=2,
    status=SimpleNamespace(status_code=SimpleNamespace(name="ERROR"), description=None),
)
PLAIN = [
    {"name": "b", "arguments": {"x": 1}, "result": {"y": 2}, "start_time": NOON},
    {"name": "a", "arguments": None, "error": "e", "status": "OK", "start_time": "no time"},
    {"name": "tools/list"},
    None,
]


@pytest.mark.parametrize(
    ("spans", "calls"),
    [
        (
            [{"name": "chat gpt", "attributes": {"gen_ai.operation.name": "chat"}, "start_time": 0}, MAILED, LOOKED_UP],
            [("lookup", {"id": "7"}, "sent", None), ("mail", {"to": "Ann"}, None, "no such address")],
        ),
        ([OF_AN_SDK], [("mail", None, None, "{}")]),
        (PLAIN, [("a", None, None, "e"), ("b", {"x": 1}, '{"y": 2}', None)]),
    ],
)
def test_spans_are_the_calls_of_one_turn_in_order_of_time(spans, calls):
    (turn,) = AgentTrace.from_spans(spans, user_text="u", response_text="r").turns
    assert (turn.user_text, turn.response_text) == ("u", "r")
    assert [(call.name, call.arguments, call.result, call.error) for call in turn.tool_calls] == calls


# ── use ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_case_of_a_turn_has_the_turns_before_it():
    trace = AgentTrace.from_langchain_messages(LANGCHAIN)
    last = trace.case(expected_response="Welcome")
    assert (last.user_text, last.response_text, last.expected_response) == ("Thanks", "Welcome", "Welcome")
    assert [turn.user_text for turn in last.history] == ["Where is 7? Write to Ann."]
    assert trace.case(0).history == ()
    assert [turn.user_text for turn in trace.conversation().turns] == ["Where is 7? Write to Ann.", "Thanks"]
    with pytest.raises(IndexError):
        trace.case(2)


TOOLS = [ToolDefinition("lookup")]


@pytest.mark.statement(238, 240)
def test_a_trace_as_the_output_map_of_a_task_and_as_a_test_case():
    trace = AgentTrace.of([LOOKUP], "Sent.", ["Look it up."])
    assert trace.to_output_map() == {"output": "Sent.", "toolCalls": [LOOKUP], "reasoningSteps": ["Look it up."]}
    assert AgentTrace().to_output_map() == {"output": "", "toolCalls": [], "reasoningSteps": []}
    assert eval_test_case("Where is 7?", trace.to_output_map()) == trace.to_test_case("Where is 7?")
    assert trace.to_test_case("And 8?", TOOLS, ["find 8"], constraints="be brief") == EvalCase(
        user_text="And 8?",
        tool_calls=[LOOKUP],
        response_text="Sent.",
        reasoning_steps=["Look it up."],
        tools=TOOLS,
        tasks=["find 8"],
        constraints=["be brief"],
    )


@pytest.mark.statement(181, 197, 198, 252)
def test_a_case_from_the_maps_of_a_test_case():
    expected = {"toolCalls": [{"name": "lookup", "arguments": {}}], "output": "sent"}
    metadata = {"tools": TOOLS, "tasks": ["find 7"], "constraints": "Budget under $500", "category": "orders"}
    actual = {"toolCalls": [LOOKUP.to_dict()], "output": {"state": "sent"}, "confidence": 0.9}
    assert eval_test_case("Where is 7?", actual, expected, metadata) == EvalCase(
        user_text="Where is 7?",
        tool_calls=[LOOKUP],
        response_text='{"state": "sent"}',
        expected_tool_calls=[ToolCall("lookup")],
        expected_response="sent",
        tools=TOOLS,
        tasks=["find 7"],
        constraints=["Budget under $500"],
    )


def test_expected_arguments_of_null_are_empty_in_the_maps_of_a_test_case():
    calls = [{"name": "a", "arguments": None}, {"name": "b"}, {"name": "c", "args": {"x": 1}}, ToolCall("d", None)]
    case = eval_test_case("Hi", {}, {"toolCalls": calls})
    assert [call.arguments for call in case.expected_tool_calls] == [{}, {}, {"x": 1}, None]


@pytest.mark.parametrize(
    ("read", "given", "complaint"),
    [
        (AgentTrace.from_openai_messages, "hello", r"messages: expected a list, got str"),
        (AgentTrace.from_openai_messages, {"choices": []}, r"messages: expected a list, got dict"),
        (AgentTrace.from_langchain_messages, None, r"messages: expected a list, got NoneType"),
        (AgentTrace.from_spans, {"resourceSpans": []}, r"spans: expected a list, got dict"),
        (AgentTrace.from_spans, [{"name": "a", "attributes": []}], r"spans\[0\].attributes: expected an object"),
    ],
)
def test_what_holds_no_messages_or_spans_is_refused(read, given, complaint):
    with pytest.raises(ValueError, match=complaint):
        read(given)


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


@pytest.mark.parametrize(
    "spans", [[], [{"name": "agent", "attributes": {"gen_ai.operation.name": "invoke_agent"}}]], ids=["none", "agent"]
)
def test_spans_of_an_agent_show_that_it_called_no_tool(spans):
    assert AgentTrace.from_spans(spans).case().calls_unseen is None


@pytest.mark.parametrize("kind", [{"openinference.span.kind": "LLM"}, {"tool.synthesized": True}])
def test_a_tool_that_was_only_offered_or_made_up_was_not_called(kind):
    with pytest.warns(UserWarning, match="shows a tool call"):
        assert AgentTrace.from_spans([{"name": "pay", "attributes": {"tool.name": "pay", **kind}}]).tool_calls == ()


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


# ── recordings ───────────────────────────────────────────────────────────────────────────────────────────────────────


def read(spans: list[Any], logs: list[Any]) -> AgentTrace:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some recordings show no call
        return AgentTrace.from_spans(spans, logs=logs)


def test_a_recording_shows_the_same_calls_at_both_doors() -> None:
    recordings = fixtures()
    assert len(recordings) == 73
    for recording in recordings:
        turn = TraceEvidence(recording.spans, recording.logs).added_to(Turn("t", "run", "agent", "JSONRPC", "1.0", 0.0))
        spans, logs = list(map(sdk_span, recording.spans)), list(map(sdk_log, recording.logs))
        (own,) = read(spans, logs).turns
        assert list(own.tool_calls) == turn.tool_calls, recording.name
        assert (own.calls_unseen is None) == bool(turn.tool_calls or turn.shown_by), recording.name
        in_text = read(list(map(in_json, spans)), list(map(in_json, logs))).tool_calls
        assert list(map(timeless, in_text)) == list(map(timeless, turn.tool_calls)), recording.name


def timeless(call: ToolCall) -> ToolCall:
    return replace(call, started_at=None, ended_at=None)  # JSON has rounded them
