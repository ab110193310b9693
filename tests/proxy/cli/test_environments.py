"""What surrounds a command, such as closed outputs, signals, variables and folders, never makes it end with a
traceback, nor with the exit code of a verdict that it has not reached."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from a2a_eval_proxy.cli.group import cli
from a2a_eval_proxy.signals import stop_signal
from agents.scenario_agent import scenario_agent
from support.commands import ended, messages
from support.patience import PATIENCE_S
from support.prefork import COMMAND, Forked

SUITE = "suite: s\nevaluators: [tool_error]\ntolerate: [vacuous]\ncases:\n  - {id: ask, turns: [{user: message me}]}\n"


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


@contextmanager
def started(command: str, folder: Path, out: str = os.devnull) -> Iterator[Forked]:
    """A process of the command; its errors go to the file `stderr`."""
    with Path(os.devnull).open() as nothing, Path(out).open("w") as output, Path(folder, "stderr").open("w") as errors:
        yield Forked(command.split(), folder, os.environ, [file.fileno() for file in (nothing, output, errors)])


@pytest.mark.parametrize("command", ["evaluators", "--help", "run suite.yaml --agent {agent}"])
def test_an_output_that_takes_nothing_is_named(command: str, agent: str, folder: Path) -> None:
    with started(command.format(agent=agent), folder, "/dev/full") as process:
        assert process.wait(PATIENCE_S) == 3
    full = "a2a-eval-proxy: cannot write to standard output: No space left on device\n"
    assert Path("stderr").read_text() == full


@pytest.mark.usefixtures("folder")
def test_an_output_that_is_closed_or_has_no_reader(agent: str) -> None:
    """The latter ends a command as it ends others."""
    closed = "a2a-eval-proxy: cannot write to standard output: Bad file descriptor\n"
    assert shell("command evaluators >&-") == (3, closed)
    assert shell(f"command run suite.yaml --agent {agent} -q | true; exit ${{PIPESTATUS[0]}}") == (141, "")


@pytest.mark.parametrize("redirection", ["2> /dev/full", "2> >(true)", "2>&- <&-"])
def test_what_goes_to_stderr_is_not_needed(redirection: str) -> None:
    assert shell(f"command runs --store no.db {redirection}") == (2, "")


def test_a_width_of_nothing_is_no_width(
    agent: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "0")
    ended(f"check {agent} --message 'chunks please'")
    assert "conforming" in capsys.readouterr().out


SECRET = ExceptionGroup("several", [KeyError("sk-abcdefghijklmnopqrstuvwxyz123456")])


@pytest.mark.parametrize(("folder", "error"), [(".", SECRET), ("no", ValueError("two\nlines"))])
def test_an_unexpected_error_is_one_line_and_its_traceback_a_file(
    folder: str,
    error: Exception,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / folder))
    assert ended_with(error, monkeypatch) == 3
    (line,) = capsys.readouterr().err.splitlines()
    if kept := list(tmp_path.iterdir()):
        assert line.startswith("a2a-eval-proxy: unexpected KeyError: ")
        assert line.endswith(f"(its traceback is in {kept[0]})")
        assert kept[0].stat().st_mode & 0o077 == 0
        assert "in fails" in kept[0].read_text()
        assert "sk-abc" not in line + kept[0].read_text()
    else:
        said = "unexpected ValueError: two lines (its traceback cannot be written: No such file or directory)"
        assert line == f"a2a-eval-proxy: {said}"


def ended_with(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> int:
    """The exit code of a command that raises the error."""

    def fails(context: object) -> None:
        raise error

    monkeypatch.setattr(cli.commands["evaluators"], "invoke", fails)
    return ended("evaluators")


def test_an_error_that_ctrl_c_causes_is_an_interruption(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python 3.11 raises such a RuntimeError where Ctrl-C comes while a class is made."""
    error = RuntimeError("Error calling __set_name__")
    error.__cause__ = KeyboardInterrupt()
    assert ended_with(error, monkeypatch) == 130


async def test_a_loop_without_handlers_of_signals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such are those of Windows."""

    def refuse(*_: object) -> None:
        raise NotImplementedError

    monkeypatch.setattr(asyncio.get_running_loop(), "add_signal_handler", refuse)
    assert not stop_signal().is_set()


STARTED = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from a2a_eval_proxy.cli import main
print("started", flush=True)
main()
"""


@pytest.mark.parametrize("words", ["evaluators", "run suite.yaml --agent {agent}"])
@pytest.mark.usefixtures("folder")
def test_ctrl_c_while_a_command_starts_has_no_traceback(words: str, agent: str) -> None:
    """While its modules are imported, and while it works or ends."""
    command = [sys.executable, "-c", STARTED, *words.format(agent=agent).split()]
    for pause_s in (0.1, 0.5):
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "started\n"
            with suppress(subprocess.TimeoutExpired):
                process.wait(pause_s)
            process.send_signal(signal.SIGINT)
            errors = process.communicate(timeout=PATIENCE_S)[1]
        assert process.returncode in (-signal.SIGINT, 130, 0), errors
        assert "Traceback" not in errors
        assert "Exception" not in errors


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_sigterm_says_how_to_go_on_as_ctrl_c_does(agent: str, folder: Path, number: int, code: int) -> None:
    Path("suite.yaml").write_text(SUITE.replace("message me", "long 1"))
    command, before = f"run suite.yaml --agent {agent} --run cut", messages(agent)
    with started(command, folder) as process:
        while messages(agent) == before and process.poll() is None:
            pass
        process.send_signal(number)
        assert process.wait(PATIENCE_S) == code
    errors = Path("stderr").read_text()
    assert "with --run cut --resume" in errors or "nothing is stored yet" in errors
    assert "Traceback" not in errors
