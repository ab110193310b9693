"""The command line: a group of commands, one module for each or for a few; the exit codes are those of `errors`.

`command` makes a command from a function and a dataclass of options. Heavy imports happen inside the functions, so
that `--help` and errors are quick. This module imports the commands only after it has said what a signal does.
"""

from __future__ import annotations

import os
import signal
import sys


def main() -> None:
    """Entry point: every failure is one sentence on stderr and an exit code."""
    interruptible = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # else ignored, as by nohup
    if interruptible:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C while modules are imported: no traceback
    _fill_closed_streams()
    from .group import run_command
    from .output import guarded_output

    try:
        with guarded_output():
            if interruptible:
                signal.signal(signal.SIGINT, signal.default_int_handler)
            run_command()
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    finally:
        if interruptible:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # likewise while the interpreter ends


_INTERRUPTED = 130
"""The exit code after Ctrl-C, as a shell has it: 128 and the number of the signal."""


def _fill_closed_streams() -> None:
    """Occupy standard streams that the caller closed (`>&-`), which the next file or socket would take otherwise.

    Writing to a closed output fails, as it does for other commands; what would go to a closed stderr is nobody's.
    """
    for descriptor, mode in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, mode)  # gets the lowest free number, which is this one
    sys.stdin = sys.stdin or os.fdopen(0, closefd=False)
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)
