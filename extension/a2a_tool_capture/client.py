"""An A2A client that asks for the tool calls and returns what the agent did, turn by turn."""

from __future__ import annotations

import asyncio
import json
import ssl
import uuid
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self

from a2a.client import Client, ClientCallContext
from a2a.types import (
    AgentCard,
    GetTaskRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    StreamResponse,
    SubscribeToTaskRequest,
)
from a2a.utils.errors import TaskNotFoundError
from google.protobuf.json_format import ParseDict, ParseError

from .agent_connection import CARD_TIMEOUT_S, AgentConnection, mapped_errors
from .approvals import Answer, kept_parts, message_words
from .approvals import Part as PartJson
from .dialect import Dialect, known_dialects
from .errors import AgentError, AgentUnreachableError, CaptureError, ConfigurationError, TurnTimeoutError
from .merge import TaskMerger
from .models import CapturedTurn, Finding, WaitingCall
from .recent import Recent
from .secret_references import resolve_header
from .spec import KNOWN_VERSIONS
from .wire import BINDINGS, INTERRUPTED_STATES, SETTLED_STATES

CLOSING_GRACE_S = 2.0
"""How long a stream may stay open after the task has settled: a last snapshot may follow."""
FIRST_POLL_S, SLOWEST_POLL_S, POLL_FACTOR = 0.1, 5.0, 1.5
MAX_LOST_IN_A_ROW = 5
"""Consecutive failed attempts to reach the agent again before a turn fails."""
MAX_OPEN_TASKS = 1000


