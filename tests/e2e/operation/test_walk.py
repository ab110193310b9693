"""The README, the tutorial and the how-to pages, command by command, with the output that they show."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pytest
from agents.chat_server import chat_server
from support.patience import PATIENCE_S
from support.ports import held_ports
from support.postgres_server import PostgresServer
from support.site import written

ROOT = Path(__file__).parents[3]
README = ROOT / "README.md"
TUTORIAL = ROOT / "proxy/docs/tutorial.md"
AGENT = (
    "python -m a2a_eval_proxy.features.demo.agent --port 9999 &",
    "a2a-eval-proxy init --agent http://127.0.0.1:9999",
)
TRAFFIC = (
    "a2a-eval-proxy serve --suite suite.yaml --run nightly &",
    "a2a-eval-proxy send hello --agent http://127.0.0.1:8080",
)
SUITES = ("other", "orders", "refunds")
LOOKED_UP = 'a2a-eval-proxy send "Where is order ORD-1001?" --agent http://127.0.0.1:8080/agents'
HOW_TO = {
    "SECURITY.md": (
        *AGENT,
        "export API_KEY=secret",
        "python -m trustme -q -i 127.0.0.1 && cp client.pem clients.pem && cp client.pem agents.pem",
        "for name in tls client; do cp server.pem $name.crt; cp server.key $name.key; done; echo secret > token",
        "a2a-eval-proxy serve --listen 127.0.0.1:9443 --tls-cert tls.crt --tls-key tls.key --store agent.db"
        " --admin 127.0.0.1:0 --no-otlp &",
    ),
    "deploy/README.md": (
        *AGENT,
        "export STORE=postgresql://eval@db/turns",
        "export STORE_BEFORE=${STORE%/*}/turns_before",
        'a2a-eval-proxy run suite.yaml --store "$STORE"',
    ),
    "evaluators/docs/moving.md": (
        AGENT[0],
        f"cp -r {ROOT}/tests/evaluators/fixtures/uipath evaluations && rm evaluations/evaluators/trajectory.json",
        "cd evaluations/eval-sets && sed '/Trajectory/d' weather.json > default.json",
    ),
    "extension/README.md": (
        "PORT=9999; sed -n '/^```diff/,/^```$/{s/9999/'$PORT'/;s/^[ +]//p;/^$/p}'"
        f" {ROOT}/extension/README.md > agent.py",
        "python agent.py &",
    ),
    "extension/docs/frameworks/README.md": AGENT,
    "extension/docs/frameworks/by-hand.md": AGENT,
    "proxy/docs/admin-api.md": (*AGENT, *TRAFFIC),
    "proxy/docs/many-agents.md": (
        *AGENT,
        "export REFUNDS_TOKEN=secret",
        "mkdir suites && cp suite.yaml suites/all.yaml",
        "sed 's/suite: .*/suite: orders/; s/lookup_order/cancel_order/' suite.yaml > suites/orders.yaml",
        "a2a-eval-proxy serve --config proxy.yaml &",
        f"{LOOKED_UP}/orders",
        f"{LOOKED_UP}/search",
        "curl -s -X POST http://127.0.0.1:8081/api/flush",
    ),
    "proxy/docs/pages.md": (
        *AGENT,
        "a2a-eval-proxy run suite.yaml --store turns.db",
        "echo 'port: 8082' >> a2a-eval-proxy.yaml",
    ),
    "proxy/docs/runs.md": (
        *AGENT,
        *(f"sed 's/suite: .*/suite: {name}/; s/- id: /- id: {name}-/' suite.yaml > {name}.yaml" for name in SUITES),
    ),
    "proxy/docs/storage.md": AGENT,
    "proxy/docs/testing.md": AGENT[:1],
    "proxy/docs/traces.md": (
        *AGENT,
        "export TEMPO_TOKEN=secret A2A_EVAL_PROXY_TRACE_WAIT=1",
        "python -m http.server --bind 127.0.0.1 3200 &",
    ),
    "proxy/docs/transparency.md": AGENT,
}
"""The pages, each with the commands that lead to where it begins."""
ELSEWHERE = {
    "CONTRIBUTING.md": "test_contributing.py",
    "extension/docs/frameworks/bridges.md": "e2e/peers/test_framework_pages.py",
    "extension/docs/frameworks/decorated.md": "e2e/peers/test_framework_pages.py",
    "extension/docs/frameworks/javascript.md": "e2e/peers/test_javascript.py",
    "proxy/docs/performance.md": "tools/bench/test_bench.py",
}
"""The pages whose commands another test runs."""
NOT_HERE = re.compile(r"(pip|npm) install|OTEL_|docker|kubectl|helm|cd deploy")
"""Commands of the other pages that the tests of frameworks and of deployment run."""
PORTS = {
    "9999": "",
    "3200": "",
    "9443": "",
    "8443": "",
    "8083": "",
    "8082": "",
    "8080": "LISTEN",
    "8081": "ADMIN",
    "4318": "OTLP",
}
"""The ports of the pages, and the variables that put `serve` elsewhere. With the last, `run` would wait for traces."""
READY = (
    "Sample agent ready",
    "a2a-eval-proxy ready",
    "a2a-eval-proxy worker ready",
    "a2a-eval-proxy ui ready",
    "INFO:     Uvicorn running",
    "Serving HTTP",
    ":",
)
COMMANDS = ("sh", "bash", "console")
"""The languages of blocks with commands."""
DONE = "--- done ---"
ENDED = "--- ended ---"


class Shell:
    """A bash that is given one command after the other, as at a prompt; `cwd` is where it starts."""

    def __init__(self, cwd: Path, ports: dict[str, str]) -> None:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        clean = {
            name: value for name, value in os.environ.items() if not name.startswith(("A2A_EVAL_PROXY_", "PYTEST_"))
        }
        listen = {name: f"127.0.0.1:{ports[shown]}" for shown, name in PORTS.items() if name}
        self._elsewhere = " ".join(f"A2A_EVAL_PROXY_{name}={address}" for name, address in listen.items())
        self._commands = 0
        self.code = 0
        """Of the last command."""
        self._bash = subprocess.Popen(
            ["bash"],
            cwd=cwd,
            env=clean | {"PATH": path, "COLUMNS": "100", "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            bufsize=1,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Ends what runs in the background, too."""
        assert self._bash.stdin is not None
        if self._bash.poll() is None:
            self._bash.stdin.write("kill $(jobs -p) 2>/dev/null; exit\n")
        self._bash.stdin.close()
        self._bash.wait(PATIENCE_S)
        assert self._bash.stdout is not None
        self._bash.stdout.close()

    def run(self, command: str) -> list[str]:
        """The lines that a command printed; those of one in the background until it says that it is ready."""
        assert self._bash.stdin is not None
        assert self._bash.stdout is not None
        if command.startswith("a2a-eval-proxy serve"):
            command = f"{self._elsewhere} {command}"
        in_background = command.endswith("&")
        # on a line of its own, whatever the command printed; and the next command may ask for $?
        marked = f"{command}\n_code=$?; printf '\\n%s %s\\n' '{DONE}' $_code; (exit $_code)\n"
        self._commands += 1
        ended = f"{ENDED} {self._commands}"
        watched = f"{command}\n(tail --pid=$! -f /dev/null; echo '{ended}') & disown\n"
        self._bash.stdin.write(watched if in_background else marked)
        lines: list[str] = []
        for line in self._bash.stdout:
            if line.startswith(DONE):
                self.code = int(line.removeprefix(DONE))
                return lines
            assert line.rstrip() != ended, "\n".join((command, *lines))
            if not line.startswith(ENDED):
                lines.append(line.rstrip())
            if in_background and line.startswith(READY):
                return lines
        raise AssertionError(f"the shell ended at {command!r}: {lines}")


