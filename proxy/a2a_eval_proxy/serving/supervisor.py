"""The parent of the main process and the serving processes: starts them, and starts serving processes again."""

from __future__ import annotations

import logging
import os
import secrets
import signal
import socket
import time
from contextlib import suppress
from dataclasses import dataclass, replace

from ..children import ended_children, exit_code
from ..errors import ConfigError
from ..net.http_server import BACKLOG, address_of, bound
from ..settings import Settings

logger = logging.getLogger(__name__)

_PAUSE_S = 1
"""Time before an ended serving process is replaced, and between attempts to start one."""

_END_S = 10.0
"""How long serving processes may outlive the main process."""

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD, signal.SIGALRM)
"""Blocked in the supervisor, which waits for them: none interrupts it, none is missed."""


@dataclass(frozen=True, slots=True)
class Role:
    """What a child of the supervisor is to do."""

    is_main: bool
    settings: Settings
    """Those of the command, with the address that clients connect to."""
    link: socket.socket
    """In a serving process: its link to the main process. In the main process: where it receives the other ends."""
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
    return _Supervisor(settings, push).run()


def _reserved(address: str) -> socket.socket:
    """A socket that keeps the port for processes that share it. Raises ListenError."""
    bound(address, shared=False).close()  # raises where somebody else has it, and would share it
    return bound(address, shared=True)


class _Supervisor:
    def __init__(self, settings: Settings, push: socket.socket | None) -> None:
        self._settings = settings
        self._push = push
        self._signals = _SIGNALS if settings.upstream else (*_SIGNALS, signal.SIGHUP)
        self._supervised, self._alive = os.pipe()
        self._links, self._links_of_main = socket.socketpair()
        self._links.setblocking(False)  # a main process that does not read cannot hold up the supervisor
        self._caller_key = secrets.token_bytes(32)
        self._main = 0
        self._serving: set[int] = set()
        self._receiver = 0
        """The process that receives notifications: one, so that they stay in order."""

    def run(self) -> Role | int:
        """See `fork_processes`."""
        signal.signal(signal.SIGCHLD, lambda *_: None)  # a signal that is ignored need not become pending
        signal.pthread_sigmask(signal.SIG_BLOCK, self._signals)
        stopping = False
        if (role := self._fork_main() or self._fork_serving()) is not None:
            return role
        while True:
            if len(self._serving) < self._settings.processes and not any(signal.getitimer(signal.ITIMER_REAL)):
                signal.alarm(_PAUSE_S)
            number = signal.sigwait(self._signals)
            if number in (signal.SIGTERM, signal.SIGINT):
                stopping = True
                os.kill(self._main, signal.SIGTERM)  # it stops the others
            elif number == signal.SIGHUP:
                os.kill(self._main, signal.SIGHUP)  # it reads the files of the agents
            elif number == signal.SIGALRM and not stopping and (role := self._fork_serving()) is not None:
                return role
            elif (code := self._reap()) is not None:
                self._end_all()
                return code

    def _fork_main(self) -> Role | None:
        """Returns the role in the child, None in the supervisor. Raises ConfigError."""
        try:
            self._main = os.fork()
        except OSError as error:
            raise ConfigError(f"processes: the main process cannot be started: {error.strerror}") from error
        if self._main == 0:
            return self._role(self._links_of_main, is_main=True)
        self._links_of_main.close()
        return None

    def _fork_serving(self) -> Role | None:
        """Fork the serving processes that are missing. Returns the role in each of them, None in the supervisor."""
        while len(self._serving) < self._settings.processes:
            receives = self._receiver not in self._serving
            here, there = socket.socketpair()
            with here, there:
                try:
                    pid = os.fork()
                except OSError as error:
                    logger.error("a serving process cannot be started: %s; trying again", error.strerror)
                    return None
                if pid == 0:
                    return self._role(there.dup(), receives=receives)
                with suppress(OSError):  # the main process ends; so does this process, whose connection is closed
                    socket.send_fds(self._links, [b"\0"], [here.fileno()])
            self._serving.add(pid)
            if receives:
                self._receiver = pid
        return None

    def _role(self, link: socket.socket, *, is_main: bool = False, receives: bool = False) -> Role:
        """In a child: give back what is the supervisor's."""
        os.close(self._alive)
        self._links.close()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        if signal.SIGHUP in self._signals:
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, self._signals)
        if self._push is not None and not receives:
            self._push.close()
        push = self._push if receives else None
        return Role(is_main, self._settings, link, self._supervised, push, self._caller_key)

    def _reap(self) -> int | None:
        """Returns the exit code of the main process once it has ended.

        Children may be others than ours: those of whatever was this process before it became the supervisor, and as
        process 1 all that lost their parent.
        """
        code = None
        for pid, status in ended_children():
            self._serving.discard(pid)
            if pid == self._main:
                code = exit_code(status)
        return code

    def _end_all(self) -> None:
        """The main process has ended: so do the others."""
        for number, wait_s in ((signal.SIGTERM, _END_S), (signal.SIGKILL, _END_S)):
            for pid in self._serving:
                os.kill(pid, number)
            give_up_at = time.monotonic() + wait_s
            while self._serving and time.monotonic() < give_up_at:
                self._reap()
                time.sleep(0.02)
