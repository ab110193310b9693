"""What an agent did, from its own messages and spans."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from a2a_tool_capture.models import ToolCall, ToolCallSource
from hypothesis import given
from hypothesis import strategies as st
from tool_call_evaluators import AgentTrace, EvalCase, Status, ToolDefinition, ToolTrajectory, evaluate, get_evaluator
from tool_call_evaluators.agent_trace import TraceTurn
from tool_call_evaluators.importers.dokimos import eval_test_case

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


def without_errors(turns):
    """Chat messages do not say that a result is an error."""
    first, *rest = turns
    lookup, mail = first.tool_calls
    told = ToolCall(mail.name, mail.arguments, mail.id, mail.error)
    return (TraceTurn(first.user_text, (lookup, told), first.response_text), *rest)


@pytest.mark.statement(249, 250)
def test_chat_completion_messages():
    assert AgentTrace.from_openai_messages(CHAT).turns == without_errors(EXPECTED)


def test_responses_items():
    items = [
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
    assert AgentTrace.from_openai_messages(items).turns == without_errors(EXPECTED)


@pytest.mark.statement(239)
def test_reasoning_of_openai_models():
    items = [
        {"role": "user", "content": "Where is 7?"},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "It is an order."}]},
        {"type": "function_call", "call_id": "c1", "name": "lookup", "arguments": "{}"},
        {"role": "assistant", "content": "Sent.", "reasoning_content": "The result says so."},
    ]
    trace = AgentTrace.from_openai_messages(items)
    assert trace.case().reasoning_steps == ("It is an order.", "The result says so.")


class Dumped:
    """An object of an SDK: pydantic's interface, nothing else."""

    def __init__(self, data):
        self._data = data

    def model_dump(self):
        return self._data


def test_objects_of_an_sdk():
    assert AgentTrace.from_openai_messages(map(Dumped, CHAT)).turns == without_errors(EXPECTED)


