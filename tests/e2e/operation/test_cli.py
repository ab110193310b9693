"""The command line as a stranger meets it. Mistakes are in `proxy/cli/test_mistakes`."""

from __future__ import annotations

from pathlib import Path

from e2e.contracts import GetAgent
from support.prefork import run


def test_three_commands_from_an_agent_to_a_gate_that_fails(agent: GetAgent, tmp_path: Path) -> None:
    url = agent("v1")
    first = run("init", "--agent", url.removeprefix("http://"), "--message", "chunks please", cwd=tmp_path)
    assert (first.returncode, first.stderr) == (0, "")
    assert "next: a2a-eval-proxy run suite.yaml" in first.stdout
    made = {"suite.yaml", "suite.schema.json", "a2a-eval-proxy.yaml", ".github"}
    assert {path.name for path in tmp_path.iterdir()} == made
    checked = run("validate", "suite.yaml", "--agent", url, cwd=tmp_path)
    assert (checked.returncode, checked.stderr) == (0, "")
    assert "declares tool-call-capture\n" in checked.stdout
    assert run("run", "suite.yaml", cwd=tmp_path).returncode == 0
    assert (tmp_path / "report/report.html").exists()
    text = (tmp_path / "suite.yaml").read_text("utf-8").replace("weather Berlin", "weather Paris")
    (tmp_path / "suite.yaml").write_text(text)
    assert run("run", "suite.yaml", cwd=tmp_path).returncode == 1
    again = run("init", "--agent", url, cwd=tmp_path)
    assert again.returncode == 2
    assert "suite.yaml already exists" in again.stderr
    assert (tmp_path / "suite.yaml").read_text("utf-8") == text
    silent = run("init", "--agent", agent("v1-undeclared"), "--message", "message me", "--dir", "silent", cwd=tmp_path)
    assert (silent.returncode, silent.stderr.count("\n")) == (0, 1)
    assert silent.stderr.startswith("warning: no tool calls can be seen: ")
