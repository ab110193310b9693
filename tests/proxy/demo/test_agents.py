"""`demo --agents`: three agents that ask each other, and a fault that the answer hides and the tree shows."""

from __future__ import annotations

import asyncio
import io
import json
import os
import re
import select
import shlex
import signal
import tempfile
from pathlib import Path
from typing import Any

import httpx
import pytest
from a2a_eval_proxy.demo import desk
from a2a_eval_proxy.demo.desk import ORDERS, running_desk
from a2a_eval_proxy.demo.story import tell_of_agents
from a2a_tool_capture.client import CaptureClient
from rich.console import Console
from support.patience import PATIENCE_S
from support.prefork import COMMAND
from support.processes import ChildProcess, children
from support.provision import node_environment

IN_PYTHON = "orders is in Python: node with @a2a-js/sdk was not found"
IN_JAVASCRIPT = "orders is in JavaScript, @a2a-js/sdk."
WITH_NODE = [pytest.param(True, marks=pytest.mark.installs, id="javascript"), pytest.param(False, id="python")]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Path:
    """The working directory; with @a2a-js/sdk if the test asks for it."""
    folder, temporary = tmp_path / "here", tmp_path / "temporary"
    folder.mkdir()
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.delenv("NODE_PATH", raising=False)
    monkeypatch.chdir(folder)
    if getattr(request, "param", False):
        packages = folder / "node_modules/@a2a-js"
        packages.mkdir(parents=True)
        (packages / "sdk").symlink_to(node_environment().resolve() / "node_modules/a2a-js-1")
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


@pytest.mark.parametrize("folder", WITH_NODE, indirect=True)
async def test_the_answer_hides_what_the_tree_shows(folder: Path, request: pytest.FixtureRequest) -> None:
    text, turns = await story(folder)
    in_javascript = "javascript" in request.node.callspec.id
    assert (IN_JAVASCRIPT if in_javascript else IN_PYTHON) in text
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


async def test_without_node_all_agents_are_in_python(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(folder))
    async with running_desk(folder / "shop.db") as running:
        assert running.orders_in.startswith("Python: node with @a2a-js/sdk was not found")
        assert set(running.urls) == {"orchestrator", "orders", "refunds"}


@pytest.mark.parametrize(
    "script", ["exit 3", "read orders; echo nonsense", "exec sleep 600"], ids=["ends", "says something else", "hangs"]
)
async def test_a_node_that_does_not_work_is_left(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    node = folder / "node"
    node.write_text(f"#!/bin/sh\n{script}\n")
    node.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setattr(desk, "NODE_TIMEOUT_S", 1.0)
    before = children(os.getpid())
    async with running_desk(folder / "shop.db") as running:
        assert running.orders_in.startswith("Python")
    assert children(os.getpid()) == before


@pytest.mark.parametrize("folder", [WITH_NODE[0]], indirect=True)
async def test_both_languages_answer_alike(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    questions = [*(f"What is in order ORD-100{n}?" for n in range(1, 8)), "And ord-1001?", "Hello"]

    async def answers() -> list[Any]:
        async with running_desk(folder / "shop.db") as running, CaptureClient(running.urls[ORDERS]) as client:
            turns = [await client.conversation().send(question) for question in questions]
        assert all(not turn.findings for turn in turns), turns
        return [
            (
                turn.text,
                [
                    (call.name, call.arguments, json.loads(call.result or "null"), call.error)
                    for call in turn.tool_calls
                ],
            )
            for turn in turns
        ]

    in_javascript = await answers()
    monkeypatch.setenv("PATH", str(folder))
    assert in_javascript == await answers()


@pytest.mark.parametrize(
    ("folder", "how"),
    [
        *(
            pytest.param(True, how, marks=pytest.mark.installs)
            for how in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
        ),
        (False, signal.SIGINT),  # one process: there is no other that a signal could leave
    ],
    indirect=["folder"],
)
async def test_what_is_kept_works_and_leaves_no_process(folder: Path, how: signal.Signals) -> None:
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
        nodes = [os.pidfd_open(child) for child in children(demo.process.pid)]
        assert bool(nodes) == (folder / "node_modules").exists()
        demo.process.send_signal(how)
        assert await asyncio.to_thread(demo.wait, PATIENCE_S) == (0 if how is not signal.SIGKILL else -signal.SIGKILL)
    for node in nodes:
        ended, _, _ = await asyncio.to_thread(select.select, [node], [], [], PATIENCE_S)
        assert ended, "node outlives the demo"
        os.close(node)
