"""Runs against the sample agent: conversations, repetitions, resuming; and scoring again what they stored."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from a2a_eval_proxy.errors import ConfigError
from a2a_eval_proxy.features.demo.agent import run_agent
from a2a_eval_proxy.privacy.policy import NO_PRIVACY, Privacy, privacy_of
from a2a_eval_proxy.privacy.redactor import parse_rules
from a2a_eval_proxy.runs.drive import AgentOptions, NothingRanError, merged_options, run_suite
from a2a_eval_proxy.runs.rescore import evaluate_store
from a2a_eval_proxy.runs.run_result import RunResult, RunWatch
from a2a_eval_proxy.runs.served_agents import connected
from a2a_eval_proxy.runs.stored_turns import UnknownRunError, open_existing_store
from a2a_eval_proxy.runs.tables import conversation_list
from a2a_tool_capture.client import CaptureClient
from a2a_tool_capture.errors import AgentError
from agents.chat_server import calls, chat_server
from agents.control import Control
from agents.replay_agent import ReplayAgent, json_answer
from agents.scenario_agent import AgentOptions as ScenarioOptions
from agents.scenario_agent import build_app, scenario_agent
from agents.serving import ServerThread
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from support.commands import ended
from support.proxied import proxied
from support.stored_runs import stored_turns
from tool_call_evaluators.outcomes.conversations import follow
from tool_call_evaluators.outcomes.recording import record_suite
from tool_call_evaluators.report import html_report, json_report, junit_xml, markdown_summary
from tool_call_evaluators.suite import AgentDefaults, Suite, parse_suite

SUITE = """
suite: orders
evaluators: [{tool_trajectory: {mode: in_order}}, {tool_trajectory: {scope: conversation, mode: superset, id: whole}}]
cases:
  - id: refund
    repeat: 3
    expect: {tool_calls: [{name: lookup_order, arguments: null}, {name: issue_refund, arguments: null}]}
    turns:
      - {user: "I'd like a refund for ORD-1005, please.", expect: {tool_calls: [{name: lookup_order, arguments: null}]}}
      - {user: "Yes", expect: {tool_calls: [{name: issue_refund, arguments: null}]}}
  - id: status
    turns: [{user: Where is order ORD-1001?, expect: {tool_calls: [{name: lookup_order, arguments: null}]}}]
"""


def suite(text: str = SUITE) -> Suite:
    return parse_suite(text)


@pytest.fixture
async def agent() -> AsyncIterator[AgentOptions]:
    async with run_agent() as url:
        yield AgentOptions(url, {}, concurrency=2)


@pytest.fixture(scope="module")
def scenarios() -> Iterator[AgentOptions]:
    with scenario_agent() as server:
        yield AgentOptions(server.url)


@pytest.fixture
def location(tmp_path: Path) -> str:
    return str(tmp_path / "turns.db")


# ── driving ─────────────────────────────────────────────────────────────────────────────────────────────────


async def test_every_conversation_is_had_as_often_as_the_suite_says(agent: AgentOptions, location: str) -> None:
    watch = RunWatch()
    conclusion = await run_suite(suite(), agent, location, "nightly", watch=watch)
    assert conclusion.verdict.passed, conclusion.verdict.reasons
    assert [item.label for item in conclusion.report.conversations] == ["refund #1", "refund #2", "refund #3", "status"]
    assert {item.results[0].evaluator for item in conclusion.report.conversations} == {"whole"}
    turns = await stored_turns(location, run="nightly")
    assert watch.planned == watch.done == len(turns) == 7
    assert sorted(Counter(turn["conversation_id"] for turn in turns).values()) == [1, 2, 2, 2]
    assert {turn["status"] for turn in turns} == {"done"}


async def test_resuming_does_what_is_left_and_nothing_twice(agent: AgentOptions, location: str) -> None:
    await run_suite(suite(), agent, location, "nightly")
    before = await stored_turns(location)
    refunds = [turn for turn in before if turn["case_id"] == "refund"]
    conversations = list(dict.fromkeys(turn["conversation_id"] for turn in refunds))
    cut = [turn["turn_id"] for turn in refunds if turn["conversation_id"] == conversations[0]][1]
    gone = [turn["turn_id"] for turn in refunds if turn["conversation_id"] == conversations[1]]
    async with open_existing_store(location) as store:
        store.discard([cut, *gone], lambda: None)  # one conversation was cut off, one never begun
    watch = RunWatch()
    conclusion = await run_suite(suite(), agent, location, "nightly", resume=True, watch=watch)

    assert conclusion.verdict.passed, conclusion.verdict.reasons
    assert watch.planned == 4
    after = await stored_turns(location)
    assert len(after) == 7
    standing = {turn["turn_id"] for turn in before if turn["conversation_id"] != conversations[0]} - set(gone)
    assert standing <= {turn["turn_id"] for turn in after}
    assert conversations[0] not in {turn["conversation_id"] for turn in after}


# ── failing closed ──────────────────────────────────────────────────────────────────────────────────────────


MORTAL = """
suite: mortal
evaluators: [tool_trajectory]
cases:
  - {id: before, turns: [{user: message me, expect: {tool_calls: [{name: never}]}}]}
  - {id: dying, turns: [{user: chunks, expect: {tool_calls: [{name: search}, {name: convert}]}}]}
  - {id: after, turns: [{user: message me, expect: {tool_calls: []}}]}
