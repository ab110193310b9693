"""Signals that stop a process."""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress


def stop_signal() -> asyncio.Event:
    """What SIGTERM and SIGINT set from now on, on the running event loop.

    On Windows, whose loops have no such handlers, Ctrl-C cancels what awaits it.
    """
    stop = asyncio.Event()
    with suppress(NotImplementedError):
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop
