"""What goes before the scored turns of a case: sent, or known, and marked; with agents that remember it, and that do
not."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from a2a_eval_proxy.errors import ConfigError
from a2a_eval_proxy.privacy.policy import privacy_of
from a2a_eval_proxy.privacy.redactor import parse_rules
from a2a_eval_proxy.runs.drive import AgentOptions, run_suite
from a2a_eval_proxy.runs.rescore import evaluate_store
from a2a_eval_proxy.runs.run_result import RunResult, RunWatch
from a2a_eval_proxy.runs.served_agents import connected
from a2a_eval_proxy.runs.stored_turns import UnknownRunError
from a2a_eval_proxy.runs.tables import conversation_list
from a2a_tool_capture.client import CaptureClient
from agents.chat_server import calls, chat_server
from agents.serving import ServerThread
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from support.proxied import proxied
from support.stored_runs import stored_turns
from tool_call_evaluators.outcomes.recording import record_suite
from tool_call_evaluators.report import html_report, json_report, junit_xml, markdown_summary
from tool_call_evaluators.suite import AgentDefaults, Suite, parse_suite

AGENTS = """
import re
from a2a_tool_capture.connector import AgentConfig, AgentResponse, BaseAgent, ToolCall


class Remembers(BaseAgent):
    order = ""

    async def execute(self, user_query: str, **kwargs):
        if user_query == "break":
            raise RuntimeError("out of order")
        if found := re.search(r"ORD-\\d+", user_query):
            self.order = found[0]
            call = ToolCall(name="note", arguments={"order": self.order}, result="noted")
        else:
            call = ToolCall(name="track", arguments={"order": self.order}, result="at sea")
        return AgentResponse(content="done", tool_calls=[call])


class Forgets(Remembers):
    async def execute(self, user_query: str, **kwargs):
        self.order = ""
        return await super().execute(user_query)
"""

TRACK = """
suite: orders
evaluators: [{tool_trajectory: {threshold: 1.0}}, {tool_trajectory: {scope: conversation, id: whole, threshold: 1.0}}]
cases:
  - id: track
    given: GIVEN
    expect: {tool_calls: [{name: track, arguments: {order: ORD-7}}]}
    turns: [{user: Where is it?, expect: {tool_calls: [{name: track, arguments: {order: ORD-7}}]}}]
