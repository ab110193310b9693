"""The admin API of a running proxy: what was captured, cases, flush, and who may ask."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import httpx
import pytest
import pytest_asyncio
from a2a_eval_proxy.scoring import case_book
from a2a_eval_proxy.scoring.pipeline import Pipeline
from agents.replay_agent import Answer
from support.patience import PATIENCE_S
from support.proxied import Proxied, proxied
from tool_call_evaluators import registry
from tool_call_evaluators.evaluator import Measurement, SyncEvaluator
from tool_call_evaluators.model import EvalCase

TURN_KEYS = {
    "turn_id", "run", "case_id", "conversation_id", "task_id", "agent", "binding", "protocol_version", "state",
    "status", "user_text", "response_text", "started_at", "first_event_at", "ended_at", "trace_id", "tool_calls",
    "call_times", "calls", "calls_evidence", "capture", "findings", "evaluations",
}  # fmt: skip
CAPTURE_KEYS = {
    "declared", "requested_by_client", "snapshot_seen", "sources", "matched_by_id", "matched_by_signature",
    "protocol_only", "trace_only",
}  # fmt: skip
TOKEN = {"authorization": "bearer s3cret"}


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Proxied]:
    async with proxied(tmp_path_factory.mktemp("store")) as running:
        yield running


@pytest.fixture
def it(shared: Proxied, request: pytest.FixtureRequest) -> Iterator[Proxied]:
    """A proxy for all tests, in which every test has a run of its own."""
    yield replace(shared, run=request.node.name)
    for case_id in list(shared.proxy.control.common.cases._registered):
        shared.proxy.control.common.cases.remove(case_id)


@pytest_asyncio.fixture(loop_scope="module")
async def fresh(tmp_path: Path) -> AsyncIterator[Proxied]:
    """A proxy that no client has used."""
    async with proxied(tmp_path) as running:
        yield running


# ── turns ───────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_turn_has_the_fields_of_the_contract(it: Proxied) -> None:
    await it.talks("hello")
    await it.flushed()
    content = await it.get("/api/turns", run=it.run)
    assert set(content) == {"items", "next_cursor"}
    (turn,) = content["items"]
    assert set(turn) == TURN_KEYS
    assert set(turn["capture"]) == CAPTURE_KEYS
    assert (turn["run"], turn["agent"], turn["binding"]) == (it.run, it.agent.url, "JSONRPC")
    assert (turn["protocol_version"], turn["state"], turn["status"]) == ("1.0", "TASK_STATE_COMPLETED", "done")
    assert (turn["user_text"], turn["response_text"]) == ("hello", "re: hello")
    assert (turn["conversation_id"], turn["task_id"]) == ("c", "task of hello")
    assert turn["tool_calls"] == [
        {
            "id": "1",
            "name": "search",
            "arguments": {"q": "hello"},
            "result": "42",
            "error": None,
            "source": "a2a_protocol",
        }
    ]
    assert turn["capture"]["sources"] == {"a2a_protocol": 1}
    assert [result["evaluator"] for result in turn["evaluations"]] == ["tool_error"]
    assert turn["started_at"] <= turn["first_event_at"] <= turn["ended_at"]
    assert await it.get(f"/api/turns/{turn['turn_id']}") == turn


async def test_selecting_turns(fresh: Proxied) -> None:
    await fresh.talks("one", context="c1")
    await fresh.talks("two", context="c2", a2a_eval_run="weekly", a2a_eval_case="refund")
    await fresh.talks("three", context="c1", a2a_eval_case="refund")
    await fresh.flushed()
    everything = await fresh.get("/api/turns")
    assert [turn["user_text"] for turn in everything["items"]] == ["one", "two", "three"]
    assert await fresh.texts() == ["one", "three"]
    assert await fresh.texts(run="weekly") == ["two"]
    assert await fresh.texts(conversation="c1") == ["one", "three"]
    assert await fresh.texts(case="refund") == ["three"]
    assert await fresh.texts(status="pending") == []
    assert await fresh.texts(run="nobody") == []


async def test_turns_by_their_content(it: Proxied) -> None:
    await it.admin.put("/api/cases/tagged", json={**CASE, "tags": ["smoke"]})
    await it.talks("Where is it?", context="content-1")
    await it.talks("Something ELSE", context="content-2", state="FAILED")
    await it.flushed()
    assert await it.texts(order="newest") == ["Something ELSE", "Where is it?"]
    assert await it.texts(order="oldest") == await it.texts() == ["Where is it?", "Something ELSE"]
    assert await it.texts(q="else") == ["Something ELSE"]
    assert await it.texts(verdict="passed") == ["Where is it?"]
    assert await it.texts(verdict="failed", evaluator="turn_succeeded") == ["Something ELSE"]
    assert await it.texts(tag="smoke", tool="search", order="newest") == ["Where is it?"]
    assert await it.texts(finding="nothing_like_that") == []
    (short,) = await it.turns(view="summary", tag="smoke")
    assert (short["verdict"], short["tool_calls"]) == ("passed", [{"name": "search", "error": False}])
    refused = await it.admin.get("/api/turns?tag=smoky")
    assert (refused.status_code, refused.json()) == (400, {"error": "tag: expected one of smoke, got 'smoky'"})


@pytest.mark.parametrize(
    "path",
    [
        "/api/turns/nobody",
        "/api/conversations/nobody",
        "/api/runs/nobody",
        "/api/nothing",
        "/nothing",
        "/api/cases/x/y/",
    ],
)
async def test_what_is_not_there(it: Proxied, path: str) -> None:
    response = await it.admin.get(path)
    assert response.status_code in (404, 405)
    assert response.json()["error"]


async def test_conversations(it: Proxied) -> None:
    await it.talks("one", context="a/b c")
    await it.talks("other", context="z")
    await it.talks("two", context="a/b c")
    await it.flushed()
    content = await it.get("/api/conversations/a%2Fb%20c")
    assert content["conversation_id"] == "a/b c"
    assert [turn["user_text"] for turn in content["turns"]] == ["one", "two"]


async def test_runs(fresh: Proxied) -> None:
    await fresh.talks("one")
    await fresh.talks("two", a2a_eval_run="feature/x 1")
    await fresh.talks("three")
    await fresh.flushed()
    content = await fresh.get("/api/runs")
    assert content["next_cursor"] is None
    assert [(run["name"], run["turns"], run["pending"]) for run in content["items"]] == [
        ("nightly", 2, 0),
        ("feature/x 1", 1, 0),
    ]
    told = await fresh.get("/api/runs/feature%2Fx%201")
    assert {key: told[key] for key in content["items"][1]} == content["items"][1]


# ── conversations ───────────────────────────────────────────────────────────────────────────────────────────

CONVERSATIONS = """
suite: live
evaluators:
  - {tool_trajectory: {mode: in_order}}
  - {tool_trajectory: {scope: conversation, mode: in_order, id: whole}}
