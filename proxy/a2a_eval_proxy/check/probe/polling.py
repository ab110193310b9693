"""Waits for the end of a task."""

from __future__ import annotations

import asyncio
from math import ceil

from . import requests
from .client import ProbeClient
from .record import ProbeExchange
from .responses import settled

POLL_S = 0.25


async def finished(client: ProbeClient, opening: ProbeExchange, task_id: str) -> ProbeExchange:
    """Returns `opening`, or the first later read of its task that shows a settled state, or the last in time."""
    done = opening
    for _ in range(ceil(client.timeout_s / POLL_S)):
        if done.problem or settled(done):
            break
        await asyncio.sleep(POLL_S)
        done = await client.exchange(requests.get(opening.request.interface, task_id, opening.activation))
    return done
