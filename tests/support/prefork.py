"""Runs the command line, pytest or a script in processes forked from one that has the imports: they start at once.

Each is a process of its own, with its own arguments, folder, environment, files, signals and exit code; only the
imports are shared. Code that has to start as users start it runs `COMMAND` with subprocess.
"""

from __future__ import annotations

import array
import atexit
import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO, NoReturn, Self

import pytest

COMMAND = Path(sys.executable).with_name("a2a-eval-proxy")
PYTEST = Path(sys.executable).with_name("pytest")
NOT_IMPORTED = ("__main__", "pytest_plugin", "migrations.")
"""In the names of modules that run when they are imported, or that belong to another program."""
IMPORTED_LATER = (
    "_strptime",
    "anyio._backends._asyncio",
    "httpcore",
    "pydantic.dataclasses",
    "rich._emoji_codes",
    "rich.status",
    "uvicorn.lifespan.off",
    "uvloop",
)
"""What libraries import only when it is used, as most commands do."""

_REQUEST_BYTES = 1 << 20
_CODE_BYTES = 4
_FILES = 4  # standard input, output and error, and where the exit code is written


# ── the process that forks ──────────────────────────────────────────────────────────────────────────────────


def import_everything() -> None:
    """Imports every module of the program, and makes what every process would. None may start a thread: a fork would
    not have it."""
    for name in IMPORTED_LATER:
        importlib.import_module(name)
    for package in ("a2a_eval_proxy", "tool_call_evaluators"):
        for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
            if not any(part in module.name for part in NOT_IMPORTED):
                importlib.import_module(module.name)
    from ssl_context import share_ssl_context  # beside this script
    from tool_call_evaluators.suite.model import Case, Suite
    from tool_call_evaluators.type_conversion import adapter

    share_ssl_context()
    for declared in (Suite, Case):
        adapter(declared)  # reads and writes suites
    if len(list(Path("/proc/self/task").iterdir())) > 1:
        raise RuntimeError("an import has started a thread")


def fork_on_request(control: socket.socket) -> None:
    """Forks a child for each request, and reports how each ended. Returns in the child, ready to run the program."""
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    running: dict[int, int] = {}
    while True:
        readable, _, _ = select.select([control, wake_read], [], [])
        if wake_read in readable:
            os.read(wake_read, 1000)
            _report_ended(running)
        if control not in readable:
            continue
        request, files, _, _ = socket.recv_fds(control, _REQUEST_BYTES, _FILES)
        if not request:
            os._exit(0)
        pid = os.fork()
        if not pid:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            control.detach()
            _become(files, **json.loads(request))
            return
        running[pid] = files.pop()
        for file in files:
            os.close(file)
        control.send(str(pid).encode())


def _report_ended(running: dict[int, int]) -> None:
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        report = running.pop(pid)
        try:
            os.write(report, array.array("i", [os.waitstatus_to_exitcode(status)]).tobytes())
        except BrokenPipeError:
            pass  # nobody waits any more
        os.close(report)


def _become(files: list[int], command: list[str], cwd: str, environment: dict[str, str]) -> None:
    """Makes this process what a new one would be."""
    for number, file in enumerate(files[:3]):
        os.dup2(file, number)
    os.closerange(3, max(files) + 100)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has its background jobs ignore it
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    tempfile.tempdir = None
    sys.argv = command
    sys.path[0] = str(COMMAND.parent)
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)


def _end(code: str | int | None) -> NoReturn:
    """Ends this process as `sys.exit` does, but for its memory: to give that back object by object would take ten times
    as long as a short command."""
    threading._shutdown()  # type: ignore[attr-defined]  # the interpreter's own first step: it waits for threads
    atexit._run_exitfuncs()
    if isinstance(code, str):
        print(code, file=sys.stderr)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(1 if isinstance(code, str) else code or 0)


# ── what tests use ──────────────────────────────────────────────────────────────────────────────────────────


