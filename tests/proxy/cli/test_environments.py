"""What surrounds a command, such as closed outputs, signals, variables and folders, never makes it end with a
traceback, nor with the exit code of a verdict that it has not reached."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
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


def test_an_error_that_ctrl_c_causes_is_an_interruption(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted:
        def __set_name__(self, owner: type, name: str) -> None:
            raise KeyboardInterrupt

    def makes_a_class(options: object) -> None:
        type("Made", (), {"attribute": Interrupted()})  # Python 3.11 raises RuntimeError from the KeyboardInterrupt

    monkeypatch.setattr(cli.commands["evaluators"], "_function", makes_a_class)
    monkeypatch.setattr("sys.argv", ["a2a-eval-proxy", "evaluators"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130


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
        assert process.returncode in (-signal.SIGINT, 130, 0), errors
        assert "Traceback" not in errors
        assert "Exception" not in errors


@pytest.mark.usefixtures("folder")
def test_sigterm_says_how_to_go_on_as_ctrl_c_does(agent: str) -> None:
    for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        Path("suite.yaml").write_text(SUITE.replace("message me", "long 1"))
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
