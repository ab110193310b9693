"""A client of a2a-sdk that writes down what it sees, and everything that a client may ask an agent."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable
from typing import Any

from a2a.client.client import ClientCallContext
from a2a.client.errors import A2AClientError
from a2a.client.transports.base import ClientTransport
from a2a.types import (
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    SubscribeToTaskRequest,
    TaskPushNotificationConfig,
)
from a2a.utils.errors import A2AError
from google.protobuf.json_format import MessageToJson
from google.protobuf.message import Message as ProtobufMessage
from support.recordings import TIME, UUID


class WritingClient:
    """A client of a2a-sdk that writes down what it sees, with ids numbered in the order they appear."""

    def __init__(self, transport: ClientTransport) -> None:
        self.transport = transport
        self.seen: list[str] = []
        self._ids: dict[str, str] = {}

    async def did(self, answer: Awaitable[Any] | AsyncIterator[Any]) -> Any:
        """The last thing that the agent sent in answer."""
        last = None
        try:
            if isinstance(answer, AsyncIterator):
                async for last in answer:
                    self._note(last)
            else:
                last = await answer
                self._note(last)
        except (A2AError, A2AClientError, NotImplementedError) as error:
            self._note(f"{type(error).__name__}: {error} {getattr(error, 'data', None)}")
        return last

    def _note(self, seen: Any) -> None:
        text = (
            f"{type(seen).__name__} {MessageToJson(seen, sort_keys=True)}"
            if isinstance(seen, ProtobufMessage)
            else str(seen)
        )
        text = UUID.sub(lambda found: self._ids.setdefault(found[0], f"id{len(self._ids)}"), text)
        self.seen.append(TIME.sub("TIME", text))

    async def send(self, text: str, context: ClientCallContext | None = None, **fields: Any) -> Any:
        return await self.did(self.transport.send_message(request(text, **fields), context=context))

    def stream(self, text: str, context: ClientCallContext | None = None) -> AsyncIterator[Any]:
        return self.transport.send_message_streaming(request(text), context=context)


def request(text: str, *, webhook: str = "", wait: bool = True, **fields: Any) -> SendMessageRequest:
    configuration = SendMessageConfiguration(return_immediately=not wait)
    if webhook:
        configuration.task_push_notification_config.CopyFrom(TaskPushNotificationConfig(url=webhook))
    message = Message(message_id=str(uuid.uuid4()), role=Role.ROLE_USER, parts=[Part(text=text)], **fields)
    return SendMessageRequest(message=message, configuration=configuration)


async def everything(
    transport: ClientTransport, control: Any, context: ClientCallContext | None, *, lists: bool = True
) -> list[str]:
    """What a client sees of an agent that it asks for everything. `lists`: also for a list of its tasks."""
    client, gate = WritingClient(transport), str(uuid.uuid4())
    task_id = (await client.send("artifact hi", context)).task.id
    for text in ("chunks hi", "message hi", "fail hi", "ask hi"):
        await client.did(client.stream(text, context))
    await client.did(transport.get_task(GetTaskRequest(id=task_id, history_length=5), context=context))
    await client.did(transport.get_task(GetTaskRequest(id="no such task"), context=context))
    await client.did(transport.cancel_task(CancelTaskRequest(id=task_id), context=context))
    if lists:
        of_task = ListTasksRequest(context_id=(await task_of(client, task_id)).context_id, include_artifacts=True)
        await client.did(transport.list_tasks(of_task, context=context))
    running = (await client.send(f"long {gate}", context, wait=False)).task.id
    following = asyncio.create_task(
        client.did(transport.subscribe(SubscribeToTaskRequest(id=running), context=context))
    )
    await control.open(gate, running)
    await following
    await client.did(transport.subscribe(SubscribeToTaskRequest(id=running), context=context))
    stuck = (await client.send(f"long {uuid.uuid4()}", context, wait=False)).task.id
    await client.did(transport.cancel_task(CancelTaskRequest(id=stuck), context=context))
    config = TaskPushNotificationConfig(id="c1", task_id=task_id, url="http://127.0.0.1:9/push", token="t")
    named = {"id": "c1", "task_id": task_id}
    await client.did(transport.create_task_push_notification_config(config, context=context))
    await client.did(
        transport.get_task_push_notification_config(GetTaskPushNotificationConfigRequest(**named), context=context)
    )
    await client.did(
        transport.list_task_push_notification_configs(
            ListTaskPushNotificationConfigsRequest(task_id=task_id), context=context
        )
    )
    await client.did(
        transport.delete_task_push_notification_config(
            DeleteTaskPushNotificationConfigRequest(**named), context=context
        )
    )
    await transport.close()
    return client.seen


async def task_of(client: WritingClient, task_id: str) -> Any:
    return await client.transport.get_task(GetTaskRequest(id=task_id))
