"""Mistakes of users: each gives one sentence and the right exit code, before the agent gets a message."""

from __future__ import annotations

import json
import logging
import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
import trustme
from a2a_eval_proxy.cli import main
from agents.scenario_agent import scenario_agent

NOBODY = "http://127.0.0.1:1"
UNSET = "agent.headers.X-Key: header 'X-Key' needs the environment variable NO_SUCH_KEY, which is not set"
REFUSED = "connection refused; is the agent running?"
NO_HOST = "no such host; is the URL right?"
UNTRUSTED = (
    "its certificate is not trusted (unable to get local issuer certificate); name its authority with --agent-ca"
)
CASES = "cases:\n  - id: ask\n    turns: [{user: message me}]\n"
CALLS = "[{name: search, arguments: {q: {$regx: Berlin}}}]"
SUITES = {
    "suite.yaml": f"suite: s\nevaluators: [tool_error]\ntolerate: [vacuous]\n{CASES}",
    "typo.yaml": f"suite: s\nevaluators:\n  - tool_eror\n{CASES}",
    "option.yaml": f"suite: s\nevaluators:\n  - tool_error: {{thresold: 1}}\n{CASES}",
    "key.yaml": f"suite: s\nevaluators: [tool_error]\ncase:\n{CASES}",
    "expect.yaml": "suite: s\ncases:\n  - id: a\n    turns: [{user: hi, expect: {calls: []}}]\n",
    "twice.yaml": f"suite: s\n{CASES}  - id: ask\n    turns: [{{user: hi}}]\n",
    "broken.yaml": "suite: [\n",
    "empty.yaml": "",
    "no-cases.yaml": "suite: s\nevaluators: [tool_error]\n",
    "gate.yaml": f"suite: s\nevaluators: [tool_error]\ngates: {{tool_eror: 1}}\n{CASES}",
    "no-input.yaml": f"suite: s\nevaluators: [contains]\ngates: {{contains: 1}}\n{CASES}",
    "limit.yaml": f"suite: s\nevaluators: [tool_error]\ngates: {{tool_error: {{mean: 90}}}}\n{CASES}",
    "model.yaml": f"suite: s\nevaluators: [helpfulness]\n{CASES}",
    "judge.yaml": f"suite: s\njudge: {{model: gpt-4o}}\nevaluators: [helpfulness]\n{CASES}",
    "secret.yaml": f"suite: s\njudge: {{model: m, api_key: sk-1}}\nevaluators: [helpfulness]\n{CASES}",
    "header.yaml": f"suite: s\nagent: {{headers: {{X-Key: '${{NO_SUCH_KEY}}'}}}}\nevaluators: [tool_error]\n{CASES}",
    "plugin.yaml": f"suite: s\nplugins: [no-such.py]\n{CASES}",
    "settings.yaml": "# of this project\nstore: turns.db\nheader: ['X-Key: ${NO_SUCH_KEY}']\n",
    "csv.yaml": "input,expected\nhi,there\n",
    "simulated.yaml": "suite: s\nevaluators: [tool_trajectory]\ncases:\n"
    "  - {id: a, simulate: {goal: g}, expect: {tool_calls: [{name: f}]}}\n",
}


@dataclass(frozen=True)
class Mistake:
    """What a user types, and part of the sentence that answers it. `{agent}`, `{proxy}` stand for URLs."""

    command: str
    sentence: str
    code: int = 2
    environment: dict[str, str] = field(default_factory=dict)
    """Variables to set."""


