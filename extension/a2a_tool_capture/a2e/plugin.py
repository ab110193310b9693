"""The host's side: a plug-in that lists, searches and executes tools and responds to messages."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

from .messages import (
    ErrorMessage,
    Message,
    Request,
    Response,
    ToolCallRequest,
    ToolCallResponse,
    ToolEvent,
    ToolListRequest,
    ToolListResponse,
    ToolResult,
)
from .models import EventKind, ToolDefinition, ToolErrorCode

MAX_EVENTS = 10_000
"""Maximum number of events per call; further ones are dropped."""

MAX_TIMEOUT_S = 3600.0
"""Maximum duration of a call, whatever it requests."""

_log = logging.getLogger(__name__)

OnEvent = Callable[[ToolEvent], None]


class ToolDeniedError(Exception):
    """Raised by a tool or by `ToolPlugin.execute` if a policy forbids the call."""


class ToolPlugin(ABC):
    """The tools of a host. Subclasses list and execute them.

    Calls run concurrently; `execute` may use threads (`asyncio.to_thread`), in which `emit` works too.
    """

    name = "tools"
    """Name of the plug-in in logs."""

    _event_callback: OnEvent | None = None

    @abstractmethod
    def list_tools(self) -> Sequence[ToolDefinition]:
        """All tools, including deferred ones."""

    @abstractmethod
    async def execute(self, tool_name: str, arguments: dict[str, Any]) -> Any:
        """Call a listed tool. Returns its data (an object; other values are wrapped as `value`) or a ToolResult.

        Raises ToolDeniedError if the call is forbidden, any other exception if the tool failed.
        """

    def search_tools(self, query: str, tools: Sequence[ToolDefinition]) -> Sequence[ToolDefinition]:
        """Those of `tools` whose name, description or tags contain `query`, ignoring case. May be overridden."""
        wanted = query.casefold()
        return [
            tool
            for tool in tools
            if any(wanted in text.casefold() for text in (tool.name, tool.description, *tool.tags))
        ]

    def set_event_callback(self, on_event: OnEvent | None) -> None:
        """Also pass every event of every call to `on_event`, in the thread that emits it; None removes the callback."""
        self._event_callback = on_event

    def emit(self, kind: EventKind | str, data: Mapping[str, Any]) -> None:
        """Send an event of the current call; does nothing outside a call."""
        call = _CALL.get()
        if call is not None:
            call.emit(kind, data)

    async def handle(self, message: Message, on_event: OnEvent | None = None) -> Response:
        """Respond to a message. Raises only on cancellation.

        If a call requests streaming, its events are passed to `on_event` in the thread that emits them; otherwise the
        result contains them.
        """
        if isinstance(message, ToolListRequest):
            return self._list(message)
        if isinstance(message, ToolCallRequest):
            return ToolCallResponse(req_id=message.id, data=await self._call(message, on_event))
        return ErrorMessage(req_id=message.id, code="invalid_message", message=f"{message.TYPE} is not a request")

    def _list(self, request: ToolListRequest) -> Response:
        try:
            tools = [tool for tool in self.list_tools() if _has_tags(tool, request.filter_tags)]
            if request.query:
                tools = list(self.search_tools(request.query, tools))
            elif not request.include_deferred:
                tools = [tool for tool in tools if not tool.defer_loading]
        except Exception as error:  # noqa: BLE001 - the plug-in's code; the host continues
            _log.exception("plug-in %r could not list its tools", self.name)
            return ErrorMessage(req_id=request.id, code="runtime_error", message=_message_of(error))
        return ToolListResponse(req_id=request.id, tools=tuple(tools))

    async def _call(self, request: ToolCallRequest, on_event: OnEvent | None) -> ToolResult:
        call = _Call(request, on_event if request.streaming else None, self._event_callback)
        token = _CALL.set(call)
        began = time.monotonic()
        try:
            result = await self._executed(request)
        finally:
            _CALL.reset(token)
        return replace(
            result,
            tool_name=request.tool_name,
            duration_ms=result.duration_ms or round((time.monotonic() - began) * 1000),
            events=result.events or tuple(call.events),
        )

    async def _executed(self, request: ToolCallRequest) -> ToolResult:
        try:
            if all(tool.name != request.tool_name for tool in self.list_tools()):
                return ToolResult.failed(ToolErrorCode.UNKNOWN_TOOL, f"there is no tool {request.tool_name!r}")
            limit_s = min(request.timeout, MAX_TIMEOUT_S)
            deadline = asyncio.timeout(limit_s)
            try:
                async with deadline:
                    given = await self.execute(request.tool_name, dict(request.arguments))
            except TimeoutError:
                if not deadline.expired():
                    raise
                return ToolResult.failed(ToolErrorCode.TOOL_ERROR, f"no result within {limit_s:g} s")
            if isinstance(given, ToolResult):
                return given
            data = dict(given) if isinstance(given, Mapping) else {"value": given}
            json.dumps(data, allow_nan=False)
        except ToolDeniedError as error:
            return ToolResult.failed(ToolErrorCode.TOOL_DENIED, _message_of(error))
        except Exception as error:  # noqa: BLE001 - the tool's code; the caller receives the error
            return ToolResult.failed(ToolErrorCode.TOOL_ERROR, _message_of(error))
        exit_code = data.get("exit_code")
        return ToolResult(success=True, data=data, exit_code=exit_code if type(exit_code) is int else None)


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
            self._callback(event)


_CALL: ContextVar[_Call | None] = ContextVar("a2e_call", default=None)


def _has_tags(tool: ToolDefinition, tags: Collection[str]) -> bool:
    return {tag.casefold() for tag in tags} <= {tag.casefold() for tag in tool.tags}


def _message_of(error: Exception) -> str:
    return str(error) or type(error).__name__
