"""An A2A client that asks for the tool calls and returns what the agent did, turn by turn."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self

import httpx
from a2a.client import A2ACardResolver, Client, ClientCallContext, ClientConfig, ClientFactory
from a2a.client.errors import A2AClientError
from a2a.client.service_parameters import ServiceParametersFactory, with_a2a_extensions
from a2a.compat.v0_3.versions import is_legacy_version
from a2a.helpers import new_text_message
from a2a.types import (
    AgentCard,
    AgentInterface,
    GetTaskRequest,
    Role,
    SendMessageRequest,
    StreamResponse,
    SubscribeToTaskRequest,
)
from a2a.utils.errors import A2AError
from google.protobuf.json_format import MessageToDict, ParseError

from .dialects import DIALECTS
from .errors import AgentError as AgentError
from .errors import AgentUnreachableError as AgentUnreachableError
from .errors import CaptureError as CaptureError
from .errors import ConfigurationError as ConfigurationError
from .errors import TurnTimeoutError as TurnTimeoutError
from .errors import connection_problem, response_problem
from .merge import TaskMerger
from .models import CapturedTurn
from .secret_references import resolve_header
from .spec import EXTENSIONS_HEADER, KNOWN_VERSIONS
from .wire import BINDINGS, INTERRUPTED_STATES, SETTLED_STATES

CARD_TIMEOUT_S = 30.0
CLOSING_GRACE_S = 2.0
"""How long a stream may stay open after the task has settled: a last snapshot may follow."""
FIRST_POLL_S, SLOWEST_POLL_S, POLL_FACTOR = 0.1, 5.0, 1.5
MAX_LOST_IN_A_ROW = 5
"""Consecutive failed attempts to reach the agent again before a turn fails."""
MAX_OPEN_TASKS = 1000

_GATEWAY_STATUSES = (502, 503, 504)


def _ignore(merger: TaskMerger) -> None:
    pass


class CaptureClient:
    """A client of one agent that requests tool calls on every request.

    Use it as an async context manager: entering fetches the agent card. Turns may run concurrently.

    `url`: base URL of the agent; `card_path` is relative to it.
    `headers`: sent with every request; `${NAME}` in a value refers to an environment variable, `${file:PATH}` to the
    content of a file.
    `tls`: trusted authorities and client certificate; None for the system's authorities and no certificate.
    `timeout_s`: maximum duration of a turn in seconds, including retries; None for no limit. Streams may be idle for
    as long.
    `streaming`: None follows the card.
    `blocking`: False sends with `returnImmediately` and polls for the result, without streaming.
    `binding`: one of `BINDINGS`; None selects the first one of the card, A2A 1.0 before 0.3.
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
        blocking: bool = True,
        binding: str | None = None,
        card_path: str = "/.well-known/agent-card.json",
        dialects: Collection[str] = (),
    ) -> None:
        if binding is not None and binding not in BINDINGS:
            raise ConfigurationError(f"unknown binding {binding!r}; expected one of {', '.join(BINDINGS)}")
        unknown = [name for name in dialects if name not in DIALECTS]
        if unknown:
            raise ConfigurationError(f"unknown dialect {unknown[0]!r}; expected one of {', '.join(DIALECTS)}")
        self.url = url.rstrip("/")
        self._headers = {name: resolve_header(name, value) for name, value in (headers or {}).items()}
        self._tls = tls
        self._timeout_s = timeout_s
        self._connect_timeout_s = connect_timeout_s
        self._streaming = streaming
        self._blocking = blocking
        self._binding = binding
        self._card_path = card_path
        self._dialects = tuple(dialects)
        self._open_tasks: OrderedDict[str, TaskMerger] = OrderedDict()
        """State of tasks that wait for the user, so that their earlier calls are not counted again."""

    def __repr__(self) -> str:
        headers = dict.fromkeys(self._headers, "***")
        return f"{type(self).__name__}({self.url!r}, headers={headers!r})"

    async def __aenter__(self) -> Self:
        """Fetch the card and choose an interface.

        Raises AgentUnreachableError or AgentError if the card cannot be fetched, ConfigurationError if the card has
        no interface that this client supports.
        """
        self._http = httpx.AsyncClient(
            headers=self._headers,
            verify=self._tls or True,
            timeout=httpx.Timeout(None, connect=self._connect_timeout_s),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=20),
        )
        try:
            await self._connect()
        except BaseException:
            await self._http.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.aclose()

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
        text: str,
        *,
        context_id: str | None = None,
        task_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        observe: Callable[[TaskMerger], object] = _ignore,
    ) -> CapturedTurn:
        """Send one user message and wait until the agent has finished the turn or waits for input.

        `metadata` is the message's. `observe` is called after each event with what was received so far. If a stream is
        aborted or the task is still working, the rest is fetched with GetTask and subscription; the message itself is
        sent only once. Raises AgentUnreachableError, AgentError or TurnTimeoutError, whose `turn` holds what was
        captured before.
        """
        message = new_text_message(text, context_id=context_id, task_id=task_id, role=Role.ROLE_USER)
        if metadata:
            message.metadata.update(metadata)
        merger = self._open_tasks.get(task_id or "") or TaskMerger(dialects=self._dialects)
        merger.begin_turn()
        progress = _Progress(merger, observe)
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._run(SendMessageRequest(message=message), progress)
        except TimeoutError as error:
            timeout = TurnTimeoutError(f"{self._interface.url} did not finish within {self._timeout_s:g} s")
            timeout.turn = self._captured(text, progress)
            raise timeout from error
        except CaptureError as error:
            error.turn = self._captured(text, progress)
            raise
        self._remember(merger, progress.state)
        return self._captured(text, progress)

    def _captured(self, text: str, progress: _Progress) -> CapturedTurn:
        merger = progress.merger
        return CapturedTurn(
            user_text=text,
            text=merger.response_text,
            tool_calls=tuple(merger.turn_tool_calls),
            findings=tuple(merger.findings),
            state=progress.state,
            task_id=merger.task_id,
            context_id=merger.context_id,
            declared=self.declared,
            binding=self._interface.protocol_binding,
            protocol_version=self._interface.protocol_version,
            started_at=progress.started_at,
            first_event_at=progress.first_event_at,
            ended_at=_now(),
        )

    # ── connecting ──────────────────────────────────────────────────────────────────────────────────────

    async def _connect(self) -> None:
        resolver = A2ACardResolver(self._http, self.url, self._card_path)
        with _mapped_errors(self.url):
            self._card = await resolver.get_agent_card(http_kwargs={"timeout": CARD_TIMEOUT_S})
        self._interface = _choose(self._card, self._binding)
        card = AgentCard()  # a copy with one interface, so that the SDK's factory selects it
        card.CopyFrom(self._card)
        del card.supported_interfaces[:]
        card.supported_interfaces.append(self._interface)
        if not self._blocking:
            card.capabilities.streaming = False
        elif self._streaming is not None:
            card.capabilities.streaming = self._streaming
        self._streams = card.capabilities.streaming
        config = ClientConfig(
            polling=not self._blocking, httpx_client=self._http, supported_protocol_bindings=list(BINDINGS)
        )
        self._client: Client = ClientFactory(config).create(card)

    def _context(self) -> ClientCallContext:
        """Headers of one request. For A2A 0.3 the SDK also sends the extensions under the older header name."""
        own = [value for name, value in self._headers.items() if name.lower() == EXTENSIONS_HEADER.lower()]
        asked = with_a2a_extensions([*own, *(version.uri for version in KNOWN_VERSIONS)])
        return ClientCallContext(service_parameters=ServiceParametersFactory.create([asked]))

    # ── one turn ────────────────────────────────────────────────────────────────────────────────────────

    async def _run(self, request: SendMessageRequest, progress: _Progress) -> None:
        try:
            await self._read(self._client.send_message(request, context=self._context()), progress)
        except AgentUnreachableError:
            if progress.first_event_at is None or not progress.task_id:
                raise
        if not progress.done:
            await self._catch_up(progress)

    async def _read(self, events: AsyncIterator[StreamResponse], progress: _Progress) -> None:
        """Feed `events` to `progress` until they end, or until the task has settled and no more events arrive."""
        try:
            async with asyncio.timeout(None) as closing:
                with _mapped_errors(self._interface.url):
                    async for event in events:
                        progress.feed(MessageToDict(event))
                        if progress.stream_should_end:
                            closing.reschedule(asyncio.get_running_loop().time() + CLOSING_GRACE_S)
        except TimeoutError:
            pass  # the agent left the stream open; the turn is complete

    async def _catch_up(self, progress: _Progress) -> None:
        """Follow the task until it has settled: by subscription if the agent streams, else by polling."""
        if not progress.task_id:
            raise AgentError(f"{self._interface.url} ended its response without a Message or a Task")
        subscribes = self._streams
        lost = 0
        delay_s = FIRST_POLL_S
        while True:
            try:
                with _mapped_errors(self._interface.url):
                    task = await self._client.get_task(GetTaskRequest(id=progress.task_id), context=self._context())
                progress.feed({"task": MessageToDict(task)})
                lost = 0
                if not progress.done and subscribes:
                    subscribes = await self._subscribe(progress)
            except AgentUnreachableError:
                lost += 1
                if lost == MAX_LOST_IN_A_ROW:
                    raise
            if progress.done:
                return
            await asyncio.sleep(delay_s)
            delay_s = min(delay_s * POLL_FACTOR, SLOWEST_POLL_S)

    async def _subscribe(self, progress: _Progress) -> bool:
        """Follow the task's events. Returns False if the agent rejects it, for example because the task has ended."""
        request = SubscribeToTaskRequest(id=progress.task_id)
        try:
            await self._read(self._client.subscribe(request, context=self._context()), progress)
        except AgentError:
            return False
        return True

    def _remember(self, merger: TaskMerger, state: str | None) -> None:
        self._open_tasks.pop(merger.task_id, None)
        if state in INTERRUPTED_STATES:
            self._open_tasks[merger.task_id] = merger
            if len(self._open_tasks) > MAX_OPEN_TASKS:
                self._open_tasks.popitem(last=False)


