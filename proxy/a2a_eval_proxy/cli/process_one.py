"""Process 1 of a container, which inherits orphans."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def leave_process_one() -> None:
    """Continue in a child if this is process 1, as the command of a container is; else do nothing.

    The kernel gives processes that lose their parent to process 1, where they stay as zombies until it reaps them: here
    it does nothing else, passes SIGTERM and SIGINT on, and ends with the exit code of the child.
    """
    if os.getpid() != 1:
        return
    awaited = (*_SIGNALS, signal.SIGCHLD)
    signal.pthread_sigmask(signal.SIG_BLOCK, awaited)
    child = os.fork()
    if child == 0:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, awaited)
        return
    while True:
        got = signal.sigwaitinfo(awaited)
        if got.si_signo in _SIGNALS and got.si_code <= 0:  # Ctrl-C of a terminal reaches the child by itself
            os.kill(child, got.si_signo)
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] == child:
                    code = os.waitstatus_to_exitcode(ended[1])
                    sys.exit(code if code >= 0 else 128 - code)  # as a shell has it
