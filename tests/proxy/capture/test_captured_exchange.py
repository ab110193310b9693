"""One HTTP request and its response, read as a turn: recorded traffic, errors, and junk."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from typing import Any

import pytest
from a2a_eval_proxy.capture.captured_exchange import CASE_METADATA_KEY, major_minor
from a2a_eval_proxy.capture.task_fold import FoldRules
from a2a_eval_proxy.protocol.operations import rest_request, rpc_method
from a2a_eval_proxy.protocol.sse import SseSplitter
from a2a_eval_proxy.turn import CaptureFacts, NamedIn, Turn, TurnLinks
from a2a_tool_capture import METADATA_KEY, URI, Finding, Severity
from golden.recorded import expected_turn, recordings
from hypothesis import given
from hypothesis import strategies as st
from support.folded import Folded
from support.junk import almost_events, json_objects, json_values
from support.read_exchange import ReadExchange
from support.recordings import Recording, names


class Proxied(Folded):
    """What passes a proxy, as capture sees it; a second goes by with every step."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self._numbers = itertools.count(1)

    def request(
        self,
        body: Any = None,
        *,
        line: str = "POST /",
        beginning: bytes | None = None,
        version: str = "1.0",
        declared: bool = True,
        asked_by_header: bool = False,
        **known: Any,
    ) -> ReadExchange:
        """A request arrives. `body` is JSON, or bytes; with `beginning`, it was too large to keep."""
        version = major_minor(version) if version else "0.3"
        turn_id, capture = f"turn-{next(self._numbers)}", CaptureFacts(declared=declared)
        known = {"trace_id": "0af7", "capture": capture, **known}
        turn = Turn(turn_id, "nightly", "http://agent", "", version, self.tick(), **known)
        exchange = ReadExchange(self.book, turn, asked_by_header=asked_by_header)
        method, target = line.split(" ")[:2]
        path, _, query = target.partition("?")
        rest = rest_request(method, path, query.encode())
        if beginning is not None:
            exchange.unread_request(rest or rpc_method(beginning), self.now)
        else:
            content = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
            exchange.request(rest, content, self.now)
        return exchange

    def tick(self) -> float:
        self.now += 1
        return self.now

    def answer(self, exchange: ReadExchange, body: Any, status: int = 200) -> None:
        exchange.answer(status, body if isinstance(body, bytes) else json.dumps(body).encode(), self.tick())
        exchange.end(self.tick())

    def stream(self, exchange: ReadExchange, *payloads: Any, problem: Finding | None = None) -> None:
        for payload in payloads:
            exchange.event(payload if isinstance(payload, bytes) else json.dumps(payload).encode(), self.tick())
        exchange.end(self.tick(), problem=problem)

    def replay(self, name: str) -> ReadExchange:
        """A recorded exchange goes by."""
        recording = Recording.load(name)
        headers = dict(recording.request_headers(asking=True))
        line = recording.request_line
        exchange = self.request(recording.request_body, line=line, version=headers.get("A2A-Version", ""))
        if recording.streams:
            events = SseSplitter(1_000_000).feed(recording.response_body)
            self.stream(exchange, *(event.data for event in events))
        else:
            status = json.loads(recording.text)["response"]["status_line"].split()[1]
            self.answer(exchange, recording.response_body, int(status))
        return exchange

    @property
    def turns(self) -> list[Turn]:
        return self.closed

    @property
    def turn(self) -> Turn:
        (turn,) = self.turns
        return turn

    @property
    def codes(self) -> list[str]:
        return [finding.code for finding in self.turn.findings]


@pytest.fixture
def proxied() -> Proxied:
    return Proxied()


def rpc(method: str, params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def send(**message: Any) -> dict[str, Any]:
    return rpc(
        "SendMessage", {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}], **message}}
    )


def result(value: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "result": value}


def task(state: str, *artifacts: Any, **more: Any) -> dict[str, Any]:
    return {
        "id": "t",
        "contextId": "c",
        "status": {"state": f"TASK_STATE_{state}"},
        "artifacts": list(artifacts),
        **more,
    }


