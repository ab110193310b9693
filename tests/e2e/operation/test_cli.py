"""The command line as a stranger meets it: one clear sentence for a mistake, and the exit codes."""

from __future__ import annotations

import json
import socket
import uuid
from pathlib import Path

import pytest
from e2e.contracts import GetAgent
from support.prefork import run
from support.proxy import Proxy
from support.raw_a2a import Wire

SUITE = """\
suite: smallest
evaluators: [tool_error]
cases:
  - id: weather
    turns:
      - user: artifact please
        expect: {tool_calls: [{name: search}, {name: convert}]}
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    path = tmp_path / "suite.yaml"
    path.write_text(SUITE)
    return path


@pytest.fixture
def nobody(port: int) -> str:
    """A URL on which no process listens, for as long as the test runs."""
    return f"http://127.0.0.1:{port}"


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["serve"], "--upstream"),
        (["serve", "--upstream", "not-a-url"], "--upstream"),
        (["serve", "--upstream", "http://127.0.0.1:1", "--listen", "8080"], "--listen"),
        (["serve", "--upstream", "http://127.0.0.1:1", "--listen", "127.0.0.1:99999"], "--listen"),
        (["serve", "--upstream", "http://127.0.0.1:1", "--negotiate", "maybe"], "--negotiate"),
        (["serve", "--upstream", "http://127.0.0.1:1", "--dialects", "adk,latin"], "--dialects"),
        (["run", "suite.yaml", "--agent", "http://127.0.0.1:1", "--dialects", "latin"], "adk, kagent"),
        (["serve", "--upstream", "http://127.0.0.1:1", "--turn-timeout", "-1"], "--turn-timeout"),
        (["serve", "--upstream", "http://127.0.0.1:1", "--suite", "no-such.yaml"], "no-such.yaml"),
        (["serve", "--upstream", "http://127.0.0.1:1", "--config", "no-such.yaml"], "no-such.yaml"),
        (
            ["serve", "--upstream", "http://127.0.0.1:1", "--no-otlp", "--store", "no/such/folder/x.db"],
            "no/such/folder/x.db",
        ),
        (["serve", "--upstream", "http://127.0.0.1:1", "--store", "mysql://me:secret@x/y"], "mysql://"),
        (["serve", "--upstream", "http://127.0.0.1:1", "--admin", "0.0.0.0:0"], "--admin-token"),
        (["serve", "--no-such-flag"], "--no-such-flag"),
        (["no-such-command"], "no-such-command"),
        (["run", "no-such.yaml", "--agent", "http://127.0.0.1:1"], "no-such.yaml"),
        (["run", "suite.yaml"], "--agent"),
        (["run", "suite.yaml", "--agent", "http://user:secret@agent"], "without user name"),
        (["run", "suite.yaml", "--agent", "http://127.0.0.1:1", "--report", "suite.yaml/report"], "suite.yaml/report"),
        (["export", "--store", "no-such.db"], "no-such.db"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_bad_usage(arguments: list[str], named: str, suite: Path, tmp_path: Path) -> None:
    result = run(*arguments, cwd=tmp_path)
    assert result.returncode == 2
    assert named in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert "Traceback" not in result.stderr
    assert "secret" not in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize("flag", ["--listen", "--admin"])
def test_address_in_use(flag: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        others = {"--listen": "127.0.0.1:0", "--admin": "127.0.0.1:0"} | {flag: address}
        flags = [part for pair in others.items() for part in pair]
        result = run("serve", "--upstream", "http://127.0.0.1:1", "--no-otlp", *flags, cwd=tmp_path)
    assert result.returncode == 3
    assert address in result.stderr
    assert "Traceback" not in result.stderr


def test_run_against_an_unreachable_agent(nobody: str, suite: Path, tmp_path: Path) -> None:
    result = run("run", suite, "--agent", nobody, "--store", "turns.db", cwd=tmp_path)
    assert result.returncode == 3
    assert nobody in result.stderr
    assert "Traceback" not in result.stderr


def test_environment_and_file_set_what_flags_do_not(
    agent: GetAgent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("run: from-file\nnegotiate: never\n")
    monkeypatch.setenv("A2A_EVAL_PROXY_RUN", "from-environment")
    monkeypatch.setenv("A2A_EVAL_PROXY_NEGOTIATE", "never")
    arguments = ("--config", str(config), "--negotiate", "always")
    with Proxy(agent("v1-undeclared"), tmp_path / "turns.db", *arguments) as proxy:
        text = f"artifact {uuid.uuid4()}"
        Wire("1.0", "JSONRPC").message(text).to(proxy.url)
        turn = proxy.turn_of(text)
    assert turn["run"] == "from-environment"
    assert len(turn["tool_calls"]) == 2


def test_export_has_the_turns_of_the_api(agent: GetAgent, tmp_path: Path) -> None:
    store = tmp_path / "turns.db"
    with Proxy(agent("v1"), store, "--run", "exported") as proxy:
        for _ in range(3):
            Wire("1.0", "JSONRPC").message(f"artifact {uuid.uuid4()}").to(proxy.url)
        proxy.flush()
        turns = proxy.turns(run="exported")

    result = run("export", "--store", store, "--run", "exported", cwd=tmp_path)

    assert result.returncode == 0
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert len(lines) == 3
    assert sorted(lines, key=str) == sorted(turns, key=str)
    other = run("export", "--store", store, "--run", "another", cwd=tmp_path)
    assert (other.returncode, other.stdout) == (2, "")
    assert other.stderr == "a2a-eval-proxy: no run 'another'; the store has exported\n"


def validated(tmp_path: Path, text: str, *arguments: str) -> tuple[int, str, str]:
    path = tmp_path / "suite.yaml"
    path.write_text(text)
    done = run("validate", str(path), *arguments)
    return done.returncode, done.stdout, done.stderr


def test_a_suite_and_its_agent_are_checked_before_a_run(agent: GetAgent, nobody: str, tmp_path: Path) -> None:
    code, shown, error = validated(tmp_path, SUITE.replace("tool_error", "tool_trajectory"), "--agent", agent("v1"))
    assert (code, error) == (0, "")
    assert shown.startswith("smallest: 1 case, 1 scripted turn, 1 metric, 0 gates\n")
    assert "declares tool-call-capture\n" in shown
    assert shown.endswith("\nvalid\n")
    code, shown, _ = validated(tmp_path, SUITE, "--agent", agent("v1-undeclared"))
    assert code == 2
    assert "error: tool_calls is expected in case weather, but no evaluator reads it" in shown
    assert "warning: tool calls are expected, and the agent's card does not declare" in shown
    code, _, error = validated(tmp_path, SUITE, "--agent", nobody)
    assert (code, error.count("\n")) == (3, 1)


def test_a_suite_that_cannot_pass_is_refused_before_the_agent_gets_a_message(nobody: str, tmp_path: Path) -> None:
    wrong = SUITE.replace("[tool_error]", "[tool_error, tool_trajectory, helpfulness]\ngates: {tool_eror: 1}")
    code, shown, error = validated(tmp_path, wrong)
    assert (code, error) == (2, "")
    assert "error: gate tool_eror names no evaluator of the suite (did you mean tool_error?)" in shown
    assert "error: a judge is needed for helpfulness: no model is configured" in shown
    assert shown.endswith("\nnot valid: 2 errors\n")
    for arguments in (["--agent", nobody], ["--agent", nobody, "--run", "x", "--resume"]):
        refused = run("run", str(tmp_path / "suite.yaml"), *arguments, cwd=tmp_path)
        assert refused.returncode == 2  # and not 3: the agent was not asked for its card
        assert "did you mean tool_error?" in refused.stderr
    assert not list(tmp_path.glob("*.db"))


def test_three_commands_from_an_agent_to_a_gate_that_fails(agent: GetAgent, nobody: str, tmp_path: Path) -> None:
    url = agent("v1")
    first = run("init", "--agent", url.removeprefix("http://"), "--message", "chunks please", cwd=tmp_path)
    assert (first.returncode, first.stderr) == (0, "")
    assert "next: a2a-eval-proxy run suite.yaml" in first.stdout
    assert f"then open {Path('report/report.html')}\n" in first.stdout
    assert {path.name for path in tmp_path.iterdir()} == {
        "suite.yaml",
        "suite.schema.json",
        "a2a-eval-proxy.yaml",
        ".github",
    }
    passing = run("run", "suite.yaml", cwd=tmp_path)
    assert passing.returncode == 0
    assert (tmp_path / "report/report.html").exists()
    text = (tmp_path / "suite.yaml").read_text("utf-8")
    (tmp_path / "suite.yaml").write_text(text.replace("weather Berlin", "weather Paris"))
    assert run("run", "suite.yaml", cwd=tmp_path).returncode == 1
    again = run("init", "--agent", url, cwd=tmp_path)
    assert again.returncode == 2
    assert "suite.yaml already exists" in again.stderr
    assert (tmp_path / "suite.yaml").read_text("utf-8") == text.replace("weather Berlin", "weather Paris")
    silent = run("init", "--agent", agent("v1-undeclared"), "--message", "message me", "--dir", "silent", cwd=tmp_path)
    assert (silent.returncode, silent.stderr.count("\n")) == (0, 1)
    assert silent.stderr.startswith("warning: no tool calls can be seen: ")
    other = run("init", "--agent", nobody, "--dir", "other", cwd=tmp_path)
    assert (other.returncode, other.stderr.count("\n")) == (3, 1)
    Path(tmp_path, "empty").mkdir()
    unnamed = run("init", cwd=tmp_path / "empty")  # where no file names an agent
    assert unnamed.returncode == 2
    assert "--agent" in unnamed.stderr
