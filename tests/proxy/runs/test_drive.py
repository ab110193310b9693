"""Runs against the sample agent: conversations, repetitions, resuming; and scoring again what they stored."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
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
from a2a_eval_proxy.runs.run_result import RunWatch
from a2a_eval_proxy.runs.stored_turns import open_existing_store
from a2a_tool_capture.client import CaptureClient
from a2a_tool_capture.errors import AgentError
from agents.control import Control
from agents.scenario_agent import AgentOptions as ScenarioOptions
from agents.scenario_agent import build_app, scenario_agent
from agents.serving import ServerThread
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from support.commands import ended
from support.stored_runs import stored_turns
from tool_call_evaluators.outcomes.conversations import follow
from tool_call_evaluators.report import html_report, junit_xml
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
