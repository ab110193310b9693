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
from a2a_tool_capture import METADATA_KEY, URI, Finding, TaskMerger
from a2a_tool_capture.wire import received_event
from golden.recorded import expected_turn, recordings
from hypothesis import given
from hypothesis import strategies as st
from support.folded import Folded
from support.junk import almost_events, json_objects, json_values
from support.read_exchange import ReadExchange
from support.recordings import Recording, names
from tool_call_evaluators.visibility import turn_failure_of


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


@pytest.mark.parametrize(
    ("version", "method", "shown"),
    [
        ("1.0", "SendMessage", "1.0"),
        ("1.0.3", "SendMessage", "1.0"),
        ("ann@example.com", "SendMessage", "unknown"),
        ("", "SendMessage", "0.3"),
        ("0.3", "message/send", "0.3"),
        ("", "message/send", "0.3"),
    ],
)
def test_the_protocol_version(version: str, method: str, shown: str, proxied: Proxied) -> None:
    exchange = proxied.request({**send(), "method": method}, version=version)
    assert exchange.turn is not None
    assert exchange.turn.protocol_version == shown


def test_an_agent_of_1_0_may_be_mounted_at_v1(proxied: Proxied) -> None:
    exchange = proxied.request(send()["params"], line="POST /v1/message:send", version="1.0")
    assert exchange.turn is not None
    assert exchange.turn.protocol_version == "1.0"


@pytest.mark.parametrize(
    ("header", "extensions", "asked"),
    [
        (True, None, True),
        (False, [URI], True),
        (False, ["x", 1, URI.replace("v1", "v2")], True),
        (False, URI, False),
        (False, [], False),
    ],
)
def test_whether_the_client_asked_for_the_extension(
    header: bool, extensions: Any, asked: bool, proxied: Proxied
) -> None:
    exchange = proxied.request(send(extensions=extensions), asked_by_header=header)
    assert exchange.turn is not None
    assert exchange.turn.capture.requested_by_client is asked


@pytest.mark.parametrize(
    ("header", "metadata", "case_id"),
    [
        (None, None, None),
        (None, {CASE_METADATA_KEY: "refund"}, "refund"),
        ("status", {CASE_METADATA_KEY: "refund"}, "status"),
        (None, {CASE_METADATA_KEY: ""}, None),
        (None, {CASE_METADATA_KEY: 7}, None),
        (None, ["refund"], None),
    ],
)
def test_the_case_of_a_turn(header: str | None, metadata: Any, case_id: str | None, proxied: Proxied) -> None:
    exchange = proxied.request(send(metadata=metadata), case_id=header)
    assert exchange.turn is not None
    assert exchange.turn.case_id == case_id


@pytest.mark.parametrize(
    "beginning", [b'{"method":"SendMessage","params":{"message":{"pa', b'{"method":"message/stream","x":"']
)
def test_a_request_too_large_to_keep_is_a_turn_without_its_text(beginning: bytes, proxied: Proxied) -> None:
    exchange = proxied.request(beginning=beginning)
    proxied.answer(exchange, result({"task": task("COMPLETED", artifact("search"))}))
    assert (proxied.turn.user_text, names_of(proxied.turn)) == ("", ["search"])
    assert proxied.codes == ["not_asked", "request_too_large"]


def test_a_large_rest_request_is_known_by_its_path(proxied: Proxied) -> None:
    exchange = proxied.request(line="POST /message:send", beginning=b"")
    proxied.answer(exchange, {"task": task("COMPLETED")})
    assert proxied.codes == ["not_asked", "request_too_large"]


@pytest.mark.parametrize(
    "body", [b"", b"not json", b"[]", b'{"method":1}', [send()], rpc("SendMessage", {"message": 1})]
)
def test_what_opens_no_turn(body: Any, proxied: Proxied) -> None:
    exchange = proxied.request(body)
    proxied.answer(exchange, result({"task": task("COMPLETED")}))
    assert proxied.turns == []


# ── what a response says ────────────────────────────────────────────────────────────────────────────────────


