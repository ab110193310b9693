"""The spans of a turn as tool calls: grouped, completed from messages, in order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from a2a_tool_capture.spans.messages import transcripts
from a2a_tool_capture.spans.model import KIND_CLIENT, KIND_SERVER, CutText, LogEvent, Span, SpanEvent
from a2a_tool_capture.spans.observations import Lineage, group, read_span
from a2a_tool_capture.spans.tool_calls import RequestedCalls, tool_calls
from golden.spans.building import (
    OTHER_TRACE,
    START,
    TRACE,
    a_span,
    a_tool_span,
    an_llm_span,
    answers,
    asks,
    exception,
    user,
)

PARIS = {"city": "Paris"}
ZURICH = {"city": "Zürich"}


def convert(*spans: Span, logs: list[LogEvent] | None = None) -> list[tuple[str, str, Any, str | None, str | None]]:
    calls = tool_calls(spans, logs or []).tool_calls
    return [(call.id, call.name, call.arguments, call.result, call.error) for call in calls]


@pytest.mark.parametrize(
    ("asked", "ran", "filled_in"),
    [
        (PARIS, PARIS | {"units": "metric"}, ("units",)),
        (PARIS, PARIS, ()),
        ({}, PARIS, ()),
        ({"at": PARIS}, {"at": PARIS | {"units": "metric"}, "n": 1}, ("n",)),
        ({"city": "Rome"}, PARIS | {"units": "metric"}, ()),
    ],
)
def test_what_the_model_did_not_ask_for_are_the_tools_defaults(
    asked: dict[str, Any], ran: dict[str, Any], filled_in: tuple[str, ...]
) -> None:
    spans = [
        an_llm_span(1, [user()], [asks(("call_1", "get_weather", asked))]),
        a_tool_span(2, call_id="call_1", arguments=ran),
    ]
    [call] = tool_calls(spans).tool_calls
    assert (call.arguments, call.default_arguments) == (ran, filled_in)


@pytest.mark.parametrize("with_tool_spans", [True, False])
def test_a_call_that_only_messages_show_is_one(with_tool_spans: bool) -> None:
    """One with invalid arguments, for example, which the framework did not run."""
    call = asks(("call_1", "get_weather", PARIS), ("call_2", "delete_all", {}))
    spans = [an_llm_span(1, [user()], [call])] + ([a_tool_span(2, at=1)] if with_tool_spans else [])

    assert sorted(found[1] for found in convert(*spans)) == ["delete_all", "get_weather"]


def test_log_events_alone_tell_the_calls() -> None:
    log = LogEvent(
        TRACE,
        "",
        "gen_ai.client.inference.operation.details",
        START,
        attributes={"gen_ai.output.messages": [asks(("call_1", "get_weather", PARIS))]},
    )

    assert convert(logs=[log, log]) == [("call_1", "get_weather", PARIS, None, None)]


def test_times_are_utc_to_the_microsecond() -> None:
    span = Span(TRACE, "1" * 16, start_ns=1_500_000_000_123_456_789, end_ns=0, attributes=a_tool_span(1).attributes)

    (call,) = tool_calls([span]).tool_calls
    impossible = [replace(span, start_ns=start_ns, end_ns=start_ns) for start_ns in (0, -5, 2**70)]

    assert call.to_dict()["started_at"] == "2017-07-14T02:40:00.123456Z"
    assert call.ended_at == call.started_at
    for span in impossible:
        (call,) = tool_calls([span]).tool_calls
        assert (call.started_at, call.ended_at) == (None, None)


def test_the_fuller_of_two_versions_of_a_span_counts() -> None:
    early, late = a_tool_span(1, took=0), a_tool_span(1, arguments=PARIS, result="Sunny", took=1)

    assert convert(early, late) == convert(late, early) == [("", "get_weather", PARIS, "Sunny", None)]


def test_what_is_not_known_of_a_call_is_a_finding() -> None:
    (unknown,) = tool_calls([a_tool_span(1), a_tool_span(2, arguments={}, at=1)]).findings
    (cut,) = tool_calls([a_tool_span(1, arguments={}, result=CutText("x" * 9))]).findings

    assert (unknown.code, cut.code) == ("trace_arguments_unknown", "trace_result_cut")
    assert unknown.message.startswith("1 of 2 ")


EXECUTES = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "get_weather"}


@pytest.mark.parametrize(
    ("attributes", "events"),
    [
        (
            EXECUTES
            | {
                "gcp.vertex.agent.tool_call_args": '{"city": "Paris"}',
                "gcp.vertex.agent.tool_response": '{"result": "Sunny"}',
            },
            (),
        ),
        (
            EXECUTES | {"gen_ai.tool.status": "success"},
            (
                SpanEvent("gen_ai.tool.message", START, {"content": '{"city": "Paris"}'}),
                SpanEvent("gen_ai.choice", START, {"message": '[{"text": "Sunny"}]'}),
            ),
        ),
        (
            {"gen_ai.tool.name": "get_weather", "tool_arguments": '{"city": "Paris"}', "tool_response": "Sunny"},
            (),
        ),
    ],
    ids=["google-adk", "strands", "pydantic-ai 2"],
)
def test_attributes_of_a_framework_tell_it_in_any_scope(
    attributes: dict[str, Any], events: tuple[SpanEvent, ...]
) -> None:
    """A collector, or an instrumentation that builds on another, may have renamed the scope."""
    assert convert(a_span(1, attributes, name="running tool", scope="renamed", events=events)) == [
        ("", "get_weather", PARIS, "Sunny", None)
    ]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(
            [
                an_llm_span(1, [user()], [asks(("call_1", "get_weather", PARIS))]),
                *(a_tool_span(number, arguments=PARIS, at=number) for number in (2, 3)),
            ],
            [("call_1", "get_weather", PARIS, None, None), ("", "get_weather", PARIS, None, None)],
            id="an id is given to one call only",
        ),
        pytest.param(
            [
                an_llm_span(
                    1,
                    [user()],
                    [asks(("call_1", "get_weather", PARIS), ("call_2", "transfer_to_billing", {}))],
                    scope="openinference.instrumentation.openai_agents",
                ),
                a_tool_span(2, at=1),
            ],
            [("call_1", "get_weather", PARIS, None, None)],
            id="a handoff to another agent is no call",
        ),
        pytest.param(
            [
                an_llm_span(1, [user()], [asks(("call_1", "get_weather", PARIS))]),
                an_llm_span(
                    2,
                    [user(), asks(("call_1", "get_weather", PARIS)), answers("call_1", "Sunny")],
                    [],
                    trace=OTHER_TRACE,
                    at=1,
                ),
            ],
            [("call_1", "get_weather", PARIS, "Sunny", None)],
            id="without tool spans the messages tell the calls",
        ),
        pytest.param(
            [
                a_tool_span(9, "a", {}, at=1),
                a_tool_span(8, "b", {}, at=1),
                a_tool_span(7, "c", {}, at=0),
                an_llm_span(1, [user()], [asks(("call_1", "a", {}), ("call_2", "b", {}))], at=0.5),
            ],
            [("", "c", {}, None, None), ("call_1", "a", {}, None, None), ("call_2", "b", {}, None, None)],
            id="calls are in order of start and parallel ones as asked",
        ),
        pytest.param(
            [
                a_tool_span(1, call_id="call_1", took=3),
                a_tool_span(2, arguments=PARIS, parent=1, at=1),
                a_tool_span(3, result="Sunny", parent=2, at=1.5),
            ],
            [("call_1", "get_weather", PARIS, "Sunny", None)],
            id="a call is merged field by field",
        ),
        pytest.param(
            [
                a_tool_span(1, arguments=PARIS, result="Error: no such city", took=3),
                a_tool_span(2, parent=1, at=1, error="no such city"),
            ],
            [("", "get_weather", PARIS, None, "no such city")],
            id="an error wins over a result",
        ),
        pytest.param(
            [
                a_tool_span(1, arguments=PARIS, result="Error: no such city"),
                a_span(
                    2,
                    {"mcp.method.name": "tools/call", "gen_ai.tool.name": "get_weather", "error.type": "tool_error"},
                    parent=1,
                    kind=KIND_SERVER,
                    error="",
                ),
            ],
            [("", "get_weather", PARIS, None, "Error: no such city")],
            id="a result tells more than the type of an error",
        ),
        pytest.param(
            [
                an_llm_span(1, [user()], [asks(("call_1", "get_weather", PARIS), ("call_2", "get_weather", ZURICH))]),
                a_tool_span(2, arguments=ZURICH, at=1),
                a_tool_span(3, arguments=PARIS, at=2, result="Sun"),
                an_llm_span(
                    4,
                    [
                        user(),
                        asks(("call_1", "get_weather", PARIS), ("call_2", "get_weather", ZURICH)),
                        answers("call_1", "Sunny"),
                        answers("call_2", "Rain"),
                    ],
                    [],
                    at=4,
                ),
            ],
            [("call_2", "get_weather", ZURICH, "Rain", None), ("call_1", "get_weather", PARIS, "Sun", None)],
            id="ids and results come from the messages",
        ),
        pytest.param(
            [
                an_llm_span(
                    1,
                    [user()],
                    [
                        asks(
                            ("call_1", "get_weather", PARIS),
                            ("call_2", "get_time", {}),
                            ("call_3", "get_weather", ZURICH),
                        )
                    ],
                ),
                a_tool_span(2, at=1),
                a_tool_span(3, at=2),
                a_tool_span(4, "get_time", at=3),
            ],
            [
                ("call_1", "get_weather", PARIS, None, None),
                ("call_3", "get_weather", ZURICH, None, None),
                ("call_2", "get_time", {}, None, None),
            ],
            id="unknown arguments come from the messages by name in order",
        ),
        pytest.param(
            [an_llm_span(1, [user()], [asks(("", "get_weather", PARIS))]), a_tool_span(2, call_id="x", at=1)],
            [("x", "get_weather", PARIS, None, None)],
            id="arguments come from messages without ids too",
        ),
        pytest.param(
            [
                an_llm_span(1, [user()], [asks(("call_1", "get_weather", PARIS))]),
                a_tool_span(2, arguments=PARIS | {"units": "metric"}),
            ],
            [("call_1", "get_weather", PARIS | {"units": "metric"}, None, None)],
            id="defaults that a framework fills in do not hide the call",
        ),
        pytest.param(
            [
                an_llm_span(
                    1,
                    [user("first"), asks(("call_1", "get_weather", PARIS)), answers("call_1", "Sunny"), user("second")],
                    [],
                ),
                a_tool_span(2, arguments=PARIS),
            ],
            [("", "get_weather", PARIS, None, None)],
            id="an earlier turns call lends nothing",
        ),
        pytest.param(
            [
                an_llm_span(1, [user()], [asks(("call_1", "trip_get_weather", PARIS), ("call_2", "add", {"a": 1}))]),
                a_span(
                    2,
                    {"mcp.method.name": "tools/call", "gen_ai.tool.name": "get_weather"},
                    kind=KIND_CLIENT,
                    at=1,
                    scope="mcp",
                ),
            ],
            [("call_2", "add", {"a": 1}, None, None), ("call_1", "trip_get_weather", PARIS, None, None)],
            id="spans of mcp do not tell of the agents own tools",
        ),
        pytest.param(
            [an_llm_span(1, [user()], [asks(("call_1", "final_result", {"city": "Paris"}))], scope="pydantic-ai")],
            [],
            id="a frameworks answering tool is no call",
        ),
        pytest.param(
            [
                an_llm_span(1, [user(), asks(("call_1", "get_weather", PARIS)), answers("call_1", "no such city")], []),
                a_span(
                    2,
                    {
                        "gen_ai.operation.name": "execute_tool",
                        "gen_ai.tool.name": "get_weather",
                        "error.type": "TOOL_ERROR",
                    },
                    at=1,
                    error="TOOL_ERROR",
                ),
            ],
            [("call_1", "get_weather", PARIS, "no such city", "TOOL_ERROR")],
            id="an error that is but a type keeps the answer",
        ),
        pytest.param(
            [
                an_llm_span(1, [user(), asks(("call_1", "get_weather", PARIS)), answers("call_1", "Error!")], []),
                a_tool_span(2, arguments=PARIS, at=1, error="", events=(exception("no such city"),)),
            ],
            [("call_1", "get_weather", PARIS, None, "no such city")],
            id="a told error leaves no result",
        ),
    ],
)
def test_the_calls_in_spans(given: list[Any], expected: Any) -> None:
    """Spans, and their calls."""
    assert convert(*given) == expected


def groups(*spans: Span) -> list[list[int]]:
    """The span numbers of each call, calls by start, spans outermost first."""
    observations = [observation for span in spans if (observation := read_span(span))]
    found, _ = group(observations, Lineage(spans))
    return [[int(observation.span.span_id, 16) for observation in one.observations] for one in found]


def an_mcp_span(number: int, tool: str = "get_weather", **span: Any) -> Span:
    return a_span(number, {"mcp.method.name": "tools/call", "gen_ai.tool.name": tool}, scope="mcp", **span)


@pytest.mark.parametrize(
    ("spans", "expected", "code"),
    [
        (
            [
                a_tool_span(1, arguments=PARIS, call_id="call_0"),
                a_tool_span(2, arguments=ZURICH, call_id="call_0", at=5),
                a_tool_span(3, arguments=PARIS, call_id="call_0", at=9),
            ],
            [[1, 3], [2]],
            "id_reused",
        ),
        (
            [a_tool_span(1, "a", call_id="call_0"), a_tool_span(2, "b", call_id="call_0", at=1)],
            [[1], [2]],
            "id_conflict",
        ),
    ],
)
def test_an_id_of_two_calls_is_a_finding(spans: list[Span], expected: list[list[int]], code: str) -> None:
    (finding,) = tool_calls(spans).findings[:1]

    assert groups(*spans) == expected
    assert (finding.code, "call_0" in finding.message) == (code, True)


def test_spans_between_two_observations_may_be_anything_but_an_agent() -> None:
    outer, inner = a_tool_span(1, call_id="call_1"), a_tool_span(4, parent=3)
    http = [a_span(2, {"http.request.method": "POST"}, parent=1), a_span(3, {}, parent=2)]
    agent = [a_span(2, {"gen_ai.operation.name": "invoke_agent"}, parent=1), a_span(3, {}, parent=2)]

    assert groups(outer, *http, inner) == [[1, 4]]
    assert groups(outer, *agent, inner) == [[1], [4]]


@pytest.mark.parametrize(
    "other",
    [
        a_tool_span(2, arguments=PARIS, scope="traceloop", at=5),
        a_tool_span(2, arguments=ZURICH, scope="traceloop"),
        a_tool_span(2, "get_time", arguments=PARIS, scope="traceloop"),
        a_tool_span(2, arguments=PARIS, scope="traceloop", call_id="call_2"),
    ],
    ids=["later", "other arguments", "other tool", "other id"],
)
def test_two_instrumentations_see_two_calls(other: Span) -> None:
    assert len(groups(a_tool_span(1, arguments=PARIS, scope="openinference", call_id="call_1"), other)) == 2


def test_parents_in_a_circle_end_nowhere() -> None:
    spans = [
        a_tool_span(1, parent=2, call_id="call_1"),
        a_tool_span(2, parent=1, call_id="call_2"),
        a_span(3, parent=3),
    ]

    assert groups(*spans) == [[1], [2]]
    assert [span.span_id for span in Lineage(spans).ancestors(spans[2].key)] == []


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(
            [a_tool_span(1, call_id="call_1"), a_tool_span(2, call_id="call_1", at=5)],
            [[1, 2]],
            id="the same id is one call",
        ),
        pytest.param(
            [*[a_tool_span(number, arguments=PARIS, at=number) for number in (1, 2, 3)]],
            [[1], [2], [3]],
            id="repeats are real",
        ),
        pytest.param(
            [a_tool_span(1, arguments=PARIS), a_tool_span(2, arguments=PARIS)],
            [[1], [2]],
            id="parallel repeats of one instrumentation are real",
        ),
        pytest.param(
            [
                a_tool_span(1, arguments=PARIS, call_id="call_1", took=4),
                an_mcp_span(2, parent=1, kind=KIND_CLIENT, at=1, took=3),
                a_span(
                    3, {"mcp.method.name": "tools/call"}, name="MCP send tools/call get_weather", parent=2, at=2, took=2
                ),
                an_mcp_span(4, parent=3, kind=KIND_SERVER, at=3),
            ],
            [[1, 2, 3, 4]],
            id="agent client transport and server are one call",
        ),
        pytest.param(
            [a_tool_span(1, "plan"), a_tool_span(2, "get_weather", parent=1)],
            [[1], [2]],
            id="a tool that calls another tool is two calls",
        ),
        pytest.param(
            [a_tool_span(1, arguments=PARIS), a_tool_span(2, arguments=ZURICH, parent=1)],
            [[1], [2]],
            id="a tool that calls itself for something else is two calls",
        ),
        pytest.param(
            [a_tool_span(1, call_id="call_1"), a_tool_span(2, call_id="call_2", parent=1)],
            [[1], [2]],
            id="two ids are two calls even if nested",
        ),
        pytest.param(
            [
                a_tool_span(1, arguments=PARIS),
                a_tool_span(2, arguments=PARIS | {"units": "metric"}, parent=1),
                a_tool_span(3, arguments={"at": PARIS}),
                a_tool_span(4, arguments={"at": PARIS | {"n": 1}}, parent=3),
            ],
            [[1, 2], [3, 4]],
            id="an inner layer may fill in defaults",
        ),
        pytest.param(
            [
                a_tool_span(1, arguments=PARIS, took=9),
                an_mcp_span(2, parent=1, kind=KIND_CLIENT, at=1),
                an_mcp_span(3, parent=1, kind=KIND_CLIENT, at=3),
            ],
            [[1, 2, 3]],
            id="retries below one call are that call",
        ),
        pytest.param(
            [a_tool_span(1, "mcp__trip__get_weather"), an_mcp_span(2, parent=1, kind=KIND_CLIENT)],
            [[1, 2]],
            id="the agent may know the tool by a prefix",
        ),
        pytest.param(
            [an_mcp_span(2, parent=1, kind=KIND_SERVER, at=-3), a_tool_span(1)],
            [[1, 2]],
            id="a server whose clock is early is not the outermost",
        ),
        pytest.param(
            [
                a_tool_span(1, arguments=PARIS, scope="openinference"),
                a_tool_span(2, arguments='{"city":"Paris"}', scope="traceloop", at=0.1),
            ],
            [[1, 2]],
            id="two instrumentations see one call",
        ),
        pytest.param(
            [
                *[
                    a_tool_span(number, arguments=PARIS, scope=scope, at=number / 10, took=5)
                    for number, scope in enumerate(["a", "b", "a", "b", "a", "b"], start=1)
                ]
            ],
            [[1, 2], [3, 4], [5, 6]],
            id="two instrumentations see parallel repeats one with one",
        ),
        pytest.param(
            [*[a_tool_span(number, arguments=PARIS, scope=scope) for number, scope in enumerate("abc", start=1)]],
            [[1, 2, 3]],
            id="three instrumentations see one call",
        ),
        pytest.param(
            [
                a_tool_span(1, arguments=PARIS, scope="a", took=2),
                a_tool_span(2, arguments=ZURICH, scope="a", at=3, took=2),
                a_tool_span(3, scope="b", at=1),
                a_tool_span(4, scope="b", at=4),
                a_tool_span(5, "get_time", scope="b", at=4),
            ],
            [[1, 3], [2, 4], [5]],
            id="unknown arguments match by name and time",
        ),
        pytest.param(
            [a_tool_span(1, arguments={}, scope="a"), a_tool_span(2, arguments=PARIS, scope="b")],
            [[1], [2]],
            id="known arguments that differ are not matched for lack of better",
        ),
        pytest.param(
            [an_mcp_span(1, kind=KIND_CLIENT, took=2), an_mcp_span(2, kind=KIND_SERVER, trace=OTHER_TRACE, at=0.5)],
            [[1, 2]],
            id="a server that does not continue the trace is found by time",
        ),
        pytest.param(
            [
                *[
                    Span("1" * 32, f"{number:016x}", attributes=a_tool_span(1, arguments=PARIS).attributes, scope=scope)
                    for number, scope in enumerate("ab", start=1)
                ]
            ],
            [[1], [2]],
            id="spans without times do not overlap",
        ),
    ],
)
def test_which_spans_are_of_one_call(given: list[Any], expected: Any) -> None:
    """Spans, and the numbers of those of each call."""
    assert groups(*given) == expected


def read(*spans: Span) -> list[tuple[str, str, Any, str | None]]:
    found = RequestedCalls(Lineage(spans).related).of(transcripts(spans, []))
    return [(call.call_id, call.name, call.arguments, call.answer) for call in found]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(
            [
                an_llm_span(1, [user()], [asks(("call_1", "w", PARIS), ("call_2", "f", {}))]),
                an_llm_span(
                    2,
                    [
                        user(),
                        asks(("call_1", "w", PARIS), ("call_2", "f", {})),
                        *[answers("call_1", "Sunny"), answers("call_2", {"n": 1})],
                    ],
                    [asks(("call_3", "w", PARIS))],
                    at=1,
                ),
                an_llm_span(
                    3,
                    [
                        user(),
                        asks(("call_1", "w", PARIS), ("call_2", "f", {})),
                        *[answers("call_1", "Sunny"), answers("call_2", {"n": 1})],
                        asks(("call_3", "w", PARIS)),
                        answers("call_3", "Rain"),
                    ],
                    [],
                    at=2,
                ),
            ],
            [("call_1", "w", PARIS, "Sunny"), ("call_2", "f", {}, '{"n": 1}'), ("call_3", "w", PARIS, "Rain")],
            id="the history of later model calls adds nothing but answers",
        ),
        pytest.param(
            [
                an_llm_span(
                    1,
                    [user("first"), asks(("call_1", "w", PARIS)), answers("call_1", "Sunny"), user("second")],
                    [asks(("call_2", "w", PARIS))],
                )
            ],
            [("call_2", "w", PARIS, None)],
            id="an earlier turn is not this one",
        ),
        pytest.param(
            [
                an_llm_span(1, [user()], [asks(("", "w", PARIS))]),
                an_llm_span(2, [user(), asks(("", "w", PARIS))], [asks(("", "w", PARIS))], at=1),
                an_llm_span(3, [user(), asks(("", "w", PARIS)), asks(("", "w", PARIS))], [], at=2),
            ],
            [("", "w", PARIS, None)] * 2,
            id="without ids repeats are counted by outputs",
        ),
        pytest.param(
            [
                an_llm_span(1, [user()], [asks(("fc_1", "w", PARIS))]),
                an_llm_span(2, [user(), asks(("call_1", "w", PARIS)), answers("call_1", "Sunny")], [], at=1),
            ],
            [("call_1", "w", PARIS, "Sunny")],
            id="item ids are replaced by the call ids of the history",
        ),
        pytest.param(
            [
                an_llm_span(1, [user()], [asks(("call_1", "w", PARIS))]),
                an_llm_span(2, [answers("call_1", "Sunny")], at=1),
            ],
            [("call_1", "w", PARIS, "Sunny")],
            id="an answer may come without its call",
        ),
        pytest.param(
            [
                an_llm_span(1, [user(), asks(("", "w", PARIS))]),
                an_llm_span(2, [user(), *[asks(("", "w", PARIS))] * 2], at=1),
            ],
            [("", "w", PARIS, None)] * 2,
            id="without ids or outputs repeats are counted by the longest history",
        ),
        pytest.param(
            [
                an_llm_span(1, [user()], [asks(("", "w", PARIS))] * 2, took=9),
                an_llm_span(2, [user()], [asks(("", "w", PARIS))], parent=1, at=1),
                an_llm_span(3, [user(), asks(("", "w", PARIS))], [asks(("", "w", PARIS))], parent=1, at=2),
            ],
            [("", "w", PARIS, None)] * 2,
            id="the span of an agent repeats what its model calls gave",
        ),
        pytest.param(
            [
                an_llm_span(1, [user()], [asks(("call_1", "w", PARIS))]),
                an_llm_span(2, [], [asks(("call_1", "f", {}))]),
            ],
            [("call_1", "w", PARIS, None), ("call_1", "f", {}, None)],
            id="one id for two tools is two calls",
        ),
        pytest.param(
            [
                an_llm_span(1, [user()], [asks(("call_1", "w", PARIS))]),
                an_llm_span(2, [user(), asks(("call_1", "w", PARIS))], [], trace=OTHER_TRACE, at=1),
            ],
            [("call_1", "w", PARIS, None)],
            id="model calls may be in traces of their own",
        ),
        pytest.param(
            [
                an_llm_span(1, [user()], [asks(("", "w", PARIS))]),
                an_llm_span(2, [user()], [asks(("call_1", "w", PARIS))], at=1),
            ],
            [("call_1", "w", PARIS, None)],
            id="an id that comes later is that of the call",
        ),
    ],
)
def test_what_the_model_asked_for(given: list[Any], expected: Any) -> None:
    """Spans of model calls, and the calls in their messages."""
    assert read(*given) == expected
