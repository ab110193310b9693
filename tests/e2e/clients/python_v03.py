"""Driver: the Python a2a-sdk 0.3 client, in its own environment. Protocol in README.md."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterable
from typing import Any

from a2a.client import A2ACardResolver, Client, ClientConfig, ClientFactory
from a2a.types import Message, Part, Role, TaskIdParams, TaskQueryParams, TaskState, TextPart
from e2e.clients.lines import URI, Session, serve


class SessionV03(Session):
    terminal = (TaskState.completed, TaskState.failed, TaskState.canceled)
    working = TaskState.working

    async def connect(self) -> None:
        self._card = await A2ACardResolver(self.http, self.job["base"]).get_agent_card()
        self.card = self.plain(self._card)
        self._asking: dict[str, Any] = {"extensions": [URI] if self.job["ask"] == "header" else None}

    def _client(self, *, streaming: bool = True, polling: bool = False) -> Client:
        config = ClientConfig(
            httpx_client=self.http,
            grpc_channel_factory=self.channel,
            streaming=streaming,
            polling=polling,
            supported_transports=[self.job["binding"]],
            use_client_preference=True,
        )
        return ClientFactory(config).create(self._card)

    def plain(self, seen: Any) -> Any:
        if isinstance(seen, tuple):
            return [self.plain(one) for one in seen]
        return None if seen is None else seen.model_dump(mode="json", by_alias=True, exclude_none=True)

    def say(self, text: str, *, streaming: bool = True, polling: bool = False, **ids: str) -> AsyncIterable[Any]:
        message = Message(message_id=str(uuid.uuid4()), role=Role.user, parts=[Part(root=TextPart(text=text))], **ids)
        return self._client(streaming=streaming, polling=polling).send_message(message, **self._asking)

    async def started(self) -> str:
        (task,) = [task async for task, _ in self.say(self.job["text"], streaming=False, polling=True)]
        return str(task.id)

    async def task(self, task_id: str) -> Any:
        return await self._client().get_task(TaskQueryParams(id=task_id), **self._asking)

    def subscription(self, task_id: str) -> AsyncIterable[Any]:
        return self._client().resubscribe(TaskIdParams(id=task_id), **self._asking)

    async def resume(self) -> None:
        task, _ = await self.stream()
        await self.see_all(self.say(self.job["reply"], task_id=task.id, context_id=task.context_id))

    async def cancel(self) -> None:
        self.see(await self._client().cancel_task(TaskIdParams(id=await self.start()), **self._asking))

    async def extended_card(self) -> None:
        self.see(await self._client().get_card(**self._asking))


if __name__ == "__main__":
    serve(SessionV03)
