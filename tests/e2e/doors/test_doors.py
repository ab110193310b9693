"""One behaviour of an agent, whoever looks: the same turns, verdict, scores and counts at every door."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest
from a2a_eval_proxy import AgentOptions, Settings, evaluate_store, run_proxy, run_suite
from a2a_eval_proxy.app import RunningProxy
from a2a_eval_proxy.features.accept.changes import record_run
from a2a_eval_proxy.runs.run_result import RunResult, judge_turns
from a2a_eval_proxy.runs.stored_turns import conversation_results
from a2a_eval_proxy.runs.tables import passed
from agents.serving import ServerThread
from e2e.doors import behaviours
from tool_call_evaluators.report import html_report
from tool_call_evaluators.suite import Suite, parse_suite

CONVERSATIONS = 100
"""Some 160 turns: each number, word, result, state and fault of `behaviours` occurs."""
SEED = 20288724
"""One with which each fault occurs three times."""
AT_ONCE = 16

Say = Callable[[str, str, dict[str, Any]], Awaitable[dict[str, Any] | None]]
"""Sends a message of a case; takes and returns what continues the conversation. None: it cannot continue."""


@pytest.fixture(scope="module")
def conversations() -> list[behaviours.Conversation]:
    made = [behaviours.conversation(number, Random(SEED + number)) for number in range(CONVERSATIONS)]
    turns = [turn for each in made for turn in each.turns]
    assert min(Counter(turn.fault for turn in turns)[fault] for fault in behaviours.FAULTS) >= 3
    assert {turn.state for turn in turns} == set(behaviours.STATES)
    shown = json.dumps([turn.artifacts for turn in turns])
    wanted = (*behaviours.NUMBERS, *behaviours.WORDS, *behaviours.RESULTS)
    assert [one for one in wanted if json.dumps(one).strip('"') not in shown] == []
    return made


@pytest.fixture(scope="module")
def suite(conversations: list[behaviours.Conversation]) -> Suite:
    return parse_suite(behaviours.suite_text(conversations))


@pytest.fixture(scope="module")
def agent(conversations: list[behaviours.Conversation]) -> Iterator[str]:
    with ServerThread(lambda url: behaviours.Agent(conversations, url)) as server:
        yield server.url


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("doors")


@pytest.fixture(scope="module")
def driven(agent: str, suite: Suite, folder: Path) -> RunResult:
    """What `run` says; every other door says the same."""
    result = asyncio.run(run_suite(suite, AgentOptions(agent, concurrency=AT_ONCE), str(folder / "run.db"), "it"))
    counts, notes = result.report.counts, result.report.noted_count
    assert min(counts["passed"], counts["failed"], counts["unscored"], notes) > 0, "every outcome occurs"
    return result


# ── clients of a proxy ──────────────────────────────────────────────────────────────────────────────────────


@asynccontextmanager
async def plain(url: str) -> AsyncIterator[Say]:
    """A client that knows nothing of the extension, and does not stream."""
    async with httpx.AsyncClient() as http:

        async def say(case: str, text: str, state: dict[str, Any]) -> dict[str, Any] | None:
            message = {"messageId": text, "role": "ROLE_USER", "parts": [{"text": text}], **state}
            request = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
            response = await http.post(url, json=request, headers={"A2A-Eval-Case": case, "A2A-Version": "1.0"})
            try:
                result = response.json()["result"]
            except (ValueError, KeyError):
                return None
            if not result:
                return None
            task = result.get("task")
            if task is None:
                return {"contextId": result["message"].get("contextId", "")}
            waits = task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
            return {"contextId": task["contextId"], **({"taskId": task["id"]} if waits else {})}

        yield say


@asynccontextmanager
async def served(agent: str, store: Path, planned: Suite, **settings: Any) -> AsyncIterator[RunningProxy]:
    """A proxy through which a client has held all planned conversations, some at once."""
    everything = Settings(
        upstream=agent, listen="127.0.0.1:0", admin="127.0.0.1:0", otlp=None, store=str(store), run="it", **settings
    )
    waiting = iter(planned.cases)

    async def hold(say: Say) -> None:
        for case in waiting:
            state: dict[str, Any] | None = {}
            for turn in case.turns:
                if state is not None:
                    state = await say(case.id, turn.user, state)

    async with run_proxy(everything) as proxy:
        async with plain(proxy.url) as say, asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(hold(say))
        assert (await proxy.flush(60))["pending"] == 0
        yield proxy


# ── doors ───────────────────────────────────────────────────────────────────────────────────────────────────


async def test_run_over_another_binding(agent: str, suite: Suite, folder: Path, driven: RunResult) -> None:
    options = AgentOptions(agent, binding="HTTP+JSON", concurrency=AT_ONCE)
    same(driven, await run_suite(suite, options, str(folder / "rest.db"), "it"))


async def test_serve_with_a_suite_and_evaluate(
    agent: str, conversations: list[behaviours.Conversation], suite: Suite, folder: Path, driven: RunResult
) -> None:
    verdict = json.loads(json.dumps(driven.verdict.to_dict()))
    file = folder / "suite.yaml"
    file.write_text(behaviours.suite_text(conversations), "utf-8")
    async with (
        served(agent, folder / "live.db", suite, suite=str(file)) as proxy,
        httpx.AsyncClient(base_url=proxy.admin_url, timeout=60) as admin,
    ):
        details = (await admin.get("/api/runs/it")).json()
        download = (await admin.get("/api/runs/it/report")).text
        everything, whole = await all_turns(admin), await conversation_results(proxy.control.store, "it")
        bad = [turn for kind in ("failed", "errored") for turn in await all_turns(admin, verdict=kind)]
    for metric in details["metrics"]:
        metric.pop("pass_rate")
    assert details["metrics"] == verdict["metrics"]
    found = details["verdict"]
    counts = (verdict["passed"], len(verdict["reasons"]), len(verdict["tolerated"]))
    assert (found["passed"], found["reason_count"], found["tolerated_count"]) == counts
    same(driven, judge_turns(suite, everything, whole, "it"))
    assert {turn["turn_id"] for turn in bad} == {turn["turn_id"] for turn in everything if not passed(turn)}
    assert html_statuses(download) == html_statuses(html_report(driven.report))
    same(driven, await evaluate_store(suite, str(folder / "live.db"), "it"))


async def test_record_and_back(agent: str, folder: Path, driven: RunResult) -> None:
    recording = await record_run(str(folder / "run.db"), "it")
    recorded = parse_suite(recording.text)
    again = await run_suite(recorded, AgentOptions(agent, concurrency=AT_ONCE), str(folder / "again.db"), "again")
    counts = again.report.counts
    assert counts["passed"] == recording.cases > 30
    assert again.verdict.passed
    once_more = (await record_run(str(folder / "again.db"), "again")).text
    assert once_more == re.sub(r"# Left out.*\n", "", recording.text)


# ── comparison ──────────────────────────────────────────────────────────────────────────────────────────────


async def all_turns(admin: httpx.AsyncClient, **query: str) -> list[dict[str, Any]]:
    turns: list[dict[str, Any]] = []
    more: dict[str, str] | None = {}
    while more is not None:
        page = (await admin.get("/api/turns", params={"run": "it", "limit": "200", **query, **more})).json()
        turns += page["items"]
        more = {"cursor": page["next_cursor"]} if page["next_cursor"] else None
    return turns


def html_statuses(page: str) -> dict[str, str]:
    (data,) = re.findall(r'<script type="application/json" id="data"[^>]*>(.*?)</script>', page, re.DOTALL)
    return {each["label"]: each["status"] for each in json.loads(data)["conversations"]}


def seen(result: RunResult) -> dict[str, Any]:
    report = result.report
    found = {
        item.label: {
            "status": report.status(item),
            "notes": report.notes(item),
            "results": [scores(one.to_dict()) for one in item.results],
            "turns": [turn_of(turn) for turn in item.executed],
        }
        for item in report.conversations
    }
    verdict = result.verdict.to_dict()
    said = sorted(
        (reason["code"], reason["where"], ERROR.sub("error", reason["message"])) for reason in verdict["reasons"]
    )
    return {"conversations": found, "counts": report.counts, "passed": verdict["passed"], "reasons": said}


ERROR = re.compile(r"(agent_error|agent_unreachable|no_answer|malformed_response)(: .*)?")
"""A client and a proxy use different words for how the agent did not answer."""


def turn_of(turn: Mapping[str, Any]) -> dict[str, Any]:
    parts = ("id", "name", "arguments", "result", "error")
    return {
        **{key: turn[key] for key in ("user_text", "response_text", "status", "state")},
        "calls": [json.dumps({key: call[key] for key in parts}, ensure_ascii=False) for call in turn["tool_calls"]],
        "scores": [scores(result) for result in turn["evaluations"]],
        "findings": sorted({ERROR.sub("error", item["code"]) for item in turn["findings"]}),
    }


def scores(result: Mapping[str, Any]) -> list[Any]:
    said = [ERROR.sub("error", result[key] or "") for key in ("reason", "label")]
    return [*(result[key] for key in ("evaluator", "score", "status")), *said]


def same(one: RunResult, other: RunResult) -> None:
    """Both show the same: every turn with its calls, findings and scores, each conversation's status, the reasons."""
    left, right = (seen(each) for each in (one, other))
    for label, found in left["conversations"].items():
        assert right["conversations"].get(label) == found
    assert left == right
