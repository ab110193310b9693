"""`demo --agents`: three agents that ask each other, and a fault that the answer hides and the tree shows."""

from __future__ import annotations

import asyncio
import io
import json
import re
import shlex
import signal
import tempfile
from pathlib import Path
from typing import Any

import httpx
import pytest
from a2a_eval_proxy.demo import desk
from a2a_eval_proxy.demo.desk import ORDERS
from a2a_eval_proxy.demo.story import tell_of_agents
from rich.console import Console
from support.patience import PATIENCE_S
from support.prefork import COMMAND
from support.processes import ChildProcess


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory."""
    folder, temporary = tmp_path / "here", tmp_path / "temporary"
    folder.mkdir()
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.chdir(folder)
    return folder


async def story(folder: Path) -> tuple[str, list[dict[str, Any]]]:
    """What the demo prints, and the turns that it exports."""
    console = Console(file=io.StringIO(), width=80, highlight=False)
    await tell_of_agents(False, console=console)
    assert isinstance(console.file, io.StringIO)
    (made,) = (folder.parent / "temporary").iterdir()
    lines = (made / "turns.jsonl").read_text("utf-8").splitlines()
    assert "Who asked whom" in (made / "report/report.html").read_text("utf-8")
    return console.file.getvalue(), [json.loads(line) for line in lines]


def verdicts(turns: list[dict[str, Any]]) -> dict[str, set[str]]:
    """The evaluators that did not pass, by case."""
    found = {}
    for turn in turns:
        assert len(turn["evaluations"]) == 5
        found[turn["case_id"]] = {item["evaluator"] for item in turn["evaluations"] if not item["passed"]}
    return found


FAULT = {"order-status": set(), "whole-refund": set(), "partial-refund": {"delegated_values", "tool_call_args"}}


async def test_the_answer_hides_what_the_tree_shows(folder: Path) -> None:
    text, turns = await story(folder)
    assert "4 conversations" not in text
    assert "shown 0 tool calls; the proxy captured 7" in " ".join(text.split())
    assert "answer: Done: 14.50 EUR refunded for order ORD-1002" in text
    tree = re.findall(r"^( *)[*-] (\w+): completed, [^,]+, (.*?)  ", text, re.MULTILINE)
    assert tree == [
        ("  ", "orchestrator", "no calls"),
        ("    ", "orders", "calls lookup_order"),
        ("    ", "refunds", "calls issue_refund"),
        ("      ", "orders", "calls lookup_order"),
    ]
    assert "guess" not in text
    assert "29.00 EUR refunded of refunds is not in the answer" in text
    assert "amount_eur: expected 14.5, got 29" in text
    assert verdicts(turns) == FAULT


async def test_without_the_fault_nothing_fails(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refund(text: str, ask: desk.Ask, tools: desk.Tools) -> str:
        named = re.search(r"[0-9.]+(?= EUR)", text) or re.search(r"[0-9.]+(?= EUR)", await ask(ORDERS, text))
        assert named is not None
        order_id = re.findall(r"ORD-\d+", text)[0]
        await ask(ORDERS, f"What is in order {order_id}?")
        done = tools["issue_refund"](order_id=order_id, amount_eur=float(named[0]))
        return f"{done['amount_eur']:.2f} EUR refunded, reference {done['refund_id']}."

    monkeypatch.setattr(desk, "refund", refund)
    text, turns = await story(folder)
    assert verdicts(turns) == {case: set() for case in FAULT}
    assert "What failed" not in text


async def test_what_is_kept_works_until_it_is_interrupted(folder: Path) -> None:
    with ChildProcess([COMMAND, "demo", "--agents", "--keep"], cwd=folder) as demo:
        text = ""
        while not (page := re.search(r"\S+/turns/01\S+$", text)):
            text += await asyncio.to_thread(demo.read_line) + "\n"
        agents, message, api = map(shlex.split, re.findall(r"^  curl -s (.*)$", text, re.MULTILINE))
        async with httpx.AsyncClient() as http:
            listed = (await http.get(agents[0])).json()["agents"]
            assert {agent["name"] for agent in listed} == {"orchestrator", "orders", "refunds"}
            headers = dict(value.split(": ") for value in message if value.startswith(("A2A-", "Content-")))
            answer = await http.post(message[0], headers=headers, content=message[-1])
            assert answer.json()["result"]["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
            assert len((await http.get(api[0])).json()["items"]) == 1
            shown = (await http.get(page[0])).text
            assert "Who asked whom" in shown
            assert "issue_refund" in shown
        demo.process.send_signal(signal.SIGINT)
        assert await asyncio.to_thread(demo.wait, PATIENCE_S) == 0