def artifact(*calls: str, text: str = "") -> dict[str, Any]:
    entries = [{"name": name} for name in calls]
    return {"artifactId": "a", "extensions": [URI], "metadata": {METADATA_KEY: entries}, "parts": [{"text": text}]}


def names_of(turn: Turn) -> list[str]:
    return [call.name for call in turn.tool_calls]


# ── recorded traffic ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("name", "scenario"), [*recordings("send"), *recordings("stream")])
def test_recorded_exchanges_are_the_golden_turns(name: str, scenario: str, proxied: Proxied) -> None:
    exchange = proxied.replay(name)
    expected = expected_turn(scenario)
    stored = expected.get("stored", {}) if "-send-" in name else {}
    calls = [
        {key: call.to_dict()[key] for key in ("id", "name", "arguments", "result")} for call in proxied.turn.tool_calls
    ]
    assert calls == stored.get("tool_calls", expected["tool_calls"])
    assert proxied.codes == {"findings": [], **expected, **stored}["findings"]
    turn = proxied.turn
    for key in ("user_text", "response_text", "state"):
        assert getattr(turn, key) == expected[key], key
    assert turn.binding == ("JSONRPC" if name.startswith("jsonrpc") else "HTTP+JSON")
    assert turn.protocol_version == ("1.0" if "-v1.0-" in name else "0.3")
    assert turn.conversation_id
    assert bool(turn.task_id) == (scenario != "message")
    assert exchange.task_ids == ([turn.task_id] if turn.task_id else [])
    assert turn.first_event_at is not None
    assert turn.ended_at is not None
    assert turn.started_at < turn.first_event_at <= turn.ended_at


@pytest.mark.parametrize(
    "name",
    [name for name in names() if "nonexistent" in name or "terminal" in name or "extcard" in name or "pushset" in name],
)
def test_recorded_exchanges_that_are_no_turns(name: str, proxied: Proxied) -> None:
    proxied.replay(name)
    assert proxied.turns == []
    assert proxied.open_turns == []


@pytest.mark.parametrize("name", [*names("jsonrpc-error-*"), *names("rest-error-*")])
def test_recorded_errors_close_the_turn_if_there_was_one(name: str, proxied: Proxied) -> None:
    proxied.replay(name)
    assert proxied.open_turns == []
    assert all(finding.code == "agent_error" for turn in proxied.turns for finding in turn.findings)
    assert all(turn.findings or turn.response_text for turn in proxied.turns)


@pytest.mark.parametrize("variant", ["jsonrpc-v1.0", "jsonrpc-v0.3", "rest-v1.0", "rest-v0.3"])
def test_a_recorded_subscription_completes_a_recorded_non_blocking_send(variant: str, proxied: Proxied) -> None:
    proxied.replay(f"{variant}-send-nonblocking")
    proxied.replay(f"{variant}-get")  # of another task
    assert proxied.turns == []
    assert len(proxied.open_turns) == 1
    proxied.replay(f"{variant}-subscribe-until-cancel")
    assert (proxied.turn.state, proxied.turn.response_text) == ("TASK_STATE_CANCELED", "canceled by client")


# ── what a request says ─────────────────────────────────────────────────────────────────────────────────────


def test_facts_of_a_turn(proxied: Proxied) -> None:
    exchange = proxied.request(send(contextId="c-7", taskId="t-7"), case_id="refund")
    turn = exchange.turn
    assert turn is not None
    assert (turn.turn_id, turn.run, turn.agent, turn.trace_id) == ("turn-1", "nightly", "http://agent", "0af7")
    assert (turn.case_id, turn.conversation_id, turn.task_id, turn.user_text) == ("refund", "c-7", "t-7", "hi")
    assert (turn.status, turn.started_at) == ("open", 1.0)
    assert turn.capture.declared