cases:
  - id: talk
    expect: {tool_calls: [{name: search, arguments: null}, {name: search, arguments: null}]}
    turns:
      - {user: Hello, expect: {tool_calls: [{name: search, arguments: {q: Hello}}]}}
      - {user: "Yes", expect: {tool_calls: [{name: search, arguments: {q: Yes}}]}}
  - id: other
    turns: [{user: Good day}, {user: "Yes"}]
"""


async def test_what_was_said_of_a_conversation_as_a_whole(tmp_path: Path) -> None:
    suite = tmp_path / "suite.yaml"
    suite.write_text(CONVERSATIONS)
    async with proxied(tmp_path, suite=str(suite)) as it:
        await it.talks("Hello", context="c-1")
        await it.flushed()
        assert (await it.get("/api/conversations/c-1"))["evaluations"] == []
        await it.talks("Yes", context="c-1")
        await it.flushed()
        content = await it.get("/api/conversations/c-1")
        assert [turn["case_id"] for turn in content["turns"]] == ["talk", "talk"]
        assert [[item["score"] for item in turn["evaluations"]] for turn in content["turns"]] == [[1.0], [1.0]]
        (said,) = content["evaluations"]
        assert (said["run"], said["case_id"], said["evaluator"], said["score"]) == ("nightly", "talk", "whole", 1.0)
        run = await it.get("/api/runs/nightly")
        assert run["passed"] == 3
        assert [(item["metric"], item["mean"], item["pass_rate"]) for item in run["metrics"]] == [
            ("tool_trajectory", 1.0, 1.0),
            ("whole", 1.0, 1.0),
        ]
        assert [(reason["code"], reason["where"]) for reason in run["verdict"]["reasons"]] == [
            ("missing_turn", "other, turn 1"),
            ("missing_turn", "other, turn 2"),
        ]
        assert run["verdict"]["passed"] is False
        assert run["judge_usage"]["requests"] == 0
        await it.talks("Good day", context="c-2")
        await it.talks("Yes", context="c-2")
        await it.flushed()
        verdict = (await it.get("/api/runs/nightly"))["verdict"]
        assert (verdict["suite"], verdict["status"], verdict["passed"]) == ("live", "passed", True)
        assert (verdict["reason_count"], verdict["tolerated_count"], verdict["reasons"]) == (0, 0, [])


# ── cases ───────────────────────────────────────────────────────────────────────────────────────────────────

CASE = {"turns": [{"user": "Where is it?", "expect": {"tool_calls": [{"name": "search"}]}}]}


async def test_a_registered_case_is_matched_by_its_text(it: Proxied) -> None:
    response = await it.admin.put("/api/cases/status", json=CASE)
    assert (response.status_code, response.json()) == (200, {"case_id": "status", "context_id": None})
    await it.talks("Where is it?")
    await it.talks("Something else", context="other")
    await it.flushed()
    assert await it.texts(case="status") == ["Where is it?"]


@pytest.mark.parametrize("case_id", ["a/b", "with space", "größe", "100%"])
async def test_case_ids_of_any_form(it: Proxied, case_id: str) -> None:
    path = httpx.URL(it.proxy.admin_url).copy_with(path=f"/api/cases/{case_id}")
    assert (await it.admin.put(path, json=CASE)).json()["case_id"] == case_id
    assert it.proxy.control.common.cases.case(case_id) is not None
    assert (await it.admin.delete(path)).status_code == 204
    assert it.proxy.control.common.cases.case(case_id) is None


async def test_a_case_can_be_replaced_and_removed(it: Proxied) -> None:
    await it.admin.put("/api/cases/status", json=CASE)
    await it.admin.put("/api/cases/status", json={"turns": [{"user": "Hello"}]})
    await it.talks("Where is it?", context="replaced-1")
    await it.talks("Hello", context="replaced-2")
    assert (await it.admin.delete("/api/cases/status")).status_code == 204
    await it.talks("Hello", context="replaced-3")
    await it.flushed()
    assert [turn["conversation_id"] for turn in await it.turns(case="status")] == ["replaced-2"]
    response = await it.admin.delete("/api/cases/status")
    assert response.status_code == 404
    assert "no case 'status'" in response.json()["error"]


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (b"", "Invalid JSON"),
        (b"{", "Invalid JSON"),
        (b"\xff", "Invalid JSON"),
        (b"[" * 100_000, "Invalid JSON"),
        (b"[]", "JSON object"),
        (b'"x"', "JSON object"),
        (b"{}", "turns"),
        (b'{"turns": []}', "at least one turn"),
        (b'{"turns": [{}]}', "user"),
        (b'{"turns": [{"user": "x"}], "id": "other"}', "'other'"),
        (b'{"turns": [{"user": "x"}], "id": 7}', "7"),
        (b'{"turns": [{"user": "x", "expect": {"tool_call": []}}]}', "tool_calls"),
    ],
)
async def test_a_body_that_is_no_case(it: Proxied, body: bytes, complaint: str) -> None:
    response = await it.admin.put("/api/cases/status", content=body)
    assert response.status_code == 400
    assert complaint in response.json()["error"]
    assert it.proxy.control.common.cases.case("status") is None


async def test_a_case_that_is_too_large(it: Proxied) -> None:
    response = await it.admin.put("/api/cases/status", content=b'{"turns": "' + b"x" * 1024 * 1024)
    assert response.status_code == 413


async def test_cases_beyond_the_limit(it: Proxied, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(case_book, "MAX_REGISTERED_BYTES", len(json.dumps(CASE)) + 10)
    assert (await it.admin.put("/api/cases/one", json=CASE)).status_code == 200
    refused = await it.admin.put("/api/cases/two", json=CASE)
    assert refused.status_code == 409
    assert "delete some: DELETE /api/cases/ID" in refused.json()["error"]
    assert (await it.admin.delete("/api/cases/one")).status_code == 204
    assert (await it.admin.put("/api/cases/two", json=CASE)).status_code == 200


# ── flush ───────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class Gate(SyncEvaluator):
    """Holds scoring up until a test lets it continue."""

    name: ClassVar[str] = "gate_of_test_admin_api"
    opened: ClassVar[threading.Event] = threading.Event()

    def measure(self, case: EvalCase) -> Measurement:
        assert self.opened.wait(PATIENCE_S)
        return Measurement(1.0, "it was opened")


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Gate]]:
    monkeypatch.setitem(registry._registered, Gate.name, Gate)
    Gate.opened.clear()
    yield Gate
    Gate.opened.set()


async def test_flush_returns_when_everything_is_done(tmp_path: Path, gate: type[Gate]) -> None:
    suite = tmp_path / "suite.yaml"
    suite.write_text("suite: gated\nevaluators: [gate_of_test_admin_api]\ncases: []")
    async with proxied(tmp_path, suite=str(suite)) as it:
        await it.talks("one")
        late = await it.admin.post("/api/flush?timeout=0")
        assert (late.status_code, late.json()) == (504, {"done": False, "pending": 1, "open": 0})
        flushing = asyncio.create_task(it.admin.post("/api/flush?timeout=60"))
        await asyncio.sleep(0)
        gate.opened.set()
        done = await flushing
        assert (done.status_code, done.json()) == (200, {"done": True, "pending": 0, "open": 0})
        assert await it.texts(status="done") == ["one"]


async def test_flush_says_how_many_turns_are_still_open(fresh: Proxied) -> None:
    await fresh.talks("one", state="WORKING")
    response = await fresh.admin.post("/api/flush")
    assert response.json() == {"done": True, "pending": 0, "open": 1}


# ── health, metrics ─────────────────────────────────────────────────────────────────────────────────────────


async def test_nobody_is_sent_before_clients_can_connect(
    tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = []

    async def resume(pipeline: Pipeline) -> int:
        """Takes its time where much was left pending; the admin port is open already."""
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as admin:
            answers.extend([await admin.get("/healthz"), await admin.get("/readyz")])
        return 0

    monkeypatch.setattr(Pipeline, "resume", resume)
    async with proxied(tmp_path, admin=f"127.0.0.1:{port}") as running:
        answers.append(await running.admin.get("/readyz"))
    told = [(answer.status_code, answer.text) for answer in answers]
    assert told == [(200, "ok\n"), (503, "the proxy is starting\n"), (200, "ready\n")]


async def test_metrics(fresh: Proxied) -> None:
    await fresh.talks("one")
    await fresh.talks("two", state="WORKING")
    await fresh.admin.post("/api/flush")
    response = await fresh.admin.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain")
    lines = response.text.splitlines()
    for line in (
        "a2a_eval_proxy_requests_total 2.0",
        "a2a_eval_proxy_turns_closed_total 1.0",
        "a2a_eval_proxy_turns_scored_total 1.0",
        'a2a_eval_proxy_tool_calls_total{source="a2a_protocol"} 1.0',
        'a2a_eval_proxy_evaluations_total{evaluator="tool_error",status="passed"} 1.0',
        "a2a_eval_proxy_open_turns 1.0",
        "a2a_eval_proxy_queue_depth 0.0",
    ):
        assert line in lines


# ── who may ask ─────────────────────────────────────────────────────────────────────────────────────────────

PATHS = [
    ("GET", "/metrics"),
    ("GET", "/api/turns"),
    ("GET", "/api/turns/x"),
    ("GET", "/api/conversations/x"),
    ("GET", "/api/runs"),
    ("GET", "/api/runs/x"),
    ("PUT", "/api/cases/x"),
    ("DELETE", "/api/cases/x"),
    ("POST", "/api/flush"),
    ("GET", "/api/events"),
    ("GET", "/nothing"),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def guarded(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Proxied]:
    async with proxied(tmp_path_factory.mktemp("guarded"), admin_token="s3cret") as running:
        yield running


@pytest.mark.parametrize(
    "authorization", [None, "", "Bearer", "Bearer wrong", "s3cret", "Basic s3cret", "Bearer s3cre"]
)
async def test_without_the_token_nobody_gets_in(tmp_path: Path, authorization: str | None) -> None:
    headers = {} if authorization is None else {"authorization": authorization}
    async with proxied(tmp_path, admin_token="s3cret") as guarded:
        for method, path in PATHS:
            response = await guarded.admin.request(method, path, headers=headers)
            assert response.status_code == 401, path
            assert response.headers["www-authenticate"] == "Bearer"
            assert "s3cret" not in response.text


async def test_with_the_token_one_does_and_the_health_paths_need_none(guarded: Proxied) -> None:
    for method, path in PATHS:
        if path != "/api/events":  # it would not end
            response = await guarded.admin.request(method, path, headers=TOKEN)
            assert response.status_code != 401, path
    assert (await guarded.admin.get("/healthz")).status_code == 200
    assert (await guarded.admin.get("/readyz")).status_code == 200


async def test_the_admin_api_is_not_on_the_data_port(it: Proxied) -> None:
    it.agent.prepare(Answer([b"HTTP/1.1 404 Not Found\r\ncontent-length: 5\r\n\r\nagent"]))
    response = await it.data.get("/api/turns")
    assert (response.status_code, response.text) == (404, "agent")
