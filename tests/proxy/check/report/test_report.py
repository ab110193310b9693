"""The rules over what agents should never say: whatever it is, it is judged, and reported in every form."""

from __future__ import annotations

import json
from typing import Any

import pytest
from a2a.client.card_resolver import parse_agent_card
from a2a_eval_proxy.features.check.client import offered_interfaces
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
    occurrences_in,
)
from a2a_eval_proxy.features.check.report import apply_rules, report_json, report_text
from a2a_eval_proxy.features.check.rules import RuleStatus
from a2a_eval_proxy.protocol.operations import Operation
from a2a_tool_capture import METADATA_KEY, URI
from a2a_tool_capture.errors import AgentError
from hypothesis import given
from hypothesis import strategies as st
from support.junk import json_values
from tool_call_evaluators.texts import printable

RPC = Interface("JSONRPC", "1.0", "http://agent/rpc")
REST = Interface("HTTP+JSON", "1.0", "http://agent/rest")
INTERFACES = [RPC, REST, Interface("JSONRPC", "0.3", "http://agent/rpc"), Interface("GRPC", "0.3", "agent:50051")]
CARD_REQUEST = ProbeRequest("GET", "http://agent/.well-known/agent-card.json")


def read(operation: Operation, asked: Activation, *events: dict[str, Any], **headers: str) -> ProbeExchange:
    """An exchange whose answer holds these events."""
    return ProbeExchange(operation, asked, ProbeRequest("POST", "http://agent"), 200, tuple(headers.items()), events)


def record(*conversations: ProbeConversation, card: dict[str, Any] | None = None) -> ProbeRecord:
    return ProbeRecord(CardSeen(CARD_REQUEST, card or {}), conversations, ())


# ── junk ────────────────────────────────────────────────────────────────────────────────────────────────────