"""


def mortal(url: str, die: Callable[[], None]) -> ASGIApp:
    """The scenario agent, which dies when it has begun a task."""
    app = build_app(url, ScenarioOptions(), Control())

    async def until_working(scope: Scope, receive: Receive, send: Send) -> None:
        async def sent(message: Message) -> None:
            await send(message)
            if b"TASK_STATE_WORKING" in message.get("body", b""):
                die()
                await asyncio.Event().wait()

        await app(scope, receive, sent)

    return until_working


def test_a_run_whose_agent_dies_is_incomplete_and_repeats_on_resume_what_was_not_the_agents_doing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("suite.yaml").write_text(MORTAL)
    run = "run suite.yaml --run now --report report --concurrency 1 --allow-no-capture --agent"
    with ServerThread(lambda url: mortal(url, lambda: server.end())) as server:
        assert ended(run, server.url) == 3
    shown = capsys.readouterr()
    assert "failed, " in shown.out
    assert Path("report", "report.json").exists()
    before, dying, after = asyncio.run(stored_turns("a2a-eval-proxy.db"))
    assert [turn["case_id"] for turn in (before, dying, after)] == ["before", "dying", "after"]
    assert [finding["code"] for finding in after["findings"]] == ["agent_unreachable"]
    evaluate = "evaluate --suite suite.yaml --run now --allow-no-capture"
    assert ended(evaluate) == 3
    for told in (shown.err, capsys.readouterr().err):
        assert re.search("the run is incomplete: 2 conversations broke off: .* --run now --resume", told)
    with scenario_agent() as agent:
        assert ended(run, agent.url, "--resume") == 1  # `before` has failed
    resumed = {turn["case_id"]: turn for turn in asyncio.run(stored_turns("a2a-eval-proxy.db"))}
    assert resumed.keys() == {"before", "dying", "after"}
    assert (resumed["before"], resumed["dying"]["state"]) == (before, "TASK_STATE_COMPLETED")
    assert ended(run, agent.url, "--resume") == 1  # asks no agent: there is none any more
    assert ended(evaluate) == 1


async def test_a_conversation_that_crashes_is_a_missing_one_and_the_others_go_on(
    agent: AgentOptions, location: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    really_send = CaptureClient.send

    async def send(self: CaptureClient, text: str, **more: Any) -> Any:
        if text == "Yes":
            raise RuntimeError("a bug")
        return await really_send(self, text, **more)

    monkeypatch.setattr(CaptureClient, "send", send)
    conclusion = await run_suite(suite(), agent, location, "nightly")
    missing = [reason.where for reason in conclusion.verdict.reasons if reason.code == "missing_turn"]
    assert missing == [f"refund #{number}, turn 2" for number in (1, 2, 3)]
    assert "its conversation broke off" in caplog.text


@pytest.mark.parametrize(
    ("privacy", "told"),
    [
        (NO_PRIVACY, "no such customer: ann@example.com"),
        (privacy_of(parse_rules("email"), None), "no such customer: [email]"),
        (privacy_of((), None, no_content=True), "AgentError, whose words are not to be seen"),
    ],
)
async def test_the_agents_words_are_told_as_far_as_they_may_be_seen(
    agent: AgentOptions, location: str, monkeypatch: pytest.MonkeyPatch, privacy: Privacy, told: str
) -> None:
    async def send(self: CaptureClient, text: str, **more: Any) -> Any:
        raise AgentError("no such customer: ann@example.com")

    monkeypatch.setattr(CaptureClient, "send", send)
    with pytest.raises(NothingRanError, match=re.escape(told)):
        await run_suite(suite(), agent, location, "nightly", privacy=privacy)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("evaluators: [tool_error]\ngates: {tool_efficiency: 0.5}", "unmeasured"),
        ("judge: {model: m, base_url: 'http://127.0.0.1:1'}\nevaluators: [tool_error, task_completion]", "unmeasured"),
        ("evaluators: [tool_error, {helpfulness: {judge: {model: m, base_url: 'http://127.0.0.1:1', retries: 0}}}]",
         "errored"),
        ("evaluators: [tool_error, {tool_efficiency: {scope: conversation}}, turn_success_ratio]", "unmeasured"),
        ("evaluators: [tool_error]\ngates: {captured: 1.0}", "below_captured"),
    ],
)  # fmt: skip
async def test_what_was_not_measured_has_not_passed(
    agent: AgentOptions, location: str, text: str, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("A2A_EVAL_PROXY_JUDGE_MODEL", raising=False)
    quiet = """
