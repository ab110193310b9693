"""A2E under the names of its documentation, for code without asyncio: a client that blocks, and a plug-in whose tools
are plain functions.

Code written for A2E imports from here in place of `a2e.caps.tools.client` and `a2e.caps.tools.plugin`.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Callable, Coroutine, Iterable, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import AbstractAsyncContextManager, nullcontext
from contextvars import copy_context
from functools import partial
from queue import SimpleQueue
from threading import Lock, Thread
from types import TracebackType
from typing import Any, Self, TypeVar

from ..recorder import ToolCallRecorder
from .client import ToolAPI as AsyncToolAPI
from .messages import (
    DEFAULT_TIMEOUT_S,
    A2EEvent,
    EventKind,
    HostGoneError,
    Message,
    Response,
    ToolCallRequest,
    ToolCallResponse,
    ToolDefinition,
    ToolErrorCode,
    ToolEvent,
    ToolListRequest,
    ToolListResponse,
    ToolParameter,
    ToolResult,
)
from .messages import ErrorMessage as A2EError
from .plugin import A2EPlugin, OnEvent, ToolDeniedError, ToolHandler, matching, notify, with_tags
from .transport import InProcessTransport, Transport, host_process, serve_stdio

__all__ = [
    "A2EClient",
    "A2EError",
    "A2EEvent",
    "A2EPlugin",
    "EventKind",
    "InProcessTransport",
    "ToolAPI",
    "ToolCallRequest",
    "ToolCallResponse",
    "ToolDefinition",
    "ToolDeniedError",
    "ToolErrorCode",
    "ToolEvent",
    "ToolListRequest",
    "ToolListResponse",
    "ToolParameter",
    "ToolPlugin",
    "ToolResult",
    "host_process",
    "serve_stdio",
]

T = TypeVar("T")

_UNCONNECTED = "the client is not connected; use `with client:`, or call connect() first"


class A2EClient:
    """A connection to a host for code without asyncio; a context manager. Any thread may use it.

    `transport` is a Transport, or the context manager of one, for example `host_process(...)`: an event loop in a
    thread of its own runs it from `connect` to `disconnect`. `session_id` comes from the host's handshake, if any.
    """

    def __init__(self, transport: Transport | AbstractAsyncContextManager[Transport], *, session_id: str = "") -> None:
        self._connection = transport if isinstance(transport, AbstractAsyncContextManager) else nullcontext(transport)
        self.session_id = session_id
        self._transport: Transport | None = None
        self._starting = Lock()  # so that nothing starts in a loop that ends
        self._tools_cache: list[ToolDefinition] | None = None
        """What the plain list returned; A2E's documentation names this attribute."""

    def connect(self) -> None:
        """Connect to the host, if not connected. Raises what the transport raises, for example OSError."""
        if self._transport is None:
            connected: Future[Transport] = Future()
            self._running = _in_thread(lambda: asyncio.run(self._run(connected)))
            self._transport = connected.result()

    def disconnect(self) -> None:
        """Close the connection, if connected; calls that are running fail."""
        with self._starting:
            if self._transport is None:
                return
            self._transport = None
            self._loop.call_soon_threadsafe(self._stopping.set)
        self._running.result()

    def __enter__(self) -> Self:
        self.connect()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.disconnect()

    @property
    def transport(self) -> Transport:
        """Belongs to the client's event loop. Raises HostGoneError if not connected."""
        if self._transport is None:
            raise HostGoneError(_UNCONNECTED)
        return self._transport

    def start(self, exchange: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine in the client's event loop, in the caller's context. Raises HostGoneError."""
        with self._starting:
            if self._transport is not None:
                return asyncio.run_coroutine_threadsafe(exchange, self._loop)
        exchange.close()
        raise HostGoneError(_UNCONNECTED)

    async def _run(self, connected: Future[Transport]) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        try:
            async with self._connection as transport:
                connected.set_result(transport)
                await self._stopping.wait()
        except BaseException as error:
            if connected.done():
                raise
            connected.set_exception(error)


class BlockingToolAPI:
    """The tools of the host that `client` is connected to: `ToolAPI` for code without asyncio.

    With a `recorder`, every call is recorded in the current request, if there is one.
    """

    def __init__(self, client: A2EClient, *, recorder: ToolCallRecorder | None = None) -> None:
        self._client = client
        self._tools = AsyncToolAPI(client.transport, recorder=recorder, session_id=client.session_id)

    def list(
        self, *, query: str = "", tags: Iterable[str] = (), kind: str = "", include_deferred: bool | None = None
    ) -> list[ToolDefinition]:
        """As `ToolAPI.list`; the client caches the list without arguments."""
        plain = not (query or tags or kind or include_deferred)
        if plain and self._client._tools_cache is not None:
            return self._client._tools_cache
        listing = self._tools.list(query=query, tags=tags, kind=kind, include_deferred=include_deferred)
        listed = [*_outcome(self._client.start(listing))]
        if plain:
            self._client._tools_cache = listed
        return listed

    def call(
        self,
        tool_name: str,
        arguments: dict[str, Any] | None = None,
        *,
        streaming: bool = False,
        on_event: OnEvent | None = None,
        timeout: float = DEFAULT_TIMEOUT_S,
        correlation_id: str | None = None,
    ) -> ToolResult:
        """As `ToolAPI.call`; `on_event` is called in the caller's thread."""
        events: SimpleQueue[ToolEvent | None] = SimpleQueue()
        exchange = self._tools.call(
            tool_name,
            arguments,
            streaming=streaming,
            on_event=events.put,
            timeout=timeout,
            correlation_id=correlation_id or "",
        )
        result = self._client.start(exchange)
        result.add_done_callback(lambda done: events.put(None))
        try:
            for event in iter(events.get, None):
                if on_event is not None:
                    notify(on_event, event)
        except BaseException:  # the caller is interrupted
            result.cancel()
            raise
        return _outcome(result)


def _outcome(result: Future[T]) -> T:
    try:
        return result.result()
    except CancelledError:
        raise HostGoneError("the client was disconnected") from None


class BlockingToolPlugin(ToolHandler):
    """The tools of a host as plain functions, under the names of A2E's documentation. Subclasses list and execute them.

    Each call runs in a thread of its own. A call that exceeds its timeout is answered, but its thread continues.
    """

    @abstractmethod
    def _list_tools(self) -> Sequence[ToolDefinition]:
        """All tools, including deferred ones."""

    @abstractmethod
    def _execute_tool(self, tool_name: str, arguments: dict[str, Any]) -> Any:
        """Call a listed tool. Returns its data (an object; other values are wrapped as `value`) or a ToolResult.

        Raises ToolDeniedError if the call is forbidden, any other exception if the tool failed.
        """

    def _search_tools(
        self,
        query: str,
        filter_tags: Sequence[str] | None = None,
        tools: Sequence[ToolDefinition] | None = None,
    ) -> Sequence[ToolDefinition]:
        """Those of `tools` (all, if None) with these tags and `query` in name, description or tags.

        Ignores case. May be overridden.
        """
        return matching(with_tags(self._list_tools() if tools is None else tools, filter_tags or ()), query)

    def handle(self, message: Message, on_event: OnEvent | None = None) -> Response:
        """Respond to a message, as `answer` does."""
        return _in_thread(lambda: asyncio.run(self.answer(message, on_event))).result()  # the caller may have a loop

    def list_tools(self) -> Sequence[ToolDefinition]:
        return self._list_tools()

    async def execute(self, tool_name: str, arguments: dict[str, Any]) -> Any:
        return await asyncio.wrap_future(_in_thread(partial(self._execute_tool, tool_name, arguments)))

    def _found(self, request: ToolListRequest, tools: Sequence[ToolDefinition]) -> Sequence[ToolDefinition]:
        return self._search_tools(request.query, list(request.filter_tags) or None, tools)


def _in_thread(work: Callable[[], T]) -> Future[T]:
    """Run `work` in a new thread, in the current context. The thread does not keep the process from ending."""
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()
    context = copy_context()

    def run() -> None:
        try:
            future.set_result(context.run(work))
        except StopIteration as error:  # a future cannot hold it
            future.set_exception(RuntimeError(f"the tool raised {error!r}"))
        except BaseException as error:  # noqa: BLE001 - raised where the future's result is read
            future.set_exception(error)

    Thread(target=run, name="a2e", daemon=True).start()
    return future


ToolAPI, ToolPlugin = BlockingToolAPI, BlockingToolPlugin
