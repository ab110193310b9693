"""Runs against an agent whose tool calls nothing shows: never green without a line that says so."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import Part, Task
from a2a_eval_proxy.cli import main
from a2a_eval_proxy.testing.assertions import assert_tool_calls
from a2a_tool_capture import METADATA_KEY, URI, CapturingRequestHandler, ToolCallRecorder
from agents.control import Control
from agents.scenario_agent import AgentOptions, agent_card, build_app, scenario_agent
from agents.serving import ServerThread

CASES = "cases:\n  - id: ask\n    turns: [{user: message me}]\n"
EXPECTING = "cases:\n  - id: ask\n    turns: [{user: message me, expect: {tool_calls: [{name: search}]}}]\n"
TOLERANT = "suite: s\ntolerate: [unread_expectation]\n"
DEPENDS_ON_CALLS = {
    "needs calls": f"suite: s\nevaluators: [tool_trajectory]\n{EXPECTING}",
    "tool_error": f"suite: s\nevaluators: [tool_error]\n{CASES}",
    "gate": f"suite: s\nevaluators: [tool_error]\ngates: {{tool_error: 0.5}}\n{CASES}",
    "run gate": f"{TOLERANT}evaluators: [tool_error]\ngates: {{pass_rate: 0.5}}\n{EXPECTING}",
    "expected calls, texts scored": f"{TOLERANT}evaluators: [{{contains: {{search_text: echo}}}}]\n{EXPECTING}",
}
LINE = "tool calls are not visible in 1 of 1 turn"
WHY = f"{LINE}: the agent's card does not declare the tool-call-capture extension"
HINT = "; if that is intended, add --allow-no-capture"


@pytest.fixture(scope="module")
def agent() -> Iterator[str]:
    with scenario_agent(AgentOptions(declared=False)) as agent:
        yield agent.url


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    yield
    root = logging.getLogger()
    root.setLevel(logging.WARNING)
    for handler in [handler for handler in root.handlers if type(handler) is logging.StreamHandler]:
        root.removeHandler(handler)  # a command added it; its stream ends with the test


class Shell:
    """Runs commands in this process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch = monkeypatch
        self._capsys = capsys

    def __call__(self, *arguments: str) -> tuple[int, str]:
        """The exit code and what was printed."""
        self._monkeypatch.setattr("sys.argv", ["a2a-eval-proxy", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = self._capsys.readouterr()
        return int(ended.value.code or 0), out + err


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(monkeypatch, capsys)


@pytest.mark.parametrize("text", DEPENDS_ON_CALLS.values(), ids=DEPENDS_ON_CALLS)
def test_what_depends_on_calls_fails_unless_allowed(text: str, agent: str, shell: Shell) -> None:
    Path("suite.yaml").write_text(text)
    run = ("run", "suite.yaml", "--agent", agent, "--run", "r")
    evaluate = ("evaluate", "--suite", "suite.yaml", "--run", "r")
    for command in (run, evaluate):
        code, printed = shell(*command)
        assert (code, printed.count(LINE), HINT in printed) == (1, 1, True)
        assert "no_capture" in printed
        assert " not visible " in printed  # in the column of tool calls
    code, printed = shell(*evaluate, "--allow-no-capture")
    assert (code, "tolerated: " in printed, printed.count(WHY), HINT in printed) == (0, True, 1, False)


def test_visible_calls_that_are_missing_are_not_allowed(shell: Shell) -> None:
    """The agent declares the extension: it made no call."""
    Path("suite.yaml").write_text(DEPENDS_ON_CALLS["needs calls"])
    with scenario_agent() as declaring:
        code, printed = shell("run", "suite.yaml", "--agent", declaring.url, "--allow-no-capture")
    assert (code, LINE in printed) == (1, False)
    assert "tool calls are expected, but none were captured" in printed


recorder = ToolCallRecorder()


@recorder.tool
def delete_all() -> None: ...


class UnreadExecutor(AgentExecutor):
    """Sends artifacts as the user's text, JSON, describes them; without any, calls a tool in a thread of its own."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        told = json.loads(context.get_user_input())
        updater = TaskUpdater(event_queue, context.task_id or "", context.context_id or "")
        await event_queue.enqueue_event(Task(id=updater.task_id, context_id=updater.context_id))
        for number, calls in enumerate(told["artifacts"]):
            uris = [URI] if told["listed"] else []
            await updater.add_artifact(
                [Part(text="Done.")], str(number), metadata={METADATA_KEY: calls}, extensions=uris
            )
        if not told["artifacts"]:
            with ThreadPoolExecutor(1) as pool:
                pool.submit(delete_all).result()
            await updater.add_artifact([Part(text="Done.")])
        await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None: ...


UNREAD = {
    "unlisted": (False, [[{"name": "delete_all"}]], "uri_not_listed"),
    "misnamed": (True, [[{"tool": "delete_all"}]], "malformed_entry"),
    "object": (True, [{"name": "delete_all"}], "calls_not_a_list"),
    "bypassing the recorder": (True, [], "calls_not_recorded"),
    "next to others": (True, [[{"name": "search"}], {"name": "delete_all"}], "calls_not_a_list"),
}


@pytest.mark.parametrize("kind", UNREAD)
def test_reports_of_calls_that_were_not_read_are_no_proof_that_none_was_made(kind: str, shell: Shell) -> None:
    listed, artifacts, finding = UNREAD[kind]
    expected = [{"name": "search"}] if len(artifacts) > 1 else []
    expect = {"tool_calls": expected, "tool_calls_count": {"delete_all": ["=", 0]}}
    told = json.dumps({"listed": listed, "artifacts": artifacts})
    metrics = ["tool_error", "tool_trajectory", "tool_call_count"]
    cases = [{"id": "ask", "turns": [{"user": told, "expect": expect}]}]
    Path("suite.yaml").write_text(json.dumps({"suite": "s", "evaluators": metrics, "cases": cases}))

    def app(url: str) -> Any:
        card = agent_card(url, AgentOptions())
        handler = (
            DefaultRequestHandler(UnreadExecutor(), InMemoryTaskStore(), card)
            if artifacts
            else CapturingRequestHandler(UnreadExecutor(), InMemoryTaskStore(), card, recorder=recorder)
        )
        return build_app(url, AgentOptions(), Control(), handler)

    with ServerThread(app) as agent:
        code, printed = shell("run", "suite.yaml", "--agent", agent.url, "--report", "report", "--allow-no-capture")
    assert (code, LINE in printed, "not visible" in printed, HINT in printed) == (1, True, True, False)
    report = json.loads(Path("report", "report.json").read_text())
    assert [reason["code"] for reason in report["reasons"] if reason["code"] != "nothing_captured"] == ["calls_unseen"]
    (turn,) = report["conversations"][0]["turns"]
    assert [result["label"] for result in turn["results"]] == ["calls_unseen"] * 3
    assert [found["code"] for found in turn["findings"]] == [finding]
    assert f"⚠️ {LINE}" in Path("report", "summary.md").read_text()
    assert LINE in Path("report", "report.html").read_text()
    assert 'type="calls_unseen"' in Path("report", "junit.xml").read_text()
    (stored,) = map(json.loads, shell("export")[1].splitlines())
    with pytest.raises(AssertionError, match="the tool calls are unknown: "):
        assert_tool_calls(stored, expected)
