"""What the numbers of a running proxy say of an agent that fails, and of one whose calls no source can see."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from a2a_eval_proxy.runs.rescore import evaluate_store
from a2a_tool_capture import METADATA_KEY, URI
from agents.replay_agent import Answer, ReplayAgent
from support.patience import PATIENCE_S
from support.proxied import Proxied, proxied
from tool_call_evaluators.suite import parse_suite

N = 2


def http(body: bytes, status: str = "200 OK", kind: str = "application/json") -> bytes:
    return f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body


def rpc(**answer: Any) -> bytes:
    return http(json.dumps({"jsonrpc": "2.0", "id": 1, **answer}).encode())


def task(state: str, *calls: dict[str, Any]) -> bytes:
    artifact = {"artifactId": "a", "parts": [{"text": "x"}], "extensions": [URI], "metadata": {METADATA_KEY: calls}}
    status = {"state": state, "message": {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "no luck"}]}}
    found = {"id": "t", "contextId": "c", "status": status, "artifacts": [artifact] if calls else []}
    return rpc(result={"task": found})


SAID = rpc(result={"message": {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "hello"}]}})
CALL = {"id": "1", "name": "search", "arguments": {}, "result": "found"}
WHOLE = task("TASK_STATE_COMPLETED", CALL)
DECLARES = http(json.dumps({"capabilities": {"extensions": [{"uri": URI}]}}).encode())


async def say(it: Proxied, answer: bytes, times: int = N) -> None:
    """Requests that the agent answers with these bytes, then it closes."""
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
    it.agent.prepare(Answer([answer], cut=True))
    for _ in range(times):
        try:
            await it.data.post("/", json=body, headers={"A2A-Version": "1.0"})
        except httpx.HTTPError:
            pass  # the cut is passed on
    await it.proxy.flush(PATIENCE_S)


async def the_run(it: Proxied) -> dict[str, Any]:
    (run,) = (await it.get("/api/runs"))["items"]
    return {**run, "verdict": (await it.get("/api/runs/nightly"))["verdict"]}


async def metric(it: Proxied, name: str) -> dict[str, float]:
    """The series of a metric by their labels."""
    text = (await it.admin.get("/metrics")).text
    found = (line.rpartition(" ") for line in text.splitlines() if line.partition("{")[0].split(" ")[0] == name)
    return {series.removeprefix(name): float(value) for series, _, value in found}


@pytest.fixture
def agent() -> Iterator[ReplayAgent]:
    """Its card declares the extension."""
    with ReplayAgent() as agent:
        agent.card = Answer([DECLARES])
        yield agent


BROKEN: dict[str, tuple[bytes, str]] = {
    "http 500": (http(b"oops", "500 Internal Server Error", "text/plain"), "agent_unreachable"),
    "json-rpc error": (rpc(error={"code": -32603, "message": "boom"}), "agent_error"),
    "cut": (WHOLE[:-40], "upstream_failed"),
    "cut stream": (
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n5\r\ndata:\r\n",
        "upstream_cut",
    ),
    "nothing": (b"", "upstream_failed"),
    "unreachable": (b"", "upstream_unreachable"),
    "failed task": (task("TASK_STATE_FAILED"), "task_failed"),
    "failed task with calls": (task("TASK_STATE_FAILED", CALL), "task_failed"),
}


@pytest.mark.parametrize("broken", BROKEN)
async def test_a_turn_that_the_agent_failed_fails_live_and_afterwards(
    broken: str, agent: ReplayAgent, port: int, tmp_path: Path
) -> None:
    answer, code = BROKEN[broken]
    nobody = {"upstream": f"http://127.0.0.1:{port}"} if broken == "unreachable" else {}
    async with proxied(tmp_path, agent, **nobody) as it:
        await say(it, answer)
        run = await the_run(it)
        failures = await metric(it, "a2a_eval_proxy_turns_failed_total")
        evaluations = await metric(it, "a2a_eval_proxy_evaluations_total")
        turns = await it.turns()
    assert failures.keys() <= {f'{{code="{code}"}}', '{code="upstream_cut"}'}
    assert sum(failures.values()) == evaluations['{evaluator="turn_succeeded",status="failed"}'] == N
    seen = N if "with calls" in broken else 0  # only calls that were seen pass; no suite judges the run
    assert (run["turns"], run["failed"], run["passed"], run["verdict"]) == (N, N, seen, None)
    for turn in turns:
        statuses = [(item["evaluator"], item["status"]) for item in turn["evaluations"]]
        assert statuses == [("turn_succeeded", "failed"), ("tool_error", "passed" if seen else "skipped")]
    suite = parse_suite("suite: s\nevaluators: [tool_error]")
    conclusion = await evaluate_store(suite, str(tmp_path / "turns.db"), None)
    assert list(map(outcomes, conclusion.report.turns)) == list(map(outcomes, turns)), "scored again, it is the same"
    assert sum(reason.code == "failed_turn" for reason in conclusion.verdict.reasons) == N


def outcomes(turn: Mapping[str, Any]) -> list[tuple[str, str, str | None, str]]:
    return [(item["evaluator"], item["status"], item["label"], item["reason"]) for item in turn["evaluations"]]


# ── calls that nobody can see ───────────────────────────────────────────────────────────────────────────────


async def test_no_capture_is_no_pass_and_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    async with proxied(tmp_path) as it:
        await say(it, SAID)
        run = await the_run(it)
        turns = await it.turns()
        assert (await metric(it, "a2a_eval_proxy_findings_total"))['{code="no_capture"}'] == N
    assert (run["passed"], run["failed"], run["skipped"], run["verdict"]) == (0, 0, N, None)
    assert [finding["code"] for turn in turns for finding in turn["findings"]] == ["no_capture"] * N
    (told,) = [line for line in caplog.messages if "tool-call-capture" in line]
    assert "does not declare" in told


# ── answers, and the process ────────────────────────────────────────────────────────────────────────────────


async def test_answers_are_counted_by_status_and_timed(agent: ReplayAgent, tmp_path: Path) -> None:
    async with proxied(tmp_path, agent) as it:
        await say(it, WHOLE, 3)
        run = await the_run(it)
        assert (run["passed"], run["failed"], run["skipped"]) == (3, 0, 0)
        assert await metric(it, "a2a_eval_proxy_turns_failed_total") == {}
        await say(it, http(b"{}", "503 Service Unavailable"), 2)
        assert await metric(it, "a2a_eval_proxy_responses_total") == {'{code="200"}': 3, '{code="503"}': 2}
        for name in ("request_duration_seconds", "time_to_first_byte_seconds"):
            assert await metric(it, f"a2a_eval_proxy_{name}_count") == {"": 5}
            buckets = await metric(it, f"a2a_eval_proxy_{name}_bucket")
            assert list(buckets.values()) == sorted(buckets.values())
            assert buckets['{le="+Inf"}'] == 5
        for name in (
            "a2a_eval_proxy_request_duration_seconds_sum",
            "a2a_eval_proxy_store_writes_total",
            "a2a_eval_proxy_store_last_write_timestamp_seconds",
            "process_resident_memory_bytes",
            "process_open_fds",
        ):
            assert (await metric(it, name))[""] > 0
