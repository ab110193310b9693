"""The parent of the main process and the serving processes: starts them, and starts serving processes again."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

from ..errors import ConfigError
from ..net.http_server import BACKLOG, address_of, bound
from ..settings import Settings

_PAUSE_S = 1.0
"""Least time between two starts of serving processes that ended unexpectedly."""

_END_S = 10.0
"""How long serving processes may outlive the main process."""


@dataclass(frozen=True, slots=True)
class Role:
    """What a child of the supervisor is to do."""

    is_main: bool
    settings: Settings
    """Those of the command, with the address that clients connect to."""
    listener: socket.socket
    """The Unix socket on which the main process accepts serving processes."""
    supervised: int
    """A descriptor that becomes readable when the supervisor ends."""
    push: socket.socket | None
    """The socket on which this serving process receives notifications; None in all others."""
    caller_key: bytes
    """The key under which all processes hash callers (`Callers`)."""


def fork_processes(settings: Settings) -> Role | int:
    """Start the processes. Returns its role in each of them; in the supervisor, at the end, the exit code.

    Every child is a fork of the supervisor, which has one thread and no event loop. Raises ListenError where `listen`,
    `grpc` or `push_listen` cannot be opened, ConfigError where the system cannot share them.
    """
    if not hasattr(os, "fork") or not hasattr(socket, "SO_REUSEPORT"):
        raise ConfigError("processes: this system runs the proxy in one process only; expected 1")
    # Kept, so that the ports stay ours while processes start again.
    reserved = [_reserved(address) for address in (settings.listen, settings.grpc) if address is not None]
    listen, *grpc = map(address_of, reserved)
    settings = replace(settings, listen=listen, grpc=grpc[0] if grpc else None)
    push = None
    if settings.push_mode == "relay":
        push = bound(settings.push_listen, shared=False)
        push.listen(BACKLOG)  # notifications wait here while the process that receives them starts again
    folder = Path(tempfile.mkdtemp(prefix="a2a-eval-proxy-"))  # for this user only
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(folder / "main"))
    listener.listen()
    supervised, _alive = os.pipe()
    result = _Supervisor(settings, listener, push, supervised, _alive).run()
    if isinstance(result, int):
        shutil.rmtree(folder, ignore_errors=True)
    return result


def _reserved(address: str) -> socket.socket:
    """A socket that keeps the port for processes that share it. Raises ListenError."""
    bound(address, shared=False).close()  # raises where somebody else has it, and would share it
    return bound(address, shared=True)


class _Supervisor:
    def __init__(
        self, settings: Settings, listener: socket.socket, push: socket.socket | None, supervised: int, alive: int
    ) -> None:
        self._settings = settings
        self._listener = listener
        self._push = push
        self._supervised = supervised
        self._alive = alive
        self._caller_key = secrets.token_bytes(32)
        self._main = 0
        self._serving: set[int] = set()
        self._receiver = 0
        """The process that receives notifications: one, so that they stay in order."""
        self._stopping = False

    def run(self) -> Role | int:
        """See `fork_processes`."""
        for is_main in (True, *[False] * self._settings.processes):
            if (role := self._fork(is_main=is_main)) is not None:
                return role
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        while True:
            pid, status = os.wait()
            if pid == self._main:
                self._end_all()
                code = os.waitstatus_to_exitcode(status)
                return code if code >= 0 else 128 - code
            self._serving.discard(pid)
            if not self._stopping:
                time.sleep(_PAUSE_S)
                if (role := self._fork(is_main=False)) is not None:
                    return role

    def _fork(self, *, is_main: bool) -> Role | None:
        """Returns the role in the child, None in the supervisor."""
        receives = not is_main and self._receiver not in self._serving
        pid = os.fork()
        if pid == 0:
            os.close(self._alive)
            if self._push is not None and not receives:
                self._push.close()
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, signal.SIG_DFL)
            push = self._push if receives else None
            return Role(is_main, self._settings, self._listener, self._supervised, push, self._caller_key)
        if is_main:
            self._main = pid
        else:
            self._serving.add(pid)
        if receives:
            self._receiver = pid
        return None

    def _stop(self, number: int, frame: object) -> None:
        """Have the main process stop; it stops the others."""
        self._stopping = True
        os.kill(self._main, signal.SIGTERM)

    def _end_all(self) -> None:
        """The main process has ended: so do the others."""
        for number, wait_s in ((signal.SIGTERM, _END_S), (signal.SIGKILL, _END_S)):
            for pid in self._serving:
                os.kill(pid, number)
            give_up_at = time.monotonic() + wait_s
            while self._serving and time.monotonic() < give_up_at:
                pid, _ = os.waitpid(-1, os.WNOHANG)
                self._serving.discard(pid)
                if pid == 0:
                    time.sleep(0.02)
