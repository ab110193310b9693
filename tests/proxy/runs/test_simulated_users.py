"""Runs in which a simulated user talks to a real agent over A2A; its model is a stand-in that speaks OpenAI's API."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from a2a_eval_proxy.errors import ConfigError
from a2a_eval_proxy.privacy.policy import Privacy, privacy_of
from a2a_eval_proxy.privacy.redactor import parse_rules
from a2a_eval_proxy.runs.drive import AgentOptions, NothingRanError, run_suite
from a2a_eval_proxy.runs.rescore import evaluate_store
from a2a_eval_proxy.runs.run_result import RunResult, RunWatch
from agents.approval_agent import approval_agent
from agents.serving import ServerThread
from agents.stepwise_agent import stepwise_agent
from judges.fake_api import KEY, MODEL, FakeApi, Reply, fails, says
from support.stored_runs import stored_turns
from tool_call_evaluators.attempts import attempt_seed
from tool_call_evaluators.report import json_report, junit_xml
from tool_call_evaluators.suite import Suite, parse_suite

STOP = "###STOP###"
AGENT_URL = "http://127.0.0.1:1"


class UserModel:
    """A model that writes these lines in each conversation, the last one ever after."""

    def __init__(self, *lines: str | Reply) -> None:
        self.api = FakeApi(self._reply)
        self.lines = lines

    def _reply(self, request: dict[str, Any]) -> Reply:
        written = sum(message["role"] == "assistant" for message in request["messages"])
        line = self.lines[min(written, len(self.lines) - 1)]
        return says(line) if isinstance(line, str) else line

    @property
    def asked(self) -> int:
        return len(self.api.requests)


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "A2A_EVAL_PROXY_JUDGE_MODEL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("A2A_EVAL_PROXY_SIMULATED_USER_API_KEY", KEY)


@pytest.fixture(scope="module")
def agent() -> Iterator[AgentOptions]:
    with stepwise_agent() as server:
        yield AgentOptions(server.url, {}, concurrency=2)


@pytest.fixture
def location(tmp_path: Path) -> str:
    return str(tmp_path / "turns.db")


def suite(simulate: str = "{goal: A refund}", *, user: str = "{}", more: str = "", turns: str = "") -> Suite:
    return parse_suite(
        f"""
suite: refunds
simulated_user: {user}
evaluators: [tool_error, {{tool_trajectory: {{scope: conversation, mode: superset, id: whole}}}}]
{more}
cases:
  - id: refund
    {turns}
    expect: {{tool_calls: [{{name: refund, arguments: null}}]}}
    simulate: {simulate}