def test_old_and_odd_openai_messages():
    messages = [
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
    (turn,) = AgentTrace.from_openai_messages(messages).turns
    assert (turn.user_text, turn.response_text) == ("a\nb", "Let me see")
    assert turn.tool_calls == (ToolCall("f", {}, "", "1"), ToolCall("g", None, "x"), ToolCall("h", None, "y"))


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


@pytest.mark.parametrize(
    "form",
    [
        dict,
        lambda m: SimpleNamespace(**m),
        Dumped,
        lambda m: {"type": m["type"], "data": m},
        lambda m: {"lc": 1, "type": "constructor", "id": ["langchain", "schema", CLASSES[m["type"]]], "kwargs": m},
        lambda m: {**{key: value for key, value in m.items() if key != "type"},
                   "role": {"human": "user", "ai": "assistant"}.get(m["type"], m["type"])},
    ],
    ids=["dict", "object", "pydantic", "messages_to_dict", "dumpd", "role"],
)  # fmt: skip
def test_langchain_messages(form):
    assert AgentTrace.from_langchain_messages(map(form, LANGCHAIN)).turns == EXPECTED


def test_an_invalid_langchain_call():
    messages = [
        {
            "type": "ai",
            "content": "",
            "invalid_tool_calls": [{"name": "f", "args": "{oo", "id": "1", "error": "bad JSON"}],
        }
    ]
    (turn,) = AgentTrace.from_langchain_messages(messages).turns
    assert turn.tool_calls == (ToolCall("f", None, "1", None, "bad JSON"),)


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


def semconv(name, start, **attributes):
    named = {f"gen_ai.tool.{key}": value for key, value in attributes.items()}
    return {
        "name": f"execute_tool {name}",
        "attributes": {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name, **named},
        "start_time": start,
    }


def test_spans_of_the_semantic_conventions_in_order_of_time():
    spans = [
        {"name": "chat gpt", "attributes": {"gen_ai.operation.name": "chat"}, "start_time": 0},
        {
            **semconv("mail", "2026-01-31T12:00:02+00:00", **{"call.id": "c2", "call.arguments": {"to": "Ann"}}),
            "status": {"code": "ERROR", "message": "no such address"},
        },
        semconv(
            "lookup",
            int(NOON.timestamp()) * 10**9,
            **{"call.id": "c1", "call.arguments": '{"id": "7"}', "call.result": "sent"},
        ),
    ]
    (turn,) = AgentTrace.from_spans(spans, user_text="u", response_text="r").turns
    first, second = turn.tool_calls
    assert (first.name, first.arguments, first.id, first.result, first.error) == (
        "lookup",
        {"id": "7"},
        "c1",
        "sent",
        None,
    )
    assert (second.name, second.arguments, second.id, second.result) == ("mail", {"to": "Ann"}, "c2", None)
    assert second.error == "no such address"
    assert (first.started_at, first.source) == (NOON, ToolCallSource.OTEL_TRACE)
    assert (turn.user_text, turn.response_text) == ("u", "r")


def test_spans_of_openinference_and_of_an_sdk():
    status = SimpleNamespace(status_code=SimpleNamespace(name="ERROR"), description=None)
    span = SimpleNamespace(
        name="mail",
        attributes={
            "openinference.span.kind": "TOOL",
            "input.value": "Ann",
            "output.value": "{}",
            "error.type": "Timeout",
        },
        start_time=1,
        end_time=2,
        status=status,
    )
    (call,) = AgentTrace.from_spans([span]).tool_calls
    assert (call.name, call.arguments, call.result, call.error) == ("mail", None, None, "{}")


def test_plain_spans_and_what_is_none():
    spans = [
        {"name": "b", "arguments": {"x": 1}, "result": {"y": 2}, "start_time": NOON},
        {"name": "a", "arguments": None, "error": "e", "status": "OK", "start_time": "no time"},
        {"name": "tools/list"},
        None,
    ]
    calls = AgentTrace.from_spans(spans).tool_calls
    assert [(call.name, call.arguments, call.result, call.error) for call in calls] == [
        ("a", None, None, "e"),  # without a time
        ("b", {"x": 1}, '{"y": 2}', None),
    ]


# ── use ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_case_of_a_turn_has_the_turns_before_it():
    trace = AgentTrace.from_langchain_messages(LANGCHAIN)
    last = trace.case(expected_response="Welcome")
    assert (last.user_text, last.response_text, last.expected_response) == ("Thanks", "Welcome", "Welcome")
    assert [turn.user_text for turn in last.history] == ["Where is 7? Write to Ann."]
    first = trace.case(0, expected_tool_calls=[{"name": "lookup", "arguments": {"id": "7"}}])
    assert ToolTrajectory(mode="superset").evaluate(first).score == 1.0
    assert first.history == ()
    with pytest.raises(IndexError):
        trace.case(2)


def test_a_conversation():
    trace = AgentTrace.from_langchain_messages(LANGCHAIN)
    case = trace.conversation(user_goal="g")
    assert [turn.user_text for turn in case.turns] == ["Where is 7? Write to Ann.", "Thanks"]
    assert isinstance(case, EvalCase)
    assert trace.tool_calls == (LOOKUP, MAIL)
    assert AgentTrace().conversation().turns == ()


TOOLS = [ToolDefinition("lookup")]


@pytest.mark.statement(238)
def test_a_trace_as_the_output_map_of_a_task():
    trace = AgentTrace.of([LOOKUP], "Sent.", ["Look it up."])
    assert trace.to_output_map() == {"output": "Sent.", "toolCalls": [LOOKUP], "reasoningSteps": ["Look it up."]}
    assert AgentTrace().to_output_map() == {"output": "", "toolCalls": [], "reasoningSteps": []}
    case = eval_test_case("Where is 7?", trace.to_output_map())
    assert case == trace.to_test_case("Where is 7?")


@pytest.mark.statement(240)
def test_a_trace_as_a_test_case():
    trace = AgentTrace.of([LOOKUP], "Sent.", user_text="Where is 7?")
    assert trace.to_test_case() == trace.case()
    assert trace.to_test_case("And 8?") == EvalCase(user_text="And 8?", tool_calls=[LOOKUP], response_text="Sent.")
    assert trace.to_test_case("And 8?", TOOLS).tools == tuple(TOOLS)
    whole = trace.to_test_case("And 8?", TOOLS, ["find 8"], constraints="be brief", expected_tool_calls=[])
    assert (whole.tasks, whole.constraints, whole.expected_tool_calls) == (("find 8",), ("be brief",), ())


@pytest.mark.statement(241)
@pytest.mark.parametrize("name", ["tool_call_validity", "tool_name_reliability", "task_completion"])
async def test_missing_tools_or_tasks_do_not_fail_an_evaluator(name):
    case = AgentTrace.of([LOOKUP], "Sent.").to_test_case("Where is 7?")
    (result,) = await evaluate(case, [get_evaluator(name)])
    assert result.status is Status.SKIPPED
    assert result.reason.startswith("not given: t")


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
    with pytest.raises(ValueError, match="expected_tool_calls: expected a list, got an object"):
        eval_test_case("Hi", {}, {"toolCalls": {}})


def test_of_expected_calls_in_the_maps_of_a_test_case_names_and_arguments_are_compared():
    recorded = {"name": "a", "arguments": {"x": 1}, "result": "done", "metadata": {"latency": 3}}
    case = eval_test_case("Hi", {"toolCalls": [{**recorded, "result": "later"}]}, {"toolCalls": [recorded]})
    assert ToolTrajectory().evaluate(case).score == 1.0


def test_outputs_without_calls_do_not_look_like_an_agent_that_called_none():
    case = eval_test_case("Hi", {"output": "Hello"}, {"toolCalls": []})
    result = ToolTrajectory().evaluate(case)
    assert (result.status, result.reason) == (Status.SKIPPED, "the outputs contain no toolCalls")
    assert ToolTrajectory().evaluate(eval_test_case("Hi", {"toolCalls": []}, {"toolCalls": []})).score == 1.0


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


def test_messages_are_found_in_what_holds_them_and_pairs_are_read():
    expected = (TraceTurn("hi", (), "hello"),)
    said = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]
    assert AgentTrace.from_openai_messages({"model": "m", "messages": said}).turns == expected
    assert AgentTrace.from_langchain_messages({"messages": [("human", "hi"), ("ai", "hello")]}).turns == expected
    assert AgentTrace.from_openai_messages(iter(said)).turns == expected
    assert AgentTrace.from_openai_messages([]).turns == ()