V1 = {"line": "POST /v1/message:send"}  # where an agent of 1.0 may be mounted
# What a request says, and how: of its message, of its body, and of what is known besides.
SAID: list[tuple[str, Any, dict[str, Any], dict[str, Any]]] = [
    *(("version", shown, {"method": method}, {"version": version}) for version, method, shown in (
        ("1.0", "SendMessage", "1.0"),
        ("1.0.3", "SendMessage", "1.0"),
        ("ann@example.com", "SendMessage", "unknown"),
        ("", "SendMessage", "0.3"),
        ("0.3", "message/send", "0.3"),
        ("", "message/send", "0.3"),
    )),
    ("version", "1.0", send()["params"], V1),
    *(("asked", asked, send(extensions=extensions), {"asked_by_header": header}) for header, extensions, asked in (
        (True, None, True),
        (False, [URI], True),
        (False, ["x", 1, URI.replace("v1", "v2")], True),
        (False, URI, False),
        (False, [], False),
    )),
    *(("case", case, send(metadata=metadata), {"case_id": header}) for header, metadata, case in (
        (None, None, None),
        (None, {CASE_METADATA_KEY: "refund"}, "refund"),
        ("status", {CASE_METADATA_KEY: "refund"}, "status"),
        (None, {CASE_METADATA_KEY: ""}, None),
        (None, {CASE_METADATA_KEY: 7}, None),
        (None, ["refund"], None),
    )),
]  # fmt: skip


@pytest.mark.parametrize(("name", "expected", "body", "known"), SAID)
def test_what_a_request_says(
    name: str, expected: Any, body: dict[str, Any], known: dict[str, Any], proxied: Proxied
) -> None:
    turn = proxied.request({**({} if "line" in known else send()), **body}, **known).turn
    assert turn is not None
    says = {"version": turn.protocol_version, "asked": turn.capture.requested_by_client, "case": turn.case_id}
    assert says[name] == expected


@pytest.mark.parametrize(
    "beginning", [b'{"method":"SendMessage","params":{"message":{"pa', b'{"method":"message/stream","x":"']
)
def test_a_request_too_large_to_keep_is_a_turn_without_its_text(beginning: bytes, proxied: Proxied) -> None:
    exchange = proxied.request(beginning=beginning)
    proxied.answer(exchange, result({"task": task("COMPLETED", artifact("search"))}))
    assert (proxied.turn.user_text, names_of(proxied.turn)) == ("", ["search"])
    assert proxied.codes == ["not_asked", "request_too_large"]


@pytest.mark.parametrize(
    ("facts", "codes"), [({}, ["not_asked"]), ({"asked_by_header": True}, []), ({"declared": False}, [])]
)
def test_a_request_too_large_to_keep_may_have_a_webhook(
    facts: dict[str, Any], codes: list[str], proxied: Proxied
) -> None:
    """Which keeps the proxy from asking, and the turn says so."""
    exchange = proxied.request(line="POST /message:send", beginning=b"", **facts)
    proxied.answer(exchange, {"task": task("COMPLETED")})
    assert proxied.codes == [*codes, "request_too_large"]


@pytest.mark.parametrize(
    "body", [b"", b"not json", b"[]", b'{"method":1}', [send()], rpc("SendMessage", {"message": 1})]
)
def test_what_opens_no_turn(body: Any, proxied: Proxied) -> None:
    exchange = proxied.request(body)
    proxied.answer(exchange, result({"task": task("COMPLETED")}))
    assert proxied.turns == []


# ── what a response says ────────────────────────────────────────────────────────────────────────────────────

