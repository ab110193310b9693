"""Driver: the Python a2a-sdk 1.x client. Protocol in README.md."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import httpx
from a2a.client import A2ACardResolver, Client, ClientCallContext, ClientConfig, ClientFactory
from a2a.types import (
    AgentCard,
    CancelTaskRequest,
    GetExtendedAgentCardRequest,
    GetTaskRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    SubscribeToTaskRequest,
    Task,
    TaskState,
)
from e2e.clients.channels import Channels, described
from e2e.clients.lines import URI, Answer, Job, open_gate, serve
from google.protobuf.json_format import MessageToDict

TERMINAL = {TaskState.TASK_STATE_COMPLETED, TaskState.TASK_STATE_FAILED, TaskState.TASK_STATE_CANCELED}


async def perform(job: Job, http: httpx.AsyncClient, answer: Answer) -> None:
    card = await A2ACardResolver(http, job["base"]).get_agent_card()
    answer.card = MessageToDict(card)
    async with Channels() as channels:
        await _Session(job, http, channels, card, answer).run()


class _Session:
    def __init__(self, job: Job, http: httpx.AsyncClient, channels: Channels, card: AgentCard, answer: Answer) -> None:
        self._job = job
        self._channels = channels
        self._answer = answer
        self._http = http
        self._card = _only(card, job.get("version", "1.0"))
        parameters = {"A2A-Extensions": URI} if job["ask"] == "header" else None
        self._context = ClientCallContext(service_parameters=parameters)

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
            self._see(await self._client().cancel_task(CancelTaskRequest(id=task.id), context=self._context))
        elif action == "list":
            await self._list()
        elif action == "refusals":
            await self._refusals()
        elif action == "extended-card":
            request = GetExtendedAgentCardRequest()
            self._see(await self._client().get_extended_agent_card(request, context=self._context))

    def _client(self, *, streaming: bool = True, polling: bool = False) -> Client:
        config = ClientConfig(
            httpx_client=self._http,
            grpc_channel_factory=self._channels.to,
            streaming=streaming,
            polling=polling,
            supported_protocol_bindings=[self._job["binding"]],
            use_client_preference=True,
        )
        return ClientFactory(config).create(self._card)

    def _see(self, seen: Any) -> None:
        self._answer.events.append(MessageToDict(seen))

    def _message(self, text: str, task_id: str = "") -> Message:
        return Message(
            message_id=str(uuid.uuid4()),
            task_id=task_id,
            role=Role.ROLE_USER,
            parts=[Part(text=text)],
            extensions=[URI] if self._job["ask"] == "message" else [],
        )

    async def _send(self, message: Message, *, streaming: bool = True) -> Any:
        last = None
        request = SendMessageRequest(message=message)
        async for event in self._client(streaming=streaming).send_message(request, context=self._context):
            self._see(event)
            last = event
        return last

    async def _resume(self) -> None:
        last = await self._send(self._message(self._job["text"]))
        message = self._message(self._job["reply"])
        message.task_id = last.status_update.task_id
        message.context_id = last.status_update.context_id
        await self._send(message)

    async def _start(self) -> Task:
        """Sends without waiting for the end; returns the task once it works."""
        request = SendMessageRequest(message=self._message(self._job["text"]))
        client = self._client(streaming=False, polling=True)
        started = [event.task async for event in client.send_message(request, context=self._context)]
        return await self._get_until(started[0].id, {TaskState.TASK_STATE_WORKING})

    async def _get_until(self, task_id: str, states: set[int]) -> Task:
        client = self._client()
        while True:
            task = await client.get_task(GetTaskRequest(id=task_id), context=self._context)
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
        request = SubscribeToTaskRequest(id=task.id)
        async for event in self._client().subscribe(request, context=self._context):
            self._see(event)
        await opening

    async def _refusals(self) -> None:
        """Asks for what the agent refuses: an unknown task, a message to it, and to cancel a task that has ended."""
        client, unknown = self._client(), str(uuid.uuid4())
        task = (await self._send(self._message(self._job["text"]), streaming=False)).task
        for refused in (
            client.get_task(GetTaskRequest(id=unknown), context=self._context),
            self._send(self._message(self._job["text"], task_id=unknown)),
            client.cancel_task(CancelTaskRequest(id=task.id), context=self._context),
        ):
            try:
                self._see(await refused)
            except Exception as error:
                self._answer.events.append(described(error))

    async def _list(self) -> None:
        await self._send(self._message(self._job["text"]), streaming=False)
        context_id = self._answer.events[0]["task"]["contextId"]
        for include in (False, True):
            request = ListTasksRequest(context_id=context_id, include_artifacts=include)
            self._see(await self._client().list_tasks(request, context=self._context))


def _only(card: AgentCard, version: str) -> AgentCard:
    """The card with the interfaces of that protocol version alone."""
    chosen = AgentCard()
    chosen.CopyFrom(card)
    del chosen.supported_interfaces[:]
    chosen.supported_interfaces.extend(
        interface for interface in card.supported_interfaces if interface.protocol_version.startswith(version)
    )
    return chosen


if __name__ == "__main__":
    serve(perform)
