"""Clients that carry out planned conversations: those of a2a-sdk, one request at a time at any of the proxies."""

from __future__ import annotations

import asyncio
import json
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any

import grpc.aio
import httpx
from a2a.client.client import ClientCallContext
from a2a.client.transports.base import ClientTransport
from a2a.client.transports.grpc import GrpcTransport
from a2a.client.transports.jsonrpc import JsonRpcTransport
from a2a.client.transports.rest import RestTransport
from a2a.types import (
    GetTaskRequest,
    Message,
    Part,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    StreamResponse,
    SubscribeToTaskRequest,
    Task,
    TaskPushNotificationConfig,
)
from a2a.utils.errors import UnsupportedOperationError
from support.patience import PATIENCE_S

from .plan import Binding, Conversation, Ids, Manner, Turn, Webhook

SHOWN_WITHIN_S = 90.0
"""How long a client waits for the end of its message: the agent needs two seconds at most."""

_CONTEXT = ClientCallContext(service_parameters={"A2A-Version": "1.0"}, timeout=PATIENCE_S)


@dataclass(frozen=True)
class Entrance:
    """Where clients reach one proxy; the URLs without a path are those of JSON-RPC and of HTTP+JSON."""

    rpc_url: str
    rest_url: str
    grpc_address: str


@dataclass
class Record:
    """What a client did and was shown. Times on the clock of `time.monotonic`."""

    turn: Turn
    began: float
    sent: float = 0.0
    """When the exchange that sent the message was over: answered, read to its end, left, or broken."""
    ended: float = 0.0
    """When the client was shown the end."""
    entered: int = -1
    """The proxy that the message was sent to."""
    task_id: str = ""
    context_id: str = ""
    refusal: str = ""
    """The error in the place of an answer; "" where the client was shown the end."""
    log: list[str] = field(default_factory=list)
    """Each request, with the time since `began`."""

    def note(self, what: str) -> None:
        self.log.append(f"{time.monotonic() - self.began:6.3f} s  {what}")


class Hooks:
    """The clients' webhooks: which turns have been shown to have ended."""

    def __init__(self) -> None:
        self.url = ""
        self._ended: defaultdict[int, asyncio.Event] = defaultdict(asyncio.Event)

    def take(self, body: bytes) -> None:
        """One notification: a StreamResponse."""
        event = json.loads(body)
        status = (event.get("statusUpdate") or event.get("task") or {}).get("status", {})
        words = " ".join(part.get("text", "") for part in status.get("message", {}).get("parts", ()))
        if words.startswith("end "):
            self._ended[int(words.removeprefix("end "))].set()

    async def until_ended(self, turn: int) -> None:
        await self._ended[turn].wait()


class Agent:
    """The agent asked directly, past the proxies."""

    def __init__(self, url: str) -> None:
        self._http = httpx.AsyncClient(base_url=url, trust_env=False, timeout=PATIENCE_S)

    async def open_gate(self, turn: int) -> None:
        await self._get(f"/_oracle/open/{turn}")

    async def until_rests(self, task_id: str) -> None:
        """Returns once the agent takes the next message to this task."""
        await self._get(f"/_oracle/rests/{task_id}")

    async def task_of(self, turn: int) -> str | None:
        """The task of a turn, "" if it is answered with a Message; None where the agent does not get it any more."""
        for _ in range(20):
            if (task := (await self.log())["task_of"].get(str(turn))) is not None:
                return task
            await asyncio.sleep(0.05)
        return None

    async def log(self) -> dict[str, Any]:
        """`agent.Log` as JSON."""
        return await self._get("/_oracle/log")

    async def close(self) -> None:
        await self._http.aclose()

    async def _get(self, path: str) -> Any:
        return (await self._http.get(path)).raise_for_status().json()


@dataclass
class World:
    entrances: Callable[[], list[Entrance]]
    http: httpx.AsyncClient
    agent: Agent
    hooks: Hooks
    seed: int
    serving: asyncio.Event = field(default_factory=asyncio.Event)
    """Not set while a proxy is away: clients send nothing new then."""
    last_kill: float = -1.0
    """Of any proxy, on the clock of `time.monotonic`."""

    def __post_init__(self) -> None:
        self.serving.set()


