"""Driver: the Python a2a-sdk 1.x client. Protocol in README.md."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterable
from typing import Any

from a2a.client import A2ACardResolver, Client, ClientCallContext, ClientConfig, ClientFactory
from a2a.types import (
    CancelTaskRequest,
    GetExtendedAgentCardRequest,
    GetTaskRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    SubscribeToTaskRequest,
    TaskState,
)
from e2e.clients.lines import URI, Session, serve
from google.protobuf.json_format import MessageToDict


class SessionV1(Session):
    terminal = (TaskState.TASK_STATE_COMPLETED, TaskState.TASK_STATE_FAILED, TaskState.TASK_STATE_CANCELED)
    working = TaskState.TASK_STATE_WORKING

    async def connect(self) -> None:
        """Of the card, the interfaces of the job's protocol version are used alone."""
        self._card = await A2ACardResolver(self.http, self.job["base"]).get_agent_card()
        self.card = self.plain(self._card)
        interfaces = [*self._card.supported_interfaces]
        del self._card.supported_interfaces[:]
        self._card.supported_interfaces.extend(
            interface for interface in interfaces if interface.protocol_version.startswith(self.job["version"])
        )
        parameters = {"A2A-Extensions": URI} if self.job["ask"] == "header" else None
        self._asking: dict[str, Any] = {"context": ClientCallContext(service_parameters=parameters)}

    def _client(self, *, streaming: bool = True, polling: bool = False) -> Client:
        config = ClientConfig(
            httpx_client=self.http,
            grpc_channel_factory=self.channel,
            streaming=streaming,
            polling=polling,
            supported_protocol_bindings=[self.job["binding"]],
            use_client_preference=True,
        )
        return ClientFactory(config).create(self._card)

    def plain(self, seen: Any) -> Any:
        return MessageToDict(seen)

    def say(self, text: str, *, streaming: bool = True, polling: bool = False, **ids: str) -> AsyncIterable[Any]:
        extensions = [URI] if self.job["ask"] == "message" else []
        message = Message(
            message_id=str(uuid.uuid4()), role=Role.ROLE_USER, parts=[Part(text=text)], extensions=extensions, **ids
        )
        client = self._client(streaming=streaming, polling=polling)
        return client.send_message(SendMessageRequest(message=message), **self._asking)

    async def started(self) -> str:
        (event,) = [event async for event in self.say(self.job["text"], streaming=False, polling=True)]
        return str(event.task.id)

    async def task(self, task_id: str) -> Any:
        return await self._client().get_task(GetTaskRequest(id=task_id), **self._asking)

    def subscription(self, task_id: str) -> AsyncIterable[Any]:
        return self._client().subscribe(SubscribeToTaskRequest(id=task_id), **self._asking)

    async def resume(self) -> None:
        last = (await self.stream()).status_update
        await self.see_all(self.say(self.job["reply"], task_id=last.task_id, context_id=last.context_id))

    async def cancel(self) -> None:
        self.see(await self._client().cancel_task(CancelTaskRequest(id=await self.start()), **self._asking))

    async def extended_card(self) -> None:
        self.see(await self._client().get_extended_agent_card(GetExtendedAgentCardRequest(), **self._asking))

    async def list(self) -> None:
        context_id = (await self.send()).task.context_id
        for include in (False, True):
            request = ListTasksRequest(context_id=context_id, include_artifacts=include)
            self.see(await self._client().list_tasks(request, **self._asking))


if __name__ == "__main__":
    serve(SessionV1)
