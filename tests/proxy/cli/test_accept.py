"""`accept`: a suite expects what the agent did, change by change."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.commands import ended
from tool_call_evaluators.suite import load_suite

AGENT = """\
import os
from a2a_tool_capture.connector import AgentResponse, ToolCall

class Orders:
    async def execute(self, user_query, **kwargs):
        number = int(os.environ.get("NUMBER", "1"))
        return AgentResponse("It is sent.", [ToolCall("look_up", {"id": "ORD-1", "n": number}, result="{}")])
"""
SUITE = """\
suite: orders  # of the shop
evaluators: [tool_trajectory]
cases:
  # the usual
  - id: status
    turns:
      - user: Where is it?
        expect:
          tool_calls:
            - {name: look_up, arguments: {id: {$regex: "ORD-[0-9]+"}, n: 1}}  # once
  - id: refund
    turns:
      - user: Pay it back
        expect: {tool_calls: [{name: look_up, arguments: {id: ORD-1, n: 1}}]}
"""
ACCEPTED = SUITE.replace("n: 1}", "n: 2}")
RUN = "run suite.yaml --agent python:agent.py:Orders --run"


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    Path("agent.py").write_text(AGENT)
    Path("suite.yaml").write_text(SUITE)


def test_a_new_behaviour_is_accepted_once(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("NUMBER", "2")
    assert ended(f"{RUN} changed") == 1
    capsys.readouterr()
    assert ended("accept suite.yaml --run changed --dry-run") == 0
    assert '+            - {name: look_up, arguments: {id: {$regex: "ORD-[0-9]+"}, n: 2}}' in capsys.readouterr().out
    assert Path("suite.yaml").read_text() == SUITE
    assert ended("accept suite.yaml --run changed --yes") == 0
    assert Path("suite.yaml").read_text() == ACCEPTED
    assert ended(f"{RUN} after") == 0
    Path("other.yaml").write_text(SUITE.replace("id: status", "id: x").replace("id: refund", "id: y"))
    for given, why in (
        ("suite.yaml --run after", "no expectation failed"),
        ("suite.yaml --run changed", "refund, turn 1: tool_calls: already expects what the agent did"),
        ("other.yaml --run changed", "the run has no turns of them"),
    ):
        assert ended(f"accept {given} --yes") == 0
        assert why in capsys.readouterr().err
    assert Path("suite.yaml").read_text() == ACCEPTED


@pytest.mark.parametrize(("answers", "wanted"), [("n\ny\n", "second"), ("a\n", "all"), ("q\n", "none")])
def test_each_change_is_asked_for(answers: str, wanted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBER", "2")
    assert ended(f"{RUN} changed") == 1
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    given = iter(answers.split())
    monkeypatch.setattr("click.termui.visible_prompt_func", lambda _: next(given))
    assert ended("accept suite.yaml") == 0
    texts = {"second": SUITE.replace("ORD-1, n: 1", "ORD-1, n: 2"), "all": ACCEPTED, "none": SUITE}
    assert Path("suite.yaml").read_text() == texts[wanted]


def test_record_adds_calls_only_where_an_evaluator_reads_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the recorded suite would fail: an expectation that no evaluator reads is an error."""
    own = "  - {id: said, evaluators: [exact_match], turns: [{user: Hi, expect: {response: It is sent.}}]}\n"
    Path("suite.yaml").write_text(f"{SUITE}  - {{id: bare, turns: [{{user: Hello}}]}}\n{own}")
    assert ended(f"{RUN} first") == 0
    assert ended("record --run first --suite suite.yaml --out new.yaml") == 0
    bare, said = load_suite(Path("new.yaml")).cases[2:]
    assert (bool(bare.turns[0].expect.tool_calls), said.turns[0].expect.tool_calls) == (True, None)
    assert ended("run new.yaml --agent python:agent.py:Orders") == 0
