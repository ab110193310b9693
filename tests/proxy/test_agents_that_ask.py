"""Three agents behind one proxy that ask each other, and a fault that the answer hides and the tree shows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from a2a_eval_proxy.app import run_proxy
from a2a_eval_proxy.features.demo.story import send_suite
from a2a_eval_proxy.features.graph.trees import StoredTrees
from a2a_eval_proxy.settings.options import load
from a2a_eval_proxy.settings.settings import Settings
from agents import desk
from support.patience import PATIENCE_S
from tool_call_evaluators.report.tree import tree_text
from tool_call_evaluators.suite import load_suite

SUITE = Path(desk.__file__).with_name("desk.yaml")
PORTS = {"listen": "127.0.0.1:0", "admin": "127.0.0.1:0", "otlp": "off"}


async def story(folder: Path) -> tuple[int, list[dict[str, Any]], dict[str, str]]:
    """How many calls the client saw, the turns of the agent that it asked, and their trees by the id of the case."""
    suite = load_suite(SUITE)
    async with desk.running_desk() as agents:
        own = {name: {"upstream": url} for name, url in agents.urls.items()}
        own[desk.ORCHESTRATOR]["suite"] = str(SUITE)
        settings = load(Settings, {**PORTS, "store": str(folder / "turns.db"), "run": "desk", "agents": own})
        async with run_proxy(settings) as proxy:
            agents.entrance = proxy.url
            address = agents.address(desk.ORCHESTRATOR)
            seen = [len(answer.tool_calls) async for _, answer in send_suite(address, suite)]
            await proxy.flush(PATIENCE_S)
            turns = await proxy.turns(run=f"desk-{desk.ORCHESTRATOR}")
            trees = [await StoredTrees(proxy.control.store).below(turn["turn_id"]) for turn in turns]
    shown = {
        turn["case_id"]: tree_text(tree, turn["turn_id"])
        for turn, tree in zip(turns, trees, strict=True)
        if tree is not None
    }
    return sum(seen), turns, shown


def verdicts(turns: list[dict[str, Any]]) -> dict[str, set[str]]:
    """The evaluators that did not pass, by case."""
    found = {}
    for turn in turns:
        assert len(turn["evaluations"]) == 5
        found[turn["case_id"]] = {item["evaluator"] for item in turn["evaluations"] if not item["passed"]}
    return found


FAULT = {"order-status": set(), "whole-refund": set(), "partial-refund": {"delegated_values", "tool_call_args"}}


async def test_the_answer_hides_what_the_tree_shows(tmp_path: Path) -> None:
    seen, turns, trees = await story(tmp_path)
    assert seen == 0
    (failed,) = [turn for turn in turns if turn["case_id"] == "partial-refund"]
    assert failed["response_text"].startswith("Done: 14.50 EUR refunded for order ORD-1002")
    tree = re.findall(r"^( *)[*-] (\w+): completed, [^,]+, (.*?)  ", trees["partial-refund"], re.MULTILINE)
    assert tree == [
        ("", "orchestrator", "no calls"),
        ("  ", "orders", "calls lookup_order"),
        ("  ", "refunds", "calls issue_refund"),
        ("    ", "orders", "calls lookup_order"),
    ]
    assert not any("guess" in shown for shown in trees.values())
    reasons = " ".join(item["reason"] for item in failed["evaluations"])
    assert "29.00 EUR refunded of refunds is not in the answer" in reasons
    assert "amount_eur: expected 14.5, got 29" in reasons
    assert verdicts(turns) == FAULT


async def test_without_the_fault_nothing_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refund(text: str, ask: desk.Ask, tools: desk.Tools) -> str:
        named = re.search(r"[0-9.]+(?= EUR)", text) or re.search(r"[0-9.]+(?= EUR)", await ask(desk.ORDERS, text))
        assert named is not None
        order_id = re.findall(r"ORD-\d+", text)[0]
        await ask(desk.ORDERS, f"What is in order {order_id}?")
        done = tools["issue_refund"](order_id=order_id, amount_eur=float(named[0]))
        return f"{done['amount_eur']:.2f} EUR refunded, reference {done['refund_id']}."

    monkeypatch.setattr(desk, "refund", refund)
    _, turns, _ = await story(tmp_path)
    assert verdicts(turns) == {case: set() for case in FAULT}
