"""`demo`: what it says is what happened, and `--keep` leaves something to try."""

from __future__ import annotations

import asyncio
import io
import json
import re
import shlex
import signal
import tempfile
from pathlib import Path

import httpx
import pytest
from a2a_eval_proxy.features.demo.story import tell
from rich.console import Console
from support.patience import PATIENCE_S
from support.prefork import COMMAND
from support.processes import ChildProcess


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Console:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return Console(file=io.StringIO(), width=80, highlight=False)


def text_of(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


async def test_the_story(told: Console, tmp_path: Path) -> None:
    await tell(False, console=told)

    text = text_of(told)
    assert "12 conversations" in text
    assert "shown 0 tool calls; the proxy captured 22" in " ".join(text.split())
    rows = re.findall(r"^(\S*) .*\b(passed|failed)\b", text.partition("\ncase ")[2].partition("\n\n")[0], re.MULTILINE)
    assert [verdict for _, verdict in rows] == ["passed"] * 12 + ["failed"] * 3
    assert [case for case, _ in rows[12:]] == ["partial-refund", "cancellation", "double-question"]
    assert "partial-refund  tool_trajectory 0.50" in text
    assert "cancellation  tool_error 0.50" in text
    assert "double-question  tool_trajectory 0.67" in text

    (folder,) = tmp_path.iterdir()
    assert str(folder / "turns.db") in text
    turns = [json.loads(line) for line in (folder / "turns.jsonl").read_text("utf-8").splitlines()]
    assert len(turns) == 15
    assert sum(len(turn["tool_calls"]) for turn in turns) == 22
    assert {turn["status"] for turn in turns} == {"done"}
    assert f"Report: {folder / 'report' / 'report.html'} (open it in a browser)" in text
    assert (folder / "report" / "report.html").read_text("utf-8").count("partial-refund")
    summary = (folder / "report" / "summary.md").read_text("utf-8").replace("\\", "")
    assert all(case in summary for case, _ in rows[12:])


async def test_keep_leaves_the_proxy_running_and_its_commands_work(tmp_path: Path) -> None:
    with ChildProcess([COMMAND, "demo", "--keep"], environment={"TMPDIR": str(tmp_path)}) as demo:
        text = ""
        while not text.endswith("limit=1'\n"):
            text += await asyncio.to_thread(demo.read_line) + "\n"
        commands = re.findall(r"^  curl -s (.*)$", text[text.index("Still running") :], re.MULTILINE)
        card, message, api = map(shlex.split, commands)
        async with httpx.AsyncClient() as http:
            assert (await http.get(card[0])).json()["name"] == "Harbour Coffee customer service"
            headers = dict(value.split(": ") for value in message if value.startswith(("A2A-", "Content-")))
            answer = await http.post(message[0], headers=headers, content=message[-1])
            assert answer.json()["result"]["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
            assert len((await http.get(api[0])).json()["items"]) == 1
        demo.process.send_signal(signal.SIGINT)
        assert await asyncio.to_thread(demo.wait, PATIENCE_S) == 0