class Forked:
    """A running command, with the part of `subprocess.Popen` that tests use."""

    def __init__(
        self,
        arguments: Sequence[str | Path],
        cwd: str | Path,
        environment: Mapping[str, str],
        files: Sequence[int],
        program: Path = COMMAND,
    ) -> None:
        """`files` are its standard input, output and error; they stay the caller's."""
        self.args = [str(program), *map(str, arguments)]
        self.returncode: int | None = None
        self.stdin: IO[str] | None = None
        self.stdout: IO[str] | None = None
        request = {"command": self.args, "cwd": str(cwd), "environment": dict(environment)}
        self._code, report = os.pipe()
        try:
            self.pid = _forker().start(json.dumps(request).encode(), [*files, report])
        finally:
            os.close(report)

    @classmethod
    def with_pipes(
        cls, arguments: Sequence[str | Path], cwd: str | Path, environment: Mapping[str, str], stderr: IO[str]
    ) -> Self:
        """One whose `stdin` and `stdout` are read and written by line."""
        (their_input, our_input), (our_output, their_output) = os.pipe(), os.pipe()
        try:
            process = cls(arguments, cwd, environment, [their_input, their_output, stderr.fileno()])
        finally:
            os.close(their_input)
            os.close(their_output)
        process.stdin = os.fdopen(our_input, "w", buffering=1)
        process.stdout = os.fdopen(our_output)
        return process

    def poll(self) -> int | None:
        """The exit code, None while it runs."""
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, once it has ended; minus the signal that ended it. Raises TimeoutExpired."""
        if self.returncode is None:
            readable, _, _ = select.select([self._code], [], [], timeout)
            if not readable:
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            (self.returncode,) = array.array("i", os.read(self._code, _CODE_BYTES))
            os.close(self._code)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it may end meanwhile
                os.kill(self.pid, number)


def run(
    *arguments: str | Path, cwd: str | Path = ".", timeout: float = 100, program: Path = COMMAND, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Runs a command to its end, with no setting in the environment but those given. Raises TimeoutExpired."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("A2A_EVAL_PROXY_")}
    with (
        Path(os.devnull).open() as nothing,
        tempfile.TemporaryFile("w+", encoding="utf-8") as out,
        tempfile.TemporaryFile("w+", encoding="utf-8") as error,
    ):
        files = [file.fileno() for file in (nothing, out, error)]
        process = Forked(arguments, Path(cwd).absolute(), clean | environment, files, program)
        try:
            code = process.wait(timeout)
        except BaseException:
            process.send_signal(signal.SIGKILL)
            process.wait()
            raise
        out.seek(0)
        error.seek(0)
        return subprocess.CompletedProcess(process.args, code, out.read(), error.read())


class _Forker:
    """The process that forks, started on first use."""

    def __init__(self) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            command = [sys.executable, __file__, str(theirs.fileno())]
            self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
        self._control.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _REQUEST_BYTES)
        self._one_at_a_time = threading.Lock()
        atexit.register(self._end)

    def start(self, request: bytes, files: list[int]) -> int:
        """Process id of a new child. Raises RuntimeError where the process that forks has ended."""
        with self._one_at_a_time:
            socket.send_fds(self._control, [request], files)
            pid = self._control.recv(100)
        if not pid:
            raise RuntimeError("the process that forks has ended")
        return int(pid)

    def _end(self) -> None:
        self._control.close()
        self._process.wait()


@cache
def _forker() -> _Forker:
    return _Forker()


if __name__ == "__main__":
    import_everything()
    gc.freeze()
    fork_on_request(socket.socket(fileno=int(sys.argv[1])))
    from a2a_eval_proxy.cli import main

    try:
        if sys.argv[0] == str(PYTEST):
            sys.exit(pytest.console_main())
        elif sys.argv[0] == str(COMMAND):
            sys.exit(main())
        runpy.run_path(sys.argv[0], run_name="__main__")
        sys.exit()
    except SystemExit as end:
        _end(end.code)
