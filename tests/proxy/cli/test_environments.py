"""What surrounds a command, such as closed outputs, signals, variables and folders, never makes it end with a
traceback, nor with the exit code of a verdict that it has not reached."""

from __future__ import annotations

import io
import itertools
import logging
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from a2a_eval_proxy.cli import main
from a2a_eval_proxy.cli.group import cli
from agents.scenario_agent import scenario_agent
from support.patience import PATIENCE_S
from support.prefork import COMMAND

SUITE = "suite: s\nevaluators: [tool_error]\ntolerate: [vacuous]\ncases:\n  - {id: ask, turns: [{user: message me}]}\n"
FULL = "cannot write to standard output: No space left on device"
CLOSED = "cannot write to standard output: Bad file descriptor"


@pytest.fixture(scope="module")
def agent() -> Iterator[str]:
    with scenario_agent() as agent:
        yield agent.url


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where commands run."""
    Path(tmp_path, "suite.yaml").write_text(SUITE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def shell(script: str) -> tuple[int, str]:
    """Run a script in which `command` is ours; its exit code and standard error."""
    done = subprocess.run(
        ["bash", "-c", f'trap - PIPE; command() {{ "{COMMAND}" "$@"; }}; {script}'],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        restore_signals=True,
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize("arguments", ["evaluators", "schema", "--help", "--version", "run suite.yaml --agent {agent}"])
@pytest.mark.usefixtures("folder")
def test_an_output_that_takes_nothing_is_named(arguments: str, agent: str) -> None:
    words = arguments.format(agent=agent)
    assert shell(f"command {words} > /dev/full") == (3, f"a2a-eval-proxy: {FULL}\n")
    Path("a2a-eval-proxy.db").unlink(missing_ok=True)
    assert shell(f"command {words} >&-") == (3, f"a2a-eval-proxy: {CLOSED}\n")


@pytest.mark.usefixtures("folder")
def test_a_reader_that_has_gone_ends_a_command_as_it_ends_others(agent: str) -> None:
    for words in ("schema", f"run suite.yaml --agent {agent} -q", "--help"):
        assert shell(f"command {words} | true; exit ${{PIPESTATUS[0]}}") == (141, "")


@pytest.mark.parametrize("redirection", ["2> /dev/full", "2>&-", "2> >(true)", "2>&- <&-"])
def test_what_goes_to_stderr_is_not_needed(redirection: str) -> None:
    assert shell(f"command runs --store no.db {redirection}") == (2, "")
    assert shell(f"command evaluators > /dev/null {redirection}") == (0, "")


def test_a_width_of_nothing_is_no_width(agent: str) -> None:
    assert shell(f"COLUMNS=0 command check {agent} --message 'chunks please' | grep -q conforming") == (0, "")


def test_an_unexpected_error_names_the_file_with_its_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(options: object) -> None:
        raise ExceptionGroup("several", [KeyError("sk-abcdefghijklmnopqrstuvwxyz123456")])

    monkeypatch.setattr(cli.commands["evaluators"], "_function", fails)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("sys.argv", ["a2a-eval-proxy", "evaluators"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 3
    (kept,) = tmp_path.iterdir()
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("a2a-eval-proxy: unexpected KeyError: ")
    assert line.endswith(f"(its traceback is in {kept})")
    assert kept.stat().st_mode & 0o077 == 0
    assert "in fails" in kept.read_text()
    assert "sk-abc" not in line + kept.read_text()


def test_a_traceback_that_cannot_be_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(options: object) -> None:
        raise ValueError("two\nlines")

    monkeypatch.setattr(cli.commands["evaluators"], "_function", fails)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "no"))
    monkeypatch.setattr("sys.argv", ["a2a-eval-proxy", "evaluators"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 3
    said = "unexpected ValueError: two lines (its traceback cannot be written: No such file or directory)"
    assert capsys.readouterr().err == f"a2a-eval-proxy: {said}\n"


STARTED = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from a2a_eval_proxy.cli import main
print("started", flush=True)
main()
"""


