"""Agents that ask before they call a tool, and agents that do not: from a suite, through a proxy, recorded."""

from __future__ import annotations

from pathlib import Path

import pytest
from a2a_eval_proxy import AgentOptions, Settings, evaluate_store, run_proxy, run_suite
from a2a_eval_proxy.features.accept.changes import record_run
from agents.approval_agent import QUESTION, Manner, approval_agent
from support.stored_runs import stored_turns
from tool_call_evaluators.report import html_report
from tool_call_evaluators.suite import parse_suite

REFUND = "[{name: refund, arguments: {order: A-1}}]"
SUITE = """
suite: refunds
evaluators: [approval, {tool_trajectory: {mode: in_order}}]
cases:
  - id: refund
    turns:
      - user: {parts: [{text: Refund this.}, {data: {order: A-1}}]}
        expect: {approval: {tool: refund, arguments: {order: A-1}}}
      - ANSWERED
"""
APPROVED = SUITE.replace("ANSWERED", f"{{user: {{approve: refund}}, expect: {{tool_calls: {REFUND}}}}}")
REJECTED = SUITE.replace("ANSWERED", "{user: {reject: too much}, expect: {tool_calls: []}}")
CASE = {"A2A-Eval-Case": "refund"}
UNKNOWN = "which calls wait for approval is unknown: the question of the agent names none"
EXECUTED = 'executed without approval: refund(order="A-1")'


@pytest.mark.parametrize(
    ("manner", "text", "status", "why"),
    [
        ("asks", APPROVED, "passed", 'refund(order="A-1") waits for approval'),
        ("asks", REJECTED, "passed", 'refund(order="A-1") waits for approval'),
        ("executes", APPROVED, "failed", EXECUTED),
        ("executes and asks", REJECTED, "failed", EXECUTED),
        (
            "asks in words",
            REJECTED,
            "skipped",
            UNKNOWN,
        ),
    ],
)
async def test_a_call_waits_until_it_is_approved(
    manner: Manner, text: str, status: str, why: str, tmp_path: Path
) -> None:
    suite, file = parse_suite(text), tmp_path / "suite.yaml"
    file.write_text(text, "utf-8")
    store, live = str(tmp_path / "run.db"), str(tmp_path / "live.db")
    settings = {"listen": "127.0.0.1:0", "admin": "127.0.0.1:0", "otlp": None, "store": live, "run": "it"}
    with approval_agent(manner) as agent:
        async with run_proxy(Settings(upstream=agent.url, suite=str(file), **settings)) as proxy:
            result = await run_suite(suite, AgentOptions(proxy.url, CASE), store, "it")
            assert (await proxy.flush(60))["pending"] == 0
        assert result.verdict.passed == (status == "passed"), result.verdict.reasons
        stored = [sorted(await stored_turns(one), key=lambda turn: turn["started_at"]) for one in (store, live)]
        for asked, answered in stored:
            found = next(one for one in asked["evaluations"] if one["evaluator"] == "approval")
            assert (found["status"], found["reason"]) == (status, why)
            assert (asked["user_text"], asked["user_parts"][1]) == ("Refund this.", {"data": {"order": "A-1"}})
            named = {"name": "refund", "arguments": QUESTION["arguments"], "id": QUESTION["id"]}
            assert asked.get("approvals") == ([named] if "asks" in manner and manner != "asks in words" else None)
            assert answered["user_text"] == ("approve" if text == APPROVED else "reject: too much")
        for location in (store, live):
            again = await evaluate_store(suite, location, "it")
            assert again.verdict.passed == result.verdict.passed
        assert "waits for approval" in html_report(result.report)
        if manner == "asks":
            recorded = await record_run(live, "it")
            assert "approval: {tool: refund, arguments: " in recorded.text
            assert ("user: {approve: true}" in recorded.text) == (text == APPROVED)
            again = await run_suite(
                parse_suite(recorded.text), AgentOptions(agent.url), str(tmp_path / "again.db"), "again"
            )
            assert again.verdict.passed, again.verdict.reasons