def test_an_error_object(proxied: Proxied) -> None:
    error = {"jsonrpc": "2.0", "id": 1, "error": {"code": -32001, "message": "Task not found"}}
    proxied.answer(proxied.request(send()), error)
    assert proxied.codes == ["agent_error"]
    assert "-32001: Task not found" in proxied.turn.findings[0].message


def test_an_error_status(proxied: Proxied) -> None:
    exchange = proxied.request(send()["params"], line="POST /message:send")
    proxied.answer(exchange, {"error": {"code": 400, "message": "bad parts"}}, 400)
    assert proxied.codes == ["agent_error"]
    assert proxied.turn.findings[0].message.endswith("400: bad parts")


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        (502, b"<h1>Bad Gateway</h1>", "agent_unreachable"),
        (401, b"", "agent_unreachable"),
        (500, b"boom", "agent_unreachable"),
        (200, b"<!DOCTYPE html><title>Log in</title>", "agent_unreachable"),
        (400, b"which message?", "agent_error"),
        (500, b'{"error": {"code": 500, "status": "INTERNAL", "message": "a bug"}}', "agent_error"),
    ],
)
def test_an_answer_that_is_not_of_the_agent(status: int, body: bytes, code: str, proxied: Proxied) -> None:
    proxied.answer(proxied.request(send()), body, status)
    assert proxied.codes == [code]


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
def test_an_error_inside_a_stream(binding: str, proxied: Proxied) -> None:
    first, error = {"task": task("WORKING")}, {"error": {"code": 500, "message": "backend gone"}}
    if binding == "JSONRPC":
        proxied.stream(proxied.request(rpc("SendStreamingMessage", send()["params"])), result(first), error)
    else:
        proxied.stream(proxied.request(send()["params"], line="POST /message:stream"), first, error)
    assert proxied.codes == ["agent_error"]
    assert proxied.turn.state == "TASK_STATE_WORKING"


def test_a_null_error_is_none(proxied: Proxied) -> None:
    proxied.answer(proxied.request(send()), {**result({"task": task("COMPLETED")}), "error": None})
    exchange = proxied.request(send()["params"], line="POST /message:send")
    proxied.answer(exchange, {"task": task("COMPLETED"), "error": None})
    assert [turn.state for turn in proxied.turns] == ["TASK_STATE_COMPLETED"] * 2


def test_long_errors_are_cut(proxied: Proxied) -> None:
    proxied.answer(proxied.request(send()), {"error": {"code": 1, "message": "x" * 10_000}})
    assert len(proxied.turn.findings[0].message) < 1_000


@pytest.mark.parametrize(("status", "code"), [(200, "agent_error"), (500, "agent_unreachable")])
def test_deep_errors_harm_nobody(status: int, code: str, proxied: Proxied) -> None:
    proxied.answer(proxied.request(send()), b'{"error":{"message":%b}}' % (b"[" * 1000 + b"]" * 1000), status)
    assert proxied.codes == [code]


def test_a_response_without_events(proxied: Proxied) -> None:
    proxied.stream(proxied.request(send()))
    assert proxied.codes == ["no_answer"]


@pytest.mark.parametrize("body", [b"hello", b"", b"[1]", b"{}", b'{"result":{"other":1}}'])
def test_an_answer_that_makes_no_sense(body: bytes, proxied: Proxied) -> None:
    proxied.answer(proxied.request(send()), body)
    assert proxied.codes == ["no_answer", "malformed_response"]
    assert turn_failure_of(proxied.turn.state, "", proxied.turn.findings) is not None


def test_a_stream_of_events_that_make_no_sense(proxied: Proxied) -> None:
    proxied.stream(proxied.request(send()), b"oops", b"{}")
    assert proxied.codes == ["no_answer", "malformed_response", "malformed_response"]


def test_a_poll_that_makes_no_sense_does_not_fail_the_turn(proxied: Proxied) -> None:
    proxied.answer(proxied.request(send()), result({"task": task("WORKING")}))
    proxied.answer(proxied.request(rpc("GetTask", {"id": "t"})), b"<html>")
    proxied.answer(proxied.request(rpc("GetTask", {"id": "t"})), result(task("COMPLETED")))
    assert "no_answer" not in proxied.codes
    assert turn_failure_of(proxied.turn.state, "", proxied.turn.findings) is None