REQUESTS = {
    "send": (send(), "POST /"),
    "send over REST": (send()["params"], "POST /message:send"),
    "stream": (rpc("SendStreamingMessage", send()["params"]), "POST /"),
    "stream over REST": (send()["params"], "POST /message:stream"),
    "send to a generation": (
        rpc("SendMessage", {**send(taskId="t")["params"], "configuration": {"ifGenerationMatch": "2"}}),
        "POST /",
    ),
    "get": (rpc("GetTask", {"id": "t"}), "POST /"),
    "get over REST": (None, "GET /tasks/t"),
    "subscribe": (rpc("SubscribeToTask", {"id": "t"}), "POST /"),
    "cancel": (rpc("CancelTask", {"id": "t"}), "POST /"),
    "list": (rpc("ListTasks", {}), "POST /"),
    "list with artifacts": (rpc("ListTasks", {"includeArtifacts": True}), "POST /"),
    "list with artifacts over REST": (None, "GET /tasks?includeArtifacts=true"),
}
WORKING, SEARCHING = {"task": task("WORKING")}, {"task": task("WORKING", artifact("search"))}
DONE, FOUND = {"task": task("COMPLETED")}, {"task": task("COMPLETED", artifact("search"))}
ENDED = {"statusUpdate": {"taskId": "t", "status": {"state": "TASK_STATE_COMPLETED"}}}
SEARCHED = {"artifactUpdate": {"taskId": "t", "artifact": artifact("search")}}
LATER = {"progress": {"taskId": "t", "parts": 0.5}}
LATER_WITH_CALLS = {"progress": {"taskId": "t", "parts": [{"metadata": {METADATA_KEY: []}}]}}
HELLO = {"message": {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "hello"}]}}
LISTED = {"tasks": [task("WORKING", id="other"), task("COMPLETED", artifact("search"))]}
GONE = Finding("client_gone", "the client left before the answer was complete")
CUT = Finding("upstream_cut", "the agent broke off")
MISMATCH = {"error": {"code": -32010, "data": [{"reason": "TASK_GENERATION_MISMATCH", "domain": "a2a-protocol.org"}]}}
DEEP = b'{"error":{"message":%b}}' % (b"[" * 1000 + b"]" * 1000)


def adk_task(state: str = "COMPLETED", *calls: dict[str, Any], kind: str = "adk_type") -> dict[str, Any]:
    """A task with a call in a dialect, and others."""
    part = {"data": {"id": "adk-1", "name": "search", "args": {}}, "metadata": {kind: "function_call"}}
    content: dict[str, Any] = {"artifactId": "a", "parts": [{"text": "done"}], "extensions": [URI]}
    if calls:
        content["metadata"] = {METADATA_KEY: list(calls)}
    return task(state, content, history=[{"messageId": "m", "role": "ROLE_AGENT", "parts": [part]}])


def goes_by(proxied: Proxied, request: str, answer: Any, more: Any = None) -> None:
    """A request and its answer: a value, with its status, or a list of events, with what became of them."""
    body, line = REQUESTS[request]
    exchange = proxied.request(body, line=line)

    def enveloped(content: Any) -> Any:
        bare = isinstance(content, bytes) or line != "POST /" or (isinstance(content, dict) and "error" in content)
        return content if bare else result(content)

    if isinstance(answer, list):
        proxied.stream(exchange, *map(enveloped, answer), problem=more)
    else:
        proxied.answer(exchange, enveloped(answer), more or 200)


def told(turn: Turn) -> str:
    """The state of a turn, its calls, `?` if it may have others, its answer, its findings, `!` if they fail it."""
    unknown = ["?"] if turn.to_dict()["calls"] == "unknown" else []
    codes = [("!" if finding.severity is Severity.ERROR else "") + finding.code for finding in turn.findings]
    state = (turn.state or "-").removeprefix("TASK_STATE_")
    return " ".join(filter(None, [state, *names_of(turn), *unknown, turn.response_text, *codes]))


