"""The command line as a stranger meets it: one clear sentence for a mistake, and the exit codes."""

from __future__ import annotations

import json
import os
import signal
import socket
import uuid
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx
import pytest
from agents.serving import ServerThread
from e2e.contracts import GetAgent, GetProxy
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route
from support.prefork import COMMAND, run
from support.processes import ChildProcess
from support.proxy import READY, Proxy
from support.raw_a2a import Wire
from tool_call_evaluators.suite import load_suite
from tool_call_evaluators.suite.writing import EDITOR_LINE

EVALSET = Path(__file__).parents[2] / "evaluators/fixtures/google-adk/home_automation_agent/simple_test2.test.json"
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


@pytest.mark.parametrize(
    "content", ["suite: [", "suite: x\ncases: 3\n", "- a\n- b\n", "suite: x\nevaluators: [nope]\n"]
)
def test_bad_suite(content: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(content)
    result = run("serve", "--upstream", "http://127.0.0.1:1", "--suite", path, "--no-otlp", cwd=tmp_path)
    assert result.returncode == 2
    assert "bad.yaml" in result.stderr
    assert "Traceback" not in result.stderr


def test_without_arguments_the_help_is_shown(tmp_path: Path) -> None:
    result = run(cwd=tmp_path)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("Usage: a2a-eval-proxy ")


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


def test_the_default_port_of_traces_in_use_stops_nobody(tmp_path: Path) -> None:
    with ExitStack() as stack:
        with suppress(OSError):  # taken already, by whoever receives traces on this machine
            stack.enter_context(socket.create_server(("127.0.0.1", 4318)))
        flags = ("--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
        serve = [COMMAND, "serve", "--upstream", "http://127.0.0.1:1", *flags]
        proxy = stack.enter_context(ChildProcess(serve, cwd=tmp_path))
        assert proxy.wait_for(READY)["traces"] is None
        assert "no traces are received: cannot listen on 127.0.0.1:4318: Address already in use" in proxy.stderr()
        strict = run("serve", "--upstream", "http://127.0.0.1:1", *flags, "--expect-traces", cwd=tmp_path)
    assert strict.returncode == 3
    assert "127.0.0.1:4318" in strict.stderr


def test_what_an_agent_says_does_not_steer_the_terminal(suite: Path, tmp_path: Path) -> None:
    def broken(url: str) -> Starlette:
        return Starlette(routes=[Route("/{path:path}", lambda request: Response("\x1b]0;title\x07", 500))])

    with ServerThread(broken) as server:
        result = run("run", suite, "--agent", server.url, "--store", "turns.db", cwd=tmp_path)
    assert result.returncode == 3
    assert "answered HTTP 500: \N{REPLACEMENT CHARACTER}]0;title\\u0007\n" in result.stderr


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


def test_stop_lets_open_streams_finish(agent: GetAgent, tmp_path: Path) -> None:
    upstream = agent("v1")
    gate = str(uuid.uuid4())
    with Proxy(upstream, tmp_path / "turns.db") as proxy:
        body = Wire("1.0", "JSONRPC").message(f"slow {gate}", stream=True).body
        with httpx.stream(
            "POST", f"{proxy.url}/a2a/jsonrpc", content=body, headers={"A2A-Version": "1.0"}, trust_env=False
        ) as stream:
            lines = stream.iter_lines()
            while "before" not in next(lines):
                pass
            os.kill(proxy.process_id, signal.SIGTERM)
            httpx.post(f"{upstream}/_control/open", params={"gate": gate}, trust_env=False).raise_for_status()
            rest = "\n".join(lines)
    assert "after" in rest
    assert "TASK_STATE_COMPLETED" in rest


def test_health(agent: GetAgent, proxy_of: GetProxy) -> None:
    proxy = proxy_of(agent("v1"))
    assert proxy.get_text("/healthz") == "ok\n"
    assert proxy.get_text("/readyz") == "ready\n"
    assert "a2a_eval_proxy" in proxy.get_text("/metrics")


def test_a_message_by_hand(agent: GetAgent, nobody: str) -> None:
    url = agent("v1")
    shown = run("send", "chunks please", "--agent", f"{url}/.well-known/agent-card.json".removeprefix("http://"))
    assert (shown.returncode, shown.stderr) == (0, "")
    assert '→ search(q="weather Berlin")\n' in shown.stdout
    assert "completed, 2 tool calls, " in shown.stdout
    turn = json.loads(run("send", "ask", "--agent", url, "--output", "json").stdout)
    assert turn["state"] == "TASK_STATE_INPUT_REQUIRED"
    followed = run(
        "send", "Ada", "--agent", url, "--conversation", turn["conversation_id"], "--task", turn["task_id"],
        "--output", "json",
    )  # fmt: skip
    assert json.loads(followed.stdout)["task_id"] == turn["task_id"]
    refused = run("send", "hello", "--agent", nobody)
    assert (refused.returncode, refused.stdout) == (3, "")
    assert refused.stderr.count("\n") == 1
    late = run("send", "long gate", "--agent", url, "--timeout", "0.3")
    assert late.returncode == 3
    assert "did not finish within 0.3 s" in late.stderr


def test_stored_runs_and_turns_are_listed_and_shown(agent: GetAgent, suite: Path, tmp_path: Path) -> None:
    where = ("--store", str(tmp_path / "turns.db"))
    missing = run("runs", *where)
    assert missing.returncode == 2
    for name in ("monday", "tuesday"):
        run("run", str(suite), "--agent", agent("v1"), "--run", name, *where)
    assert [line.split()[0] for line in run("runs", *where).stdout.splitlines()] == ["run", "tuesday", "monday"]
    (first, _) = json.loads(run("runs", "--output", "json", *where).stdout)
    assert (first["name"], first["turns"]) == ("tuesday", 1)
    (turn,) = json.loads(run("show", "monday", "--output", "json", *where).stdout)["items"]
    table = run("show", "monday", *where).stdout
    assert turn["turn_id"] in table
    assert "run monday: failed (suite smallest); 1 turn, results: 1 passed" in table  # nothing reads the expectation
    assert "→ search(" in run("show", turn["turn_id"], *where).stdout
    unknown = run("show", "mondy", *where)
    assert (unknown.returncode, unknown.stdout) == (2, "")
    assert "no turn 'mondy', and no run 'mondy' (did you mean monday?); the store has monday, tuesday" in unknown.stderr


def test_evaluators_are_listed_and_explained(tmp_path: Path) -> None:
    listed = run("evaluators").stdout
    assert "tool_trajectory" in listed
    assert max(map(len, listed.splitlines())) <= 120
    explained = run("evaluators", "tool-call-count").stdout
    assert "expect: {tool_calls_count: {" in explained
    example = tmp_path / "suite.yaml"
    example.write_text("\n".join(line[2:] for line in explained.partition("A whole suite:\n\n")[2].splitlines()))
    assert run("run", str(example), "--agent", "http://127.0.0.1:1", cwd=tmp_path).returncode == 3  # no agent
    unknown = run("evaluators", "tool_count")
    assert (unknown.returncode, unknown.stdout) == (2, "")
    assert "did you mean tool_call_count?" in unknown.stderr
    assert json.loads(run("schema").stdout)["title"] == "a2a-eval-proxy suite"


def test_a_file_of_another_framework_becomes_a_suite(tmp_path: Path) -> None:
    out = tmp_path / "suite.yaml"
    converted = run("convert", str(EVALSET), "--out", str(out))
    assert converted.returncode == 0
    assert f"to {out}" in converted.stderr
    assert out.read_text("utf-8").startswith(f"{EDITOR_LINE}\n# From simple_test2.test.json (google-adk).\n")
    assert load_suite(out).cases
    again = run("convert", str(EVALSET), "--out", str(out))
    assert again.returncode == 2
    assert "already exists" in again.stderr
    printed = run("convert", str(EVALSET))
    assert printed.stdout == out.read_text("utf-8")
    assert run("convert", str(tmp_path / "none.json")).returncode == 2


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
    assert "next: a2a-eval-proxy run suite.yaml --config a2a-eval-proxy.yaml" in first.stdout
    assert f"then open {Path('report/report.html')}\n" in first.stdout
    assert {path.name for path in tmp_path.iterdir()} == {
        "suite.yaml",
        "suite.schema.json",
        "a2a-eval-proxy.yaml",
        ".github",
    }
    passing = run("run", "suite.yaml", "--config", "a2a-eval-proxy.yaml", cwd=tmp_path)
    assert passing.returncode == 0
    assert (tmp_path / "report/report.html").exists()
    text = (tmp_path / "suite.yaml").read_text("utf-8")
    (tmp_path / "suite.yaml").write_text(text.replace("weather Berlin", "weather Paris"))
    assert run("run", "suite.yaml", "--config", "a2a-eval-proxy.yaml", cwd=tmp_path).returncode == 1
    again = run("init", "--agent", url, cwd=tmp_path)
    assert again.returncode == 2
    assert "suite.yaml already exists" in again.stderr
    assert (tmp_path / "suite.yaml").read_text("utf-8") == text.replace("weather Berlin", "weather Paris")
    silent = run("init", "--agent", agent("v1-undeclared"), "--message", "message me", "--dir", "silent", cwd=tmp_path)
    assert (silent.returncode, silent.stderr.count("\n")) == (0, 1)
    assert silent.stderr.startswith("warning: no tool calls can be seen: ")
    other = run("init", "--agent", nobody, "--dir", "other", cwd=tmp_path)
    assert (other.returncode, other.stderr.count("\n")) == (3, 1)
    unnamed = run("init", "--dir", "third", cwd=tmp_path)
    assert unnamed.returncode == 2
    assert "--agent" in unnamed.stderr
