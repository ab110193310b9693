"""The rules over what agents should never say: whatever it is, it is judged, and reported in every form."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from a2a_eval_proxy.features.check import requests
from a2a_eval_proxy.features.check.dialogue import skill_examples
from a2a_eval_proxy.features.check.record import (
    Activation,
    CardSeen,
    Interface,
    Kind,
    NotChecked,
    ProbeConversation,
    ProbeExchange,
    ProbeRecord,
    ProbeRequest,
    ProbeTurn,
    occurrences,
    read_response,
)
from a2a_eval_proxy.features.check.report import apply_rules, print_report, report_json, report_junit
from a2a_eval_proxy.features.check.requests import offered_interfaces
from a2a_eval_proxy.features.check.rules import RuleStatus
from a2a_eval_proxy.protocol.operations import Binding, Operation
from a2a_tool_capture import METADATA_KEY, URI
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from support.junk import almost_events, json_values
from tool_call_evaluators.texts import printable

RPC = Interface(Binding.JSONRPC, "1.0", "http://agent/rpc")
REST = Interface(Binding.HTTP_JSON, "1.0", "http://agent/rest")
OLD_RPC = Interface(Binding.JSONRPC, "0.3", "http://agent/rpc")
OLD_REST = Interface(Binding.HTTP_JSON, "0.3", "http://agent/rest")
PICKY = Interface(Binding.JSONRPC, "1.0", "http://agent/rpc", required=("urn:times",))
INTERFACES = [RPC, REST, OLD_RPC, OLD_REST]
CARD_REQUEST = ProbeRequest("GET", "http://agent/.well-known/agent-card.json")


def read(
    interface: Interface, operation: Operation, asked: Activation, *documents: Any, **headers: str
) -> ProbeExchange:
    """An exchange whose answer holds these JSON documents."""
    request = replace(requests.get(interface, "t", asked), operation=operation)
    bodies = [json.dumps(document).encode() for document in documents]
    return read_response(request, 200, headers.items(), bodies)


# ── junk ────────────────────────────────────────────────────────────────────────────────────────────────────

exchanges = st.builds(
    lambda interface, operation, asked, document, enveloped: read(
        interface, operation, asked, {"result": document} if enveloped else document
    ),
    st.sampled_from(INTERFACES),
    st.sampled_from([Operation.SEND, Operation.STREAM, Operation.GET, Operation.LIST, Operation.SUBSCRIBE]),
    st.sampled_from(list(Activation)),
    almost_events,
    st.booleans(),
)
some = st.lists(exchanges, max_size=3).map(tuple)
turns = st.builds(ProbeTurn, st.sampled_from(["one", "two"]), exchanges, some, some)
conversations = st.builds(
    ProbeConversation, st.sampled_from(INTERFACES), st.lists(turns, max_size=4).map(tuple), st.booleans()
)
cards = st.dictionaries(
    st.sampled_from(["name", "capabilities", "supportedInterfaces", "additionalInterfaces", "url", "skills"]),
    json_values | st.just({"extensions": [{"uri": URI}], "streaming": True}),
)


@given(cards, st.lists(conversations, max_size=3))
def test_anything_is_judged_and_told_in_every_form(card: dict[str, Any], said: list[ProbeConversation]) -> None:
    report = apply_rules(ProbeRecord(CardSeen(CARD_REQUEST, card), tuple(said), (NotChecked("GRPC 1.0", "why not"),)))

    json.dumps(report_json(report, "http://agent"), allow_nan=False)
    ET.fromstring(report_junit(report, "http://agent"))
    text = io.StringIO()
    print_report(report, "http://agent", Console(file=text))
    assert str(report.verdict.value) in text.getvalue()


def test_an_agent_does_not_write_to_the_terminal() -> None:
    """Escape sequences can clear the screen and set the title, markup can colour, and text can run backwards."""
    hostile = "\x1b]0;t\x07\x1b[2J[red]\u202ex"
    interface = Interface(Binding.JSONRPC, hostile, f"http://agent/{hostile}")
    answer = read(interface, Operation.SEND, Activation.NOTHING, {"error": {"code": hostile, "message": hostile}})
    said = ProbeConversation(interface, (ProbeTurn(hostile, answer),), streams=False)
    left = NotChecked(hostile, hostile)
    report = apply_rules(ProbeRecord(CardSeen(CARD_REQUEST, {"name": hostile}), (said,), (left,)))
    text = io.StringIO()
    print_report(
        report, f"http://agent/{hostile}", Console(file=text, force_terminal=True, color_system=None, width=200)
    )
    assert text.getvalue().count("[red]") > 10
    assert printable(text.getvalue()) == text.getvalue()


def test_reports_stay_small_whatever_an_agent_says() -> None:
    """One artifact of two million characters, in each of many answers that should have none."""
    artifact = {"artifactId": "a", "metadata": {METADATA_KEY: [{"name": "x", "result": "y" * 2_000_000}]}}
    leak = read(REST, Operation.SEND, Activation.NOTHING, {"task": {"id": "t", "artifacts": [artifact], "status": {}}})
    said = ProbeConversation(REST, (ProbeTurn("one", leak),) * 100, streams=False)
    report = apply_rules(ProbeRecord(CardSeen(CARD_REQUEST, {}), (said,), ()))

    assert len(json.dumps(report_json(report, "http://agent"))) < 1_000_000
    assert len(report_junit(report, "http://agent")) < 100_000


@pytest.mark.parametrize("width", [60, 80])
def test_no_outcome_is_cut_where_there_is_little_room(width: int) -> None:
    said = tuple(ProbeConversation(interface, (), streams=False) for interface in INTERFACES)
    report = apply_rules(ProbeRecord(CardSeen(CARD_REQUEST, {}), said, ()))
    text = io.StringIO()
    print_report(report, "http://agent", Console(file=text, width=width))
    table = text.getvalue().partition("\ntraffic ")[2].partition("\n\n")[0]
    passed = [
        result for result in report.results if result.interface is not None and result.status is RuleStatus.PASSED
    ]
    assert table.count("passed") == len(passed) > 0


@given(cards)
def test_any_card_can_be_read(card: dict[str, Any]) -> None:
    checked, left = offered_interfaces(card)
    assert all(interface.url.startswith("http") or ":" in interface.url for interface in checked)
    assert all(item.reason for item in left)
    assert all(isinstance(example, str) for example in skill_examples(card))


def test_nesting_without_end_is_walked() -> None:
    deep = json.loads('{"deep":' * 500 + json.dumps({"artifact": {"metadata": {METADATA_KEY: []}}}) + "}" * 500)
    exchange = read(REST, Operation.SEND, Activation.NOTHING, {"task": {"id": "t", "status": {}, "deep": deep}})
    assert [occurrence.kind for occurrence in occurrences(exchange)] == [Kind.CALLS]


# ── where the extension is in an answer ─────────────────────────────────────────────────────────────────────

CALLS = [{"name": "search"}]
ARTIFACT = {"artifactId": "a", "extensions": ["urn:other", URI], "metadata": {"x": 1, METADATA_KEY: CALLS}}
STATUS = {"state": "TASK_STATE_COMPLETED"}


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (
            {"task": {"id": "t", "artifacts": [ARTIFACT]}},
            [(Kind.LISTED, ".extensions"), (Kind.CALLS, "tool_calls']")],
        ),
        (
            {"artifactUpdate": {"artifact": ARTIFACT}},
            [(Kind.LISTED, ".extensions"), (Kind.CALLS, "tool_calls']")],
        ),
        (
            {"artifact_update": {"artifact": ARTIFACT}},
            [(Kind.LISTED, ".extensions"), (Kind.CALLS, "tool_calls']")],
        ),
        (
            {"message": {"messageId": "m", "metadata": {METADATA_KEY: CALLS}}},
            [(Kind.MISPLACED, "tool_calls']")],
        ),
        ({"message": {"messageId": "m", "extensions": [URI]}}, [(Kind.LISTED_ELSEWHERE, ".extensions")]),
        (
            {"message": {"messageId": "m", "parts": [{"extensions": [URI]}]}},
            [(Kind.LISTED_ELSEWHERE, ".extensions")],
        ),
        ({"message": {"messageId": "m", "parts": [{"data": {"extensions": [URI]}}]}}, []),
        ({"task": {"id": "t", "status": STATUS, "history": [{"role": "ROLE_USER", "extensions": [URI]}]}}, []),
        (
            {"error": {"code": 1, "data": [{"metadata": {METADATA_KEY: []}}]}},
            [(Kind.MISPLACED, "tool_calls']")],
        ),
        (
            {"error": {"code": 1, "details": [{"extensions": [URI]}]}},
            [(Kind.LISTED_ELSEWHERE, ".extensions")],
        ),
        ({"task": {"id": "t", "status": STATUS, "metadata": {URI: 1}}}, [(Kind.MISPLACED, f"['{URI}']")]),
        ({"task": {"id": "t", "artifacts": [{"metadata": {URI: 1}}]}}, [(Kind.OTHER_KEY, f"['{URI}']")]),
        ({"task": {"id": "t", "artifacts": [{"parts": [{"data": {"result": f"see {URI}"}}]}]}}, []),
    ],
)
def test_every_place_is_found(document: Any, expected: list[tuple[Kind, str]]) -> None:
    exchange = read(REST, Operation.STREAM, Activation.NOTHING, document)
    found = list(occurrences(exchange))
    assert [
        (occurrence.kind, occurrence.where.endswith(end)) for occurrence, (_, end) in zip(found, expected, strict=True)
    ] == [(kind, True) for kind, _ in expected]


CALL = {"id": "a", "name": "search", "arguments": {"q": "kettle"}}


@pytest.mark.parametrize(
    ("first", "second", "status"),
    [
        ({"id": "a", "name": "search"}, CALL, RuleStatus.PASSED),  # announced there, told here
        (CALL, {"id": "a", "name": "search", "arguments": None}, RuleStatus.PASSED),
        (CALL, CALL, RuleStatus.PASSED),
        (CALL, {**CALL, "arguments": {}}, RuleStatus.FAILED),
        (CALL, {**CALL, "name": "reserve"}, RuleStatus.FAILED),
    ],
)
def test_an_id_on_two_artifacts(first: Any, second: Any, status: RuleStatus) -> None:
    artifacts = [
        {"artifactId": str(number), "parts": [], "extensions": [URI], "metadata": {METADATA_KEY: [entry]}}
        for number, entry in enumerate((first, second))
    ]
    task = {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}, "artifacts": artifacts}
    exchange = read(RPC, Operation.SEND, Activation.V1, {"result": {"task": task}})
    record = ProbeRecord(
        CardSeen(CARD_REQUEST, {}), (ProbeConversation(RPC, (ProbeTurn("hello", exchange, ()),), False),), ()
    )
    assert {result.status for result in apply_rules(record).results if result.rule.id == "ids-unique"} == {status}


def test_response_headers_are_looked_at() -> None:
    headers = {"A2A-Extensions": f"urn:other, {URI}", "X-Other": URI}
    exchange = read(REST, Operation.SEND, Activation.NOTHING, {"message": {"messageId": "m"}}, **headers)
    assert [(occurrence.kind, occurrence.name) for occurrence in occurrences(exchange)] == [(Kind.HEADER, URI)]


# ── answers ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("body", "status", "problem"),
    [
        (b'{"jsonrpc": "2.0", "error": {"code": -32601, "message": "no such"}}', 200, "error -32601: no such"),
        (b'{"error": "odd"}', 400, "HTTP 400: error : odd"),
        (b"<html>", 502, "HTTP 502: not JSON: '<html>'"),
        (b'{"result": 7}', 200, "JSON, but neither a task, a message nor an update"),
        (b"[]", 200, "JSON, but neither a task, a message nor an update"),
        (b'{"result": {"id": "t", "status": {}}}', 301, "HTTP 301"),
    ],
)
def test_what_is_no_answer_says_why(body: bytes, status: int, problem: str) -> None:
    request = requests.get(RPC, "t", Activation.NOTHING)
    assert read_response(request, status, (), [body]).problem == problem


def test_an_empty_answer_is_none() -> None:
    request = requests.subscribe(RPC, "t", Activation.NOTHING)
    assert read_response(request, 200, (), []).problem == "an empty answer"


# ── questions ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("interface", "url", "has_body"),
    [
        (RPC, "http://agent/rpc", True),
        (REST, "http://agent/rest/tasks/a%2Fb", False),
        (OLD_REST, "http://agent/rest/v1/tasks/a%2Fb", False),
        (
            Interface(Binding.HTTP_JSON, "1.0", "http://agent/rest/", "acme"),
            "http://agent/rest/acme/tasks/a%2Fb",
            False,
        ),
    ],
)
def test_where_a_task_is_asked_for(interface: Interface, url: str, has_body: bool) -> None:
    request = requests.get(interface, "a/b", Activation.NOTHING)
    assert request.url == url
    assert bool(request.body) is has_body


@pytest.mark.parametrize(
    ("interface", "asked", "header"),
    [
        (RPC, Activation.V1, ("A2A-Extensions", URI)),
        (OLD_RPC, Activation.V1, ("X-A2A-Extensions", URI)),
        (
            REST,
            Activation.UNKNOWN,
            ("A2A-Extensions", f"{URI.replace('/v1', '/v999')}, {URI.replace('/v1', '/v1999')}"),
        ),
        (REST, Activation.NOTHING, None),
        (PICKY, Activation.NOTHING, ("A2A-Extensions", "urn:times")),
        (PICKY, Activation.V1, ("A2A-Extensions", f"urn:times, {URI}")),
    ],
)
def test_how_the_extension_is_asked_for(
    interface: Interface, asked: Activation, header: tuple[str, str] | None
) -> None:
    request = requests.send(interface, Operation.STREAM, "hello", "m", asked)
    extensions = [item for item in request.headers if item[0].lower().endswith("a2a-extensions")]
    assert extensions == ([header] if header else [])
    assert (("A2A-Version", "1.0") in request.headers) is not interface.legacy


def test_a_tenant_is_part_of_json_rpc_params() -> None:
    request = requests.get(Interface(Binding.JSONRPC, "1.0", "http://agent/", "acme"), "t", Activation.NOTHING)
    assert json.loads(request.body)["params"] == {"tenant": "acme", "id": "t"}


# ── cards ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_interfaces_of_cards_of_both_versions() -> None:
    card = {
        "supportedInterfaces": [
            {"url": "http://a/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0", "tenant": "acme"},
            {"url": "http://a/rest", "protocolBinding": "HTTP+JSON", "protocolVersion": "0.3.0"},
            {"url": "a:50051", "protocolBinding": "GRPC", "protocolVersion": "1.0"},
            {"url": "http://a/next", "protocolBinding": "JSONRPC", "protocolVersion": "2.0"},
            {"url": "http://a/odd", "protocolBinding": "SMTP", "protocolVersion": "1.0"},
            {"url": "/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
            {"url": "a", "protocolBinding": "GRPC", "protocolVersion": "1.0"},
        ],
        "capabilities": {
            "extensions": [
                {"uri": "urn:times", "required": True},
                {"uri": "urn:places"},
                {"uri": URI, "required": True},
                {"uri": "urn:line\r\nbreak", "required": True},
            ]
        },
        "url": "http://a/rpc",
        "preferredTransport": "JSONRPC",
        "protocolVersion": "0.3.0",
        "additionalInterfaces": [
            {"url": "http://a/rpc", "transport": "JSONRPC"},
            {"url": "http://a/rest", "transport": "HTTP+JSON"},
        ],
    }
    checked, left = offered_interfaces(card)
    assert {item.required for item in checked} == {("urn:times",)}
    assert [(str(item), item.url, item.tenant) for item in checked] == [
        ("JSONRPC 1.0", "http://a/rpc", "acme"),
        ("HTTP+JSON 0.3", "http://a/rest", ""),
        ("GRPC 1.0", "a:50051", ""),
        ("JSONRPC 0.3", "http://a/rpc", ""),
    ]
    assert [(item.interface, item.reason) for item in left] == [
        ("JSONRPC 2.0 http://a/next", "the protocol version is neither 1.0 nor 0.3"),
        ("SMTP 1.0 http://a/odd", "the binding is not JSONRPC, HTTP+JSON or GRPC"),
        ("JSONRPC 1.0 '/rpc'", "its URL is not an absolute http or https URL"),
        ("GRPC 1.0 'a'", "its URL is not HOST:PORT"),
    ]


# ── entries ─────────────────────────────────────────────────────────────────────────────────────────────────


TYPE = "has the wrong type, expected"


@pytest.mark.parametrize(
    ("entry", "schema", "texts"),
    [
        ({"name": "f"}, [], []),
        ({"id": "", "name": "f", "arguments": {}, "result": None, "error": "x", "source": "a", "more": 1}, [], []),
        ({}, ["the entry has no 'name'"], []),
        (7, [f"the entry {TYPE} object"], []),
        ({"name": 7, "arguments": []}, [f"`arguments` {TYPE} object", f"`name` {TYPE} string"], []),
        ({"name": "f", "id": 7}, [f"`id` {TYPE} string"], []),
        ({"name": "f", "result": 7}, [], [f"`result` {TYPE} string or null"]),
        ({"name": "f", "error": {"code": 7}}, [], [f"`error` {TYPE} string or null"]),
    ],
)
def test_entries_against_the_schema(entry: Any, schema: list[str], texts: list[str]) -> None:
    """What readers convert without loss is a rule of its own."""
    artifact = {"artifactId": "a", "extensions": [URI], "metadata": {METADATA_KEY: [entry]}}
    answer = {"result": {"task": {"id": "t", "status": {"state": "TASK_STATE_COMPLETED"}, "artifacts": [artifact]}}}
    turn = ProbeTurn("hello", read(RPC, Operation.SEND, Activation.V1, answer))
    report = apply_rules(ProbeRecord(CardSeen(CARD_REQUEST, {}), (ProbeConversation(RPC, (turn,), False),), ()))
    found = {one.rule.id: sorted(problem.message for problem in one.problems) for one in report.results}
    assert (found["entry-schema"], found["entry-texts"]) == (schema, texts)


# ── a Task in a stream ──────────────────────────────────────────────────────────────────────────────────────


def streamed(*events: dict[str, Any]) -> RuleStatus:
    """What `snapshot-complete` says of a stream, with no other answer to compare it with."""
    opening = read(RPC, Operation.STREAM, Activation.V1, *({"result": event} for event in events))
    record = ProbeRecord(
        CardSeen(CARD_REQUEST, {}), (ProbeConversation(RPC, (ProbeTurn("hello", opening),), streams=True),), ()
    )
    (result,) = [result for result in apply_rules(record).results if result.rule.id == "snapshot-complete"]
    return result.status


def chunk(*ids: str, append: bool = False) -> dict[str, Any]:
    return {"artifactUpdate": {"taskId": "t", "contextId": "c", "artifact": told(*ids), "append": append}}


def told(*ids: str) -> dict[str, Any]:
    calls = [{"id": call_id, "name": "pay", "arguments": {"to": call_id}, "result": "paid"} for call_id in ids]
    metadata = {METADATA_KEY: calls} if calls else {}
    return {"artifactId": "a", "parts": [{"text": "x"}], "extensions": [URI], "metadata": metadata}


def task(*artifacts: dict[str, Any]) -> dict[str, Any]:
    status = {"state": "TASK_STATE_COMPLETED"}
    return {"task": {"id": "t", "contextId": "c", "status": status, "artifacts": list(artifacts)}}


@pytest.mark.parametrize(
    ("events", "status"),
    [
        pytest.param([chunk("1", "2"), task(told("1", "2"))], RuleStatus.PASSED, id="whole"),
        pytest.param([chunk("1", "2"), task(told())], RuleStatus.FAILED, id="without its calls"),
        pytest.param([chunk("1", "2"), task()], RuleStatus.FAILED, id="empty"),
        pytest.param(
            [chunk("1"), chunk("2", append=True), task(told("2"))], RuleStatus.FAILED, id="the last chunk's only"
        ),
        pytest.param([task(), chunk("1")], RuleStatus.UNSEEN, id="before the calls"),
    ],
)
def test_a_task_in_a_stream_has_the_calls_that_were_streamed(events: list[dict[str, Any]], status: RuleStatus) -> None:
    assert streamed(*events) is status
