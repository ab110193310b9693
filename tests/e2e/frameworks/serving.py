"""Waits for agents that say nothing when they serve."""

from __future__ import annotations

import time

import httpx
from support.patience import PATIENCE_S
from support.processes import ChildProcess

START_S = 5 * PATIENCE_S
"""For the imports of a framework, some of which take a minute of a busy machine."""


def until_served(url: str, agent: ChildProcess) -> None:
    """Returns when the agent's card can be read. Raises AssertionError, with stderr, if the process ends before."""
    deadline = time.monotonic() + START_S
    while True:
        try:
            httpx.get(f"{url}/.well-known/agent-card.json", trust_env=False).raise_for_status()
        except httpx.HTTPError:
            assert agent.process.poll() is None, agent.stderr()
            assert time.monotonic() < deadline, agent.stderr()
            time.sleep(0.1)
        else:
            return
