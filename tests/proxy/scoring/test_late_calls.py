"""A task of an agent of a2a-sdk that shows calls after its turn was closed and scored: no result on them stays."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from a2a.helpers import new_task_from_user_message, new_text_part
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import Artifact, Task
from a2a_eval_proxy.app import RunningProxy, run_proxy
from a2a_eval_proxy.runs.rescore import evaluate_store
from a2a_eval_proxy.settings.settings import Settings
from a2a_tool_capture import METADATA_KEY, URI, CapturingRequestHandler, ToolCallRecorder
from agents.recording_agent import agent_card, application
from agents.serving import ServerThread
from google.protobuf.json_format import ParseDict
from support.patience import PATIENCE_S
from tool_call_evaluators.suite import parse_suite

SUITE = """
suite: s
tools: [{name: look}, {name: delete}]
evaluators: [{tool_trajectory: {mode: strict}}, {forbidden_calls: {forbidden_calls: [{name: delete}]}}]
cases: [{id: c, turns: [{user: hi, expect: {tool_calls: [{name: look}]}}]}]
"""
LATE = {
    "artifactId": "late",
    "parts": [{"text": "deleted"}],
    "metadata": {METADATA_KEY: [{"id": "1", "name": "delete", "arguments": {}}]},
    "extensions": [URI],
}


class Tasks(InMemoryTaskStore):
    """Shows a further call of its tasks as soon as the test wants that."""

    shows_late = False

    async def get(self, *arguments: Any, **named: Any) -> Task | None:
        task = await super().get(*arguments, **named)
        if task is not None and self.shows_late:
            task.artifacts.append(ParseDict(LATE, Artifact()))
        return task


class Agent(AgentExecutor):
    """Makes one call that it may make."""

    def __init__(self, recorder: ToolCallRecorder) -> None:
        self._recorder = recorder

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.message is not None
        await event_queue.enqueue_event(new_task_from_user_message(context.message))
        updater = TaskUpdater(event_queue, context.task_id or "", context.context_id or "")
        self._recorder.record("look", {}, result="done")
        await updater.add_artifact([new_text_part("done")])
        await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None: ...


@pytest.fixture
def tasks() -> Tasks:
    return Tasks()


@pytest.fixture
def agent(tasks: Tasks) -> Iterator[str]:
    def app(url: str) -> Any:
        card, recorder = agent_card(url), ToolCallRecorder()
        return application(card, CapturingRequestHandler(Agent(recorder), tasks, card, recorder=recorder))

    with ServerThread(app) as server:
        yield server.url


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    file = tmp_path / "suite.yaml"
    file.write_text(SUITE)
    return file


@asynccontextmanager
async def serving(agent: str, suite: Path, **more: Any) -> AsyncIterator[RunningProxy]:
    ports = dict.fromkeys(("listen", "admin"), "127.0.0.1:0")
    store = str(suite.with_name("turns.db"))
    async with run_proxy(
        Settings(upstream=agent, otlp=None, store=store, suite=str(suite), run="nightly", **{**ports, **more})
    ) as proxy:
        yield proxy
        await proxy.flush(PATIENCE_S)


async def rpc(proxy: RunningProxy, method: str, params: Any) -> Any:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    async with httpx.AsyncClient(trust_env=False) as client:
        answer = await client.post(f"{proxy.url}/rpc", json=body, headers={"a2a-version": "1.0"})
    return answer.json()["result"]


async def sends(proxy: RunningProxy) -> str:
    """The id of the task."""
    message = {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": [{"text": "hi"}]}
    task_id: str = (await rpc(proxy, "SendMessage", {"message": message}))["task"]["id"]
    await proxy.flush(PATIENCE_S)
    return task_id


async def known(proxy: RunningProxy) -> tuple[str, set[str], str]:
    """What is known of the calls of the only turn, the statuses of its results, and that of its run."""
    await proxy.flush(PATIENCE_S)
    (turn,) = await proxy.turns()
    async with httpx.AsyncClient(base_url=proxy.admin_url, trust_env=False) as admin:
        run = (await admin.get("/api/runs/nightly")).json()
    return turn["calls"], {one["status"] for one in turn["evaluations"]}, (run["verdict"] or {"status": ""})["status"]


async def test_a_turn_whose_task_shows_a_call_later_is_scored_again(agent: str, tasks: Tasks, suite: Path) -> None:
    """Also one that another process stored."""
    async with serving(agent, suite) as proxy:
        task_id = await sends(proxy)
        await rpc(proxy, "GetTask", {"id": task_id})
        assert await known(proxy) == ("seen", {"passed"}, "passed"), "it shows nothing new"
    tasks.shows_late = True
    async with serving(agent, suite) as proxy:
        await rpc(proxy, "GetTask", {"id": task_id})
        assert await known(proxy) == ("unknown", {"skipped"}, "failed")


@pytest.mark.parametrize("evaluate", [True, False])
async def test_what_evaluate_said_of_a_run_stands_until_calls_are_not_known_any_more(
    agent: str, tasks: Tasks, suite: Path, evaluate: bool
) -> None:
    said = parse_suite(SUITE)
    async with serving(agent, suite, evaluate=evaluate) as proxy:
        task_id = await sends(proxy)
        store = str(suite.with_name("turns.db"))
        assert (await evaluate_store(said, store, "nightly")).verdict.passed
        assert await known(proxy) == ("seen", {"passed"}, "passed")
        tasks.shows_late = True
        await rpc(proxy, "GetTask", {"id": task_id})
        calls, _, status = await known(proxy)
        assert (calls, status) == ("unknown", "incomplete")
    result = await evaluate_store(said, store, "nightly")
    assert not result.verdict.passed


async def test_a_call_that_is_shown_before_a_turn_is_scored_counts(agent: str, tasks: Tasks, suite: Path) -> None:
    """Nobody scores it while the proxy runs."""
    async with serving(agent, suite, evaluate=False) as proxy:
        task_id = await sends(proxy)
        tasks.shows_late = True
        await rpc(proxy, "GetTask", {"id": task_id})
    assert not (await evaluate_store(parse_suite(SUITE), str(suite.with_name("turns.db")), "nightly")).verdict.passed
