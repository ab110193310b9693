"""The line protocol of the Python drivers: one JSON job in, one JSON answer out."""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import httpx

URI = "https://arksim.arklex.ai/a2a/tool-call-capture/v1"
TIMEOUT_S = 60.0
TLS = ssl.create_default_context()
"""Of all HTTP clients: one of its own for each would take 20 ms."""

Job = dict[str, Any]


class Answer:
    """What the client saw so far; kept when an error ends the action."""

    def __init__(self) -> None:
        self.card: Any = None
        self.events: list[Any] = []
        self.error: str | None = None

    def to_line(self) -> str:
        return json.dumps({"card": self.card, "events": self.events, "error": self.error})


Perform = Callable[[Job, httpx.AsyncClient, Answer], Awaitable[None]]


async def _answer(job: Job, perform: Perform) -> Answer:
    answer = Answer()
    # trust_env=False: a proxy named in the environment must not come between client and loopback.
    async with httpx.AsyncClient(timeout=TIMEOUT_S, verify=TLS, trust_env=False, headers=job.get("headers")) as http:
        try:
            await perform(job, http, answer)
        except Exception as error:
            answer.error = type(error).__name__
            print(f"{job['action']}: {error!r}", file=sys.stderr)
    return answer


def serve(perform: Perform) -> None:
    """Answers jobs until stdin ends."""
    for line in sys.stdin:
        print(asyncio.run(_answer(json.loads(line), perform)).to_line(), flush=True)


async def open_gate(job: Job, subscribed: str = "") -> None:
    """Lets a waiting scenario continue, once the agent has seen a subscription to that task."""
    query = {"gate": job["gate"]} | ({"subscribed": subscribed} if subscribed else {})
    async with httpx.AsyncClient(timeout=TIMEOUT_S, verify=TLS, trust_env=False) as http:
        (await http.post(f"{job['control']}/_control/open", params=query)).raise_for_status()