@pytest.mark.parametrize("words", [["evaluators"], ["run", "suite.yaml", "--agent", "{agent}"], ["demo"]])
@pytest.mark.usefixtures("folder")
def test_ctrl_c_while_a_command_starts_has_no_traceback(words: list[str], agent: str) -> None:
    """While its modules are imported, while it works, and while it ends."""
    arguments = [word.format(agent=agent) for word in words]
    for pause_s in (0.02, 0.1, 0.2, 0.3, 0.5, 0.8):
        command = [sys.executable, "-c", STARTED, *arguments]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "started\n"
            with suppress(subprocess.TimeoutExpired):
                process.wait(pause_s)
            process.send_signal(signal.SIGINT)
            errors = process.communicate(timeout=PATIENCE_S)[1]
        assert process.returncode in (-signal.SIGINT, 130, 0)
        assert "Traceback" not in errors
        assert "Exception" not in errors


@pytest.mark.usefixtures("folder")
def test_sigterm_says_how_to_go_on_as_ctrl_c_does(agent: str) -> None:
    for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        Path("suite.yaml").write_text(SUITE.replace("message me", "gate 1"))
        command = [COMMAND, "run", "suite.yaml", "--agent", agent, "--run", f"run-{code}"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            while not Path("a2a-eval-proxy.db").exists() and process.poll() is None:
                os.sched_yield()
            process.send_signal(number)
            errors = process.communicate(timeout=PATIENCE_S)[1]
        assert process.returncode == code
        assert f"with --run run-{code} --resume" in errors or "nothing is stored yet" in errors
        assert "Traceback" not in errors
        Path("a2a-eval-proxy.db").unlink()


# ── the table ───────────────────────────────────────────────────────────────────────────────────────────────

COMMANDS = {
    "run": "run suite.yaml --agent {agent} --run run-{new} --report report-{new}",
    "send": "send 'chunks please' --agent {agent}",
    "init": "init --agent {agent} --dir init-{new} --message 'chunks please'",
    "doctor": "doctor {agent} --message 'chunks please' --otlp 127.0.0.1:0 --trace-wait 0.1",
    "check": "check {agent} --message 'chunks please'",
    "validate": "validate suite.yaml --agent {agent}",
    "evaluate": "evaluate --suite suite.yaml --run done --store kept.db",
    "runs": "runs --store kept.db",
    "show": "show done --store kept.db",
    "compare": "compare done done --store kept.db",
    "accept": "accept suite.yaml --run done --store kept.db --yes",
    "calibrate": "calibrate suite.yaml --store kept.db",
    "export": "export --store kept.db",
    "record": "record --run done --store kept.db",
    "prune": "prune --retain-days 1000 --store kept.db",
    "evaluators": "evaluators",
    "evaluator": "evaluators tool_error",
    "schema": "schema",
    "convert": "convert scenarios.json",
    "worker": "worker --store postgresql://127.0.0.1:1/turns",
    "mcp": "mcp --suite suite.yaml",
    "help": "run --help",
    "version": "--version",
    "serve": "serve --upstream {agent} --listen 127.0.0.1:0 --admin 127.0.0.1:0 --no-otlp --store serve-{new}.db",
    "ui": "ui --store kept.db --port 0 --no-open",
}
SERVERS = {"serve", "ui"}


@dataclass(frozen=True)
class Surrounding:
    """What surrounds a command. Variables that are None are unset."""

    variables: dict[str, str | None] = field(default_factory=dict)
    shell: str = ""
    """Before the command, where a process of its own is needed; `{}` stands for the command."""
    folder: str = ""
    """What happens to the current folder: `gone`, or a link that leads nowhere else."""
    mask: int = 0o022


DEAD = "http://127.0.0.1:1"
SURROUNDINGS = {
    # proxies
    **{
        f"{name}={value}": Surrounding({name: value})
        for name, values in {
            "HTTP_PROXY": (
                DEAD,
                "http://[::1",
                ":::",
                "http://",
                "ftp://x",
                "127.0.0.1:1",
                "http://u:p@127.0.0.1:1",
                " ",
            ),
            "http_proxy": (DEAD, "x" * 3_000),
            "HTTPS_PROXY": (DEAD, "socks5://127.0.0.1:1"),
            "ALL_PROXY": (DEAD, "socks5://127.0.0.1:1", "socks5h://[::1]:1", "socks4://x", "http://\u00fc:x"),
            "NO_PROXY": ("[::1]", "*", "::1", "10.0.0.0/8", "\u00fc,,[", "http://x:y"),
            "REQUEST_METHOD": ("GET",),
            # authorities
            "SSL_CERT_FILE": ("no.pem", "suite.yaml", ""),
            "SSL_CERT_DIR": ("no",),
            "SSLKEYLOGFILE": ("no/keys",),
            # terminals
            "TERM": ("dumb", "no-such-terminal", ""),
            "COLUMNS": ("0", "1", "-5", "abc", "100000"),
            "LINES": ("0",),
            "NO_COLOR": ("1",),
            "FORCE_COLOR": ("1",),
            "TZ": ("Nowhere/Nothing",),
            # folders
            "HOME": ("/nonexistent", "suite.yaml", ""),
            "TMPDIR": ("/nonexistent", "suite.yaml"),
            "XDG_CACHE_HOME": ("/proc/nothing",),
            "GITHUB_STEP_SUMMARY": ("/nonexistent/summary", "."),
            "A2A_EVAL_PROXY_STROE": ("x",),
        }.items()
        for value in values
    },
    "a proxy but not for this machine": Surrounding({"ALL_PROXY": "socks5://x", "NO_PROXY": "127.0.0.1,[::1]"}),
    "no HOME": Surrounding({"HOME": None}),
    "no TERM": Surrounding({"TERM": None}),
    "a folder that is gone": Surrounding(folder="gone"),
    "umask 0777": Surrounding(mask=0o777),
    "umask 0": Surrounding(mask=0),
    # processes
    "LANG=C": Surrounding({"LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, "{}"),
    "LC_ALL=xx": Surrounding({"LC_ALL": "xx_YY.nothing"}, "{}"),
    "ASCII": Surrounding({"PYTHONIOENCODING": "ascii:strict"}, "{}"),
    "UTF-16": Surrounding({"PYTHONIOENCODING": "utf-16"}, "{}"),
    "optimized": Surrounding({"PYTHONOPTIMIZE": "2"}, "{}"),
    "no PATH": Surrounding({"PATH": ""}, "{}"),
    "nothing": Surrounding({}, "env -i {}"),
    "stdin closed": Surrounding({}, "{} <&-"),
    "stdout closed": Surrounding({}, "{} >&-"),
    "stderr closed": Surrounding({}, "{} 2>&-"),
    "all closed": Surrounding({}, "{} <&- >&- 2>&-"),
    "stdout full": Surrounding({}, "{} > /dev/full"),
    "stderr full": Surrounding({}, "{} 2> /dev/full"),
    "both full": Surrounding({}, "{} > /dev/full 2>&1"),
    "reader gone": Surrounding({}, "{} | true; exit ${PIPESTATUS[0]}"),
    "few files": Surrounding({}, "ulimit -n 24; {}"),
    "no file may grow": Surrounding({}, "trap '' XFSZ; ulimit -f 0; {}"),
    "interrupted": Surrounding({}, "timeout --preserve-status -s INT 0.3 {}"),
    "terminated": Surrounding({}, "timeout --preserve-status -s TERM 0.3 {}"),
    "hung up": Surrounding({}, "timeout --preserve-status -s HUP 0.3 {}"),
}
SIGNALS = {"interrupted": {130}, "terminated": {143}, "hung up": {129}, "reader gone": {141}}
EVERY = os.environ.get("EVERY_ENVIRONMENT") == "1"
"""Whether each command meets each surrounding; else each surrounding some commands, and each command some of them."""


def _pairs() -> Iterator[tuple[str, str]]:
    commands = itertools.cycle(COMMANDS)
    for name, surrounding in SURROUNDINGS.items():
        own = list(COMMANDS) if EVERY else list(itertools.islice(commands, 2 if surrounding.shell else 3))
        for command in own:
            if not (surrounding.shell and command in SERVERS):
                yield name, command


@pytest.fixture(scope="module")
def stocked(agent: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a suite, scenarios, and the run `done`."""
    folder = tmp_path_factory.mktemp("environments")
    Path(folder, "suite.yaml").write_text(SUITE)
    Path(folder, "scenarios.json").write_text('{"scenarios": [{"scenario_id": "s", "goal": "g"}]}')
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr("sys.argv", ["-", "run", "suite.yaml", "--agent", agent, "--run", "done", "--store", "kept.db"])
        with pytest.raises(SystemExit):
            main()
    return folder


_numbers = itertools.count()


@pytest.mark.parametrize(("name", "command"), list(_pairs()))
def test_no_surrounding_makes_a_traceback_or_a_verdict(
    name: str, command: str, agent: str, stocked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    surrounding = SURROUNDINGS[name]
    words = shlex.split(COMMANDS[command].format(agent=agent, new=next(_numbers)))
    monkeypatch.chdir(stocked)
    for variable in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(variable, raising=False)
        monkeypatch.delenv(variable.lower(), raising=False)
    for variable, value in surrounding.variables.items():
        if value is None:
            monkeypatch.delenv(variable, raising=False)
        else:
            monkeypatch.setenv(variable, value)
    monkeypatch.setattr("tempfile.tempdir", None)
    if surrounding.folder == "gone":
        Path("gone").mkdir()
        monkeypatch.chdir("gone")
        Path("../gone").rmdir()
    mask = os.umask(surrounding.mask)
    try:
        code, out, err = _run_as(surrounding, command, words, monkeypatch)
    finally:
        os.umask(mask)
    shown = f"{code}\n{out}\n{err}"
    assert "Traceback" not in out + err, shown
    assert "unexpected" not in err, shown
    verdicts = {1} if command == "check" and "conforming" in out else set()
    assert code in {0, 2, 3} | SIGNALS.get(name, set()) | verdicts, shown
    if code in (2, 3) and not surrounding.shell:
        sentences = [
            line for line in err.splitlines() if not line.startswith(("warning: ", "receiving traces", "shell-init: "))
        ]
        assert [line.startswith("a2a-eval-proxy: ") for line in sentences] == [True], shown


def _run_as(
    surrounding: Surrounding, command: str, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> tuple[int, str, str]:
    """The exit code, and what the command printed: in this process where that makes no difference."""
    if command in SERVERS:
        process = subprocess.Popen([COMMAND, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        with process:
            assert process.stdout is not None
            out = process.stdout.readline()
            process.send_signal(signal.SIGTERM)
            _, err = process.communicate(timeout=PATIENCE_S)
        return process.returncode, out, err
    if surrounding.shell or command == "mcp":
        script = (surrounding.shell or "{}").replace("{}", shlex.join([str(COMMAND), *words]), 1)
        done = subprocess.run(
            ["/bin/bash", "-c", f"trap - PIPE; {script}"], capture_output=True, timeout=PATIENCE_S, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        texts = [
            bytes(out).replace(b"\0", b"").decode(errors="replace") for out in (done.stdout, done.stderr)
        ]  # UTF-16
        return done.returncode, texts[0], texts[1]
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    monkeypatch.setattr("sys.stdout", out)
    monkeypatch.setattr("sys.stderr", err)
    monkeypatch.setattr("sys.argv", ["a2a-eval-proxy", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    root = logging.getLogger()
    for handler in [handler for handler in root.handlers if type(handler) is logging.StreamHandler]:
        root.removeHandler(handler)  # a command added it; its stream ends with the test
    texts = [stream.buffer.getvalue().decode() for stream in (out, err)]  # type: ignore[attr-defined]
    return int(ended.value.code or 0), texts[0], texts[1]
