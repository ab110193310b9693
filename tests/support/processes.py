"""Child processes of the tests: started, spoken to by lines, and always ended."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from support.prefork import COMMAND, Forked

TESTS = Path(__file__).parents[1]
STOP_TIMEOUT_S = 60


def children(parent: int) -> list[int]:
    """The process ids of the children of a process, zombies too."""
    return sorted(map(int, Path(f"/proc/{parent}/task/{parent}/children").read_text("ascii").split()))


class ChildProcess:
    """A process whose stdout is read line by line and whose stderr is kept for failure messages."""

    def __init__(
        self, command: Sequence[str | Path], *, cwd: Path = TESTS, environment: dict[str, str] | None = None
    ) -> None:
        self._command = [str(part) for part in command]
        self._cwd = cwd
        self._environment = os.environ | {"PYTHONUNBUFFERED": "1"} | (environment or {})
        self._stderr = tempfile.TemporaryFile(mode="w+")  # noqa: SIM115 (closed by stop)
        self._process: subprocess.Popen[str] | Forked | None = None

    def __enter__(self) -> Self:
        if self._command[0] == str(COMMAND):
            self._process = Forked.with_pipes(self._command[1:], self._cwd, self._environment, self._stderr)
        else:
            self._process = subprocess.Popen(
                self._command,
                cwd=self._cwd,
                env=self._environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                text=True,
                bufsize=1,
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def process(self) -> subprocess.Popen[str] | Forked:
        if self._process is None:
            raise RuntimeError(f"not started: {self._command}")
        return self._process

    def ask(self, line: str) -> str:
        """Writes one line and reads the answer line. Raises RuntimeError, with stderr, if the process is gone."""
        stdin = self.process.stdin
        stdin.write(line + "\n")
        stdin.flush()
        return self.read_line()

    def read_line(self) -> str:
        stdout = self.process.stdout
        line = stdout.readline()
        if not line:
            raise RuntimeError(f"{self._command} ended: {self.stderr()[-4000:]}")
        return line.rstrip("\n")

    def wait_for(self, pattern: str) -> re.Match[str]:
        """Reads lines until one matches; what comes later is drained in the background."""
        while True:
            if found := re.search(pattern, self.read_line()):
                threading.Thread(target=self._drain, daemon=True).start()
                return found

    def stderr(self) -> str:
        """What the process has complained about so far."""
        file = self._stderr.fileno()
        # The process writes at the offset that it shares with this file object: reading must not move it.
        return os.pread(file, os.fstat(file).st_size, 0).decode("utf-8", "replace")

    def kill(self) -> None:
        """SIGKILL: no goodbye, as in a crash."""
        self._end(signal.SIGKILL)

    def terminate(self) -> None:
        """SIGTERM, without waiting for the outcome."""
        self.process.send_signal(signal.SIGTERM)

    def wait(self, timeout_s: float) -> int:
        """The exit code of a process that is ending. Raises TimeoutExpired."""
        return self.process.wait(timeout_s)

    def stop(self) -> None:
        self._end(signal.SIGTERM)
        self._stderr.close()

    def _end(self, how: signal.Signals) -> None:
        process = self.process
        if process.poll() is None:
            process.send_signal(how)
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None and not stream.closed:
                stream.close()

    def _drain(self) -> None:
        try:
            for _ in self.process.stdout or ():
                pass
        except ValueError:  # closed by stop
            pass