# What goes by, and the turns that are closed.
TRANSCRIPTS: dict[str, tuple[list[Any], list[str]]] = {
    "an error object": ([("send", {"error": {"code": -32001, "message": "Task not found"}})], ["- ? !agent_error"]),
    "an error status": (
        [("send over REST", {"error": {"code": 400, "message": "bad parts"}}, 400)],
        ["- ? !agent_error"],
    ),
    "a page of a gateway": ([("send", b"<h1>Bad Gateway</h1>", 502)], ["- ? !agent_unreachable"]),
    "no permission": ([("send", b"", 401)], ["- ? !agent_unreachable"]),
    "an error without JSON": ([("send", b"boom", 500)], ["- ? !agent_unreachable"]),
    "a page to log in": ([("send", b"<!DOCTYPE html><title>Log in</title>")], ["- ? !agent_unreachable"]),
    "a refusal without JSON": ([("send", b"which message?", 400)], ["- ? !agent_error"]),
    "an error of the server": (
        [("send", {"error": {"code": 500, "status": "INTERNAL", "message": "a bug"}}, 500)],
        ["- ? !agent_error"],
    ),
    "a deep error": ([("send", DEEP)], ["- ? !agent_error"]),
    "a deep error of the server": ([("send", DEEP, 500)], ["- ? !agent_unreachable"]),
    "an error inside a stream": (
        [("stream", [WORKING, {"error": {"code": 500, "message": "gone"}}])],
        ["WORKING ? !agent_error"],
    ),
    "an error inside a stream of REST": (
        [("stream over REST", [WORKING, {"error": {"code": 500, "message": "gone"}}])],
        ["WORKING ? !agent_error"],
    ),
    "a null error is none": ([("send over REST", {**DONE, "error": None})], ["COMPLETED ?"]),
    "a null error of JSON-RPC is none": ([("send", {**result(DONE), "error": None})], ["COMPLETED ?"]),
    "no events": ([("send", [])], ["- ? !no_answer"]),
    "text": ([("send", b"hello")], ["- ? !no_answer malformed_response"]),
    "nothing": ([("send", b"")], ["- ? !no_answer malformed_response"]),
    "a list": ([("send", b"[1]")], ["- ? !no_answer malformed_response"]),
    "an object": ([("send", b"{}")], ["- ? !no_answer malformed_response"]),
    "a result that is none": ([("send", {"other": 1})], ["- ? !no_answer malformed_response"]),
    "events that make no sense": (
        [("send", [b"oops", b"{}"])],
        ["- ? !no_answer malformed_response malformed_response"],
    ),
    "an event that was not read may have had calls": (
        [("send", [SEARCHING, b"oops", ENDED])],
        ["COMPLETED search ? malformed_response"],
    ),
    "unless a later task follows": (
        [("send", [SEARCHING, b"oops", b"", FOUND])],
        ["COMPLETED search malformed_response"],
    ),
    "a poll has what a stream left unread": (
        [("send", [WORKING, b"oops"]), ("get", FOUND["task"])],
        ["COMPLETED search malformed_response"],
    ),
    "an event of a later version": ([("send", [SEARCHING, LATER, ENDED])], ["COMPLETED search unknown_event"]),
    "an event of a later version with calls": (
        [("send", [SEARCHING, LATER_WITH_CALLS, ENDED])],
        ["COMPLETED search ? unknown_event"],
    ),
    "and a task after it": ([("send", [SEARCHING, LATER_WITH_CALLS, FOUND])], ["COMPLETED search unknown_event"]),
    "the agent breaks off": ([("send", [], CUT)], ["- ? upstream_cut"]),
    "the agent breaks off, asked for one generation of a task": (
        [("send to a generation", [], CUT)],
        ["- ? upstream_cut"],
    ),
    "the task has another generation": ([("send to a generation", MISMATCH)], []),
    "the client leaves": ([("stream", [], GONE)], ["- ? client_gone"]),
    "SDK clients close the stream after a message, which is the whole answer": (
        [("stream", [HELLO], GONE)],
        ["- ? hello"],
    ),
    "a poll that makes no sense does not fail the turn": (
        [("send", WORKING), ("get", b"<html>"), ("get", DONE["task"])],
        ["COMPLETED ?"],
    ),
    "failed polls harm no turn": (
        [
            ("send", WORKING),
            ("get over REST", {"error": {"message": "not now"}}, 503),
            ("get", {"error": {"code": 1}}),
            ("get over REST", DONE["task"]),
        ],
        ["COMPLETED ?"],
    ),
    "polling": ([("send", WORKING), ("get", WORKING["task"]), ("get", FOUND["task"])], ["COMPLETED search"]),
    "polling over REST": (
        [("send", WORKING), ("get over REST", WORKING["task"]), ("get over REST", FOUND["task"])],
        ["COMPLETED search"],
    ),
    "a subscription": ([("send", WORKING), ("subscribe", [WORKING, SEARCHED, ENDED])], ["COMPLETED search"]),
    "a cancellation": ([("send", WORKING), ("cancel", task("CANCELED", artifact("search")))], ["CANCELED search"]),
    "a list with artifacts is a snapshot": ([("send", WORKING), ("list with artifacts", LISTED)], ["COMPLETED search"]),
    "as over REST": ([("send", WORKING), ("list with artifacts over REST", LISTED)], ["COMPLETED search"]),
    "a list without artifacts is no end: who sees it there gets the task next": (
        [
            ("send", SEARCHING),
            ("list", {"tasks": [{"id": "t", "status": {"state": "TASK_STATE_COMPLETED"}}]}),
            ("get over REST", task("COMPLETED", artifact("search", "pay"))),
        ],
        ["COMPLETED search pay"],
    ),
    "an ADK call is not read": ([("send", {"task": adk_task()})], ["COMPLETED ? done dialect_not_read"]),
    "a hint is given once": (
        [("send", {"task": adk_task("WORKING")}), ("get", adk_task("WORKING")), ("get", adk_task())],
        ["COMPLETED ? done dialect_not_read"],
    ),
    "where calls are seen a dialect is beside the point": (
        [("send", {"task": adk_task("COMPLETED", {"name": "search", "id": "adk-1"})})],
        ["COMPLETED search done"],
    ),
    "a text that mentions a dialect is no hint": (
        [("send", {"task": task("COMPLETED", {"artifactId": "a", "parts": [{"text": 'set "adk_type"'}]})})],
        ['COMPLETED ? set "adk_type"'],
    ),
    **{
        f"no list: {content}": ([("list with artifacts over REST", content)], [])
        for content in ({}, {"tasks": None}, {"tasks": [1, {}, {"id": "t"}]}, {"tasks": {"t": 1}}, 7)
    },
    **{
        f"a state that is none: {state}": (
            [(ask, [{"task": {"id": "t", "status": {"state": state}}}]) for ask in ("stream", "get")],
            [],
        )
        for state in ([], {}, 7, None)
    },
}