@pytest.fixture
def ports() -> Iterator[dict[str, str]]:
    """A free port for each of the README's."""
    with held_ports(len(PORTS)) as held:
        yield {shown: str(port) for shown, port in zip(PORTS, held, strict=True)}


def with_ports(text: str, ports: dict[str, str]) -> str:
    """In one go: a free port may begin with the digits of another."""
    return re.sub(rf"(?<=[ :=])({'|'.join(ports)})\b", lambda match: ports[match[1]], text)


def blocks(page: Path) -> Iterator[tuple[str, str, str]]:
    """The blocks of a page with commands and files: the language, the file that it names, and the content."""
    text = page.read_text("utf-8")
    yield from re.findall(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```', text, re.MULTILINE | re.DOTALL)


def steps(block: str) -> Iterator[tuple[str, list[str]]]:
    """The commands of a block, each with the lines that are shown below it; without prompts each line is a command.

    Servers and what follows events run in the background."""
    first, *rest = re.split(r"^\$ ", block.replace("\\\n", " "), flags=re.MULTILINE)
    assert not (first and rest), "a block begins with a command"
    for step in rest or first.splitlines():
        command, *shown = step.splitlines()
        runs_on = re.match(r"(a2a-eval-proxy (serve|worker|ui)|curl -sN).*[^&]$", command)
        yield f"{command} &" if runs_on else command, [line.rstrip() for line in shown]


def edit(folder: Path, diff: str) -> None:
    """Change the file that the first line names: in each part, its lines with and without `-` become those with `+`."""
    head, *parts = diff.split("@@\n")
    file = folder / head.removeprefix(" # ").strip()
    text = file.read_text("utf-8")
    for part in parts:
        lines = part.splitlines(keepends=True)
        before = "".join(line[1:] for line in lines if line[0] != "+")
        after = "".join(line[1:] for line in lines if line[0] != "-")
        assert text.count(before) >= 1, f"{file.name} has no\n{before}"
        head, _, tail = text.rpartition(before)
        text = head + after + tail
    file.write_text(text, "utf-8")


def assert_shown(shown: list[str], printed: list[str], command: str) -> None:
    """Every line shown was printed, in this order; `...` stands for lines, and at the end of a line for its rest."""
    rest = iter(printed)
    for line in shown:
        if line not in ("...", ""):
            found = any(out.startswith(line[:-3]) if line.endswith("...") else out == line for out in rest)
            assert found, f"{command}\nshows {line!r} and printed:\n" + "\n".join(printed)


@pytest.mark.slow
@pytest.mark.timeout(600)  # twenty commands each: 11 s on an idle machine
@pytest.mark.parametrize("page", [README, TUTORIAL], ids=lambda page: page.stem)
def test_the_commands_of_a_page_in_order(page: Path, tmp_path: Path, ports: dict[str, str]) -> None:
    """But for those that install: what is installed is what is tested."""
    commands = []
    with Shell(tmp_path, ports) as shell:
        for language, title, content in blocks(page):
            match language:
                case "console":
                    for command, shown in steps(with_ports(content, ports)):
                        commands.append(command)
                        assert_shown(shown, shell.run(command), command)
                case "diff":
                    edit(tmp_path, content)
                case _ if title:
                    with (tmp_path / title).open("a", encoding="utf-8") as file:
                        file.write(with_ports(content, ports))
    assert sum(command.startswith("a2a-eval-proxy ") for command in commands) > 5
    assert (tmp_path / "report" / "report.html").exists()


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.about(
    "SECURITY.md", "deploy/README.md", "evaluators/docs", "extension", "proxy/docs", "proxy/a2a_eval_proxy/testing"
)
@pytest.mark.parametrize("page", HOW_TO)
def test_the_commands_of_a_how_to_page(
    page: str, tmp_path: Path, ports: dict[str, str], postgres: PostgresServer
) -> None:
    """None is used wrongly, and none finds something missing: those have the exit codes 2 and 3."""
    with chat_server("It is shipped.") as model, Shell(tmp_path, ports) as before:
        database = postgres.new_database()
        others = {
            "postgresql://eval@db/turns": database,
            "postgresql://db.example/turns": database,
            "http://127.0.0.1:8000/v1": model.url,
            "/var/run/secrets/agent/": f"{tmp_path}/",
            "//agent.example.com": "//127.0.0.1:9443",
            "//orders.kagent:8080": "//127.0.0.1:9999",
            **{f"//{name}:": "//127.0.0.1:" for name in ("agent", "orders", "refunds", "search", "tempo")},
        }

        def here(text: str) -> str:
            for shown, real in others.items():
                text = text.replace(shown, real)
            return with_ports(text, ports)

        read = list(blocks(ROOT / page))
        for _, title, content in read:
            if title:
                (tmp_path / title).write_text(here(content), "utf-8")
        for command in HOW_TO[page]:
            before.run(here(command))
        exports = [(here(command), []) for command in HOW_TO[page] if command.startswith("export ")]
        for language, _, content in read:
            if language in COMMANDS:
                with Shell(tmp_path, ports) as shell:
                    for command, shown in (*exports, *steps(here(content))):
                        if not NOT_HERE.match(command):
                            printed = shell.run(command)
                            assert shell.code in (0, 1), "\n".join((command, *printed))
                            assert_shown(shown, printed, command)


def test_every_page_with_commands_is_walked() -> None:
    pages = (path.relative_to(ROOT).as_posix() for path in written() if path.suffix == ".md")
    found = {page for page in pages if any(language in COMMANDS for language, _, _ in blocks(ROOT / page))}
    assert found == {"README.md", "proxy/docs/tutorial.md", *HOW_TO, *ELSEWHERE}


def test_the_page_on_traces_starts_an_agent_as_that_on_frameworks() -> None:
    pages = ("proxy/docs/traces.md", "extension/docs/frameworks/README.md")
    on_traces, on_frameworks = (
        [" ".join(command.split()) for _, _, text in blocks(ROOT / page) for command, _ in steps(text)]
        for page in pages
    )
    assert {command for command in on_traces if command.startswith("OTEL_")} < set(on_frameworks)


@pytest.mark.slow
@pytest.mark.installs
@pytest.mark.timeout(600)
@pytest.mark.about("README.md", "proxy/docs/tutorial.md", "pyproject.toml", "hatch_build.py")
def test_what_is_pasted_into_an_empty_folder_installs_and_shows_the_demo(tmp_path: Path) -> None:
    """And the agent of the tutorial has there what it imports."""
    (first, *_), (tutorial, server, *_) = (
        [content for language, _, content in blocks(page) if language == "sh"] for page in (README, TUTORIAL)
    )
    assert first == f"{tutorial}a2a-eval-proxy demo\n"
    (agent, *_) = (content for _, title, content in blocks(TUTORIAL) if title == "agent.py")
    (tmp_path / "agent.py").write_text(agent, "utf-8")
    if subprocess.run(["git", "rev-parse", "HEAD"], cwd=README.parent, capture_output=True, check=False).returncode:
        pytest.skip("no repository of git to clone")
    done = subprocess.run(
        ["bash", "-e"],
        input=f"{first}{server}python -c 'import agent'\n",
        cwd=tmp_path,
        env=os.environ | {"REPOSITORY": str(README.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.split("Report: ")[1].split()[0]).exists()
