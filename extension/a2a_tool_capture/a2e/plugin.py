"""The host's side: a plug-in that lists, searches and executes tools and responds to messages."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

from .messages import (
    ErrorMessage,
    EventKind,
    Message,
    Request,
    Response,
    ToolCallRequest,
    ToolCallResponse,
    ToolDefinition,
    ToolErrorCode,
    ToolEvent,
    ToolListRequest,
    ToolListResponse,
    ToolResult,
)

MAX_EVENTS = 10_000
"""Maximum number of events per call; further ones are dropped."""

MAX_TIMEOUT_S = 3600.0
"""Maximum duration of a call, whatever it requests."""

_log = logging.getLogger(__name__)

OnEvent = Callable[[ToolEvent], None]


class ToolDeniedError(Exception):
    """Raised by a tool or by `ToolPlugin.execute` if a policy forbids the call."""


class A2EPlugin(ABC):
    """A part of a host that responds to messages."""

    name: str
    """Name of the plug-in in logs."""

    @abstractmethod
    async def answer(self, message: Message, on_event: OnEvent | None = None) -> Response:
        """Respond to a message; transports call this. Raises only on cancellation.

        If a call requests streaming, its events are passed to `on_event` in the thread that emits them; otherwise the
        result contains them.
        """


class ToolHandler(A2EPlugin):
    """Responds to requests for tools: what `ToolPlugin` and `BlockingToolPlugin` have in common."""

    name = "base_tool"

    _event_callback: OnEvent | None = None

    @abstractmethod
    def list_tools(self) -> Sequence[ToolDefinition]:
        """All tools, including deferred ones."""

    @abstractmethod
    async def execute(self, tool_name: str, arguments: dict[str, Any]) -> Any:
        """Call a listed tool. Returns its data (an object; other values are wrapped as `value`) or a ToolResult.

        Raises ToolDeniedError if the call is forbidden, any other exception if the tool failed.
        """

    def kind_of(self, tool: ToolDefinition) -> str:
        """The kind that `filter_kind` selects: the tool's toolkit, or the plug-in's name. May be overridden.

        A2E's definition of a tool has no field for its kind.
        """
        return tool.toolkit or self.name

    @abstractmethod
    def _found(self, request: ToolListRequest, tools: Sequence[ToolDefinition]) -> Sequence[ToolDefinition]:
        """Those of `tools` that the request's query and tags select."""

    def set_event_callback(self, on_event: OnEvent | None) -> None:
        """Also pass every event of every call to `on_event`, in the thread that emits it; None removes the callback."""
        self._event_callback = on_event

    def emit(self, kind: EventKind | str, data: Mapping[str, Any]) -> None:
        """Send an event of the current call. Raises RuntimeError outside of calls, as in a thread without context."""
        call = _CALL.get()
        if call is None:
            raise RuntimeError(
                "emit was called outside of any call: nobody would receive the event. A thread of your own needs the "
                "context of the call: asyncio.to_thread(...), or contextvars.copy_context().run in the thread"
            )
        call.emit(kind, data)

    async def answer(self, message: Message, on_event: OnEvent | None = None) -> Response:
        if isinstance(message, ToolListRequest):
            return self._list(message)
        if isinstance(message, ToolCallRequest):
            return self._refused(message) or await self._call(message, on_event)
        return ErrorMessage(req_id=message.id, code="invalid_message", message=f"{message.TYPE} is not a request")

    def _list(self, request: ToolListRequest) -> Response:
        kind = request.filter_kind.casefold()
        try:
            tools: Sequence[ToolDefinition] = [
                tool
                for tool in self.list_tools()
                if (request.include_deferred or not tool.defer_loading) and kind in ("", self.kind_of(tool).casefold())
            ]
            tools = self._found(request, tools) if request.query else with_tags(tools, request.filter_tags)
        except Exception as error:  # noqa: BLE001 - the plug-in's code; the host continues
            _log.exception("plug-in %r could not list its tools", self.name)
            return ErrorMessage(req_id=request.id, code="runtime_error", message=_message_of(error))
        return ToolListResponse(req_id=request.id, tools=tuple(tools))

    def _refused(self, request: ToolCallRequest) -> ErrorMessage | None:
        """Why the call cannot be made, if it cannot."""
        try:
            if any(tool.name == request.tool_name for tool in self.list_tools()):
                return None
            code, problem = ToolErrorCode.UNKNOWN_TOOL, f"there is no tool {request.tool_name!r}"
        except Exception as error:  # noqa: BLE001 - the plug-in's code; the caller receives the error
            code, problem = ToolErrorCode.TOOL_ERROR, _message_of(error)
        return ErrorMessage(req_id=request.id, code=code, message=problem)

    async def _call(self, request: ToolCallRequest, on_event: OnEvent | None) -> ToolCallResponse | ErrorMessage:
        call = _Call(request, on_event if request.streaming else None, self._event_callback)
        token = _CALL.set(call)
        began = time.monotonic()
        try:
            result = await self._executed(request)
        except ToolDeniedError as error:
            return ErrorMessage(req_id=request.id, code=ToolErrorCode.TOOL_DENIED, message=_message_of(error))
        finally:
            _CALL.reset(token)
        result = replace(
            result,
            tool_name=request.tool_name,
            duration_ms=result.duration_ms or round((time.monotonic() - began) * 1000),
            events=result.events or tuple(call.events),
        )
        return ToolCallResponse(req_id=request.id, data=result)

    async def _executed(self, request: ToolCallRequest) -> ToolResult:
        limit_s = min(request.timeout, MAX_TIMEOUT_S)
        deadline = asyncio.timeout(limit_s)
        try:
            async with deadline:
                given = await self.execute(request.tool_name, dict(request.arguments))
            if isinstance(given, ToolResult):
                return given
            data = dict(given) if isinstance(given, Mapping) else {"value": given}
            json.dumps(data, allow_nan=False)
        except ToolDeniedError:
            raise
        except Exception as error:  # noqa: BLE001 - the tool's code; the caller receives the error
            late = isinstance(error, TimeoutError) and deadline.expired()
            problem = f"no result within {limit_s:g} s" if late else _message_of(error)
            return ToolResult.failed(ToolErrorCode.TOOL_ERROR, problem)
        exit_code = data.get("exit_code")
        return ToolResult(success=True, data=data, exit_code=exit_code if type(exit_code) is int else None)