"""
WRITTEN = '["My order is ORD-7", {user: Thanks}]'


def suite(given: str = WRITTEN) -> Suite:
    return parse_suite(TRACK.replace("GIVEN", given))


@pytest.fixture
def remembers(tmp_path: Path) -> AgentOptions:
    file = tmp_path / "agents.py"
    file.write_text(AGENTS)
    return AgentOptions(f"python:{file}:Remembers")


@pytest.fixture
def location(tmp_path: Path) -> str:
    return str(tmp_path / "turns.db")


def told(result: RunResult) -> list[tuple[list[str], list[str]]]:
    """Of each conversation, what was said in its history, and in its turns."""
    return [
        ([turn.turn["user_text"] for turn in one.given if turn.turn], [turn["user_text"] for turn in one.executed])
        for one in result.report.conversations
    ]


# ── written ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("agent", "passes"), [("Remembers", True), ("Forgets", False)])
async def test_turns_are_scored_after_their_history_which_every_report_marks(
    agent: str, passes: bool, remembers: AgentOptions, location: str
) -> None:
    options = replace(remembers, url=remembers.url.replace("Remembers", agent))
    watch = RunWatch()
    result = await run_suite(suite(), options, location, "first", watch=watch)
    turns = await stored_turns(location)
    assert result.verdict.passed is passes
    assert {reason.turn_id for reason in result.verdict.reasons} <= {turns[2]["turn_id"], None}
    assert told(result) == [(["My order is ORD-7", "Thanks"], ["Where is it?"])]
    assert (watch.planned, watch.done, watch.passed_turns, watch.failed_turns) == (1, 1, passes, not passes)
    assert [(turn.get("given"), len(turn["evaluations"])) for turn in turns] == [(True, 0), (True, 0), (None, 1)]
    assert len({turn["conversation_id"] for turn in turns}) == 1

    as_json = json.loads(json_report(result.report))
    (conversation,) = as_json["conversations"]
    numbers = [[turn["turn"] for turn in conversation[part]] for part in ("given", "turns")]
    assert (as_json["turns"], as_json["tool_calls"], numbers) == (1, 1, [[1, 2], [1]])
    assert "1 turn, 2 given turns, not scored" in markdown_summary(result.report)
    assert "given turn 1, not scored" in junit_xml(result.report)
    assert "<dt>history</dt><dd>2 given turns, not scored</dd>" in html_report(result.report)
    assert conversation_list(turns).count("[dim]given[/]") == 2

    again = await evaluate_store(suite(), location, "first")
    assert (again.verdict.passed, told(again)) == (passes, told(result))


async def test_a_history_that_cannot_be_made_fails_no_case_and_is_made_again_on_resume(
    remembers: AgentOptions, location: str
) -> None:
    broken = suite('[My order is ORD-7, break, "Thanks"]')
    result = await run_suite(broken, remembers, location, "first")
    assert told(result) == [(["My order is ORD-7", "break"], [])]
    (conversation,) = result.report.conversations
    assert (result.report.status(conversation), result.report.exclusion(conversation)) == ("unscored", "history")
    (reason,) = [reason for reason in result.verdict.reasons if reason.where == "track"]
    assert reason.code == "missing_turn"
    assert "not executed (its history could not be made: given turn 2: " in reason.message
    assert "out of order" in reason.message
    assert result.report.excluded_text == "1 attempt excluded: 1 history could not be made"
    assert result.unreachable.startswith("1 conversation broke off: its history could not be made")

    result = await run_suite(suite(), remembers, location, "first", resume=True)
    assert result.verdict.passed, result.verdict.reasons
    assert len(await stored_turns(location)) == 3


async def test_what_is_recorded_has_its_history(remembers: AgentOptions, location: str) -> None:
    await run_suite(suite(), remembers, location, "first")
    recorded = parse_suite(record_suite(await stored_turns(location)))
    (case,) = recorded.cases
    assert (case.given, [turn.user for turn in case.turns]) == (suite().cases[0].given, ["Where is it?"])
    assert (await run_suite(recorded, remembers, location, "second")).verdict.passed


# ── recorded ────────────────────────────────────────────────────────────────────────────────────────────────


async def test_the_messages_of_a_stored_conversation_are_sent_again(remembers: AgentOptions, location: str) -> None:
    await run_suite(parse_suite(TRACK.replace("GIVEN", "[My order is ORD-7]")), remembers, location, "first")
    again = suite("{run: first, case: track}")
    result = await run_suite(again, remembers, location, "second")
    assert result.verdict.passed, result.verdict.reasons
    assert told(result) == [(["My order is ORD-7", "Where is it?"], ["Where is it?"])]

    with pytest.raises(UnknownRunError, match="no run 'firsst'"):
        await run_suite(suite("{run: firsst}"), remembers, location, "third")
    with pytest.raises(ConfigError, match="case 'refund' of run 'first' has 0 turns; expected 1 to 100"):
        await run_suite(suite("{run: first, case: refund}"), remembers, location, "fourth")
    hidden = privacy_of(parse_rules([{"pattern": "ORD-7"}]), None)
    await run_suite(suite("[My order is ORD-7]"), remembers, location, "hidden", privacy=hidden)
    with pytest.raises(ConfigError, match="a message was stored redacted or without its text"):
        await run_suite(suite("{run: hidden}"), remembers, location, "fifth")


# ── kept by the agent ───────────────────────────────────────────────────────────────────────────────────────


async def test_a_conversation_that_the_agent_keeps_is_continued_by_each_attempt(
    remembers: AgentOptions, location: str
) -> None:
    async with connected(remembers.url, AgentDefaults(), {}, None, 30.0) as server:
        assert server is not None
        async with CaptureClient(server.url) as client:
            kept = (await client.conversation().send("My order is ORD-7")).context_id
        twice = suite(f"{{context_id: {kept}}}\n    repeat: 2")
        result = await run_suite(twice, AgentOptions(server.url), location, "first")
        other = await run_suite(suite("{context_id: other}"), AgentOptions(server.url), location, "second")
    assert (result.verdict.passed, other.verdict.passed) == (True, False)
    assert told(result) == [([], ["Where is it?"])] * 2


async def _begins_another(request: Request) -> Response:
    message = {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "Which order?"}], "contextId": "new"}
    return JSONResponse({"jsonrpc": "2.0", "id": (await request.json())["id"], "result": {"message": message}})


def _another_agent(url: str) -> Starlette:
    interface = {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
    card = JSONResponse({"name": "another", "version": "1", "supportedInterfaces": [interface]})
    routes = [Route("/", _begins_another, methods=["POST"]), Route("/{path:path}", lambda request: card)]
    return Starlette(routes=routes)


async def test_an_agent_that_begins_another_conversation_is_not_judged_by_it(location: str) -> None:
    with ServerThread(_another_agent) as agent:
        result = await run_suite(suite("{context_id: kept}"), AgentOptions(agent.url), location, "first")
    (conversation,) = result.report.conversations
    assert (result.verdict.passed, result.report.exclusion(conversation)) == (False, "history")
    assert "continued another conversation than the given context_id kept" in str(conversation.no_history)
    assert all(item.status == "skipped" for item in conversation.all_results)


# ── with answers ────────────────────────────────────────────────────────────────────────────────────────────

ANSWERED = "[{user: My order is ORD-7, answer: I have noted ORD-7.}]"


@pytest.mark.parametrize(("order", "passes"), [("ORD-7", True), ("ORD-1", False)])
async def test_a_model_is_told_what_it_has_answered(order: str, passes: bool, location: str) -> None:
    with chat_server(calls(("track", json.dumps({"order": order})))) as api:
        result = await run_suite(suite(ANSWERED), AgentOptions(f"openai:{api.url}"), location, "first")
    assert result.verdict.passed is passes
    assert told(result) == [(["My order is ORD-7"], ["Where is it?"])]
    (request,) = api.requests
    assert request["messages"] == [
        {"role": "user", "content": "My order is ORD-7"},
        {"role": "assistant", "content": "I have noted ORD-7."},
        {"role": "user", "content": "Where is it?"},
    ]


@pytest.mark.parametrize(
    ("given", "url", "problem"),
    [
        (ANSWERED, "http://127.0.0.1:1", "only an openai: agent can be told what it has answered"),
        (ANSWERED, "python:agent.py:Agent", "leave out `answer`"),
        ("{context_id: c}", "python:agent.py:Agent", "keeps no conversation of a context_id; write the messages"),
    ],
)
async def test_a_history_that_the_agent_cannot_have_is_refused(
    given: str, url: str, problem: str, location: str
) -> None:
    with pytest.raises(ConfigError, match=f"case 'track': given: .*{problem}"):
        await run_suite(suite(given), AgentOptions(url), location, "first")


# ── traffic ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("given", [WRITTEN, "{run: first}"])
async def test_traffic_with_the_messages_of_a_history_is_not_scored(given: str, tmp_path: Path) -> None:
    file = tmp_path / "suite.yaml"
    file.write_text(TRACK.replace("GIVEN", given))
    async with proxied(tmp_path, suite=str(file)) as it:
        for text in ("My order is ORD-7", "Thanks", "Where is it?"):
            await it.talks(text, a2a_eval_case="track")
        await it.flushed()
        turns = await it.turns(case="track")
        assert [(turn.get("given"), len(turn["evaluations"])) for turn in turns] == [(True, 0), (True, 0), (None, 1)]
        html = {"accept": "text/html"}
        page = (await it.admin.get(f"/turns/{turns[0]['turn_id']}", headers=html)).text
        assert "of the history that its case gives" in page
        conversation = (await it.admin.get("/conversations/c", headers=html)).text
        assert "Given turn 2" in conversation
        assert "Turn 1</a>" in conversation