RUN = "run suite.yaml --agent {agent}"
MISTAKES = {
    # the agent
    "agent down": Mistake(f"run suite.yaml --agent {NOBODY}", f"{NOBODY} cannot be reached: {REFUSED}", 3),
    "agent down: send": Mistake(f"send hi --agent {NOBODY}", REFUSED, 3),
    "agent down: validate": Mistake(f"validate suite.yaml --agent {NOBODY}", REFUSED, 3),
    "agent down: check": Mistake(f"check {NOBODY}", REFUSED, 3),
    "agent down: init": Mistake(f"init --agent {NOBODY} --dir new", REFUSED, 3),
    "model down": Mistake(f"run suite.yaml --agent openai:{NOBODY}/v1 --agent-model m", REFUSED, 3),
    "no such host": Mistake("run suite.yaml --agent http://no-such-host.invalid", NO_HOST, 3),
    "no such host: check": Mistake("check http://no-such-host.invalid", NO_HOST, 3),
    "agent down: long URL": Mistake(f"send hi --agent {NOBODY}/{'x' * 5_000}", REFUSED, 3),
    "agent down: gRPC": Mistake("send hi --agent grpc://127.0.0.1:1", f"cannot be reached: {REFUSED}", 3),
    "agent down: gRPC: check": Mistake("check grpc://127.0.0.1:1", REFUSED, 3),
    "no TLS there": Mistake("send hi --agent https://{address}", "it does not speak TLS at that port; try http://", 3),
    "no TLS there: check": Mistake("check https://{address}", "it does not speak TLS at that port; try http://", 3),
    "no TLS there: gRPC": Mistake("run suite.yaml --agent grpcs://{address}", "at that port; try grpc://", 3),
    "TLS there": Mistake("run suite.yaml --agent http://{secure}", "no response; if it speaks TLS, try https://", 3),
    "TLS there: check": Mistake("check http://{secure}", "no response; if it speaks TLS, try https://", 3),
    "TLS there: gRPC": Mistake("send hi --agent grpc://{secure}", "no response; if it speaks TLS, try grpcs://", 3),
    "certificate": Mistake("run suite.yaml --agent https://{secure}", UNTRUSTED, 3),
    "certificate: check": Mistake("check https://{secure}", UNTRUSTED, 3),
    "certificate: gRPC": Mistake("send hi --agent grpcs://{secure}", UNTRUSTED, 3),
    "certificate of another": Mistake(
        "send hi --agent https://{secure} --agent-ca ca.pem", "its certificate is for another host; use its name", 3
    ),
    "agent and suite swapped": Mistake("run {agent} --agent suite.yaml", "got the file 'suite.yaml'; are the two swap"),
    "agent for a suite": Mistake("run {agent}", "it is a URL: give that of an agent with --agent, and a file here"),
    "agent for a suite: evaluate": Mistake("evaluate --suite {agent}", "it is a URL: give that of an agent with"),
    "suite for an agent: check": Mistake("check suite.yaml", "got the file 'suite.yaml'"),
    "suite for an agent: send": Mistake("send hi --agent suite.yaml", "got the file 'suite.yaml'"),
    "simulated user": Mistake("run simulated.yaml", "scope: conversation}}; and the simulated user needs a model"),
    "no agent there": Mistake("run suite.yaml --agent {agent}/elsewhere", "/elsewhere/.well-known/agent-card.json", 3),
    "no agent there: check": Mistake("check {agent}/elsewhere", "HTTP 404: no agent card found", 3),
    "no agent": Mistake("run suite.yaml", "the URL of the agent is missing: give --agent URL"),
    "no agent: init": Mistake("init --dir new", "--agent is required: give --agent URL, or set A2A_EVAL_PROXY_AGENT"),
    "other scheme": Mistake("run suite.yaml --agent ftp://x", "--agent: expected a URL such as http://127.0.0.1:9999"),
    "user in the URL": Mistake("run suite.yaml --agent http://a:b@c", "without user name and password"),
    # the command line
    "no suite": Mistake("run", "Missing argument 'SUITE...'"),
    "unknown command": Mistake("evalute", "No such command 'evalute'"),
    "unknown option": Mistake(f"{RUN} --concurrncy 2", "Did you mean '--concurrency'?"),
    "no number": Mistake(f"{RUN} --concurrency abc", "expected a whole number from 1 to 1000, got 'abc'"),
    "negative time": Mistake(f"{RUN} --timeout -1", "--timeout: expected a positive number of seconds, got '-1'"),
    "unknown choice": Mistake(f"{RUN} --output jsn", "(did you mean json?)"),
    "unknown case": Mistake(f"{RUN} --case aks", "no case 'aks'"),
    "nothing to resume": Mistake(f"{RUN} --resume", "--resume: requires the name of the run to resume, --run NAME"),
    "unknown run: resume": Mistake(f"{RUN} --run doen --resume", "no run 'doen' (did you mean done?)"),
    "header without colon": Mistake(f"{RUN} --header X", "--header: expected NAME:VALUE"),
    "header without its variable": Mistake(
        f"{RUN} --header X:${{NO_SUCH_KEY}}", "the environment variable NO_SUCH_KEY, which is not set"
    ),
    "variable with a wrong value": Mistake(
        RUN, "A2A_EVAL_PROXY_CONCURRENCY: expected a whole number", environment={"A2A_EVAL_PROXY_CONCURRENCY": "x"}
    ),
    "report in a file": Mistake(f"{RUN} --report suite.yaml", "--report: cannot create the directory: "),
    "variable in the config": Mistake(
        f"{RUN} --config settings.yaml", "settings.yaml:3: header: needs the environment variable NO_SUCH_KEY, which is"
    ),
    "config that is missing": Mistake(f"{RUN} --config no.yaml", "--config: cannot read no.yaml: No such file"),
    # the suite
    "no such suite": Mistake("run no.yaml --agent {agent}", "no.yaml: cannot be read: No such file"),
    "folder": Mistake("run folder --agent {agent}", "folder: the folder has no suite"),
    "empty suite": Mistake("run empty.yaml --agent {agent}", "empty.yaml: "),
    "suite without cases": Mistake("run no-cases.yaml --agent {agent}", "no-cases.yaml: the suite has no cases"),
    "broken YAML": Mistake("run broken.yaml --agent {agent}", "broken.yaml:2:1"),
    "no YAML of a suite": Mistake("run csv.yaml --agent {agent}", "csv.yaml"),
    "evaluator typo": Mistake("run typo.yaml --agent {agent}", "typo.yaml:3:5: evaluators[0]: unknown evaluator"),
    "option typo": Mistake("run option.yaml --agent {agent}", "did you mean threshold?"),
    "key typo": Mistake("run key.yaml --agent {agent}", "did you mean cases?"),
    "expectation typo": Mistake("run expect.yaml --agent {agent}", "did you mean tool_calls?"),
    "case twice": Mistake("run twice.yaml --agent {agent}", "'ask' is already the id of an earlier case"),
    "gate typo": Mistake("run gate.yaml --agent {agent}", "did you mean tool_error?"),
    "gate without input": Mistake("run no-input.yaml --agent {agent}", "gate contains cannot be met, as"),
    "gate without input: validate": Mistake("validate no-input.yaml", "gate contains cannot be met, as contains skips"),
    "gate out of scale": Mistake("run limit.yaml --agent {agent}", "must lie between 0 and 1"),
    "no judge": Mistake("run model.yaml --agent {agent}", "set A2A_EVAL_PROXY_JUDGE_MODEL"),
    "no key": Mistake("run judge.yaml --agent {agent}", "A2A_EVAL_PROXY_JUDGE_API_KEY or OPENAI_API_KEY"),
    "no key: validate": Mistake("validate judge.yaml", "not valid: 1 error"),
    "key in the suite": Mistake("run secret.yaml --agent {agent}", "do not write the API key into a file"),
    "variable of a header": Mistake("run header.yaml --agent {agent}", f"header.yaml:2:19: {UNSET}"),
    "variable of a header: validate": Mistake("validate header.yaml", f"header.yaml:2:19: {UNSET}"),
    "missing plug-in": Mistake("run plugin.yaml --agent {agent}", "plugin.yaml:2:11"),
    # the store
    "no store": Mistake("evaluate --suite suite.yaml --store no.db", "there is no such file; --store names another"),
    "unknown run": Mistake("evaluate --suite suite.yaml --run nope", "no run 'nope'; the store has done"),
    "unknown run: compare": Mistake("compare done doen", "no run 'doen' (did you mean done?); the store has done"),
    "unknown run: export": Mistake("export --run nope", "no run 'nope'; the store has done"),
    "unknown turn": Mistake("show nope", "no turn 'nope', and no run 'nope'"),
    "run name in use": Mistake(f"{RUN} --run done", "run 'done' already exists in a2a-eval-proxy.db; use --resume"),
    "file that exists": Mistake("record --run done --out suite.yaml", "suite.yaml already exists"),
    "file in no folder": Mistake("record --run done --out no/file.yaml", "proxy: no/file.yaml: No such file"),
    "store that is no store": Mistake(f"{RUN} --store suite.yaml", "store suite.yaml: "),
    "other database": Mistake(f"{RUN} --store mysql://x/y", "store mysql://... is not supported"),
    "database down": Mistake(
        f"{RUN} --store postgresql://alice:s3cret@127.0.0.1:1/db", "postgresql://alice:***@127.0.0.1:1/db: cannot", 3
    ),
    # serve
    "port in use": Mistake(
        "serve --upstream {agent} --listen {taken} --admin 127.0.0.1:0 --no-otlp",
        "Address already in use; choose another address with --listen",
        3,
    ),
    "admin for everybody": Mistake("serve --upstream {agent} --admin 0.0.0.0:0", "set --admin-token, or use"),
    "no upstream": Mistake("serve", "--upstream is required: give --upstream URL, set A2A_EVAL_PROXY_UPSTREAM"),
    "one address twice": Mistake("serve --upstream {agent} --admin 127.0.0.1:8080", "already the address of listen"),
}  # fmt: skip