class ToolPlugin(ToolHandler):
    """The tools of a host. Subclasses list and execute them; without asyncio, they subclass `BlockingToolPlugin`.

    Calls run concurrently; `execute` may use threads (`asyncio.to_thread`), in which `emit` works too.
    """

    def search_tools(self, query: str, tools: Sequence[ToolDefinition]) -> Sequence[ToolDefinition]:
        """Those of `tools` whose name, description or tags contain `query`, ignoring case. May be overridden."""
        return matching(tools, query)

    def _found(self, request: ToolListRequest, tools: Sequence[ToolDefinition]) -> Sequence[ToolDefinition]:
        return self.search_tools(request.query, with_tags(tools, request.filter_tags))

    async def handle(self, message: Message, on_event: OnEvent | None = None) -> Response:
        """Respond to a message, as `answer` does."""
        return await self.answer(message, on_event)


class _Call:
    """A running call and its events."""

    def __init__(self, request: Request, stream: OnEvent | None, callback: OnEvent | None) -> None:
        self._request_id = request.id
        self._stream = stream
        self._callback = callback
        self._seq = 0
        self.events: list[ToolEvent] = []
        """Events that were not streamed."""

    def emit(self, kind: str, data: Mapping[str, Any]) -> None:
        if self._seq >= MAX_EVENTS:
            return
        self._seq += 1
        event = ToolEvent(kind=str(kind), data=dict(data), req_id=self._request_id, seq=self._seq)
        if self._stream is not None:
            self._stream(event)
        else:
            self.events.append(event)
        if self._callback is not None:
            notify(self._callback, event)


_CALL: ContextVar[_Call | None] = ContextVar("a2e_call", default=None)


def notify(on_event: OnEvent, event: ToolEvent) -> None:
    """Call `on_event`; what it raises is logged."""
    try:
        on_event(event)
    except Exception:  # noqa: BLE001 - the caller's code, which runs where exceptions cannot reach the caller
        _log.exception("on_event failed")


def with_tags(tools: Iterable[ToolDefinition], tags: Iterable[str]) -> list[ToolDefinition]:
    """Those of `tools` that have all of `tags`, ignoring case."""
    wanted = {tag.casefold() for tag in tags}
    return [tool for tool in tools if wanted <= {tag.casefold() for tag in tool.tags}]


def matching(tools: Iterable[ToolDefinition], query: str) -> list[ToolDefinition]:
    """Those of `tools` whose name, description or tags contain `query`, ignoring case."""
    wanted = query.casefold()
    return [
        tool for tool in tools if any(wanted in text.casefold() for text in (tool.name, tool.description, *tool.tags))
    ]


def _message_of(error: Exception) -> str:
    return str(error) or type(error).__name__
