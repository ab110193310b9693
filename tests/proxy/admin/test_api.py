"""The admin API of a running proxy: what was captured, cases, flush, and who may ask."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
import pytest_asyncio
from a2a_eval_proxy.features.pages.site import SCREENS
from a2a_eval_proxy.scoring import case_book
from a2a_eval_proxy.scoring.pipeline import Pipeline
from agents.replay_agent import Answer
from support.proxied import Proxied, proxied

TURN_KEYS = {
    "turn_id", "run", "case_id", "conversation_id", "task_id", "agent", "binding", "protocol_version", "state",
    "status", "user_text", "response_text", "started_at", "first_event_at", "ended_at", "trace_id", "tool_calls",
    "call_times", "calls", "calls_evidence", "capture", "findings", "evaluations",
}  # fmt: skip
CAPTURE_KEYS = {
    "declared", "requested_by_client", "snapshot_seen", "sources", "matched_by_id", "matched_by_signature",
    "protocol_only", "trace_only",
}  # fmt: skip
ADMIN, METRICS = "admin-0123456789abcdef", "metrics-0123456789abcdef"
SAME_SITE = {"sec-fetch-site": "same-origin"}


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Proxied]:
    async with proxied(tmp_path_factory.mktemp("store")) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def it(shared: Proxied, request: pytest.FixtureRequest) -> AsyncIterator[Proxied]:
    """A proxy for all tests, in which every test has a run of its own."""
    yield replace(shared, run=request.node.name)
    for case in (await shared.get("/api/cases"))["items"]:
        await shared.admin.delete(f"/api/cases/{quote(case['case_id'], safe='')}")


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
    call = {"id": "1", "name": "search", "arguments": {"q": "hello"}, "result": "42", "error": None}
    expected = {
        "run": it.run, "agent": it.agent.url, "binding": "JSONRPC", "protocol_version": "1.0", "status": "done",
        "state": "TASK_STATE_COMPLETED", "user_text": "hello", "response_text": "re: hello", "conversation_id": "c",
        "task_id": "task of hello", "tool_calls": [call | {"source": "a2a_protocol"}],
    }  # fmt: skip
    assert {name: turn[name] for name in expected} == expected
    assert turn["capture"]["sources"] == {"a2a_protocol": 1}
    assert [result["evaluator"] for result in turn["evaluations"]] == ["tool_error"]
    assert turn["started_at"] <= turn["first_event_at"] <= turn["ended_at"]
    assert await it.get(f"/api/turns/{turn['turn_id']}") == turn


async def test_selecting_turns(fresh: Proxied) -> None:
    await fresh.admin.put("/api/cases/tagged", json={**CASE, "tags": ["smoke"]})
    await fresh.talks("Where is it?", context="c1")
    await fresh.talks("Something ELSE", context="c2", state="FAILED")
    await fresh.talks("weekly", context="c1", a2a_eval_run="weekly", a2a_eval_case="refund")
    await fresh.flushed()
    first, second = "Where is it?", "Something ELSE"
    for query, texts in (
        ({}, [first, second, "weekly"]),
        ({"run": "nightly"}, [first, second]),
        ({"run": "weekly"}, ["weekly"]),
        ({"run": "nobody"}, []),
        ({"conversation": "c1"}, [first, "weekly"]),
        ({"case": "refund"}, ["weekly"]),
        ({"status": "pending"}, []),
        ({"run": "nightly", "order": "newest"}, [second, first]),
        ({"run": "nightly", "order": "oldest"}, [first, second]),
        ({"q": "else"}, [second]),
        ({"run": "nightly", "verdict": "passed"}, [first]),
        ({"verdict": "failed", "evaluator": "turn_succeeded"}, [second]),
        ({"tag": "smoke", "tool": "search", "order": "newest"}, [first]),
        ({"finding": "nothing_like_that"}, []),
    ):
        items = (await fresh.get("/api/turns", **query))["items"]
        assert [turn["user_text"] for turn in items] == texts, query
    (short,) = await fresh.turns(view="summary", tag="smoke")
    assert (short["verdict"], short["tool_calls"]) == ("passed", [{"name": "search", "error": False}])
    refused = await fresh.admin.get("/api/turns?tag=smoky")
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
        scores = [(turn["case_id"], [item["score"] for item in turn["evaluations"]]) for turn in content["turns"]]
        assert scores == [("talk", [1.0])] * 2
        (said,) = content["evaluations"]
        assert (said["run"], said["case_id"], said["evaluator"], said["score"]) == ("nightly", "talk", "whole", 1.0)
        run = await it.get("/api/runs/nightly")
        metrics = [(item["metric"], item["mean"], item["pass_rate"]) for item in run["metrics"]]
        assert metrics == [("tool_trajectory", 1.0, 1.0), ("whole", 1.0, 1.0)]
        reasons = [(reason["code"], reason["where"]) for reason in run["verdict"]["reasons"]]
        assert reasons == [("missing_turn", f"other, turn {number}") for number in (1, 2)]
        assert (run["passed"], run["verdict"]["passed"], run["judge_usage"]["requests"]) == (3, False, 0)
        await it.talks("Good day", context="c-2")
        await it.talks("Yes", context="c-2")
        await it.flushed()
        verdict = (await it.get("/api/runs/nightly"))["verdict"]
        assert (verdict["suite"], verdict["status"], verdict["reasons"]) == ("live", "passed", [])


# ── cases ───────────────────────────────────────────────────────────────────────────────────────────────────

CASE = {"turns": [{"user": "Where is it?", "expect": {"tool_calls": [{"name": "search"}]}}]}


@pytest.mark.parametrize("case_id", ["a/b", "größe 100%"])
async def test_case_ids_of_any_form(it: Proxied, case_id: str) -> None:
    path = httpx.URL(it.proxy.admin_url).copy_with(path=f"/api/cases/{case_id}")
    assert (await it.admin.put(path, json=CASE)).json()["case_id"] == case_id
    assert it.proxy.control.common.cases.case(case_id) is not None
    assert (await it.admin.delete(path)).status_code == 204
    assert it.proxy.control.common.cases.case(case_id) is None


async def test_a_case_can_be_replaced_and_removed(it: Proxied) -> None:
    response = await it.admin.put("/api/cases/status", json=CASE)
    assert (response.status_code, response.json()) == (200, {"case_id": "status", "context_id": None})
    await it.admin.put("/api/cases/status", json={"turns": [{"user": "Hello"}]})
    await it.talks("Where is it?", context="replaced-1")
    await it.talks("Hello", context="replaced-2")
    assert (await it.admin.delete("/api/cases/status")).status_code == 204
    await it.talks("Hello", context="replaced-3")
    await it.flushed()
    assert [turn["conversation_id"] for turn in await it.turns(case="status")] == ["replaced-2"]
    response = await it.admin.delete("/api/cases/status")
    assert (response.status_code, "no case 'status'" in response.json()["error"]) == (404, True)


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (b'{"turns": "' + b"x" * 1024 * 1024, "1048576 bytes at most"),
        (b"", "Invalid JSON"),
        (b"\xff", "Invalid JSON"),
        (b"[" * 100_000, "Invalid JSON"),
        (b"[]", "JSON object"),
        (b"{}", "turns"),
        (b'{"turns": []}', "at least one turn"),
        (b'{"turns": [{}]}', "user"),
        (b'{"turns": [{"user": "x"}], "id": "other"}', "'other'"),
        (b'{"turns": [{"user": "x", "expect": {"tool_call": []}}]}', "tool_calls"),
    ],
)
async def test_a_body_that_is_no_case(it: Proxied, body: bytes, complaint: str) -> None:
    response = await it.admin.put("/api/cases/status", content=body)
    assert response.status_code == (413 if "at most" in complaint else 400)
    assert complaint in response.json()["error"]
    assert it.proxy.control.common.cases.case("status") is None


async def test_cases_beyond_the_limit(it: Proxied, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(case_book, "MAX_REGISTERED_BYTES", len(json.dumps(CASE)) + 10)
    for line, code in (
        ("PUT /api/cases/one", 200),
        ("PUT /api/cases/two", 409),
        ("DELETE /api/cases/one", 204),
        ("PUT /api/cases/two", 200),
    ):
        response = await it.admin.request(*line.split(), json=CASE)
        assert (response.status_code, "delete some: DELETE /api/cases/ID" in response.text) == (code, code == 409)


# ── flush ───────────────────────────────────────────────────────────────────────────────────────────────────


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
    assert set(response.text.splitlines()) >= {
        "a2a_eval_proxy_requests_total 2.0",
        "a2a_eval_proxy_turns_closed_total 1.0",
        "a2a_eval_proxy_turns_scored_total 1.0",
        'a2a_eval_proxy_tool_calls_total{source="a2a_protocol"} 1.0',
        'a2a_eval_proxy_evaluations_total{evaluator="tool_error",status="passed"} 1.0',
        "a2a_eval_proxy_open_turns 1.0",
        "a2a_eval_proxy_queue_depth 0.0",
    }


# ── who may ask ─────────────────────────────────────────────────────────────────────────────────────────────

PATHS = [
    "GET /metrics",
    "GET /api/turns",
    "GET /api/turns/x",
    "GET /api/conversations/x",
    "GET /api/runs",
    "GET /api/runs/x",
    "PUT /api/cases/x",
    "DELETE /api/cases/x",
    "POST /api/flush",
    "GET /nothing",
    "GET /api/events",
]


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def guarded(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Proxied]:
    async with proxied(tmp_path_factory.mktemp("guarded"), admin_token=ADMIN, metrics_token=METRICS) as running:
        yield running


@pytest.mark.parametrize(
    "authorization", [None, "", "Bearer", "Bearer wrong", "s3cret", f"Basic {ADMIN}", f"Bearer {ADMIN[:-1]}"]
)
async def test_without_the_token_nobody_gets_in(guarded: Proxied, authorization: str | None) -> None:
    headers = {} if authorization is None else {"authorization": authorization}
    for line in PATHS:
        response = await guarded.admin.request(*line.split(), headers=headers)
        assert (response.status_code, response.headers["www-authenticate"]) == (401, "Bearer"), line
        assert ADMIN not in response.text


async def test_with_the_token_one_does_and_the_health_paths_need_none(guarded: Proxied) -> None:
    for line in PATHS[:-1]:  # the last one would not end
        assert (
            await guarded.admin.request(*line.split(), headers={"authorization": f"bearer {ADMIN}"})
        ).status_code != 401, line
    for path in ("/healthz", "/readyz"):
        assert (await guarded.admin.get(path)).status_code == 200


async def test_the_admin_api_is_not_on_the_data_port(it: Proxied) -> None:
    it.agent.prepare(Answer([b"HTTP/1.1 404 Not Found\r\ncontent-length: 5\r\n\r\nagent"]))
    response = await it.data.get("/api/turns")
    assert (response.status_code, response.text) == (404, "agent")


async def test_the_metrics_token_reads_the_metrics_and_nothing_else(guarded: Proxied) -> None:
    assert (await guarded.admin.get("/metrics", headers=bearer(METRICS))).status_code == 200
    for line in (
        "GET /",
        "GET /api/turns",
        "GET /api/events",
        "GET /metrics/",
        "GET /metrics/../api/turns",
        "PUT /api/cases/x",
        "POST /login",
        "POST /metrics",
    ):
        assert (await guarded.admin.request(*line.split(), headers=bearer(METRICS))).status_code in (403, 404), line
    form = {"token": METRICS}
    assert (await guarded.admin.post("/login", data=form, headers=SAME_SITE)).status_code == 401


async def test_wrong_tokens_are_counted_in_the_log_over_every_door(tmp_path: Path, caplog) -> None:
    async with proxied(tmp_path, admin_token=ADMIN) as it:
        answers = [
            await it.admin.get("/api/runs", headers=bearer("guess-1")),
            await it.admin.post("/login", data={"token": "guess-2"}, headers=SAME_SITE),
            await it.admin.get("/login", params={"code": "guess-3"}),
            await it.admin.get("/api/runs", headers=bearer(ADMIN)),
        ]
        assert [response.status_code for response in answers] == [401, 401, 401, 200]
    (line,) = [record.getMessage() for record in caplog.records if "login failed" in record.getMessage()]
    assert line == "login failed 1 time(s), last: a wrong token from 127.0.0.1"
    assert "guess" not in caplog.text


def changes(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name.endswith(".guard")]


async def test_each_change_has_a_line_with_who_what_and_from_where(guarded: Proxied, caplog) -> None:
    await guarded.talks("audited", state="COMPLETED")
    await guarded.admin.post("/api/flush", headers=bearer(ADMIN))
    turn_id = (await guarded.admin.get("/api/turns", headers=bearer(ADMIN))).json()["items"][0]["turn_id"]
    turn = f"/api/turns/{turn_id}"
    caplog.clear()
    for method, path, body in (
        ("GET", "/api/turns", None),
        ("PUT", "/api/cases/x", CASE),
        ("POST", f"{turn}/annotations", {"assessment": "wrong", "note": "a secret thought"}),
        ("POST", f"{turn}/case", {"case_id": "x"}),
        ("DELETE", "/api/cases/x", None),
    ):
        assert (await guarded.admin.request(method, path, headers=bearer(ADMIN), json=body)).is_success
    assert changes(caplog) == [
        "PUT '/api/cases/x' by admin token from 127.0.0.1",
        f"POST '{turn}/annotations' by admin token from 127.0.0.1",
        f"POST '{turn}/case' by admin token from 127.0.0.1",
        "DELETE '/api/cases/x' by admin token from 127.0.0.1",
    ]
    assert "secret" not in caplog.text


async def test_logins_and_changes_of_pages_have_lines(guarded: Proxied, caplog) -> None:
    async with httpx.AsyncClient(base_url=guarded.proxy.admin_url, headers=SAME_SITE) as visitor:
        assert (await visitor.get(guarded.proxy.control.page_address())).status_code == 303
        assert (await visitor.put("/api/cases/y", json=CASE)).status_code == 200
        await visitor.post("/logout")
        assert (await visitor.post("/login", data={"token": ADMIN})).status_code == 303
    assert [line.partition(" from")[0] for line in changes(caplog)] == [
        "GET '/login' by login",
        "PUT '/api/cases/y' by session",
        "POST '/logout' by session",
        "POST '/login' by login",
    ]
    assert ADMIN not in caplog.text
    assert "code" not in " ".join(changes(caplog))


# ── what all routes have in common ──────────────────────────────────────────────────────────────────────────

PROMISED = [
    "/healthz", "/readyz", "/metrics", "/api/turns", "/api/turns/{turn_id}", "/api/conversations/{conversation_id}",
    "/api/runs", "/api/runs/{name}", "/api/cases/{case_id}", "/api/flush", "/api/events",
]  # fmt: skip


async def test_an_unknown_path_is_answered_with_those_that_there_are(shared: Proxied) -> None:
    response = await shared.admin.get("/api/nothing")
    assert response.status_code == 404
    said = response.json()["error"].removeprefix("no such path; there are ").split(", ")
    assert set(PROMISED) <= set(said)
    assert not [screen.path for screen in SCREENS if screen.path != "/" and screen.path in said]


@pytest.mark.parametrize(
    ("request_line", "known"),
    [
        ("GET /api/turns", "it has run, agent, case, conversation, tag, status, verdict, evaluator, tool, finding, q"),
        ("GET /api/turns/x", "it has none"),
        ("GET /api/turns/x/wire", "it has none"),
        ("GET /api/conversations/x", "it has cursor"),
        ("GET /api/runs", "it has agent"),
        ("GET /api/runs/x", "it has none"),
        ("GET /api/runs/x/compare/y", "it has agent"),
        ("GET /api/cases", "it has agent"),
        ("PUT /api/cases/x", "it has agent"),
        ("DELETE /api/cases/x", "it has agent"),
        ("POST /api/turns/x/annotations", "it has none"),
        ("GET /api/agents", "it has none"),
        ("GET /api/open-turns", "it has run, agent, case"),
        ("POST /api/flush", "it has timeout"),
        ("GET /api/events", "it has run, agent, case, types, turn, view, last_event_id"),
        ("GET /metrics", "it has none"),
    ],
)
async def test_unknown_parameters_are_refused_with_those_that_there_are(
    shared: Proxied, request_line: str, known: str
) -> None:
    method, path = request_line.split()
    response = await shared.admin.request(method, f"{path}?rnu=x")
    assert response.status_code == 400
    error = response.json()["error"]
    assert error.startswith(f"'rnu' is no parameter of {method} {path.split('/x')[0]}")
    assert f"; {known}" in error


async def test_a_probe_may_have_a_parameter(shared: Proxied) -> None:
    assert [(await shared.admin.get(f"{path}?rnu=x")).status_code for path in ("/healthz", "/readyz")] == [200, 200]


@pytest.mark.parametrize(
    ("request_line", "accepted"),
    [
        ("GET /api/turns?status", ["open", "pending", "done"]),
        ("GET /api/turns?verdict", ["failed", "errored", "passed", "unscored"]),
        ("GET /api/turns?order", ["newest", "oldest"]),
        ("GET /api/turns?limit", ["integer"]),
        ("GET /api/events?types", ["turn.opened", "turn.done"]),
        ("GET /api/events?view", ["short", "count"]),
        ("POST /api/flush?timeout", ["number"]),
    ],
)
async def test_unknown_values_are_refused_with_those_that_are_accepted(
    shared: Proxied, request_line: str, accepted: list[str]
) -> None:
    method, target = request_line.split()
    response = await shared.admin.request(method, f"{target}=bogus")
    assert response.status_code == 400
    error = response.json()["error"]
    assert error.startswith(f"{target.partition('?')[2]}: ")
    assert "expected " in error or "valid " in error
    assert all(value in error for value in accepted), error


async def test_a_parameter_is_given_once(shared: Proxied) -> None:
    response = await shared.admin.get("/api/turns?run=a&run=b")
    assert (response.status_code, response.json()) == (400, {"error": "run: given more than once"})


async def test_a_wrong_method_is_answered_with_the_right_ones(shared: Proxied) -> None:
    response = await shared.admin.post("/api/cases/a/b")
    assert (response.status_code, response.headers["allow"]) == (405, "DELETE, PUT")
    assert response.json() == {"error": "POST is not allowed here; allowed: DELETE, PUT"}
    assert (await shared.admin.get("/api/turns/")).status_code == 404  # no redirect