async def converse(conversation: Conversation, world: World) -> AsyncIterator[Record]:
    """Every turn of the conversation that was sent, in order, when it is over. One whose client gets an error, or whose
    message a kill has kept from the agent, is the last."""
    context_id = f"context of {conversation.number}" if conversation.own_context else ""
    task_id = ""
    for turn in conversation.turns:
        await asyncio.sleep(turn.wait)
        await world.serving.wait()
        record = Record(turn, time.monotonic(), context_id=context_id, task_id=task_id if turn.continues else "")
        client = _Client(record, world)
        try:
            async with asyncio.timeout(SHOWN_WITHIN_S):
                arrived = await client.carry_out_through_kills()
        except TimeoutError:
            arrived = False
            record.refusal = f"not shown the end within {SHOWN_WITHIN_S:.0f} s"
        except Exception as error:
            arrived = False
            record.refusal = repr(error)[:500]
        record.ended = time.monotonic()
        record.sent = record.sent or record.ended
        if record.refusal:
            record.note(record.refusal)
        yield record
        if not arrived:
            return
        context_id, task_id = record.context_id or context_id, record.task_id
        if task_id:
            await world.agent.until_rests(task_id)


class _Client:
    """Carries out one turn."""

    def __init__(self, record: Record, world: World) -> None:
        self._record = record
        self._turn = record.turn
        self._world = world
        self._dice = Random(f"{world.seed}/{record.turn.number}/requests")
        self._registered = False

    async def carry_out_through_kills(self) -> bool:
        """Returns when the client was shown the end, or has lost it to a kill; whether the message has arrived."""
        try:
            await self.carry_out()
        except Exception as error:
            if not self._killed:
                raise
            self._record.note(f"a proxy was killed: {error!r}"[:200])
            self._over()
            return await self._recover()
        return True

    @property
    def _killed(self) -> bool:
        return self._world.last_kill >= self._record.began

    async def _recover(self) -> bool:
        """Continues by GetTask where a request was broken by a kill; whether the agent has the message."""
        task_id = await self._world.agent.task_of(self._turn.number)
        if task_id is None:
            return False
        await self._world.agent.open_gate(self._turn.number)
        if not task_id:  # answered with a Message, which nothing shows again
            return True
        self._record.task_id = task_id
        while True:
            try:
                await self._poll()
                return True
            except Exception as error:
                if not self._killed:
                    raise
                self._record.note(f"still away: {error!r}"[:200])
                await asyncio.sleep(0.2)

    def _over(self) -> None:
        """The exchange with the message is over."""
        self._record.sent = self._record.sent or time.monotonic()

    async def carry_out(self) -> None:
        """Returns when the client was shown the end."""
        begins, follows = _MANNERS[self._turn.manner]
        shown = await begins(self)
        if follows is not None and (not shown or self._turn.manner is Manner.NOTIFIED):
            await follows(self)
        elif not shown:
            raise ValueError("the answer is not the end of the turn")

    async def _send(self, *, blocking: bool) -> bool:
        """Whether the answer shows the end."""
        async with self._at(self._turn.send, "sends, waiting" if blocking else "sends, not waiting") as transport:
            answer = await transport.send_message(self._request(blocking=blocking), context=_CONTEXT)
        self._over()
        shown = self._shows_end(answer.task) if answer.HasField("task") else self._is_answer(answer.message)
        await self._register_late()
        return shown

    async def _stream(self, *, leaves: bool) -> bool:
        """Whether an event shows the end."""
        async with self._at(self._turn.send, "streams") as transport:
            stream = transport.send_message_streaming(self._request(blocking=True), context=_CONTEXT)
            shown = await self._read(stream, leave_after=self._turn.drop_after if leaves else 0)
        self._over()
        return shown

    async def _subscribe(self) -> None:
        """A subscription until the end; a task that ended meanwhile is asked for."""
        try:
            async with self._at(self._turn.read, "subscribes") as transport:
                request = SubscribeToTaskRequest(id=self._record.task_id)
                stream = transport.subscribe(request, context=_CONTEXT)
                if await self._read(stream, until_end=True):  # a subscription to a task that rests goes on
                    return
        except UnsupportedOperationError:
            self._record.note("was answered that the task is over")
        await self._poll()

    async def _until_notified(self) -> None:
        while True:
            try:
                async with asyncio.timeout(1.0):
                    await self._world.hooks.until_ended(self._turn.number)
                self._record.note("notified of the end")
                return
            except TimeoutError:
                if self._killed:  # the agent tries once
                    self._record.note("not notified")
                    await self._poll()
                    return

    async def _poll(self) -> None:
        while True:
            async with self._at(self._turn.read, "gets") as transport:
                task = await transport.get_task(GetTaskRequest(id=self._record.task_id), context=_CONTEXT)
            if self._shows_end(task):
                return
            await asyncio.sleep(self._turn.poll_every)

    async def _read(self, stream: Any, *, leave_after: int = 0, until_end: bool = False) -> bool:
        """Reads a stream to its end; to the end of the turn, or until the client leaves after `leave_after` events.
        Whether an event showed the end of the turn."""
        count, shown = 0, False
        async with aclosing(stream) as events:
            async for event in events:
                count += 1
                shown = self._see(event) or shown
                if count == 1:
                    await self._register_late()
                if count == leave_after or (shown and until_end):
                    break
        self._record.note(f"{count} events{', the end among them' if shown else ''}")
        return shown

    def _see(self, event: StreamResponse) -> bool:
        match event.WhichOneof("payload"):
            case "task":
                return self._shows_end(event.task)
            case "message":
                return self._is_answer(event.message)
            case "status_update":
                self._learn(event.status_update.task_id, event.status_update.context_id)
                return self._says_end(event.status_update.status.message)
            case "artifact_update":
                self._learn(event.artifact_update.task_id, event.artifact_update.context_id)
        return False

    def _shows_end(self, task: Task) -> bool:
        self._learn(task.id, task.context_id)
        return self._says_end(task.status.message)

    def _is_answer(self, message: Message) -> bool:
        self._learn("", message.context_id)
        return self._says_end(message)

    def _learn(self, task_id: str, context_id: str) -> None:
        if self._record.task_id and self._record.task_id != task_id:
            raise ValueError(f"an answer is about task {task_id!r}, not {self._record.task_id!r}")
        self._record.task_id, self._record.context_id = task_id, context_id

    def _says_end(self, message: Message) -> bool:
        return [part.text for part in message.parts] == [f"end {self._turn.number}"]

    async def _register_late(self) -> None:
        """Sets the webhook of a turn that has one afterwards, then lets the agent continue."""
        if self._turn.webhook is not Webhook.AFTERWARDS or self._registered:
            return
        self._registered = True
        config = self._webhook()
        config.task_id = self._record.task_id
        async with self._at(self._turn.read, "sets a webhook") as transport:
            await transport.create_task_push_notification_config(config, context=_CONTEXT)
        await self._world.agent.open_gate(self._turn.number)

    def _webhook(self) -> TaskPushNotificationConfig:
        config = TaskPushNotificationConfig(url=f"{self._world.hooks.url}/hook")
        if self._turn.own_webhook:
            config.id = f"of {self._turn.number}"
        return config

    def _request(self, *, blocking: bool) -> SendMessageRequest:
        turn, record = self._turn, self._record
        ids = {Ids.UNIQUE: f"message of {turn.number}", Ids.REUSED: "message", Ids.ABSENT: ""}
        message = Message(
            message_id=ids[turn.message_ids],
            role=Role.ROLE_USER,
            parts=[Part(text=turn.instruction())],
            task_id=record.task_id,
            context_id=record.context_id,
        )
        configuration = SendMessageConfiguration(return_immediately=not blocking)
        if turn.webhook is Webhook.IN_MESSAGE:
            configuration.task_push_notification_config.CopyFrom(self._webhook())
        return SendMessageRequest(message=message, configuration=configuration)

    @asynccontextmanager
    async def _at(self, binding: Binding, what: str) -> AsyncIterator[ClientTransport]:
        """A transport for one request to a random proxy, on a connection of its own."""
        entrances, record = self._world.entrances(), self._record
        number = self._dice.randrange(len(entrances))
        record.entered = number if record.entered < 0 else record.entered
        record.note(f"{what} by {binding}, proxy {number}")
        entrance = entrances[number]
        if binding is Binding.JSONRPC:
            yield JsonRpcTransport(self._world.http, None, entrance.rpc_url)  # type: ignore[arg-type]  # needs no card
        elif binding is Binding.HTTP_JSON:
            yield RestTransport(self._world.http, None, entrance.rest_url)  # type: ignore[arg-type]
        else:
            alone = [("grpc.use_local_subchannel_pool", 1)]
            async with grpc.aio.insecure_channel(entrance.grpc_address, options=alone) as channel:
                yield GrpcTransport(channel, None)


_MANNERS: dict[Manner, tuple[Callable[[_Client], Awaitable[bool]], Callable[[_Client], Awaitable[None]] | None]] = {
    Manner.UNARY: (lambda client: client._send(blocking=True), None),
    Manner.STREAM: (lambda client: client._stream(leaves=False), None),
    Manner.POLL: (lambda client: client._send(blocking=False), _Client._poll),
    Manner.SUBSCRIBE: (lambda client: client._send(blocking=False), _Client._subscribe),
    Manner.DROP_POLL: (lambda client: client._stream(leaves=True), _Client._poll),
    Manner.DROP_SUBSCRIBE: (lambda client: client._stream(leaves=True), _Client._subscribe),
    Manner.NOTIFIED: (lambda client: client._send(blocking=False), _Client._until_notified),
}
"""How a client sends, and how it then learns the end, where that has not shown it."""