artifacts = st.fixed_dictionaries(
    {"artifactId": st.sampled_from(["a", "b"])},
    optional={
        "extensions": st.lists(st.sampled_from([URI, "urn:other"]), max_size=2),
        "metadata": st.dictionaries(st.sampled_from([METADATA_KEY, URI, "tool_calls"]), json_values, max_size=2),
    },
)
"""As a2a-sdk reads them."""
states = st.sampled_from(["TASK_STATE_WORKING", "TASK_STATE_INPUT_REQUIRED", "TASK_STATE_COMPLETED"])
tasks = st.fixed_dictionaries(
    {"id": st.just("t"), "status": st.builds(lambda state: {"state": state}, states)},
    optional={"artifacts": st.lists(artifacts, max_size=2)},
)
events = st.one_of(
    st.builds(lambda task: {"task": task}, tasks),
    st.builds(
        lambda artifact, append: {"artifactUpdate": {"taskId": "t", "artifact": artifact, "append": append}},
        artifacts,
        st.booleans(),
    ),
    st.builds(lambda data: {"message": {"messageId": "m", "metadata": data, "parts": [{"data": data}]}}, json_values),
)
exchanges = st.builds(
    lambda operation, asked, found: read(operation, asked, *found),
    st.sampled_from([Operation.SEND, Operation.STREAM, Operation.GET, Operation.LIST, Operation.SUBSCRIBE]),
    st.sampled_from(list(Activation)),
    st.lists(events, max_size=3),
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
    assert report_text(report, "http://agent").endswith(f"\n{report.verdict_sentence}\n")


def test_an_agent_does_not_write_to_the_terminal() -> None:
    """Escape sequences can clear the screen and set the title, and text can run backwards."""
    hostile = "\x1b]0;t\x07\x1b[2J\u202ex"
    interface = Interface("JSONRPC", hostile, f"http://agent/{hostile}")
    request = ProbeRequest("POST", f"http://agent/{hostile}", (("A2A-Version", hostile),), hostile)
    answer = ProbeExchange(Operation.SEND, Activation.NOTHING, request, error=AgentError(hostile))
    said = ProbeConversation(interface, (ProbeTurn(hostile, answer),), streams=False)
    left = NotChecked(hostile, hostile)
    report = apply_rules(ProbeRecord(CardSeen(CARD_REQUEST, {"name": hostile}), (said,), (left,)))
    text = report_text(report, f"http://agent/{hostile}")
    assert "answers on" in text
    assert all(printable(line) == line for line in text.splitlines())


def test_reports_stay_small_whatever_an_agent_says() -> None:
    """One artifact of two million characters, in each of many answers that should have none."""
    artifact = {"artifactId": "a", "metadata": {METADATA_KEY: [{"name": "x", "result": "y" * 2_000_000}]}}
    leak = read(Operation.SEND, Activation.NOTHING, {"task": {"id": "t", "artifacts": [artifact], "status": {}}})
    report = apply_rules(record(ProbeConversation(REST, (ProbeTurn("one", leak),) * 100, streams=False)))

    assert len(json.dumps(report_json(report, "http://agent"))) < 1_000_000


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
        ({"task": {"id": "t", "metadata": {"deep": [{METADATA_KEY: CALLS}]}}}, [(Kind.MISPLACED, "tool_calls']")]),
        ({"task": {"id": "t", "status": STATUS, "metadata": {URI: 1}}}, [(Kind.MISPLACED, f"['{URI}']")]),
        ({"task": {"id": "t", "artifacts": [{"metadata": {URI: 1}}]}}, [(Kind.OTHER_KEY, f"['{URI}']")]),
        ({"task": {"id": "t", "artifacts": [{"parts": [{"data": {"result": f"see {URI}"}}]}]}}, []),
    ],
)
def test_every_place_is_found(document: Any, expected: list[tuple[Kind, str]]) -> None:
    found = list(occurrences_in(document, "event 1: "))
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
        (CALL, {**CALL, "arguments": {"q": "mug"}}, RuleStatus.FAILED),
        (CALL, {**CALL, "name": "reserve"}, RuleStatus.FAILED),
    ],
)
def test_an_id_on_two_artifacts(first: Any, second: Any, status: RuleStatus) -> None:
    artifacts = [
        {"artifactId": str(number), "parts": [], "extensions": [URI], "metadata": {METADATA_KEY: [entry]}}
        for number, entry in enumerate((first, second))
    ]
    task = {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}, "artifacts": artifacts}
    turn = ProbeTurn("hello", read(Operation.SEND, Activation.V1, {"task": task}))
    results = apply_rules(record(ProbeConversation(RPC, (turn,), False))).results
    assert {result.status for result in results if result.rule.id == "ids-unique"} == {status}


def test_response_headers_are_looked_at() -> None:
    headers = {"A2A-Extensions": f"urn:other, {URI}", "X-Other": URI}
    exchange = read(Operation.SEND, Activation.NOTHING, {"message": {"messageId": "m"}}, **headers)
    assert [(each.kind, each.name) for each in exchange.occurrences] == [(Kind.HEADER, URI)]


# ── questions ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("version", "required", "asked", "headers"),
    [
        ("1.0", (), Activation.V1, {"A2A-Extensions": URI}),
        ("0.3", (), Activation.V1, {"X-A2A-Extensions": URI}),
        (
            "1.0",
            (),
            Activation.UNKNOWN,
            {"A2A-Extensions": f"{URI.replace('/v1', '/v999')}, {URI.replace('/v1', '/v1999')}"},
        ),
        ("1.0", (), Activation.NOTHING, {}),
        ("1.0", ("urn:times",), Activation.NOTHING, {"A2A-Extensions": "urn:times"}),
        ("1.0", ("urn:times",), Activation.V1, {"A2A-Extensions": f"urn:times, {URI}"}),
        ("0.3", (), Activation.V1_IN_WRONG_PLACE, {"A2A-Extensions": URI, "X-A2A-Extensions": ""}),
    ],
)
def test_how_the_extension_is_asked_for(
    version: str, required: tuple[str, ...], asked: Activation, headers: dict[str, str]
) -> None:
    assert Interface("JSONRPC", version, "http://agent", "", required).headers(asked) == headers