class CaptureClient:
    """A client of one agent that requests tool calls on every request.

    Use it as an async context manager: entering fetches the agent card. Turns may run concurrently.

    `url`: base URL of the agent, or that of its card, which is searched below it and at its origin, unless `card_path`
    (relative to it) says where it is. `grpc://HOST:PORT` or `grpcs://HOST:PORT` (TLS): an
    agent that has only gRPC, whose card is its extended card, if it has one.
    `headers`: sent with every request, as metadata over gRPC; `${NAME}` in a value refers to an environment variable,
    `${file:PATH}` to the content of a file.
    `tls`: trusted authorities and client certificate; None for the system's authorities and no certificate. Over gRPC
    there is no client certificate.
    `trust_env`: whether the proxies of the environment (HTTP_PROXY and others) are used, over HTTP.
    `timeout_s`: maximum duration of a turn in seconds, including retries; None for no limit. Streams may be idle for
    as long.
    `streaming`: None follows the card.
    `binding`: one of `BINDINGS`; None selects the first one of the card, A2A 1.0 before 0.3. GRPC requires grpcio.
    """

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        tls: ssl.SSLContext | None = None,
        timeout_s: float | None = 300.0,
        connect_timeout_s: float = 10.0,
        streaming: bool | None = None,
        binding: str | None = None,
        card_path: str | None = None,
        trust_env: bool = True,
        dialects: Collection[str] = (),
    ) -> None:
        if binding is not None and binding not in BINDINGS:
            raise ConfigurationError(f"unknown binding {binding!r}; expected one of {', '.join(BINDINGS)}")
        known = known_dialects()
        if unknown := [name for name in dialects if name not in known]:
            raise ConfigurationError(f"unknown dialect {unknown[0]!r}; expected one of {', '.join(known)}")
        if url.startswith(("grpc://", "grpcs://")) and binding not in (None, "GRPC"):
            raise ConfigurationError(f"binding {binding!r}: the agent at {url} has only GRPC")
        self.url = url.rstrip("/")
        self._headers = {name: resolve_header(name, value) for name, value in (headers or {}).items()}
        self._tls = tls
        self._timeout_s = timeout_s
        self._connect_timeout_s = connect_timeout_s
        self._streaming = streaming
        self._binding = binding
        self._card_path = card_path
        self._trust_env = trust_env
        self._dialects = tuple(dialects)
        self._unread = [one for name, one in known.items() if name not in dialects]
        self._open_tasks: Recent[str, TaskMerger] = Recent(MAX_OPEN_TASKS)
        """State of tasks that wait for the user, so that their earlier calls are not counted again."""

    def __repr__(self) -> str:
        headers = dict.fromkeys(self._headers, "***")
        return f"{type(self).__name__}({self.url!r}, headers={headers!r})"

    async def __aenter__(self) -> Self:
        """Fetch the card and choose an interface.

        Raises AgentUnreachableError or AgentError if the card cannot be fetched, ConfigurationError if the card has
        no interface that this client supports.
        """
        card_timeout_s = min(CARD_TIMEOUT_S, self._timeout_s or CARD_TIMEOUT_S)
        connection = AgentConnection(
            self.url, self._headers, self._tls, self._connect_timeout_s, card_timeout_s, trust_env=self._trust_env
        )
        try:
            self._card, self._interface = await connection.card_and_interface(self._card_path, self._binding)
            card = AgentCard()  # a copy with one interface, so that the SDK's factory selects it
            card.CopyFrom(self._card)
            del card.supported_interfaces[:]
            card.supported_interfaces.append(self._interface)
            if self._streaming is not None:
                card.capabilities.streaming = self._streaming
            self._streams = card.capabilities.streaming
            self._client: Client = connection.client(card)
        except BaseException:
            await connection.close()
            raise
        self._connection = connection
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._connection.close()

    @property
    def card(self) -> AgentCard:
        """The agent card as fetched."""
        return self._card

    @property
    def declared(self) -> bool:
        """Whether the card declares the extension. The client requests calls in any case."""
        known = {version.uri for version in KNOWN_VERSIONS}
        return any(extension.uri in known for extension in self._card.capabilities.extensions)

    def conversation(self) -> CaptureConversation:
        """A new conversation with this agent."""
        return CaptureConversation(self)

    async def send(
        self,
        message: str | Sequence[PartJson] | Answer,
        *,
        context_id: str | None = None,
        task_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        traceparent: str = "",
        tracestate: str = "",
    ) -> CapturedTurn:
        """Send one user message, and wait until the agent has finished the turn or waits for input.

        `message` is a text, or parts as JSON of A2A 1.0, such as `{"data": {...}}`, or the answer to what the task
        asked, which is fetched; `metadata` is that of the message;
        `traceparent` and `tracestate` are headers of all requests (W3C). If a stream is aborted or the task is still
        working, the rest is fetched with GetTask and subscription; the message itself is sent only once. Raises
        AgentUnreachableError, AgentError or TurnTimeoutError, whose `turn` holds what was captured before, and
        ConfigurationError for parts that A2A does not have.
        """
        if isinstance(message, Answer):
            message = message.parts(await self.waiting_calls(task_id) if task_id else ())
        said = {"parts": [{"text": message}] if isinstance(message, str) else list(message)}
        try:
            parts = [Part(text=message)] if isinstance(message, str) else [ParseDict(part, Part()) for part in message]
        except ParseError as error:
            raise ConfigurationError(f"a part of the message is none of A2A: {error}") from None
        sent = Message(message_id=str(uuid.uuid4()), role=Role.ROLE_USER, parts=parts)
        sent.context_id, sent.task_id = context_id or "", task_id or ""
        if metadata:
            sent.metadata.update(metadata)
        merger = self._open_tasks.get(task_id or "") or TaskMerger(dialects=self._dialects)
        merger.begin_turn()
        context = self._connection.context(self._interface, traceparent, tracestate)
        progress = _Progress(merger, self._unread, context)
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._run(SendMessageRequest(message=sent), progress)
        except TimeoutError as error:
            timeout = TurnTimeoutError(f"{self._interface.url} did not finish within {self._timeout_s:g} s")
            timeout.turn = self._captured(said, progress)
            raise timeout from error
        except CaptureError as error:
            error.turn = self._captured(said, progress)
            raise
        self._open_tasks.pop(merger.task_id, None)
        if progress.state in INTERRUPTED_STATES:
            self._open_tasks[merger.task_id] = merger
        return self._captured(said, progress)

    def _captured(self, said: Mapping[str, Any], progress: _Progress) -> CapturedTurn:
        merger = progress.merger
        calls = tuple(merger.turn_tool_calls)
        return CapturedTurn(
            user_text=message_words(said),
            text=merger.response_text,
            tool_calls=calls,
            findings=(*merger.findings, *(() if calls else progress.unread)),
            state=progress.state,
            task_id=merger.task_id,
            context_id=merger.context_id,
            declared=self.declared,
            binding=self._interface.protocol_binding,
            protocol_version=self._interface.protocol_version,
            started_at=progress.started_at,
            first_event_at=progress.first_event_at,
            ended_at=_now(),
            usage=merger.usage,
            user_parts=kept_parts(said),
            waiting=tuple(merger.waiting_calls),
        )

    async def waiting_calls(self, task_id: str) -> tuple[WaitingCall, ...]:
        """The calls of a task that wait for the user's approval. A message that continues the task leads to a turn
        with none of the calls that it has now. Raises AgentUnreachableError or AgentError."""
        context = self._connection.context(self._interface, "", "")
        merger = TaskMerger(dialects=self._dialects)
        with mapped_errors(self._interface.url, self._card):
            task = await self._client.get_task(GetTaskRequest(id=task_id), context=context)
        merger.feed(self._connection.event(task, self._interface))
        if merger.turn_state in INTERRUPTED_STATES:
            self._open_tasks[task_id] = merger
        return tuple(merger.waiting_calls)

    # ── one turn ────────────────────────────────────────────────────────────────────────────────────────

    async def _run(self, request: SendMessageRequest, progress: _Progress) -> None:
        lost = False
        try:
            await self._read(self._client.send_message(request, context=progress.context), progress)
        except AgentUnreachableError:
            if progress.first_event_at is None or not progress.task_id:
                raise
            lost = True
        if not progress.done:
            await self._catch_up(progress, lost)

    async def _read(self, events: AsyncIterator[StreamResponse], progress: _Progress) -> None:
        """Feed `events` to `progress` until they end, or until the task has settled and no more events arrive."""
        try:
            async with asyncio.timeout(None) as closing:
                async for event in self._received(events):
                    progress.feed(event)  # an error of the observer is not the agent's
                    if progress.stream_should_end:
                        grace_s = 0.0 if progress.answered else CLOSING_GRACE_S
                        closing.reschedule(asyncio.get_running_loop().time() + grace_s)
        except TimeoutError:
            pass  # the agent left the stream open; the turn is complete

    async def _received(self, events: AsyncIterator[StreamResponse]) -> AsyncIterator[dict[str, Any]]:
        with mapped_errors(self._interface.url, self._card):
            async for event in events:
                yield self._connection.event(event, self._interface)

    async def _catch_up(self, progress: _Progress, lost: bool = False) -> None:
        """Follow the task until it has settled: by subscription if the agent streams, else by polling.

        `lost`: the connection broke. An agent that then does not know its own task has restarted.
        """
        if not progress.task_id:
            raise AgentError(
                f"{self._interface.url} ended its response without a Message or a Task; is that the agent's URL?"
            )
        subscribes = self._streams
        failed = 0
        delay_s = FIRST_POLL_S
        while True:
            try:
                with mapped_errors(self._interface.url, self._card):
                    request = GetTaskRequest(id=progress.task_id)
                    task = await self._client.get_task(request, context=progress.context)
                    event = self._connection.event(task, self._interface)
                progress.feed(event)
                if "task" not in event:
                    raise AgentError(f"{self._interface.url} answered GetTask with something that is no task")
                failed = 0
                if not progress.done and subscribes:
                    subscribes = await self._subscribe(progress)
            except AgentUnreachableError:
                lost = True
                failed += 1
                if failed == MAX_LOST_IN_A_ROW:
                    raise
            except AgentError as error:
                if lost and isinstance(error.__cause__, TaskNotFoundError):
                    why = "the connection broke, and then the agent did not know its task; did it restart?"
                    raise AgentUnreachableError(f"{self._interface.url}: {why}") from error
                raise
            if progress.done:
                return
            await asyncio.sleep(delay_s)
            delay_s = min(delay_s * POLL_FACTOR, SLOWEST_POLL_S)

    async def _subscribe(self, progress: _Progress) -> bool:
        """Follow the task's events. Returns False if the agent rejects it, for example because the task has ended."""
        request = SubscribeToTaskRequest(id=progress.task_id)
        try:
            await self._read(self._client.subscribe(request, context=progress.context), progress)
        except AgentError:
            return False
        return True


