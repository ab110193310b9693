"""What `run` and `evaluate` conclude: never green where calls cannot be seen, and what a baseline fails is failed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from agents.scenario_agent import AgentOptions, scenario_agent
from support.commands import ended

CASES = "cases:\n  - id: ask\n    turns: [{user: message me}]\n"
EXPECTING = "cases:\n  - id: ask\n    turns: [{user: message me, expect: {tool_calls: [{name: search}]}}]\n"
TOLERANT = "suite: s\ntolerate: [unread_expectation]\n"
DEPENDS_ON_CALLS = {
    "needs calls": f"suite: s\nevaluators: [tool_trajectory]\n{EXPECTING}",
    "tool_error": f"suite: s\nevaluators: [tool_error]\n{CASES}",
    "gate": f"suite: s\nevaluators: [tool_error]\ngates: {{tool_error: 0.5}}\n{CASES}",
    "run gate": f"{TOLERANT}evaluators: [tool_error]\ngates: {{pass_rate: 0.5}}\n{EXPECTING}",
    "expected calls, texts scored": f"{TOLERANT}evaluators: [{{contains: {{search_text: echo}}}}]\n{EXPECTING}",
}
GATED = """\
suite: s
evaluators: [tool_error, {contains: {search_text: SEARCH}}]
gates: {contains: 0, tool_error: 0}
tolerate: [unmeasured]
cases:
  - {id: one, turns: [{user: message me}]}
  - {id: two, turns: [{user: message me again}]}
"""
LINE = "tool calls are not visible in 1 of 1 turn"
WHY = f"{LINE}: the agent's card does not declare the tool-call-capture extension"
HINT = "; if that is intended, add --allow-no-capture"
EVALUATE = "evaluate --suite suite.yaml --run r"


@pytest.fixture(scope="module")
def agent() -> Iterator[str]:
    """It declares the extension."""
    with scenario_agent() as agent:
        yield agent.url


@pytest.fixture(scope="module")
def silent() -> Iterator[str]:
    """It does not."""
    with scenario_agent(AgentOptions(declared=False)) as agent:
        yield agent.url


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)


@pytest.mark.parametrize("text", DEPENDS_ON_CALLS.values(), ids=DEPENDS_ON_CALLS)
def test_what_depends_on_calls_fails_unless_allowed(text: str, silent: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("suite.yaml").write_text(text)
    for command in (f"run suite.yaml --agent {silent} --run r", EVALUATE):
        assert ended(command) == 1
        printed = "".join(capsys.readouterr())
        assert (printed.count(LINE), HINT in printed, "no_capture" in printed) == (1, True, True)
        assert " not visible " in printed  # in the column of tool calls
    assert ended(f"{EVALUATE} --allow-no-capture") == 0
    printed = "".join(capsys.readouterr())
    assert ("tolerated: " in printed, printed.count(WHY), HINT in printed) == (True, 1, False)


def test_calls_that_became_visible_need_not_be_tolerated(
    agent: str, silent: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = f"suite: s\nevaluators: [{{contains: {{search_text: e}}}}]\ntolerate: [calls_unseen]\n{CASES}"
    for url, message, noted in ((silent, "message me", False), (agent, "chunks please", True)):
        Path("suite.yaml").write_text(text.replace("message me", message))
        assert ended(f"run suite.yaml --agent {url}") == 0
        assert ("note: tool calls are visible now: delete calls_unseen from" in capsys.readouterr().out) is noted


@pytest.mark.parametrize("more", ["", "--otlp 127.0.0.1:0"])
def test_validate_warns_of_calls_that_nothing_is_known_to_show(
    more: str, silent: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("suite.yaml").write_text(DEPENDS_ON_CALLS["needs calls"])
    assert ended(f"validate suite.yaml --agent {silent} {more}") == 0
    printed = capsys.readouterr().out
    assert ("receive the agent's traces with --otlp, " in printed, "gate" in printed) == (not more, False)


def test_visible_calls_that_are_missing_are_not_allowed(agent: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("suite.yaml").write_text(DEPENDS_ON_CALLS["needs calls"])
    assert ended(f"run suite.yaml --agent {agent} --allow-no-capture") == 1
    printed = "".join(capsys.readouterr())
    assert LINE not in printed
    assert "tool calls are expected, but none were captured" in printed
    assert "no spans came" not in printed
    assert ended(f"run suite.yaml --agent {agent} --otlp 127.0.0.1:0 --trace-wait 0.1") == 1
    sentence = "note: no spans came to 127.0.0.1:0; the agent needs OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:0 "
    assert sentence in capsys.readouterr().out


def test_what_the_baseline_fails_is_the_last_word(agent: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The verdict, its reason, the files and the exit code agree, though the gates of the suite are met."""
    Path("suite.yaml").write_text(GATED.replace("SEARCH", "e"))
    assert ended(f"run suite.yaml --agent {agent} --run monday") == 0
    Path("suite.yaml").write_text(GATED.replace("SEARCH", "no-answer-has-this"))
    capsys.readouterr()
    fails = "--baseline monday --fail-on newly-failing --report report"
    assert ended(f"run suite.yaml --agent {agent} --run r {fails}") == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith(("failed", "passed"))] == ["failed, 1 reason:"]
    assert sum("compared with monday" in line for line in lines) == 1
    assert json.loads(Path("report/report.json").read_text())["passed"] is False
    for verdict, reasons in (("failed", [lines[lines.index("failed, 1 reason:") + 1]]), ("passed", [])):
        assert ended("show r") == 0
        *_, shown = capsys.readouterr().out.partition(f"r: {verdict}")
        assert shown.splitlines()[1:] == reasons
        assert ended("show r --output json") == 0
        assert [f"  {one['message']}" for one in json.loads(capsys.readouterr().out)["reasons"]] == reasons
        assert ended(EVALUATE) == 0