"""
    )


async def drive(
    model: UserModel, agent: AgentOptions, location: str, simulate: str = "{goal: A refund}", **options: Any
) -> RunResult:
    """Runs the suite with `model` as the user."""
    named = {name: options.pop(name) for name in ("more", "turns") if name in options}
    with ServerThread(model.api.app) as server:
        user = f'{{model: {MODEL}, base_url: "{server.url}/v1", seed: 7, prices: {{input: 1, output: 2}}}}'
        return await run_suite(suite(simulate, user=user, **named), agent, location, "nightly", **options)


def codes(result: RunResult) -> list[str]:
    return [reason.code for reason in result.verdict.reasons]


# ── a conversation ──────────────────────────────────────────────────────────────────────────────────────────


async def test_a_model_talks_to_the_agent_until_its_goal_is_reached(agent: AgentOptions, location: str) -> None:
    model = UserModel("refund it please", "and thanks for that", STOP)
    watch = RunWatch()
    result = await drive(model, agent, location, "{goal: A refund, conversations: 2, max_turns: 5}", watch=watch)
    assert result.verdict.passed, result.verdict.reasons
    assert [item.label for item in result.report.conversations] == ["refund #1", "refund #2"]
    assert (watch.planned, watch.done) == (10, 10)
    for conversation in result.report.conversations:
        assert [turn["user_text"] for turn in conversation.executed] == ["refund it please", "and thanks for that"]
        assert conversation.user is not None
        assert (conversation.user.end, conversation.user.fault) == ("goal_reached", None)
        assert conversation.user.replies == ("refund it please", "and thanks for that", STOP)
    seeds = [attempt_seed(7, "refund", number) for number in (1, 2)]
    assert sorted(request["seed"] for request in model.api.requests) == sorted(3 * seeds)
    first = model.api.requests[0]
    assert "A refund" in first["messages"][0]["content"]
    assert (first["temperature"], "response_format" in first) == (0.7, False)


@pytest.mark.parametrize(
    ("decision", "said", "is_answer"),
    [
        ("APPROVE.", "approve", True),
        ("REJECT: too much", "reject: too much", True),
        ("APPROVE, but only up to 20", "APPROVE, but only up to 20", False),
    ],
)
async def test_the_user_decides_on_calls_that_wait(decision: str, said: str, is_answer: bool, location: str) -> None:
    model = UserModel("refund A-1 please", decision, STOP)
    with approval_agent() as agent:
        await drive(model, AgentOptions(agent.url), location)
    asked = model.api.requests[1]["messages"][-1]["content"]
    assert 'The agent asks whether it may call refund(order="A-1")' in asked
    first, answered = sorted(await stored_turns(location), key=lambda turn: turn["started_at"])
    assert "user_parts" not in first
    assert (answered["user_text"], "user_parts" in answered) == (said, is_answer)


async def test_a_failed_task_ends_the_conversation_and_is_the_agents_failure(
    agent: AgentOptions, location: str
) -> None:
    model = UserModel("fail on me please", "again please now", STOP)
    result = await drive(model, agent, location)
    (conversation,) = result.report.conversations
    assert conversation.user is not None
    assert (conversation.user.end, conversation.user.fault, model.asked) == ("agent_failed", None, 1)
    assert "failed_turn" in codes(result)
    assert result.report.status(conversation) == "failed"


async def test_scripted_turns_come_first(agent: AgentOptions, location: str) -> None:
    model = UserModel("never written here", "and now it please", STOP)
    turns = "turns: [{user: ask it, expect: {tool_calls: [{name: other}]}}]"
    result = await drive(model, agent, location, turns=turns)
    (conversation,) = result.report.conversations
    assert [turn["user_text"] for turn in conversation.executed] == ["ask it", "and now it please"]
    assert [turn.expect is None for turn in conversation.turns] == [False, True]
    assert model.api.requests[0]["messages"][2:] == [
        {"role": "assistant", "content": "ask it"},
        {"role": "user", "content": "answer 0"},
    ]


HISTORY = """given: {simulate: {goal: Two questions}}
    turns: [{user: now it}]"""


async def test_a_history_of_a_simulated_user_is_told_to_the_one_who_follows_and_is_repeated_without_a_model(
    agent: AgentOptions, location: str
) -> None:
    lines = ["ask me first please", "ask me second please", STOP, "and thanks for that", STOP]
    model = UserModel(*lines)
    first = await drive(model, agent, location, "{goal: Thanks}", turns=HISTORY)
    assert first.verdict.passed, first.verdict.reasons
    (conversation,) = first.report.conversations
    assert [turn.turn and turn.turn["user_text"] for turn in conversation.given] == lines[:2]
    assert [turn["user_text"] for turn in conversation.executed] == ["now it", "and thanks for that"]
    assert conversation.executed[0]["tool_calls"][0]["arguments"] == {"order": 2}
    assert [user.replies for user in first.report.users] == [tuple(lines[:3]), ("and thanks for that", STOP)]
    said = [message["content"] for message in model.api.requests[-2]["messages"] if message["role"] == "assistant"]
    assert said == [*lines[:2], "now it"]

    again = await run_suite(suite("{goal: Thanks}", turns=HISTORY), agent, location, "again", replay_user="nightly")
    assert again.verdict == first.verdict
    other = suite("{goal: Thanks}", turns=HISTORY.replace("Two", "Three"))
    with pytest.raises(ConfigError, match=r"conversation 1, given turn 1: .* under other instructions"):
        await run_suite(other, AgentOptions(AGENT_URL), location, "third", replay_user="nightly")


async def test_a_history_whose_user_is_at_fault_is_not_the_agents_failure(agent: AgentOptions, location: str) -> None:
    result = await drive(UserModel("ask me first please", ""), agent, location, turns=HISTORY)
    (conversation,) = result.report.conversations
    assert (len(conversation.given), conversation.executed) == (1, [])
    assert (result.report.status(conversation), result.report.exclusion(conversation)) == ("unscored", "history")
    assert "its history could not be made: the simulated user: its message is empty" in str(conversation.no_history)


# ── faults of the user ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        (["refund it please", "How can I help you?"], "user_out_of_role"),
        (["refund it please", ""], "user_empty"),
    ],
)
async def test_a_fault_spoils_the_conversation_and_is_not_the_agents(
    agent: AgentOptions, location: str, lines: list[str], code: str
) -> None:
    result = await drive(UserModel(*lines), agent, location)
    assert codes(result)[0] == "user_fault"
    assert {"failed", "failed_turn", "missing_turn", "errored"}.isdisjoint(codes(result))
    (conversation,) = result.report.conversations
    assert [turn["user_text"] for turn in conversation.executed] == [lines[0]]  # the agent never got the other
    assert result.report.status(conversation) == "invalid"
    assert result.report.counts == {"passed": 0, "failed": 0, "invalid": 1, "unscored": 0}
    assert [item.status for item in conversation.results] == ["skipped"]
    told = json.loads(json_report(result.report))
    assert (told["simulated_users"]["faults"], told["unique_errors"]) == ({code: 1}, [])
    (error,) = ET.fromstring(junit_xml(result.report)).findall(".//testcase[@name='refund']/error")
    assert error.get("type") == "user_fault"


async def test_no_end_within_the_turns_is_counted_and_the_agent_is_measured(agent: AgentOptions, location: str) -> None:
    model = UserModel("refund it please", "and this one too", "and that one too", "and so on")
    result = await drive(model, agent, location, "{goal: A refund, max_turns: 3}")
    assert codes(result) == ["user_no_end"]
    (conversation,) = result.report.conversations
    assert len(conversation.executed) == 3
    assert [(item.evaluator, item.status) for item in conversation.results] == [("whole", "passed")]
    tolerant = suite("{goal: A refund, max_turns: 3}", more="tolerate: [user_no_end]")
    again = await evaluate_store(tolerant, location, "nightly")
    assert again.verdict.passed
    assert again.report.status(again.report.conversations[0]) == "passed"


async def test_a_fault_before_the_first_message_is_kept_and_redacted_too(agent: AgentOptions, location: str) -> None:
    privacy = privacy_of(parse_rules("email"), None)
    model = UserModel("How can I help you, ada@example.org?")
    result = await drive(model, agent, location, "{goal: A refund, conversations: 2}", privacy=privacy)
    assert codes(result).count("user_fault") == 2
    assert await stored_turns(location) == []
    assert result.report.users[0].redacted
    assert b"ada@" not in Path(location).read_bytes()


async def test_a_model_that_is_gone_interrupts_the_conversation_and_resuming_repeats_it(
    agent: AgentOptions, location: str
) -> None:
    gone = UserModel("refund it please", fails(400, "no more today"))
    first = await drive(gone, agent, location)
    assert codes(first)[0] == "user_fault"
    assert "no reply: simulated user fake-judge-1 at http" in first.verdict.reasons[0].message
    assert json.loads(json_report(first.report))["simulated_users"]["faults"] == {"user_unanswered": 1}

    result = await drive(UserModel("refund it please", STOP), agent, location, resume=True)
    assert result.verdict.passed, result.verdict.reasons
    assert len(await stored_turns(location)) == 1


async def test_a_model_that_never_answers_is_an_unreachable_part(agent: AgentOptions, location: str) -> None:
    with pytest.raises(NothingRanError, match=r"simulated user fake-judge-1 at .*: HTTP 400: no") as caught:
        await drive(UserModel(fails(400, "no")), agent, location)
    assert caught.value.exit_code == 3


async def test_a_finished_conversation_is_not_held_again_and_a_missing_one_is(
    agent: AgentOptions, location: str
) -> None:
    await drive(UserModel("refund it please", STOP), agent, location, "{goal: A refund, conversations: 2}")
    model = UserModel("refund it please", STOP)
    result = await drive(model, agent, location, "{goal: A refund, conversations: 3}", resume=True)
    assert result.verdict.passed
    assert sorted(user.conversation for user in result.report.users) == [1, 2, 3]
    assert [request["seed"] for request in model.api.requests] == [attempt_seed(7, "refund", 3)] * 2


# ── repeated without a model ────────────────────────────────────────────────────────────────────────────────


async def test_a_run_is_repeated_without_a_model(agent: AgentOptions, location: str) -> None:
    simulate = "{goal: A refund, conversations: 2}"
    lines = ["refund it please", "and that one too", STOP]
    first = await drive(UserModel(*lines), agent, location, simulate)
    again = await run_suite(suite(simulate), agent, location, "again", replay_user="nightly")
    assert again.verdict == first.verdict
    said = [[turn["user_text"] for turn in item.executed] for item in again.report.conversations]
    assert said == [lines[:2], lines[:2]]
    assert [user.replayed for user in again.report.users] == ["nightly", "nightly"]
    third = await run_suite(suite(simulate), agent, location, "third", replay_user="again")
    assert third.verdict == first.verdict


@pytest.mark.parametrize(
    ("simulate", "message"),
    [
        ("{goal: A refund, conversations: 2}", "case 'refund', conversation 2, turn 1: the run has no replies"),
        ("{goal: Another}", "case 'refund', conversation 1, turn 1: .* under other instructions"),
        ("{goal: A refund, opening: Hello}", "case 'refund', conversation 1, turn 1: .* under other instructions"),
    ],
)
async def test_what_is_not_recorded_is_said_before_the_agent_is_asked(
    agent: AgentOptions, location: str, simulate: str, message: str
) -> None:
    await drive(UserModel("refund it please", STOP), agent, location)
    with pytest.raises(ConfigError, match=f"--replay-user nightly: {message}"):
        await run_suite(suite(simulate), AgentOptions(AGENT_URL), location, "again", replay_user="nightly")


async def test_a_reply_that_is_missing_later_is_an_error_that_names_the_turn(
    agent: AgentOptions, location: str
) -> None:
    """Here the agent failed in the recorded run, and does not any more."""
    await drive(UserModel("fail on me please"), agent, location)
    with stepwise_agent(fails=False) as better:
        result = await run_suite(suite(), AgentOptions(better.url), location, "again", replay_user="nightly")
    assert codes(result)[0] == "user_fault"
    assert "has no reply of the user for turn 2 of case 'refund', conversation 1" in result.verdict.reasons[0].message
    assert len(await stored_turns(location, run="again")) == 1


# ── without a model, and with privacy ───────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("user", "message"),
    [
        ("{}", "case 'refund' has a simulated user, but no model is configured for it: .*--replay-user RUN"),
        ("{model: m}", "but api.openai.com needs a key; set A2A_EVAL_PROXY_SIMULATED_USER_API_KEY or OPENAI_API_KEY"),
    ],
)
async def test_without_a_model_or_key_nothing_is_driven(
    location: str, user: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("A2A_EVAL_PROXY_SIMULATED_USER_API_KEY")
    with pytest.raises(ConfigError, match=message):  # nobody is at that address, and nobody is asked
        await run_suite(suite(user=user), AgentOptions(AGENT_URL), location, "nightly")


@pytest.mark.parametrize(
    "privacy",
    [
        privacy_of(parse_rules("email"), None),
        privacy_of((), None, no_content=True),
    ],
    ids=["rules", "none"],
)
async def test_what_is_not_kept_is_not_repeated(agent: AgentOptions, location: str, privacy: Privacy) -> None:
    model = UserModel("write to ada@example.org please", "write to ada@example.org please")
    result = await drive(model, agent, location, privacy=privacy)
    assert "user_repeats" in json_report(result.report)
    assert "ada@" not in json_report(result.report)
    assert "ada@" in model.api.requests[1]["messages"][2]["content"]
    assert "ada@" not in json.dumps(await stored_turns(location))
    with pytest.raises(ConfigError, match="stored redacted or without content"):
        await run_suite(suite(), AgentOptions(AGENT_URL), location, "again", replay_user="nightly")