def test_one_bad_event_does_not_spoil_the_others(proxied: Proxied) -> None:
    exchange = proxied.request(send())
    proxied.stream(exchange, result({"task": task("WORKING")}), b"oops", b"", result({"task": task("COMPLETED")}))
    assert proxied.codes == ["malformed_response"]
    assert proxied.turn.state == "TASK_STATE_COMPLETED"


@pytest.mark.parametrize("ends_with_task", [False, True])
@pytest.mark.parametrize("has_calls", [False, True])
def test_an_event_of_a_later_version(has_calls: bool, ends_with_task: bool, proxied: Proxied) -> None:
    """Calls are unknown only if it names the extension and no later Task has them."""
    status = {"taskId": "t", "status": {"state": "TASK_STATE_COMPLETED"}}
    end = {"task": task("COMPLETED", artifact("search"))} if ends_with_task else {"statusUpdate": status}
    later = {"progress": {"taskId": "t", "parts": [{"metadata": {METADATA_KEY: []}}] if has_calls else 0.5}}
    started = result({"task": task("WORKING", artifact("search"))})
    proxied.stream(proxied.request(send()), started, result(later), result(end))
    (finding,) = proxied.turn.findings
    is_unknown = has_calls and not ends_with_task
    assert (finding.code, finding.severity) == ("unknown_event", "warning" if is_unknown else "info")
    assert "'progress'" in finding.message
    assert proxied.turn.to_dict()["calls"] == ("unknown" if is_unknown else "seen")


def test_an_unknown_event_of_an_agent_whose_calls_are_in_a_dialect_may_have_some() -> None:
    merger = TaskMerger(dialects=("adk",))
    merger.feed(received_event({"progress": {}}, in_envelope=False, in_stream=True))
    assert [finding.severity for finding in merger.findings] == ["warning"]


@pytest.mark.parametrize("ends_with_task", [False, True])
def test_an_event_that_was_not_read_may_have_had_calls_unless_a_later_task_follows(
    ends_with_task: bool, proxied: Proxied
) -> None:
    status = {"taskId": "t", "status": {"state": "TASK_STATE_COMPLETED"}}
    end = {"task": task("COMPLETED", artifact("search"))} if ends_with_task else {"statusUpdate": status}
    proxied.stream(proxied.request(send()), result({"task": task("WORKING")}), b"oops", result(end))
    assert proxied.codes == ["malformed_response"]
    assert proxied.turn.to_dict()["calls"] == ("seen" if ends_with_task else "unknown")


def test_a_poll_has_what_a_stream_left_unread(proxied: Proxied) -> None:
    proxied.stream(proxied.request(send()), result({"task": task("WORKING")}), b"oops")
    proxied.answer(proxied.request(rpc("GetTask", {"id": "t"})), result(task("COMPLETED", artifact("search"))))
    assert proxied.turn.to_dict()["calls"] == "seen"


def test_findings_of_an_exchange_are_bounded(proxied: Proxied) -> None:
    refusals = [b'{"error":{"code":%d}}' % number for number in range(500)]
    proxied.stream(proxied.request(send()), *refusals)
    assert len(proxied.turn.findings) == 100


def test_how_the_exchange_ended_is_told(proxied: Proxied) -> None:
    cut = Finding("upstream_cut", "the agent broke off")
    proxied.stream(proxied.request(send()), problem=cut)
    assert proxied.codes == ["upstream_cut"]


def test_an_agent_that_never_answered_leaves_nothing_open(proxied: Proxied) -> None:
    proxied.answer(proxied.request(send()), result({"task": task("INPUT_REQUIRED")}))
    exchange = proxied.request(send(taskId="t"))
    exchange.end(proxied.tick(), problem=Finding("upstream_unreachable", "no connection"), lost=True)
    assert len(proxied.turns) == 2
    assert proxied.open_turns == []


# ── watching ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("line", ["POST /", "GET /tasks/t"])
def test_polling(line: str, proxied: Proxied) -> None:
    proxied.answer(proxied.request(send()), result({"task": task("SUBMITTED")}))
    for state in ("WORKING", "COMPLETED"):
        assert proxied.turns == []
        poll = proxied.request(rpc("GetTask", {"id": "t"}), line=line)
        answer = task(state, artifact("search"))
        proxied.answer(poll, result(answer) if line == "POST /" else answer)
        assert poll.task_ids == ["t"]
    assert names_of(proxied.turn) == ["search"]


