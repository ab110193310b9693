"""`send`: what goes with the message, what is printed of the turn, and its exit code."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from a2a_eval_proxy.errors import ConfigError
from a2a_eval_proxy.features.send.feature import SendOptions
from a2a_eval_proxy.features.send.transcript import MAX_FILE_BYTES, message_of, send_message, turn_json, turn_text
from a2a_eval_proxy.runs.drive import AgentOptions
from a2a_tool_capture import Finding, Severity, ToolCall
from a2a_tool_capture.errors import AgentError
from a2a_tool_capture.models import CapturedTurn
from agents.approval_agent import approval_agent
from agents.replay_agent import Answer, ReplayAgent
from agents.scenario_agent import scenario_agent
from support.commands import ended

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


def captured(*calls: ToolCall, text: str = "", **more: Any) -> CapturedTurn:
    fields = {
        "user_text": "hello", "text": text, "tool_calls": calls, "findings": (), "state": "TASK_STATE_COMPLETED",
        "task_id": "t-1", "context_id": "c-1", "declared": True, "binding": "JSONRPC", "protocol_version": "1.0",
        "started_at": BEGAN, "first_event_at": BEGAN, "ended_at": BEGAN + timedelta(milliseconds=120),
    }  # fmt: skip
    return CapturedTurn(**{**fields, **more})


FOUND = ToolCall(id="1", name="lookup", arguments={"id": "A-1"}, result="shipped")
FAILED = ToolCall(id="2", name="mail", arguments={}, error="no such\x1b address")


def test_calls_come_before_the_response() -> None:
    text = turn_text(captured(FOUND, FAILED, text="It is shipped."))
    lines = ['→ lookup(id="A-1")', "  shipped", "→ mail()", "  error: no such", "It is shipped.", "continue with"]
    places = [text.index(line) for line in lines]
    assert places == sorted(places)
    assert "\x1b" not in text


def test_the_json_has_the_names_of_a_turn() -> None:
    turn = turn_json(captured(FOUND, text="Done."))
    expected = {"response_text": "Done.", "conversation_id": "c-1", "duration_ms": 120, "calls_evidence": "tool_calls"}
    assert {name: turn[name] for name in expected} == expected
    assert turn["tool_calls"][0]["result"] == "shipped"


def test_a_dialect_that_is_not_read_leaves_the_calls_unknown() -> None:
    unread = captured(findings=(Finding("dialect_not_read", "", Severity.INFO),))
    assert [turn_json(turn)["calls"] for turn in (captured(FOUND), captured(), unread)] == [
        "seen",
        "none_made",
        "unknown",
    ]
    undeclared = turn_text(captured(declared=False))
    assert "this client cannot see them: the agent's card does not declare" in undeclared


@pytest.mark.parametrize(("text", "code", "ends_with"), [("artifact now", 0, "completed"), ("fail now", 1, "failed")])
def test_the_exit_code_is_that_of_the_task(
    text: str, code: int, ends_with: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with scenario_agent() as agent:
        assert ended("send", text, "--agent", agent.url) == code
    assert f"\n{ends_with}, " in capsys.readouterr().out


def _answer(content_type: str, body: bytes) -> Answer:
    head = f"HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\nconnection: close\r\n\r\n"
    return Answer([head.encode() + body], cut=True)


async def test_files_and_data_go_with_the_message(tmp_path: Path) -> None:
    bill = tmp_path / "bill.pdf"
    bill.write_bytes(b"%PDF \xff")
    with ReplayAgent() as agent:
        interface = {"url": agent.url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
        card = {"name": "Shop", "capabilities": {"streaming": True}, "supportedInterfaces": [interface]}
        agent.card = _answer("application/json", json.dumps(card).encode())
        agent.prepare(_answer("text/event-stream", b'data: {"jsonrpc": "2.0", "id": 1, "result": {}}\n\n'))
        with suppress(AgentError):
            sending = message_of("Read this.", ['{"n": 1}'], [str(bill)])
            await send_message(AgentOptions(agent.url), sending)
        (sent,) = agent.received
    assert json.loads(sent.body)["params"]["message"]["parts"] == [
        {"text": "Read this."},
        {"data": {"n": 1}},
        {"raw": "JVBERiD/", "filename": "bill.pdf", "mediaType": "application/pdf"},
    ]


def test_files_that_cannot_be_sent_are_named(tmp_path: Path) -> None:
    large = tmp_path / "large"
    with large.open("wb") as opened:
        opened.truncate(MAX_FILE_BYTES + 1)
    for path, why in (("missing.txt", "No such file"), (str(tmp_path), "Is a directory"), (str(large), "10,000,000")):
        with pytest.raises(ConfigError, match=why):
            message_of(None, [], [path])
    with pytest.raises(ConfigError, match="--data: not JSON"):
        message_of(None, ["{"], [])


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, "give a message"),
        ({"text": "hi", "approve": True}, "give a message"),
        ({"approve": True, "reject": "no"}, "give a message"),
        *(({**answer, "conversation": "c-1"}, "need --task") for answer in ({"approve": True}, {"choose": "2"})),
    ],
)
def test_there_is_one_message(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        SendOptions(agent="http://127.0.0.1:1", **options)


@pytest.mark.parametrize(
    ("answer", "says"), [(["--approve"], "Refunded."), (["--reject", "too much"], "Not refunded.")]
)
def test_what_waits_is_shown_and_answered(answer: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    with approval_agent() as agent:
        assert ended("send", "Refund A-1.", "--agent", agent.url) == 0
        asked = capsys.readouterr().out
        assert 'waits for approval (--approve, --reject REASON): refund(order="A-1")' in asked
        continued = asked.partition("continue with: ")[2].split()
        assert ended("send", *answer, *continued, "--agent", agent.url) == 0
    assert f"{says}\n\ncompleted" in capsys.readouterr().out