class CaptureConversation:
    """Turns of one `contextId`. If a task waits for input, the next message continues it."""

    def __init__(self, client: CaptureClient) -> None:
        self._client = client
        self._task_id: str | None = None
        self.context_id: str | None = None
        """The conversation's id; None until the agent assigns one."""

    async def send(self, text: str, *, metadata: Mapping[str, Any] | None = None) -> CapturedTurn:
        """Send the next user message; see `CaptureClient.send`."""
        try:
            turn = await self._client.send(text, context_id=self.context_id, task_id=self._task_id, metadata=metadata)
        except CaptureError as error:
            if error.turn is not None:
                self.context_id = error.turn.context_id or self.context_id
            raise
        self.context_id = turn.context_id or self.context_id
        self._task_id = turn.task_id if turn.interrupted else None
        return turn


class _Progress:
    """Progress of one turn. `state` is None until this turn changes it, even if the turn continues a task."""

    def __init__(self, merger: TaskMerger, observe: Callable[[TaskMerger], object]) -> None:
        self.merger = merger
        self._observe = observe
        self.started_at = _now()
        self._answered = False
        self.state: str | None = None
        self.first_event_at: datetime | None = None
        self.stream_should_end = False
        """Whether the protocol closes a stream after the last event."""

    @property
    def task_id(self) -> str:
        return self.merger.task_id

    @property
    def done(self) -> bool:
        return self._answered or self.state in SETTLED_STATES

    def feed(self, event: Mapping[str, Any]) -> None:
        if first := self.first_event_at is None:
            self.first_event_at = _now()
        self.merger.feed(event)
        if "message" in event:
            self._answered = True
        status = (event.get("task") or event.get("statusUpdate") or {}).get("status", {})
        if "state" in status:
            self.state = status["state"]
        # The first event of a continued task may repeat the state in which it waited; the stream continues.
        self.stream_should_end = self.done and not (first and self.state in INTERRUPTED_STATES)
        self._observe(self.merger)