@pytest.mark.parametrize("name", TRANSCRIPTS)
def test_what_goes_by_is_told(name: str, proxied: Proxied) -> None:
    script, closed = TRANSCRIPTS[name]
    for step in script:
        assert proxied.turns == []
        goes_by(proxied, *step)
    assert [told(turn) for turn in proxied.turns] == closed


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({"error": {"code": -32001, "message": "Task not found"}}, "-32001: Task not found"),
        ({"task": adk_task()}, "--dialects adk"),
        ({"task": adk_task(kind="kagent_type")}, "--dialects kagent"),
        ([SEARCHING, LATER, ENDED], "'progress'"),
    ],
)
def test_what_a_finding_says(answer: Any, message: str, proxied: Proxied) -> None:
    goes_by(proxied, "send", answer)
    (finding,) = proxied.turn.findings
    assert message in finding.message


def test_findings_are_bounded(proxied: Proxied) -> None:
    goes_by(proxied, "send", [{"error": {"code": number, "message": "x" * 2_000}} for number in range(120)])
    assert len(proxied.turn.findings) == 100
    assert all(len(finding.message) < 1_000 for finding in proxied.turn.findings)


def test_a_dialect_that_is_read_is_no_finding(proxied: Proxied) -> None:
    proxied.rules = FoldRules(dialects=["adk"])
    proxied.begins("with the dialect")
    goes_by(proxied, "send", {"task": adk_task()})
    assert told(proxied.turn) == "COMPLETED search done"


def test_an_agent_that_never_answered_leaves_nothing_open(proxied: Proxied) -> None:
    goes_by(proxied, "send", {"task": task("INPUT_REQUIRED")})
    exchange = proxied.request(send(taskId="t"))
    exchange.end(proxied.tick(), problem=Finding("upstream_unreachable", "no connection"), lost=True)
    assert len(proxied.turns) == 2
    assert proxied.open_turns == []


def test_an_exchange_knows_the_tasks_that_it_shows(proxied: Proxied) -> None:
    exchange = proxied.request(rpc("ListTasks", {}))
    proxied.answer(exchange, result(LISTED))
    assert sorted(exchange.task_ids) == ["other", "t"]


# ── whatever is sent and answered ───────────────────────────────────────────────────────────────────────────

