"""Calls that agents report in their framework's way: read from real google-adk traffic, and from junk."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from a2a_tool_capture import METADATA_KEY, URI, TaskMerger, ToolCall, ToolCallSource
from a2a_tool_capture.client import CaptureClient
from a2a_tool_capture.dialect import known_dialects
from a2a_tool_capture.errors import ConfigurationError
from a2a_tool_capture.function_parts import ASKS_THE_USER
from a2a_tool_capture.wire import normalize_event
from hypothesis import given
from hypothesis import strategies as st
from support import merging
from support.junk import almost_events, json_values
from support.merging import unknown_by

RECORDED = Path(__file__).parents[1] / "golden" / "dialects"

Event = dict[str, Any]

WEATHER = ("get_weather", {"city": "Zürich"}, "Sunny, 21C in Zürich", None)
FLIGHTS = (
    "find_flights",
    {"query": {"to": "NYC"}, "max_results": 3},
    {"count": 3, "flights": [{"id": "AF 006", "price": 512.5}]},
    None,
)
CODE = {"code": "print(6 * 7)", "language": "PYTHON"}

EXPECTED: dict[str, list[list[tuple[Any, ...]]]] = {
    "tools": [[WEATHER, FLIGHTS, WEATHER]],
    "error": [[("book_hotel", {"hotel_id": "H-404"}, None, "hotel H-404 not found")]],
    "code": [
        [("code_execution", CODE, "42\n", None), ("code_execution", CODE, None, "OUTCOME_DEADLINE_EXCEEDED: too slow")]
    ],
    "wait": [[("ask_manager", {"amount": 100}, None, None)]],
    "confirm": [
        [("refund", {"order": "A-1"}, None, "This tool call requires confirmation, please approve or reject.")],
        [("refund", {"order": "A-1"}, "refunded A-1", None)],
    ],
}
"""By scenario and turn: name, arguments, result (as JSON where it is), error."""


RECORDINGS = [
    (path.stem, path.stem.rpartition("-")[2], way)
    for path in sorted(RECORDED.glob("*.json"))
    for way in ("stream", "send", "stream-v0.3")
]
"""File, scenario, way of asking."""

TRACE_KEY = known_dialects()["traceability"].key


def told(call: ToolCall) -> tuple[Any, ...]:
    result = call.result
    if result is not None and result.startswith("{"):
        result = json.loads(result)
    return (call.name, call.arguments, result, call.error)


def events_of(name: str, way: str) -> list[list[Event]]:
    turns = json.loads((RECORDED / f"{name}.json").read_text("utf-8"))[way]
    return [[event for result in turn if (event := normalize_event(result))] for turn in turns]


merged = partial(merging.merged, dialects=("adk", "kagent"))


# ── recorded ────────────────────────────────────────────────────────────────────────────────────────────────


def test_recorded_traffic_of_google_adk(subtests: pytest.Subtests) -> None:
    for name, scenario, way in RECORDINGS:
        with subtests.test(f"{name} {scenario} {way}"):
            merger = TaskMerger(dialects=["adk"])
            for expected, events in zip(EXPECTED[scenario], events_of(name, way), strict=True):
                merger.begin_turn()
                for event in events:
                    merger.feed(event)
                calls = merger.turn_tool_calls
                assert [told(call) for call in calls] == expected
                assert merger.findings == []
                asked = [call for call in calls if call.error and "requires confirmation" in call.error]
                assert [(call.name, call.arguments, call.id) for call in merger.waiting_calls] == [
                    (call.name, call.arguments, call.id) for call in asked
                ]
            assert {call.source for call in merger.tool_calls} == {ToolCallSource.ADK}
            ids = [call.id for call in merger.tool_calls if call.id]
            assert len(set(ids)) == len(ids) == (0 if scenario == "code" else len(merger.tool_calls))


# ── the traceability extension ──────────────────────────────────────────────────────────────────────────────

SEARCH = {
    "step_id": "s1",
    "call_type": "TOOL",
    "step_action": {"tool_invocation": {"tool_name": "search", "parameters": {"q": "Zürich", "n": 2.0}}},
    "total_tokens": 20,
}
SUB_AGENT = {
    "stepId": "s2",
    "parentStepId": "s1",
    "callType": "AGENT",
    "stepAction": {
        "agentInvocation": {
            "agentUrl": "http://refunds",
            "agentName": "refunds",
            "requests": {"text": "refund 4711"},
            "responseTrace": {"traceId": "t2", "steps": [{**SEARCH, "step_id": "s3"}]},
        }
    },
}
BY_HAND = {"step_id": "s4", "call_type": "TOOL", "name": "pay", "parameters": {"order": 1}, "error": "no money"}
NO_MORE = {"step_id": "s5", "call_type": "TOOL", "name": "x"}
SEARCHED = {"messageId": "m", "role": "ROLE_AGENT", "parts": [], "metadata": {TRACE_KEY: {"steps": [SEARCH]}}}
TRACED = [
    ("search", {"q": "Zürich", "n": 2}, None, None),
    ("refunds", {"text": "refund 4711"}, None, None),
    ("search", {"q": "Zürich", "n": 2}, None, None),
    ("pay", {"order": 1}, None, "no money"),
    ("x", None, None, None),
]


def traced(steps: Any, *, as_data: bool = False) -> Event:
    trace = {"trace_id": "t1", "steps": steps}
    held = {"parts": [{"data": trace}]} if as_data else {"parts": [], "metadata": {TRACE_KEY: trace}}
    return {"artifactUpdate": {"taskId": "t", "contextId": "c", "artifact": {"artifactId": "a", **held}}}


@pytest.mark.parametrize("as_data", [False, True])
def test_a_trace_of_the_traceability_extension(as_data: bool) -> None:
    """In both spellings of its keys, and as its own sample writes it; results are not in it."""
    event = traced([SEARCH, SUB_AGENT, {"call_type": "HOST", "name": "x"}, BY_HAND, NO_MORE], as_data=as_data)
    said = {"statusUpdate": {"taskId": "t", "status": {"state": "TASK_STATE_COMPLETED", "message": SEARCHED}}}
    merger = merged(event, event, said, dialects=("traceability",))
    assert [told(call) for call in merger.tool_calls] == TRACED
    assert {call.source for call in merger.tool_calls} == {ToolCallSource.TRACEABILITY}
    assert merger.findings == []
    assert merged(event).tool_calls == []


NO_STEPS: list[Any] = [{"trace_id": "t", "spans": [SEARCH]}, [SEARCH], "steps"]
UNKNOWN_STEP = {"step_id": "s9", "call_type": "SKILL", "name": "x"}


@pytest.mark.parametrize(
    ("event", "names", "codes"),
    [
        *(
            (traced(steps), [], ["malformed_entry"])
            for steps in (
                {},
                "steps",
                [1],
                [{"call_type": "TOOL"}],
                [{"call_type": "TOOL", "name": "x", "parameters": []}],
                [{"call_type": "AGENT", "name": 3}],
                [{"call_type": "AGENT", "name": "x", "response_trace": {"steps": 1}}],
            )
        ),
        (traced([SEARCH, UNKNOWN_STEP]), ["search"], ["unknown_kind"]),
        (traced([UNKNOWN_STEP], as_data=True), [], ["unknown_kind"]),
        (traced([{}]), [], ["unknown_kind"]),
        *(
            (
                {"artifactUpdate": {"artifact": {"artifactId": "a", "metadata": {TRACE_KEY: trace}}}},
                [],
                ["malformed_entry"],
            )
            for trace in NO_STEPS
        ),
    ],
)
def test_a_step_that_cannot_be_read_is_a_finding(event: Event, names: list[str], codes: list[str]) -> None:
    merger = merged(event, dialects=("traceability",))
    assert [call.name for call in merger.tool_calls][: len(names)] == names
    assert merging.codes(merger) == codes
    assert unknown_by(merger) is not None


# ── made up ─────────────────────────────────────────────────────────────────────────────────────────────────


def part(kind: str, data: Any, key: str = "adk_type") -> Event:
    return {"data": data, "metadata": {key: kind}}


def call_part(call_id: str = "1", name: str = "look", **args: Any) -> Event:
    return part("function_call", {"id": call_id, "name": name, "args": args})


def response_part(response: Any, call_id: str = "1", name: str = "look") -> Event:
    return part("function_response", {"id": call_id, "name": name, "response": response})


def said(*parts: Event, message_id: str = "m", role: str = "ROLE_AGENT") -> Event:
    message = {"messageId": message_id, "role": role, "parts": list(parts)}
    return {"statusUpdate": {"taskId": "t", "status": {"state": "TASK_STATE_WORKING", "message": message}}}


def shown(*parts: Event, artifact_id: str = "a", append: bool = False, **more: Any) -> Event:
    artifact = {"artifactId": artifact_id, "parts": list(parts), **more}
    return {"artifactUpdate": {"taskId": "t", "artifact": artifact, "append": append}}


@pytest.mark.parametrize("kind", ["mcp_call", "FUNCTION_CALL", 1, ["function_call"]])
def test_a_part_of_an_unknown_kind_leaves_the_calls_unknown(kind: Any) -> None:
    for told in (said(call_part(), part(kind, {"name": "pay"})), shown(part(kind, {"name": "pay"}))):
        assert unknown_by(merged(told)) == "unknown_kind"
        assert merged(told, dialects=()).findings == []


# ── bad input ───────────────────────────────────────────────────────────────────────────────────────────────


DEEP: Any = json.loads('{"a": ' * 900 + "1" + "}" * 900)


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("a2a_tool_capture.dialect.MAX_CALL_PARTS", 5)
    events = [said(call_part(f"{n}a"), call_part(f"{n}b"), message_id=f"m{n}") for n in range(5)]
    merger = merged(*events)
    assert [call.id for call in merger.tool_calls] == ["0a", "0b", "1a", "1b", "2a"]
    assert {finding.code for finding in merger.findings} == {"too_many_calls"}


kinds = st.sampled_from(
    ["code_execution_result", "executable_code", "function_call", "function_response", "tool_call", "tool_response"]
)
parts = st.builds(part, kinds, json_values, st.sampled_from([dialect.key for dialect in known_dialects().values()]))
holders = st.lists(parts | json_values, max_size=4)


@given(
    st.lists(
        almost_events | st.builds(lambda some: said(*some), holders) | st.builds(lambda some: shown(*some), holders)
    ),
    json_values,
)
def test_whatever_comes_is_read_without_raising(events: list[Any], steps: Any) -> None:
    for call in merged(*events).tool_calls:
        assert call.name
    merged(traced(steps), traced([steps], as_data=True), dialects=("traceability",))


names = st.sampled_from(["a", "b"])
ids = st.sampled_from(["", "1", "2"])
sayings = st.builds(call_part, ids, names) | st.builds(response_part, st.sampled_from(["x", "y"]), ids, names)


@given(st.lists(st.lists(sayings, max_size=3), max_size=4))
def test_the_history_of_a_task_says_what_its_stream_said(messages: list[list[Event]]) -> None:
    streamed = [said(*some, message_id=f"m{number}") for number, some in enumerate(messages)]
    history = [event["statusUpdate"]["status"]["message"] for event in streamed]
    task = {"task": {"id": "t", "status": {"state": "TASK_STATE_COMPLETED"}, "history": history}}
    calls = merged(*streamed).tool_calls
    assert merged(task).tool_calls == calls
    assert merged(*streamed, task).tool_calls == calls


def test_calls_have_times() -> None:
    merger = merged(dialects=["adk"])
    merger.feed(said(call_part()), 1.0)
    merger.feed(said(call_part(), response_part("x")), 2.0)
    assert [(call.first_seen_at, call.result_seen_at) for call in merger.tool_calls] == [(1.0, 2.0)]


def test_unknown_dialects_are_named() -> None:
    with pytest.raises(KeyError, match="latin"):
        TaskMerger(dialects=["latin"])
    with pytest.raises(ConfigurationError, match="unknown dialect 'latin'; expected one of adk, kagent"):
        CaptureClient("http://127.0.0.1:9", dialects=["latin"])


def extension_calls(*entries: Event) -> Event:
    return shown(artifact_id="v1", extensions=[URI], metadata={METADATA_KEY: list(entries)})


RESPONSES: list[tuple[Any, str | None, str | None]] = [
    ({"result": "x"}, "x", None),
    ({"result": None}, "null", None),
    ({"result": [1]}, "[1]", None),
    ({"a": 1}, '{"a": 1}', None),
    ({}, "{}", None),
    (None, "null", None),
    ("text", "text", None),  # kagent with LangGraph
    ({"error": "no"}, None, "no"),
    ({"error": None, "rows": 1}, '{"error": null, "rows": 1}', None),
    ({"result": "no", "isError": True}, None, "no"),  # kagent
    ({"content": [], "isError": True}, None, '{"content": [], "isError": true}'),  # MCP
    ({"content": [], "isError": False}, '{"content": [], "isError": false}', None),
]
"""What a response gives: the result and the error."""

SHAPES: list[Event] = [
    {"kind": "data", "data": {"id": "1", "name": "look", "args": {"q": 1}}},  # 0.3, JSON-RPC
    {"data": {"data": {"id": "1", "name": "look", "args": {"q": 1}}}},  # 0.3, HTTP+JSON
    {"data": {"id": "1", "name": "look", "args": {"q": 1}}, "mediaType": "application/json"},  # 1.0
]
UNFINISHED = part("function_call", {"id": "0", "name": "look", "willContinue": True})
LACKING: list[tuple[Event, Event]] = [
    (shown(call_part()), shown({"text": "done"})),
    (shown(call_part()), shown(call_part("2"))),
    (said(call_part(), call_part("2")), said(call_part("2"))),
    (shown(call_part()), {"task": {"id": "t", "artifacts": [{"artifactId": "a", "parts": []}]}}),
]
"""A report, and a later one that lacks a call."""

UNREADABLE = [
    part("function_call", None),
    part("function_call", []),
    part("function_call", {}),
    part("function_call", {"name": ""}),
    part("function_call", {"name": 1}),
    part("function_call", {"name": "look", "args": "x"}),
    part("function_call", {"name": "look", "id": 1}),
    part("function_response", {"response": "x"}),
    part("tool_call", {"name": "look"}),
    part("code_execution_result", {"outcome": []}),
]
OTHERS: list[Event] = [
    *({"data": {"name": "x"}, "metadata": {"adk_type": kind}} for kind in ("", "thought", None)),
    {"text": "x", "metadata": {"adk_type": "later"}},
]

KNOWN: dict[str, Callable[[Any], Any]] = {
    "calls": lambda found: found.tool_calls,
    "arguments and results": lambda found: [(call.arguments, call.result) for call in found.tool_calls],
    "ids": lambda found: [call.id for call in found.tool_calls],
    "arguments as JSON": lambda found: [json.dumps(call.arguments) for call in found.tool_calls],
    "codes": merging.codes,
    "unknown by": unknown_by,
    "codes and places": lambda found: [(finding.code, finding.where) for finding in found.findings],
    "number": lambda found: len(found.tool_calls),
    "told": lambda found: [told(call) for call in found.tool_calls],
    "ids and sources": lambda found: [(call.id, call.source.value) for call in found.tool_calls],
}
"""What is looked at, by name."""


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(
            [*(event for turn in events_of("adk-messages-confirm", "stream") for event in turn)],
            {"told": [("refund", {"order": "A-1"}, "refunded A-1", None)]},
            id="a confirmed call has the result of its last response",
        ),
        pytest.param(
            [said(call_part(), role="ROLE_USER"), said(call_part(), role="user")],
            {"calls": []},
            id="what the user says is no call",
        ),
        pytest.param(
            [
                said(
                    *[call_part(str(number), name) for number, name in enumerate(sorted(ASKS_THE_USER))],
                    *[response_part({}, str(number), name) for number, name in enumerate(sorted(ASKS_THE_USER))],
                )
            ],
            {"calls": []},
            id="questions of google adk to the user are no calls",
        ),
        pytest.param(
            [
                said(part("function_call", {"id": "0", "name": "look", "partialArgs": [{}], "willContinue": True})),
                said(call_part("1"), message_id="n"),
            ],
            {"ids": ["1"]},
            id="arguments that still stream are no call yet",
        ),
        pytest.param(
            [
                {
                    "task": {
                        "id": "t",
                        "timeline": [
                            {"message": {**said(call_part())["statusUpdate"]["status"]["message"], "messageId": "n"}},
                            {"status": {"message": said(call_part())["statusUpdate"]["status"]["message"]}},
                        ],
                    }
                }
            ],
            {"number": 1},
            id="calls in the timeline are read",
        ),
        pytest.param(
            [said(call_part(n=2.0, box=[0.0, 0.5]))],
            {"arguments as JSON": ['{"n": 2, "box": [0, 0.5]}']},
            id="whole numbers of arguments are integers",
        ),
        pytest.param(
            [
                said(
                    part("tool_call", {"id": "1", "toolType": "GOOGLE_SEARCH_WEB", "args": {"q": "x"}}),
                    part("tool_response", {"id": "1", "toolType": "GOOGLE_SEARCH_WEB", "response": {}}),
                )
            ],
            {"told": [("GOOGLE_SEARCH_WEB", {"q": "x"}, {}, None)]},
            id="tools of the provider are named by their type",
        ),
        pytest.param(
            [said(call_part(), part("function_response", {"id": "1", "response": {"result": "x"}}))],
            {"told": [("look", {}, "x", None)]},
            id="a response may leave the name out",
        ),
        pytest.param(
            [said(part("function_response", {"id": "1", "response": "x"}))],
            {"number": 0},
            id="a response alone without a name",
        ),
        pytest.param(
            [shown(call_part("1")), shown(call_part("2"), append=True)],
            {"ids": ["1", "2"]},
            id="chunks of an artifact add up",
        ),
        pytest.param(
            [shown(call_part("1")), shown(call_part("2"), append=True), shown(call_part("3"))],
            {"ids": ["3"]},
            id="a replacement replaces",
        ),
        *(
            pytest.param([said(*calls), shown(*calls)], {"number": len(calls)}, id=f"{len(calls)} in both")
            for calls in ([call_part()], [call_part("", q=1)] * 2)
        ),
        pytest.param(
            [
                said(call_part(q=1), response_part("x")),
                extension_calls({"id": "1", "name": "look", "arguments": {"q": 2}}),
            ],
            {"calls": [ToolCall("look", {"q": 2}, "1", "x", source=ToolCallSource.A2A_PROTOCOL)]},
            id="the extension wins by id",
        ),
        pytest.param(
            [
                said(call_part("0", q=1), message_id="1"),
                said(response_part({"result": "10"}, "0"), message_id="2"),
                said(call_part("0", q=2), message_id="3"),
                said(response_part({"result": "900"}, "0"), message_id="4"),
            ],
            {"arguments and results": [({"q": 1}, "10"), ({"q": 2}, "900")], "codes": ["id_reused"]},
            id="an id that is used again is of another call",
        ),
        pytest.param(
            [said(response_part({"result": "x"}))],
            {"calls": [ToolCall("look", None, "1", "x", source=ToolCallSource.ADK)]},
            id="a response alone is a call with unknown arguments",
        ),
        pytest.param(
            [said(*[call_part("", q=1), call_part("", q=2), response_part("a", ""), response_part("b", "")])],
            {"arguments and results": [({"q": 1}, "a"), ({"q": 2}, "b")]},
            id="responses without ids answer in order",
        ),
        pytest.param(
            [
                said(*[call_part("1", q=1), call_part("2", q=1), call_part("3", "other")]),
                extension_calls({"id": "own", "name": "look", "arguments": {"q": 1.0}, "result": "mine"}),
            ],
            {"ids and sources": [("own", "a2a_protocol"), ("2", "adk"), ("3", "adk")]},
            id="the extension wins by signature call by call",
        ),
        *(
            pytest.param(
                [said(call_part(q=1)), said(response_part(response), message_id="n")],
                {"calls": [ToolCall("look", {"q": 1}, "1", result, error, ToolCallSource.ADK)]},
                id=f"response {response}",
            )
            for response, result, error in RESPONSES
        ),
        *(
            pytest.param(
                [said({**wrapped, "metadata": {"adk_type": "function_call"}})],
                {"calls": [ToolCall("look", {"q": 1}, "1", source=ToolCallSource.ADK)]},
                id=f"data part {wrapped}",
            )
            for wrapped in SHAPES
        ),
        pytest.param([said(UNFINISHED)], {"unknown by": "calls_missed"}, id="arguments of which the end never comes"),
        pytest.param(
            [said(UNFINISHED), said(call_part(), message_id="n")], {"codes": []}, id="a call that came after all"
        ),
        *(
            pytest.param([*given, *more], {"unknown by": lost}, id=f"{given[1]} and then {more}")
            for given in LACKING
            for more, lost in [([], "dropped_by_snapshot"), ([said(call_part(), message_id="n")], None)]
        ),
        *(
            pytest.param(
                [said(bad, call_part())],
                {"ids": ["1"], "codes and places": [("malformed_entry", "message 'm', part 0")]},
                id=f"unreadable {bad}",
            )
            for bad in UNREADABLE
        ),
        *(
            pytest.param([said(other)], {"calls": [], "codes": []}, id=f"nobody's business: {other}")
            for other in OTHERS
        ),
        pytest.param(
            [said(call_part(q=DEEP), response_part(DEEP))],
            {"calls": [], "codes": ["malformed_entry"] * 2},
            id="deep nesting is not followed",
        ),
    ],
)
def test_what_is_read(given: list[Any], expected: Any) -> None:
    """Events, and the calls in them."""
    found = merged(*given)
    assert {name: KNOWN[name](found) for name in expected} == expected