def _choose(card: AgentCard, binding: str | None) -> AgentInterface:
    wanted = BINDINGS if binding is None else (binding,)
    offered = [interface for interface in card.supported_interfaces if interface.protocol_binding in wanted]
    if not offered:
        available = ", ".join(sorted({interface.protocol_binding for interface in card.supported_interfaces}))
        raise ConfigurationError(
            f"the card of {card.name!r} offers {available or 'no interfaces'}; expected {' or '.join(wanted)}"
        )
    interface: AgentInterface = min(offered, key=lambda candidate: is_legacy_version(candidate.protocol_version))
    if not re.match(r"https?://[^/]", interface.url):
        raise AgentError(
            f"the card of {card.name!r} gives {interface.url!r} as its {interface.protocol_binding} URL; "
            "expected an absolute http or https URL"
        )
    return interface


@contextmanager
def _mapped_errors(url: str) -> Iterator[None]:
    """Raise the SDK's exceptions, including several kinds of parsing errors, as a CaptureError."""
    try:
        yield
    except (A2AError, httpx.HTTPError, httpx.InvalidURL, ParseError, ValueError, TypeError, KeyError) as error:
        raise _error_from(error, url) from error


def _error_from(error: Exception, url: str) -> CaptureError:
    if isinstance(error, A2AError) and not isinstance(error, A2AClientError):
        return AgentError(f"{url} answered with {type(error).__name__}: {error.message}")
    for cause in (error, error.__cause__):
        if isinstance(cause, httpx.HTTPStatusError):
            response = cause.response
            kind = AgentUnreachableError if response.status_code in _GATEWAY_STATUSES else AgentError
            problem = response_problem(response.headers.get("content-type", ""), response.text)
            return kind(f"{response.url} answered HTTP {response.status_code}: {problem}".rstrip(": "))
        if isinstance(cause, httpx.TimeoutException):
            return AgentUnreachableError(f"{url} did not respond in time ({type(cause).__name__})")
        if isinstance(cause, httpx.RequestError):
            what = "cannot be reached" if isinstance(cause, httpx.ConnectError) else "closed the connection"
            return AgentUnreachableError(f"{url} {what}: {connection_problem(cause)}")
    if isinstance(error, A2AClientError):
        return AgentError(f"{url} answered with an error: {error.message}")
    return AgentError(f"{url} answered with something that is not A2A: {error}")


def _now() -> datetime:
    return datetime.now(UTC)