def test_a_failed_poll_harms_no_turn(proxied: Proxied) -> None:
    proxied.answer(proxied.request(send()), result({"task": task("WORKING")}))
    proxied.answer(proxied.request(line="GET /tasks/t"), {"error": {"message": "not now"}}, 503)
    proxied.answer(proxied.request(rpc("GetTask", {"id": "t"})), {"error": {"code": 1}})
    assert proxied.turns == []
    proxied.answer(proxied.request(line="GET /tasks/t"), task("COMPLETED"))
    assert proxied.codes == []


def test_a_subscription(proxied: Proxied) -> None:
    proxied.answer(proxied.request(send()), result({"task": task("WORKING")}))
    updates = [
        {"artifactUpdate": {"taskId": "t", "artifact": artifact("search")}},
        {"statusUpdate": {"taskId": "t", "status": {"state": "TASK_STATE_COMPLETED"}}},
    ]
    subscription = proxied.request(rpc("SubscribeToTask", {"id": "t"}))
    proxied.stream(subscription, *(result(event) for event in ({"task": task("WORKING")}, *updates)))
    assert names_of(proxied.turn) == ["search"]


def test_a_cancellation(proxied: Proxied) -> None:
    proxied.answer(proxied.request(send()), result({"task": task("WORKING", artifact("search"))}))
    proxied.answer(proxied.request(rpc("CancelTask", {"id": "t"})), result(task("CANCELED", artifact("search"))))
    assert (proxied.turn.state, names_of(proxied.turn)) == ("TASK_STATE_CANCELED", ["search"])


@pytest.mark.parametrize("line", ["POST /", "GET /tasks?includeArtifacts=true"])
def test_a_list_with_artifacts_is_a_snapshot(line: str, proxied: Proxied) -> None:
    proxied.answer(proxied.request(send()), result({"task": task("SUBMITTED")}))
    listing = proxied.request(rpc("ListTasks", {"includeArtifacts": True}), line=line)
    content = {"tasks": [task("WORKING", id="other"), task("COMPLETED", artifact("search"))]}
    proxied.answer(listing, result(content) if line == "POST /" else content)
    assert names_of(proxied.turn) == ["search"]
    assert sorted(listing.task_ids) == ["other", "t"]


def test_a_list_without_artifacts_is_no_snapshot_and_no_end(proxied: Proxied) -> None:
    """Whoever sees there that the task is done will get it next, and its calls with it."""
    proxied.answer(proxied.request(send()), result({"task": task("WORKING", artifact("search"))}))
    listing = proxied.request(rpc("ListTasks", {}))
    proxied.answer(listing, result({"tasks": [{"id": "t", "status": {"state": "TASK_STATE_COMPLETED"}}]}))
    assert listing.task_ids == ["t"]
    assert proxied.turns == []
    proxied.answer(proxied.request(line="GET /tasks/t"), task("COMPLETED", artifact("search", "pay")))
    assert names_of(proxied.turn) == ["search", "pay"]
    assert proxied.codes == []


@pytest.mark.parametrize(
    "content", [None, {}, {"tasks": None}, {"tasks": [1, {}, {"id": "t"}]}, [], {"tasks": {"t": 1}}]
)
def test_a_list_that_makes_no_sense(content: Any, proxied: Proxied) -> None:
    proxied.answer(proxied.request(line="GET /tasks?includeArtifacts=true"), content)
    assert proxied.turns == []


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


@pytest.mark.parametrize("state", [[], {}, 7, None])
@pytest.mark.parametrize("streams", [False, True])
def test_a_state_of_any_type_is_read(proxied: Proxied, state: Any, streams: bool) -> None:
    task = {"id": "t", "status": {"state": state}}
    if streams:
        streaming = {**send(), "method": "SendStreamingMessage"}
        proxied.request(streaming).event(json.dumps(result({"task": task})).encode(), proxied.tick())
    proxied.answer(proxied.request(rpc("GetTask", {"id": "t"})), result(task))
    assert proxied.turns == []