lines = st.sampled_from(
    [
        "POST /",
        "POST /message:send",
        "POST /message:stream",
        "GET /tasks/t1",
        "GET /tasks?includeArtifacts=true",
        "GET /tasks",
        "POST /tasks/t1:cancel",
        "GET /tasks/t1:subscribe",
    ]
)
methods = st.sampled_from(
    ["SendMessage", "SendStreamingMessage", "message/send", "GetTask", "ListTasks", "tasks/resubscribe", "CancelTask"]
)
almost_requests = (
    st.fixed_dictionaries(
        {"jsonrpc": st.just("2.0"), "method": methods | json_values},
        optional={
            "params": st.fixed_dictionaries(
                {}, optional={"message": json_objects | json_values, "id": st.just("t1") | json_values}
            )
            | json_values
        },
    )
    | st.fixed_dictionaries({"message": json_objects | json_values})
    | json_values
)
almost_answers = (
    st.fixed_dictionaries(
        {"result": almost_events | st.fixed_dictionaries({"tasks": st.lists(almost_events, max_size=3)})}
    )
    | st.fixed_dictionaries({"error": json_values})
    | st.fixed_dictionaries({"tasks": st.lists(almost_events, max_size=3)})
    | almost_events
)


@given(
    st.lists(
        st.tuples(
            lines,
            almost_requests,
            st.lists(almost_answers, max_size=4),
            st.sampled_from(["stream", "answer", "error", "cut", "open"]),
        ),
        max_size=4,
    )
)
def test_junk_never_raises_and_every_turn_closes_once(script: list[tuple[str, Any, list[Any], str]]) -> None:
    proxied = Proxied()
    opened = set()
    for line, body, answers, way in script:
        exchange = proxied.request(body, line=line)
        if exchange.turn is not None:
            opened.add(exchange.turn.turn_id)
        if way == "open":
            for content in answers:
                exchange.event(json.dumps(content).encode(), proxied.tick())
        elif way in ("stream", "cut"):
            proxied.stream(exchange, *answers, problem=Finding("upstream_cut", "cut") if way == "cut" else None)
        else:
            proxied.answer(exchange, answers[0] if answers else b"", 500 if way == "error" else 200)
        proxied.book.expire(proxied.now)
    proxied.stops()
    assert proxied.open_turns == []
    assert Counter(turn.turn_id for turn in proxied.turns) == Counter(opened)
    for turn in proxied.turns:
        assert Turn.from_dict({**turn.to_dict(), "evaluations": []}).turn_id == turn.turn_id


@given(st.binary(max_size=40), st.binary(max_size=40))
def test_bytes_never_raise(request: bytes, response: bytes) -> None:
    proxied = Proxied()
    proxied.answer(proxied.request(request), response)
    proxied.answer(proxied.request(request, line="POST /message:send"), response)
    proxied.answer(proxied.request(send()), response)
    assert len(proxied.turns) >= 1


# ── turns that cause others ─────────────────────────────────────────────────────────────────────────────────


def test_what_a_message_says_of_the_turn_that_caused_it(proxied: Proxied) -> None:
    metadata = {"parent_task_id": "t2", "parentContextId": "c2", "parentTaskId": 3}
    message = send(referenceTaskIds=["t1", "t1", 7, "", "x" * 300], metadata=metadata)
    exchange = proxied.request(message, links=TurnLinks("5" * 16, "6" * 32))
    assert exchange.turn is not None
    names = (NamedIn.PARENT_TASK, "t1"), (NamedIn.PARENT_TASK, "t2"), (NamedIn.PARENT_CONVERSATION, "c2")
    assert exchange.turn.links == TurnLinks("5" * 16, "6" * 32, names)


def test_an_answer_names_the_conversations_of_agents_that_were_asked(proxied: Proxied) -> None:
    exchange = proxied.request(send())
    turn = exchange.turn
    part = {"data": {"name": "ask"}, "metadata": {"kagent_type": "function_call", "kagent_subagent_session_id": "c7"}}
    task = {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}, "artifacts": [{"parts": [part]}]}
    exchange.answer(200, json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"task": task}}).encode(), proxied.tick())
    assert turn is not None
    assert turn.links == TurnLinks(names=((NamedIn.CHILD_CONVERSATION, "c7"),))
