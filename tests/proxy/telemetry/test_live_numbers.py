"""What the numbers of a running proxy say of an agent that fails, and of one whose calls no source can see."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from a2a_eval_proxy.app import RunningProxy, run_proxy
from a2a_eval_proxy.runs.rescore import evaluate_store
from a2a_eval_proxy.settings.settings import Settings
from a2a_tool_capture import METADATA_KEY, URI
from support.patience import PATIENCE_S
from support.ports import held_ports
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


@dataclass
class Agent:
    """Answers every POST with these bytes, then closes. Its card declares the extension, or not."""

    answer: bytes
    declares: bool = True

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            if head.startswith(b"get"):
                extensions = [{"uri": URI}] if self.declares else []
                writer.write(http(json.dumps({"capabilities": {"extensions": extensions}}).encode()))
            else:
                await reader.readexactly(int(head.partition(b"content-length: ")[2].split(b"\r\n")[0]))
                writer.write(self.answer)
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the pool closed it
        finally:
            writer.close()


@asynccontextmanager
async def before(agent: Agent | None, store: Path, **settings: Any) -> AsyncIterator[RunningProxy]:
    with held_ports(1) as (port,):
        if agent is None:
            url = f"http://127.0.0.1:{port}"  # nobody listens there
        else:
            server = await asyncio.start_server(agent, "127.0.0.1", 0)
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        given = {"listen": "127.0.0.1:0", "admin": "127.0.0.1:0", "otlp": None, "store": str(store), **settings}
        try:
            async with run_proxy(Settings(upstream=url, **given)) as proxy:
                yield proxy
        finally:
            if agent is not None:
                server.close()


async def say(proxy: RunningProxy, times: int = N) -> None:
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
    async with httpx.AsyncClient(headers={"A2A-Version": "1.0"}) as client:
        for _ in range(times):
            try:
                await client.post(proxy.url, json=body)
            except httpx.HTTPError:
                pass  # the cut is passed on
    await proxy.flush(PATIENCE_S)


async def the_run(proxy: RunningProxy) -> dict[str, Any]:
    async with httpx.AsyncClient(base_url=proxy.admin_url) as client:
        (run,) = (await client.get("/api/runs")).json()["items"]
        run["verdict"] = (await client.get(f"/api/runs/{run['name']}")).json()["verdict"]
    return dict(run)


async def metric(proxy: RunningProxy, name: str) -> dict[str, float]:
    """The series of a metric by their labels."""
    async with httpx.AsyncClient(base_url=proxy.admin_url) as client:
        text = (await client.get("/metrics")).text
    found = (line.rpartition(" ") for line in text.splitlines() if line.partition("{")[0].split(" ")[0] == name)
    return {series.removeprefix(name): float(value) for series, _, value in found}


BROKEN = {
    "http 500": (Agent(http(b"oops", "500 Internal Server Error", "text/plain")), "agent_unreachable"),
    "json-rpc error": (Agent(rpc(error={"code": -32603, "message": "boom"})), "agent_error"),
    "cut": (Agent(WHOLE[:-40]), "upstream_failed"),
    "cut stream": (
        Agent(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n5\r\ndata:\r\n"
        ),
        "upstream_cut",
    ),
    "nothing": (Agent(b""), "upstream_failed"),
    "unreachable": (None, "upstream_unreachable"),
    "failed task": (Agent(task("TASK_STATE_FAILED")), "task_failed"),
    "failed task with calls": (Agent(task("TASK_STATE_FAILED", CALL)), "task_failed"),
}


@pytest.mark.parametrize("broken", BROKEN)
async def test_a_turn_that_the_agent_failed_fails_live_and_afterwards(broken: str, tmp_path: Path) -> None:
    agent, code = BROKEN[broken]
    store = tmp_path / "turns.db"
    async with before(agent, store) as proxy:
        await say(proxy)
        run = await the_run(proxy)
        failures = await metric(proxy, "a2a_eval_proxy_turns_failed_total")
        evaluations = await metric(proxy, "a2a_eval_proxy_evaluations_total")
        turns = await proxy.turns()
    assert failures.keys() <= {f'{{code="{code}"}}', '{code="upstream_cut"}'}
    assert sum(failures.values()) == evaluations['{evaluator="turn_succeeded",status="failed"}'] == N
    seen = N if "with calls" in broken else 0  # only calls that were seen pass; no suite judges the run
    assert (run["turns"], run["failed"], run["passed"], run["verdict"]) == (N, N, seen, None)
    for turn in turns:
        statuses = [(item["evaluator"], item["status"]) for item in turn["evaluations"]]
        assert statuses == [("turn_succeeded", "failed"), ("tool_error", "passed" if seen else "skipped")]
    conclusion = await evaluate_store(parse_suite("suite: s\nevaluators: [tool_error]"), str(store), None)
    assert list(map(outcomes, conclusion.report.turns)) == list(map(outcomes, turns)), "scored again, it is the same"
    assert sum(reason.code == "failed_turn" for reason in conclusion.verdict.reasons) == N


def outcomes(turn: Mapping[str, Any]) -> list[tuple[str, str, str | None, str]]:
    return [(item["evaluator"], item["status"], item["label"], item["reason"]) for item in turn["evaluations"]]


# ── calls that nobody can see ───────────────────────────────────────────────────────────────────────────────


async def test_no_capture_is_no_pass_and_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    store = tmp_path / "turns.db"
    async with before(Agent(SAID, declares=False), store) as proxy:
        await say(proxy)
        run = await the_run(proxy)
        turns = await proxy.turns()
        assert (await metric(proxy, "a2a_eval_proxy_findings_total"))['{code="no_capture"}'] == N
    assert (run["passed"], run["failed"], run["skipped"], run["verdict"]) == (0, 0, N, None)
    assert [finding["code"] for turn in turns for finding in turn["findings"]] == ["no_capture"] * N
    (told,) = [line for line in caplog.messages if "tool-call-capture" in line]
    assert "does not declare" in told
    conclusion = await evaluate_store(parse_suite("suite: s\nevaluators: [tool_error]"), str(store), None)
    assert not conclusion.verdict.passed


# ── answers, and the process ────────────────────────────────────────────────────────────────────────────────


async def test_answers_are_counted_by_status_and_timed(tmp_path: Path) -> None:
    agent = Agent(WHOLE)
    async with before(agent, tmp_path / "turns.db") as proxy:
        await say(proxy, 3)
        run = await the_run(proxy)
        assert (run["passed"], run["failed"], run["skipped"]) == (3, 0, 0)
        assert await metric(proxy, "a2a_eval_proxy_turns_failed_total") == {}
        agent.answer = http(b"{}", "503 Service Unavailable")
        await say(proxy, 2)
        assert await metric(proxy, "a2a_eval_proxy_responses_total") == {'{code="200"}': 3, '{code="503"}': 2}
        for name in ("request_duration_seconds", "time_to_first_byte_seconds"):
            assert await metric(proxy, f"a2a_eval_proxy_{name}_count") == {"": 5}
            buckets = await metric(proxy, f"a2a_eval_proxy_{name}_bucket")
            assert list(buckets.values()) == sorted(buckets.values())
            assert buckets['{le="+Inf"}'] == 5
        for name in (
            "a2a_eval_proxy_request_duration_seconds_sum",
            "a2a_eval_proxy_store_writes_total",
            "a2a_eval_proxy_store_last_write_timestamp_seconds",
            "process_resident_memory_bytes",
            "process_open_fds",
        ):
            assert (await metric(proxy, name))[""] > 0