# ── cards ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_interfaces_of_cards_of_both_versions() -> None:
    card = {
        "supportedInterfaces": [
            {"url": "http://a/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0", "tenant": "acme"},
            {"url": "http://a/rest", "protocolBinding": "HTTP+JSON", "protocolVersion": "0.3.0"},
            {"url": "a:50051", "protocolBinding": "GRPC", "protocolVersion": "1.0"},
            {"url": "a:50051", "protocolBinding": "GRPC", "protocolVersion": "1.0"},
            {"url": "http://a/next", "protocolBinding": "JSONRPC", "protocolVersion": "2.0"},
            {"url": "http://a/odd", "protocolBinding": "SMTP", "protocolVersion": "1.0"},
        ],
        "capabilities": {
            "extensions": [
                {"uri": "urn:times", "required": True},
                {"uri": "urn:places"},
                {"uri": URI, "required": True},
            ]
        },
    }
    checked, left = offered_interfaces(parse_agent_card(card))
    assert {item.required for item in checked} == {("urn:times",)}
    assert [(str(item), item.url, item.tenant) for item in checked] == [
        ("JSONRPC 1.0", "http://a/rpc", "acme"),
        ("HTTP+JSON 0.3", "http://a/rest", ""),
        ("GRPC 1.0", "a:50051", ""),
    ]
    assert [(item.interface, item.reason) for item in left] == [
        ("JSONRPC 2.0 http://a/next", "the protocol version is neither 1.0 nor 0.3"),
        ("SMTP 1.0 http://a/odd", "the binding is not JSONRPC, HTTP+JSON or GRPC"),
    ]


# ── entries ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("entry", "schema", "texts"),
    [
        ({"name": "f"}, [], []),
        ({"id": "", "name": "f", "arguments": {}, "result": None, "error": "x", "source": "a", "more": 1}, [], []),
        ({}, ["tool_calls[0] violates `required: ['name']`"], []),
        (7, ["tool_calls[0] violates `type: object`"], []),
        (
            {"name": 7, "arguments": []},
            ["tool_calls[0].arguments violates `type: object`", "tool_calls[0].name violates `type: string`"],
            [],
        ),
        ({"name": "f", "id": 7}, ["tool_calls[0].id violates `type: string`"], []),
        ({"name": "f", "result": 7}, [], ["tool_calls[0].result violates `type: ['string', 'null']`"]),
        ({"name": "f", "error": {"code": 7}}, [], ["tool_calls[0].error violates `type: ['string', 'null']`"]),
    ],
)
def test_entries_against_the_schema(entry: Any, schema: list[str], texts: list[str]) -> None:
    """What readers convert without loss is a rule of its own."""
    artifact = {"artifactId": "a", "extensions": [URI], "metadata": {METADATA_KEY: [entry]}}
    answer = {"task": {"id": "t", "status": {"state": "TASK_STATE_COMPLETED"}, "artifacts": [artifact]}}
    turn = ProbeTurn("hello", read(Operation.SEND, Activation.V1, answer))
    report = apply_rules(record(ProbeConversation(RPC, (turn,), False)))
    found = {one.rule.id: sorted(problem.message for problem in one.problems) for one in report.results}
    assert (found["entry-schema"], found["entry-texts"]) == (schema, texts)


# ── a Task in a stream ──────────────────────────────────────────────────────────────────────────────────────


def streamed(*events: dict[str, Any]) -> RuleStatus:
    """What `snapshot-complete` says of a stream, with no other answer to compare it with."""
    turn = ProbeTurn("hello", read(Operation.STREAM, Activation.V1, *events))
    results = apply_rules(record(ProbeConversation(RPC, (turn,), streams=True))).results
    (result,) = [result for result in results if result.rule.id == "snapshot-complete"]
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
