"""`run --baseline` and `evaluate --baseline`: the report shows what changed from an earlier run of the store."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from a2a_eval_proxy.cli import main
from agents.scenario_agent import scenario_agent

SUITE = """\
suite: s
evaluators: [tool_error, {contains: {search_text: SEARCH}}]
cases:
  - {id: one, turns: [{user: message me}]}
  - {id: two, turns: [{user: message me again}]}
"""


@pytest.fixture(scope="module")
def agent() -> Iterator[str]:
    with scenario_agent() as agent:
        yield agent.url


def ended(command: str, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr("sys.argv", ["a2a-eval-proxy", *command.split()])
    with pytest.raises(SystemExit) as stopped:
        main()
    return int(stopped.value.code or 0)


def test_what_the_baseline_fails_is_the_last_word(
    agent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The verdict, its reason, the files and the exit code agree, though the gates of the suite are met."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    gated = SUITE.replace("cases:", "gates: {contains: 0, tool_error: 0}\ntolerate: [unmeasured]\ncases:")
    run = f"run suite.yaml --agent {agent} --allow-no-capture --run"
    Path("suite.yaml").write_text(gated.replace("SEARCH", "e"))
    assert ended(f"{run} monday", monkeypatch) == 0
    Path("suite.yaml").write_text(gated.replace("SEARCH", "no-answer-has-this"))
    capsys.readouterr()
    fails = "--baseline monday --fail-on newly-failing"
    assert ended(f"{run} tuesday {fails} --report report", monkeypatch) == 1
    lines = capsys.readouterr().out.splitlines()
    assert "passed" not in lines
    assert [line for line in lines if line.startswith("failed")] == ["failed, 1 reason:"]
    assert sum("compared with monday" in line for line in lines) == 1
    assert json.loads(Path("report/report.json").read_text())["passed"] is False
    assert ended("show tuesday", monkeypatch) == 0
    assert "tuesday: failed" in capsys.readouterr().out
    assert ended("evaluate --suite suite.yaml --run tuesday --allow-no-capture", monkeypatch) == 0
    assert ended("show tuesday", monkeypatch) == 0
    assert "tuesday: passed" in capsys.readouterr().out
