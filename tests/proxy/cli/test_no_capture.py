"""Runs against an agent whose tool calls nothing shows: never green without a line that says so."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from a2a_eval_proxy.cli import main
from agents.scenario_agent import AgentOptions, scenario_agent

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
LINE = "tool calls are not visible in 1 of 1 turn"
WHY = f"{LINE}: the agent's card does not declare the tool-call-capture extension"
HINT = "; if that is intended, add --allow-no-capture"


@pytest.fixture(scope="module")
def agent() -> Iterator[str]:
    with scenario_agent(AgentOptions(declared=False)) as agent:
        yield agent.url


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    yield
    root = logging.getLogger()
    root.setLevel(logging.WARNING)
    for handler in [handler for handler in root.handlers if type(handler) is logging.StreamHandler]:
        root.removeHandler(handler)  # a command added it; its stream ends with the test


class Shell:
    """Runs commands in this process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch = monkeypatch
        self._capsys = capsys

    def __call__(self, *arguments: str) -> tuple[int, str]:
        """The exit code and what was printed."""
        self._monkeypatch.setattr("sys.argv", ["a2a-eval-proxy", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = self._capsys.readouterr()
        return int(ended.value.code or 0), out + err


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(monkeypatch, capsys)


@pytest.mark.parametrize("text", DEPENDS_ON_CALLS.values(), ids=DEPENDS_ON_CALLS)
def test_what_depends_on_calls_fails_unless_allowed(text: str, agent: str, shell: Shell) -> None:
    Path("suite.yaml").write_text(text)
    run = ("run", "suite.yaml", "--agent", agent, "--run", "r")
    evaluate = ("evaluate", "--suite", "suite.yaml", "--run", "r")
    for command in (run, evaluate):
        code, printed = shell(*command)
        assert (code, printed.count(LINE), HINT in printed) == (1, 1, True)
        assert "no_capture" in printed
        assert " not visible " in printed  # in the column of tool calls
    code, printed = shell(*evaluate, "--allow-no-capture")
    assert (code, "tolerated: " in printed, printed.count(WHY), HINT in printed) == (0, True, 1, False)


def test_visible_calls_that_are_missing_are_not_allowed(shell: Shell) -> None:
    """The agent declares the extension: it made no call."""
    Path("suite.yaml").write_text(DEPENDS_ON_CALLS["needs calls"])
    with scenario_agent() as declaring:
        code, printed = shell("run", "suite.yaml", "--agent", declaring.url, "--allow-no-capture")
    assert (code, LINE in printed) == (1, False)
    assert "tool calls are expected, but none were captured" in printed
