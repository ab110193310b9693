"""Driver: the Python a2a-sdk 0.3 client, in its own environment. Protocol in README.md."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import httpx
from a2a.client import A2ACardResolver, Client, ClientConfig, ClientFactory
from a2a.types import Message, Part, Role, Task, TaskIdParams, TaskQueryParams, TaskState, TextPart
from e2e.clients.channels import Channels, described
from e2e.clients.lines import URI, Answer, Job, open_gate, serve

TERMINAL = {TaskState.completed, TaskState.failed, TaskState.canceled}


async def perform(job: Job, http: httpx.AsyncClient, answer: Answer) -> None:
    card = await A2ACardResolver(http, job["base"]).get_agent_card()
    answer.card = _plain(card)
    async with Channels() as channels:
        await _Session(job, http, channels, card, answer).run()


class _Session:
    def __init__(self, job: Job, http: httpx.AsyncClient, channels: Channels, card: Any, answer: Answer) -> None:
        self._job = job
        self._channels = channels
        self._answer = answer
        self._http = http
        self._card = card
        self._extensions = [URI] if job["ask"] == "header" else None

    async def run(self) -> None:
        action = self._job["action"]
        if action == "send":
            await self._send(self._message(self._job["text"]), streaming=False)
        elif action == "stream":
            await self._send(self._message(self._job["text"]))
        elif action == "resume":
            await self._resume()
        elif action == "poll":
            await self._poll()
        elif action == "subscribe":
            await self._subscribe()
        elif action == "cancel":
            task = await self._start()
            self._see(await self._client().cancel_task(TaskIdParams(id=task.id), extensions=self._extensions))
        elif action == "refusals":
            await self._refusals()
        elif action == "extended-card":
            self._see(await self._client().get_card(extensions=self._extensions))

    def _client(self, *, streaming: bool = True, polling: bool = False) -> Client:
        config = ClientConfig(
            httpx_client=self._http,
            grpc_channel_factory=self._channels.to,
            streaming=streaming,
            polling=polling,
            supported_transports=[self._job["binding"]],
            use_client_preference=True,
        )
        return ClientFactory(config).create(self._card)

    def _see(self, seen: Any) -> None:
        self._answer.events.append(_plain(seen))

    def _message(self, text: str, **ids: str) -> Message:
        return Message(
            message_id=str(uuid.uuid4()),
            role=Role.user,
            parts=[Part(root=TextPart(text=text))],
            extensions=[URI] if self._job["ask"] == "message" else None,
            **ids,
        )

    async def _send(self, message: Message, *, streaming: bool = True) -> Any:
        """The client folds updates into the task itself: what it hands out shows what it understood."""
        last = None
        async for event in self._client(streaming=streaming).send_message(message, extensions=self._extensions):
            self._see(event)
            last = event
        return last

    async def _resume(self) -> None:
        task, _ = await self._send(self._message(self._job["text"]))
        await self._send(self._message(self._job["reply"], task_id=task.id, context_id=task.context_id))

    async def _start(self) -> Task:
        """Sends without waiting for the end; returns the task once it works."""
        client = self._client(streaming=False, polling=True)
        message = self._message(self._job["text"])
        started = [task async for task, _ in client.send_message(message, extensions=self._extensions)]
        return await self._get_until(started[0].id, {TaskState.working})

    async def _get_until(self, task_id: str, states: set[TaskState]) -> Task:
        client = self._client()
        while True:
            task = await client.get_task(TaskQueryParams(id=task_id), extensions=self._extensions)
            if task.status.state in states:
                return task
            await asyncio.sleep(0.02)

    async def _poll(self) -> None:
        task = await self._start()
        await open_gate(self._job)
        self._see(await self._get_until(task.id, TERMINAL))

    async def _subscribe(self) -> None:
        task = await self._start()
        opening = asyncio.create_task(open_gate(self._job, subscribed=task.id))
        async for event in self._client().resubscribe(TaskIdParams(id=task.id), extensions=self._extensions):
            self._see(event)
        await opening

    async def _refusals(self) -> None:
        """Asks for what the agent refuses: an unknown task, a message to it, and to cancel a task that has ended."""
        client, unknown = self._client(), str(uuid.uuid4())
        task = (await self._send(self._message(self._job["text"]), streaming=False))[0]
        for refused in (
            client.get_task(TaskQueryParams(id=unknown), extensions=self._extensions),
            self._send(self._message(self._job["text"], task_id=unknown)),
            client.cancel_task(TaskIdParams(id=task.id), extensions=self._extensions),
        ):
            try:
                self._see(await refused)
            except Exception as error:
                self._answer.events.append(described(error))


def _plain(seen: Any) -> Any:
    if isinstance(seen, tuple):
        return [_plain(one) for one in seen]
    return None if seen is None else seen.model_dump(mode="json", by_alias=True, exclude_none=True)


if __name__ == "__main__":
    serve(perform)
