"""Forked commands behave as those that the console script starts."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest
from support.patience import PATIENCE_S
from support.prefork import COMMAND, Forked, run

SERVE = ("serve", "--upstream", "http://127.0.0.1:1", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--no-otlp")


@pytest.mark.parametrize(
    "arguments",
    [["--version"], ["serve", "--help"], [], ["no-such-command"], ["export", "--store", "none.db"], ["card"]],
    ids=" ".join,
)
def test_output_and_exit_code_are_the_same(arguments: list[str], tmp_path: Path) -> None:
    alone = subprocess.run([COMMAND, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False)
    forked = run(*arguments, cwd=tmp_path)
    assert (forked.returncode, forked.stdout, forked.stderr) == (alone.returncode, alone.stdout, alone.stderr)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL], ids=str)
def test_signals_and_files_are_its_own(number: int, tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "A2A_EVAL_PROXY_RUN": "mine"}
    with (tmp_path / "log").open("w+") as log:
        process = Forked.with_pipes(SERVE, tmp_path, environment, log)
        assert process.stdin is not None
        assert process.stdout is not None
        with process.stdin, process.stdout:
            assert "ready" in process.stdout.readline()
            status = Path(f"/proc/{process.pid}")
            assert (status / "cwd").resolve() == tmp_path
            assert os.getpgid(process.pid) == os.getpgid(0)
            process.send_signal(number)
            rest = process.stdout.read()
        assert process.wait(PATIENCE_S) == process.poll() == (-number if number == signal.SIGKILL else 0), rest
    with pytest.raises(ProcessLookupError):
        os.kill(process.pid, 0)


def test_a_command_that_does_not_end_is_ended(tmp_path: Path) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        run(*SERVE, cwd=tmp_path, timeout=1)