# ── hints ───────────────────────────────────────────────────────────────────────────────────────────────────


def adk_task(kind: str, call: dict[str, Any] | None = None) -> dict[str, Any]:
    part = {"data": {"id": "adk-1", "name": "search", "args": {}}, "metadata": {kind: "function_call"}}
    message = {"messageId": "m", "role": "ROLE_AGENT", "parts": [part]}
    artifact: dict[str, Any] = {"artifactId": "a", "parts": [{"text": "done"}], "extensions": [URI]}
    if call is not None:
        artifact["metadata"] = {METADATA_KEY: [call]}
    status = {"state": "TASK_STATE_COMPLETED"}
    return {"result": {"task": {"id": "t", "status": status, "history": [message], "artifacts": [artifact]}}}


@pytest.mark.parametrize(("kind", "option"), [("adk_type", "--dialects adk"), ("kagent_type", "--dialects kagent")])
def test_a_dialect_that_is_not_read_is_named(kind: str, option: str, proxied: Proxied) -> None:
    proxied.answer(proxied.request(send()), adk_task(kind))
    assert proxied.codes == ["dialect_not_read"]
    assert option in proxied.turn.findings[0].message


def test_a_dialect_that_is_read_is_no_finding(proxied: Proxied) -> None:
    proxied.rules = FoldRules(dialects=["adk"])
    proxied.begins("with the dialect")
    proxied.answer(proxied.request(send()), adk_task("adk_type"))
    assert [call.name for call in proxied.turn.tool_calls] == ["search"]
    assert proxied.codes == []


def test_where_calls_are_seen_a_dialect_is_beside_the_point(proxied: Proxied) -> None:
    proxied.answer(proxied.request(send()), adk_task("adk_type", {"name": "search", "id": "adk-1"}))
    assert proxied.codes == []


def test_a_text_that_mentions_a_dialect_is_no_hint(proxied: Proxied) -> None:
    status = {"state": "TASK_STATE_COMPLETED", "message": {"parts": [{"text": 'set "adk_type" on the part'}]}}
    proxied.answer(proxied.request(send()), {"result": {"task": {"id": "t", "status": status}}})
    assert proxied.codes == []


def test_a_hint_is_given_once_however_often_a_task_is_polled(proxied: Proxied) -> None:
    working = adk_task("adk_type")
    working["result"]["task"]["status"]["state"] = "TASK_STATE_WORKING"
    proxied.answer(proxied.request(send()), working)
    for answer in (working, adk_task("adk_type")):
        poll = {"result": answer["result"]["task"]}
        proxied.answer(proxied.request(rpc("GetTask", {"id": "t"})), poll)
    assert proxied.codes == ["dialect_not_read"]


@pytest.mark.parametrize(
    ("facts", "codes"), [({}, ["not_asked"]), ({"asked_by_header": True}, []), ({"declared": False}, [])]
)
def test_a_turn_says_that_its_webhook_kept_the_proxy_from_asking(facts: dict[str, Any], codes: list[str]) -> None:
    """As that of a request which was not read: it may have one."""
    proxied = Proxied()
    exchange = proxied.request(line="POST /message:send", beginning=b"", **facts)
    proxied.answer(exchange, {"task": {"id": "t", "status": {"state": "TASK_STATE_COMPLETED"}}})
    (turn,) = proxied.turns
    codes = [*codes, "request_too_large"]
    assert [finding.code for finding in turn.findings] == codes


def test_a_client_may_leave_once_it_has_the_message(proxied: Proxied) -> None:
    """SDK clients close the stream after a Message, which is the whole answer: its turn misses nothing."""
    gone = Finding("client_gone", "the client left before the answer was complete")
    answer = {"message": {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "hello"}]}}
    exchange = proxied.request(send() | {"method": "SendStreamingMessage"})
    proxied.stream(exchange, result(answer), problem=gone)
    (turn,) = proxied.turns
    assert (turn.response_text, turn.findings) == ("hello", [])
    exchange = proxied.request(send() | {"method": "SendStreamingMessage"})
    proxied.stream(exchange, problem=gone)
    assert gone in proxied.turns[-1].findings


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
