"""`demo`: what it says is what happened, and `--keep` leaves something to try."""

from __future__ import annotations

import io
import json
import re
import tempfile
from pathlib import Path

import pytest
from a2a_eval_proxy.features.demo.story import tell
from rich.console import Console


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
    assert [verdict for _, verdict in rows] == ["failed"] * 3 + ["passed"] * 12
    assert [case for case, _ in rows[:3]] == ["partial-refund", "cancellation", "double-question"]
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
    assert all(case in summary for case, _ in rows[:3])
