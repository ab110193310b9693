"""`run --repeat`: several attempts at each case, which show what is flaky."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from a2a_eval_proxy.cli import main

AGENT = """\
from pathlib import Path
from a2a_tool_capture.connector import AgentResponse, ToolCall

class Orders:
    async def execute(self, user_query, **kwargs):
        made = Path("made")
        number = len(made.read_text()) if made.exists() else 0
        if "flaky" in user_query:
            made.write_text("x" * (number + 1))
        chosen = number % 2 if "flaky" in user_query else 0
        return AgentResponse("Sent.", [ToolCall("look_up", {"n": chosen}, result="{}")])
"""
SUITE = """\
suite: orders
evaluators: [tool_trajectory]
cases:
  - {id: one, turns: [{user: look, expect: {tool_calls: [{name: look_up, arguments: {n: 0}}]}}]}
  - {id: two, turns: [{user: flaky, expect: {tool_calls: [{name: look_up, arguments: {n: 0}}]}}]}
"""


def ended(command: str, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr("sys.argv", ["a2a-eval-proxy", *command.split()])
    with pytest.raises(SystemExit) as stopped:
        main()
    return int(stopped.value.code or 0)


def test_attempts_at_each_case(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    Path("agent.py").write_text(AGENT)
    Path("suite.yaml").write_text(SUITE)
    run = "run suite.yaml --agent python:agent.py:Orders --concurrency 1"
    assert ended(f"{run} --repeat 4 --report report", monkeypatch) == 1
    expected = "2 repeated cases: 1 always passed, 1 flaky, pass@1 0.75, pass@4 1.00, pass^4 0.50"
    assert expected in capsys.readouterr().out
    attempts = json.loads(Path("report/report.json").read_text())["attempts"]
    assert [case["verdict"] for case in attempts["cases"]] == ["passed", "flaky"]
    assert attempts["pass_hat"]["2"] == pytest.approx((1 + 1 / 6) / 2)
    assert "pass@4 1.00, pass^4 0.50" in Path("report/report.html").read_text()
    assert ended(f"{run} --repeat 0", monkeypatch) == 2
    assert "expected a whole number from 1 to 1000" in capsys.readouterr().err