@pytest.fixture(scope="module")
def agent() -> Iterator[str]:
    with scenario_agent() as agent:
        yield agent.url


@pytest.fixture(scope="module")
def secure(folder: Path) -> Iterator[str]:
    """HOST:PORT of an agent with TLS, whose certificate is that of another host."""
    authority, context = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("agent.example").configure_cert(context)
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    with scenario_agent(tls=context) as agent:
        yield agent.url.removeprefix("https://")


@pytest.fixture(scope="module")
def folder(agent: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With the suites, and the run `done` in the default store."""
    folder = tmp_path_factory.mktemp("mistakes")
    Path(folder, "folder").mkdir()
    for name, text in SUITES.items():
        Path(folder, name).write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr("sys.argv", ["a2a-eval-proxy", "run", "suite.yaml", "--agent", agent, "--run", "done"])
        with pytest.raises(SystemExit):
            main()
    return folder


@pytest.fixture
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(folder)
    for name in ("OPENAI_API_KEY", "A2A_EVAL_PROXY_JUDGE_API_KEY", "A2A_EVAL_PROXY_JUDGE_MODEL", "GITHUB_STEP_SUMMARY"):
        monkeypatch.delenv(name, raising=False)
    yield
    root = logging.getLogger()
    root.setLevel(logging.WARNING)
    for handler in [handler for handler in root.handlers if type(handler) is logging.StreamHandler]:
        root.removeHandler(handler)  # a command added it; its stream ends with the test


def ended(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr("sys.argv", ["a2a-eval-proxy", *arguments])
    with pytest.raises(SystemExit) as stopped:
        main()
    return int(stopped.value.code or 0)


def messages(agent: str) -> int:
    requests = httpx.get(f"{agent}/_control/requests", trust_env=False).json()
    return sum(request["method"] == "POST" for request in requests)


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("name", MISTAKES)
def test_one_sentence_before_the_first_message(
    name: str, agent: str, secure: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    mistake = MISTAKES[name]
    for variable, value in mistake.environment.items():
        monkeypatch.setenv(variable, value)
    before = messages(agent)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        command = mistake.command.replace("{agent}", agent).replace("{taken}", address)
        command = command.replace("{address}", agent.removeprefix("http://")).replace("{secure}", secure)
        code = ended(command.split(), monkeypatch)
    out, err = capsys.readouterr()
    assert (code, mistake.sentence in out + err) == (mistake.code, True)
    assert "Traceback" not in out + err
    assert "s3cret" not in out + err
    assert err.count("a2a-eval-proxy: ") == 1 or "not valid" in out
    assert messages(agent) == before


@pytest.mark.usefixtures("here")
def test_an_error_leaves_no_empty_report(agent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ["run", "typo.yaml", "--agent", agent, "--report", "reports/new"]
    assert ended(arguments, monkeypatch) == 2
    assert not Path("reports").exists()


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("form", ["{host}", "{url}/.well-known/agent-card.json", "{host}/.well-known/agent.json"])
def test_what_people_paste_is_accepted(
    form: str, agent: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    url = form.replace("{host}", agent.removeprefix("http://")).replace("{url}", agent)
    assert ended(["run", "suite.yaml", "--agent", url, "-q"], monkeypatch) == 0
    assert "passed" in capsys.readouterr().out


@pytest.mark.usefixtures("here")
def test_unknown_variables_are_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Those that Kubernetes sets for a Service of our name are not unknown."""
    monkeypatch.setenv("A2A_EVAL_PROXY_AGNET", "http://x")
    monkeypatch.setenv("A2A_EVAL_PROXY_JUDGE_MODL", "m")
    for known in ("JUDGE_MODEL", "CONFIG", "SERVICE_HOST", "PORT", "PORT_8080_TCP_ADDR", "ADMIN_SERVICE_PORT_HTTP"):
        monkeypatch.setenv(f"A2A_EVAL_PROXY_{known}", "suite.yaml")
    monkeypatch.delenv("A2A_EVAL_PROXY_CONFIG")
    assert ended(["runs"], monkeypatch) == 0
    assert capsys.readouterr().err.splitlines() == [
        "warning: nothing reads the variable A2A_EVAL_PROXY_AGNET (did you mean A2A_EVAL_PROXY_AGENT?)",
        "warning: nothing reads the variable A2A_EVAL_PROXY_JUDGE_MODL (did you mean A2A_EVAL_PROXY_JUDGE_MODEL?)",
    ]


@pytest.mark.usefixtures("here")
def test_a_misspelt_placeholder_and_unread_expectations_are_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    case = f"{{id: a, turns: [{{user: hi, expect: {{tool_calls: {CALLS}}}}}]}}"
    Path("note.yaml").write_text(f"suite: s\nevaluators: [tool_error]\ncases: [{case}]\n")
    assert ended(["validate", "note.yaml"], monkeypatch) == 2
    lines = capsys.readouterr().out.splitlines()
    assert "did you mean $regex?" in "".join(line for line in lines if line.startswith("warning: "))
    error = "error: tool_calls is expected in case a, but no evaluator reads it ("
    assert any(line.startswith(error) for line in lines)


@pytest.mark.usefixtures("here")
def test_a_missing_expectation_is_named_as_in_the_suite(
    agent: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before the run, by `validate` and `run`, and after it."""
    Path("bare.yaml").write_text(f"suite: s\nevaluators: [tool_trajectory]\n{CASES}")
    warning = "warning: tool_trajectory skips case ask: no turn has expect.tool_calls\n"
    assert ended(["validate", "bare.yaml"], monkeypatch) == 0
    assert warning in capsys.readouterr().out
    assert ended(["run", "bare.yaml", "--agent", agent], monkeypatch) == 1
    out, err = capsys.readouterr()
    assert err.startswith(warning)
    assert "every result was skipped (not given: expected_tool_calls (in a suite: expect.tool_calls))" in out
    assert ended(["run", "bare.yaml", "--agent", "http://127.0.0.1:1", "--case", "ask"], monkeypatch) == 3
    assert warning not in capsys.readouterr().err, "the cases that are left out may have it"
    assert ended(["run", "bare.yaml", "--agent", "http://127.0.0.1:1"], monkeypatch) == 3
    assert capsys.readouterr().err.startswith(warning), "before anything is sent"


@pytest.mark.usefixtures("here")
def test_evaluate_takes_the_newest_run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert ended(["evaluate", "--suite", "suite.yaml"], monkeypatch) == 0
    assert ", the newest" in capsys.readouterr().err


@pytest.mark.usefixtures("here")
def test_what_was_not_imported_can_be_edited(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = {"type": "tool_calls", "expected": [{"name": "search", "arguments": {"q": "Berlin"}}]}
    scenario = {"scenario_id": "s", "goal": "g", "assertions": [expected]}
    Path("scenarios.json").write_text(json.dumps({"scenarios": [scenario]}))
    ended(["evaluate", "--suite", "scenarios.json", "--run", "done"], monkeypatch)
    assert capsys.readouterr().err.splitlines()[:3] == [
        "Imported scenarios.json (arksim). Not imported:",
        "  arguments of expected calls without arg_match_mode: ArkSim ignores them, too",
        "To edit it as a suite: a2a-eval-proxy convert scenarios.json --out suite.yaml",
    ]
