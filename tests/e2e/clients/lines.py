"""The line protocol of the Python drivers, one JSON job in, one JSON answer out; and what both do alike in a job."""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
from collections.abc import AsyncIterable
from typing import Any

import grpc.aio
import httpx

URI = "https://arksim.arklex.ai/a2a/tool-call-capture/v1"
TIMEOUT_S = 60.0
TLS = ssl.create_default_context()
"""Of all HTTP clients: one of its own for each would take 20 ms."""

Job = dict[str, Any]


class Session:
    """One job, by a client of some version of the SDK. What the client hands out shows what it understood.

    A driver adds what differs: `connect` reads the card; `plain` makes JSON of what is seen; `say` sends a message, and
    `started` one that is not waited for, of which it returns the id of the task; `task` gets a task, `subscription` its
    events; `terminal` and `working` are states; and further actions.
    """

    def __init__(self, job: Job, http: httpx.AsyncClient) -> None:
        self.job = job
        self.http = http
        self.card: Any = None
        self.events: list[Any] = []
        """Kept when an error ends the action."""
        self._channels: dict[str, grpc.aio.Channel] = {}

    async def perform(self) -> str | None:
        """Do what the job says. Returns the class of the error that ended it, if one did."""
        try:
            await self.connect()
            await getattr(self, self.job["action"].replace("-", "_"))()
        except Exception as error:
            print(f"{self.job['action']}: {error!r}", file=sys.stderr)
            return type(error).__name__
        finally:
            for channel in self._channels.values():
                await channel.close()
        return None

    def channel(self, address: str) -> grpc.aio.Channel:
        """The channel to HOST:PORT, for the length of the job."""
        if address not in self._channels:
            self._channels[address] = grpc.aio.insecure_channel(address)
        return self._channels[address]

    def see(self, seen: Any) -> Any:
        """Keep it for the answer."""
        self.events.append(self.plain(seen))
        return seen

    async def see_all(self, events: AsyncIterable[Any]) -> Any:
        """Keep all; returns the last one."""
        last = None
        async for event in events:
            last = self.see(event)
        return last

    async def send(self) -> Any:
        return await self.see_all(self.say(self.job["text"], streaming=False))

    async def stream(self) -> Any:
        return await self.see_all(self.say(self.job["text"]))

    async def poll(self) -> None:
        task_id = await self.start()
        await self._open_gate()
        self.see(await self._until(task_id, self.terminal))

    async def subscribe(self) -> None:
        task_id = await self.start()
        opening = asyncio.create_task(self._open_gate(subscribed=task_id))
        await self.see_all(self.subscription(task_id))
        await opening

    async def start(self) -> str:
        """Send without waiting for the end; returns the id of the task once it works."""
        task_id = await self.started()
        await self._until(task_id, (self.working,))
        return task_id

    async def _until(self, task_id: str, states: tuple[Any, ...]) -> Any:
        while (task := await self.task(task_id)).status.state not in states:
            await asyncio.sleep(0.02)
        return task

    async def _open_gate(self, subscribed: str = "") -> None:
        """Let a waiting scenario continue, once the agent has seen a subscription to that task."""
        query = {"gate": self.job["gate"]} | ({"subscribed": subscribed} if subscribed else {})
        async with httpx.AsyncClient(timeout=TIMEOUT_S, verify=TLS, trust_env=False) as http:
            (await http.post(f"{self.job['control']}/_control/open", params=query)).raise_for_status()


async def _answer(job: Job, session_of: type[Session]) -> dict[str, Any]:
    # trust_env=False: a proxy named in the environment must not come between client and loopback.
    async with httpx.AsyncClient(timeout=TIMEOUT_S, verify=TLS, trust_env=False) as http:
        session = session_of(job, http)
        error = await session.perform()
    return {"card": session.card, "events": session.events, "error": error}


def serve(session_of: type[Session]) -> None:
    """Answers jobs until stdin ends."""
    for line in sys.stdin:
        print(json.dumps(asyncio.run(_answer(json.loads(line), session_of))), flush=True)