class CaptureConversation:
    """Turns of one `contextId`. If a task waits for input, the next message continues it."""

    def __init__(self, client: CaptureClient) -> None:
        self._client = client
        self._task_id: str | None = None
        self._waiting: tuple[WaitingCall, ...] = ()
        self.context_id: str | None = None
        """The conversation's id; None until the agent assigns one."""

    async def send(
        self,
        message: str | Sequence[PartJson] | Answer,
        *,
        metadata: Mapping[str, Any] | None = None,
        traceparent: str = "",
        tracestate: str = "",
    ) -> CapturedTurn:
        """Send the next user message; see `CaptureClient.send`. An answer is to what the agent asked last."""
        if isinstance(message, Answer):
            message = message.parts(self._waiting)
        try:
            turn = await self._client.send(
                message,
                context_id=self.context_id,
                task_id=self._task_id,
                metadata=metadata,
                traceparent=traceparent,
                tracestate=tracestate,
            )
        except CaptureError as error:
            if error.turn is not None:
                self.context_id = error.turn.context_id or self.context_id
            raise
        self.context_id = turn.context_id or self.context_id
        self._task_id = turn.task_id if turn.interrupted else None
        self._waiting = turn.waiting
        return turn


class _Progress:
    """Progress of one turn."""

    def __init__(
        self,
        merger: TaskMerger,
        unread: Sequence[Dialect],
        context: ClientCallContext,
    ) -> None:
        self.merger = merger
        self.context = context
        """Of all its requests."""
        self._unread = unread
        self.unread: dict[Finding, None] = {}
        """What says that the answer has parts of dialects that are not read."""
        self.started_at = _now()
        self.answered = False
        """Whether a Message came, which is a whole answer."""
        self.first_event_at: datetime | None = None
        self.stream_should_end = False
        """Whether the protocol closes a stream after the last event."""

    @property
    def task_id(self) -> str:
        return self.merger.task_id

    @property
    def state(self) -> str | None:
        """None until this turn changes it, even if the turn continues a task."""
        return self.merger.turn_state

    @property
    def done(self) -> bool:
        return self.answered or self.state in SETTLED_STATES

    def feed(self, event: Mapping[str, Any]) -> None:
        if first := self.first_event_at is None:
            self.first_event_at = _now()
        self.merger.feed(event)
        text = json.dumps(event).encode()
        self.unread |= {one.not_read: None for one in self._unread if one.mark in text}
        if "message" in event:
            self.answered = True
        # The first event of a continued task may repeat the state in which it waited; the stream continues.
        self.stream_should_end = self.done and not (first and self.state in INTERRUPTED_STATES)


def _now() -> datetime:
    return datetime.now(UTC)
