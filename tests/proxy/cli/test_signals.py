"""What stops a process."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

import pytest
from a2a_eval_proxy.signals import stop_signal
from support.patience import PATIENCE_S


async def test_a_signal_stops_the_process() -> None:
    stop = stop_signal()
    assert not stop.is_set()
    os.kill(os.getpid(), signal.SIGTERM)
    async with asyncio.timeout(PATIENCE_S):
        await stop.wait()


async def test_a_loop_without_handlers_of_signals_runs_without_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Windows."""

    def refuse(*_: Any) -> None:
        raise NotImplementedError

    monkeypatch.setattr(asyncio.get_running_loop(), "add_signal_handler", refuse)
    assert not stop_signal().is_set()