cases:
  - {id: a, turns: [{user: Where is order ORD-1001?, expect: {tool_calls: [{name: lookup_order}]}}]}
  - {id: b, turns: [{user: Thank you, expect: {tool_calls: [{name: lookup_order}]}}]}
"""
    conclusion = await run_suite(suite(f"suite: x\n{text}{quiet}"), agent, location, "nightly")
    assert not conclusion.verdict.passed
    assert code in {reason.code for reason in conclusion.verdict.reasons}


STATED = """
suite: ends
evaluators: {evaluators}
cases:
  - {{id: end, turns: [{{user: {said}, expect: {{state: {state}{more}}}}}]}}
"""
UNSTATED = "suite: ends\nevaluators: [contains]\ncases: [{{id: end, turns: [{{user: {said}, expect: {expect}}}]}}]"


@pytest.mark.parametrize(
    ("said", "state", "more", "evaluators", "code", "reason"),
    [
        ("reject", "rejected", "", "[tool_error]", None, ""),
        ("reject", "[TASK_STATE_REJECTED, failed]", "", "[]", None, ""),
        ("reject", "rejected", ", tool_calls: []", "[tool_trajectory]", None, ""),
        ("fail", "failed", "", "[tool_error, tool_efficiency]", None, ""),
        ("fail", "failed", ", response_contains: backend", "[contains]", None, ""),
        ("fail", "failed", ", forbidden_calls: [{name: pay}]", "[forbidden_calls]", "calls_unseen", "unknown"),
        ("fail", "rejected", "", "[tool_error]", "failed_turn",
         "expected the task to end as rejected, but it ended as failed: tool backend unavailable"),
        ("artifact", "rejected", "", "[tool_error]", "failed_turn",
         "expected the task to end as rejected, but it ended as completed: answer: 42"),
        ("message", "input-required", "", "[tool_error]", "failed_turn",
         "expected the task to end as input-required, but the answer is a message without a task: echo: message"),
        ("ask", "input-required", "", "[]", None, ""),
        ("ask", "[rejected, auth-required]", "", "[tool_error]", "failed_turn",
         "expected the task to end as rejected or auth-required, but it ended as input-required: What is your name?"),
        ("sign-in", "auth-required", "", "[]", None, ""),
        ("artifact", "completed", "", "[tool_error]", None, ""),
        ("error", "completed", "", "[tool_error]", "failed_turn", ""),
    ],
)  # fmt: skip
async def test_the_state_in_which_a_turn_must_end(
    location: str,
    scenarios: AgentOptions,
    said: str,
    state: str,
    more: str,
    evaluators: str,
    code: str | None,
    reason: str,
) -> None:
    stated = suite(STATED.format(said=said, state=state, more=more, evaluators=evaluators))
    run = await run_suite(stated, scenarios, location, "nightly")
    again = await evaluate_store(stated, location, "nightly")
    for result in (run, again):
        reasons = [(item.code, item.message) for item in result.verdict.reasons]
        assert [found for found, _ in reasons] == ([code] if code else []), reasons
        assert all(reason in message for _, message in reasons)
    (alone,) = follow(await stored_turns(location))  # as pages show it that have no suite
    assert [turn.failure is not None for turn in alone.turns] == [code == "failed_turn"]
    assert '"state at the end":["' in html_report(run.report).replace('": ["', '":["')
    of_case = ET.fromstring(junit_xml(run.report)).findall(".//testcase[@name='end']/error")
    assert [reason in str(item.get("message")) for item in of_case] == [True] * (code == "failed_turn")


@pytest.mark.parametrize("expect", ["{response_contains: Sign}", "{response_contains: Sign, state: [auth-required]}"])
async def test_an_end_that_needs_credentials_has_a_remark_unless_it_is_expected(
    location: str, scenarios: AgentOptions, expect: str
) -> None:
    asks = suite(UNSTATED.format(said="sign-in", expect=expect))
    conclusion = await run_suite(asks, scenarios, location, "nightly")
    assert conclusion.verdict.passed
    found = [finding for turn in await stored_turns(location) for finding in turn["findings"]]
    remarks = [one for one in found if one["code"] == "auth_required"]
    assert len(remarks) == ("state" not in expect)
    assert all("expect: {state: auth-required}" in one["message"] for one in remarks)


# ── scoring again ───────────────────────────────────────────────────────────────────────────────────────────


async def test_evaluating_with_another_suite_judges_by_that_suite_alone(agent: AgentOptions, location: str) -> None:
    failing = suite(SUITE.replace("name: issue_refund", "name: other"))
    assert not (await run_suite(failing, agent, location, "nightly")).verdict.passed
    other = """
suite: other
evaluators: [tool_error]
cases: [{id: question, turns: [{user: Where is order ORD-1001?}]}]
"""
    conclusion = await evaluate_store(suite(other), location, "nightly")
    assert conclusion.verdict.passed
    assert conclusion.report.conversations[0].label == "question"
    assert [item.case_id for item in conclusion.report.conversations].count("refund") == 3


# ── options ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_is_given_comes_before_what_the_suite_says() -> None:
    says = AgentDefaults(
        url="http://suite", headers={"a": "1", "b": "2"}, binding="JSONRPC", streaming=True, timeout=5, concurrency=7
    )
    assert merged_options(says, AgentDefaults()) == AgentOptions(
        "http://suite", {"a": "1", "b": "2"}, "JSONRPC", True, 5, 7
    )
    given = AgentDefaults(
        url="http://flag", headers={"b": "3"}, binding="HTTP+JSON", streaming=False, timeout=1, concurrency=1
    )
    assert merged_options(says, given) == AgentOptions("http://flag", {"a": "1", "b": "3"}, "HTTP+JSON", False, 1, 1)
    says = AgentDefaults(url="openai:http://suite", model="m", system="s", body={"seed": 7})
    given = AgentDefaults(model="n")
    assert merged_options(says, given).chat == AgentDefaults(model="n", system="s", body={"seed": 7})
    with pytest.raises(ConfigError, match="--agent"):
        merged_options(AgentDefaults(), AgentDefaults())


async def test_a_run_whose_name_is_redacted(agent: AgentOptions, location: str) -> None:
    privacy = privacy_of(parse_rules("ip"), None)
    conclusion = await run_suite(suite(), agent, location, "at 10.0.0.9", privacy=privacy)
    assert conclusion.verdict.passed, conclusion.verdict
    assert conclusion.report.run.startswith("at [ip:")
    assert {turn["run"] for turn in await stored_turns(location)} == {conclusion.report.run}


# ── history ─────────────────────────────────────────────────────────────────────────────────────────────────


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


def history(given: str = WRITTEN) -> Suite:
    return parse_suite(TRACK.replace("GIVEN", given))


@pytest.fixture
def remembers(tmp_path: Path) -> AgentOptions:
    file = tmp_path / "agents.py"
    file.write_text(AGENTS)
    return AgentOptions(f"python:{file}:Remembers")


def told(result: RunResult) -> list[tuple[list[str], list[str]]]:
    """Of each conversation, what was said in its history, and in its turns."""
    return [
        ([turn.turn["user_text"] for turn in one.given if turn.turn], [turn["user_text"] for turn in one.executed])
        for one in result.report.conversations
    ]


@pytest.mark.parametrize(("agent", "passes"), [("Remembers", True), ("Forgets", False)])
async def test_turns_are_scored_after_their_history_which_every_report_marks(
    agent: str, passes: bool, remembers: AgentOptions, location: str
) -> None:
    options = replace(remembers, url=remembers.url.replace("Remembers", agent))
    watch = RunWatch()
    result = await run_suite(history(), options, location, "first", watch=watch)
    turns = await stored_turns(location)
    assert result.verdict.passed is passes
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

    again = await evaluate_store(history(), location, "first")
    assert (again.verdict.passed, told(again)) == (passes, told(result))
    (recorded,) = parse_suite(record_suite(turns)).cases
    assert (recorded.given, len(recorded.turns)) == (history().cases[0].given, 1)


async def test_a_history_that_cannot_be_made_fails_no_case_and_is_made_again_on_resume(
    remembers: AgentOptions, location: str
) -> None:
    result = await run_suite(history("[My order is ORD-7, break, Thanks]"), remembers, location, "first")
    assert told(result) == [(["My order is ORD-7", "break"], [])]
    (conversation,) = result.report.conversations
    assert (result.report.status(conversation), result.report.exclusion(conversation)) == ("unscored", "history")
    (reason,) = [reason for reason in result.verdict.reasons if reason.where == "track"]
    assert re.search(r"not executed \(its history could not be made: given turn 2: .*out of order", reason.message)
    assert result.report.excluded_text == "1 attempt excluded: 1 history could not be made"
    assert result.unreachable.startswith("1 conversation broke off: its history could not be made")

    result = await run_suite(history(), remembers, location, "first", resume=True)
    assert (result.verdict.passed, len(await stored_turns(location))) == (True, 3)


async def test_the_messages_of_a_stored_conversation_are_sent_again(remembers: AgentOptions, location: str) -> None:
    await run_suite(history("[My order is ORD-7]"), remembers, location, "first")
    result = await run_suite(history("{run: first, case: track}"), remembers, location, "second")
    assert result.verdict.passed, result.verdict.reasons
    assert told(result) == [(["My order is ORD-7", "Where is it?"], ["Where is it?"])]

    hidden = privacy_of(parse_rules([{"pattern": "ORD-7"}]), None)
    await run_suite(history("[My order is ORD-7]"), remembers, location, "hidden", privacy=hidden)
    data = history("[{user: {parts: [{text: My order}, {data: {order: ORD-7}}]}}]")
    await run_suite(data, remembers, location, "data", privacy=hidden)
    for given, problem in (
        ("{run: firsst}", "no run 'firsst'"),
        ("{run: first, case: refund}", "case 'refund' of run 'first' has 0 turns; expected 1 to 100"),
        ("{run: hidden}", "a message was stored redacted or without its text"),
        ("{run: data}", "a message was stored redacted or without its text"),
    ):
        with pytest.raises((ConfigError, UnknownRunError), match=problem):
            await run_suite(history(given), remembers, location, "third")


async def test_a_conversation_that_the_agent_keeps_is_continued_by_each_attempt(
    remembers: AgentOptions, location: str
) -> None:
    async with connected(remembers.url, AgentDefaults(), {}, None, 30.0) as server:
        assert server is not None
        async with CaptureClient(server.url) as client:
            kept = (await client.conversation().send("My order is ORD-7")).context_id
        twice = history(f"{{context_id: {kept}}}\n    repeat: 2")
        result = await run_suite(twice, AgentOptions(server.url), location, "first")
        other = await run_suite(history("{context_id: other}"), AgentOptions(server.url), location, "second")
    assert (result.verdict.passed, other.verdict.passed) == (True, False)
    assert told(result) == [([], ["Where is it?"])] * 2


async def test_an_agent_that_begins_another_conversation_is_not_judged_by_it(location: str) -> None:
    answer = {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "Which order?"}], "contextId": "new"}
    with ReplayAgent() as agent:
        interface = {"url": agent.url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
        agent.card = json_answer({"name": "another", "version": "1", "supportedInterfaces": [interface]})
        agent.prepare(json_answer({"jsonrpc": "2.0", "id": 1, "result": {"message": answer}}))
        result = await run_suite(history("{context_id: kept}"), AgentOptions(agent.url), location, "first")
    (conversation,) = result.report.conversations
    assert (result.verdict.passed, result.report.exclusion(conversation)) == (False, "history")
    assert "continued another conversation than the given context_id kept" in str(conversation.no_history)
    assert {item.status for item in conversation.all_results} == {"skipped"}


ANSWERED = "[{user: My order is ORD-7, answer: I have noted ORD-7.}]"


@pytest.mark.parametrize(("order", "passes"), [("ORD-7", True), ("ORD-1", False)])
async def test_a_model_is_told_what_it_has_answered(order: str, passes: bool, location: str) -> None:
    with chat_server(calls(("track", json.dumps({"order": order})))) as api:
        result = await run_suite(history(ANSWERED), AgentOptions(f"openai:{api.url}"), location, "first")
    assert result.verdict.passed is passes
    assert told(result) == [(["My order is ORD-7"], ["Where is it?"])]
    assert [[said["content"] for said in request["messages"]] for request in api.requests] == [
        ["My order is ORD-7", "I have noted ORD-7.", "Where is it?"]
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
        await run_suite(history(given), AgentOptions(url), location, "first")


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
        for page, words in (
            (f"turns/{turns[0]['turn_id']}", "of the history that its"),
            ("conversations/c", "Given turn 2"),
            ("conversations/c", ">Turn 1"),
        ):
            assert words in (await it.admin.get(f"/{page}", headers={"accept": "text/html"})).text
