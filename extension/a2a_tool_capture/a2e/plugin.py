"""The host's side: a plug-in that lists, searches and executes tools and responds to messages."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

from .messages import (
    ErrorMessage,
    EventKind,
    Message,
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

_emit: ContextVar[Callable[[str, Mapping[str, Any]], None]] = ContextVar("a2e_emit")
"""Takes the kind and the data of an event of the current call; without a value outside of calls."""


class ToolDeniedError(Exception):
    """Raised by `ToolPlugin.execute` if a policy forbids the call."""


class ToolPlugin(ABC):
    """The tools of a host. Subclasses list and execute them.

    Calls run concurrently; `execute` may use threads (`asyncio.to_thread`), in which `emit` works too.
    """

    name = "base_tool"
    """Name of the plug-in in logs, and the kind of tools without a toolkit, for lists of one kind."""

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
        """Send an event of the current call. Raises RuntimeError outside of calls, as in a thread without context."""
        try:
            emit = _emit.get()
        except LookupError:
            raise RuntimeError(
                "emit was called outside of any call: nobody would receive the event. A thread of your own needs the "
                "context of the call: asyncio.to_thread(...), or contextvars.copy_context().run in the thread"
            ) from None
        emit(kind, data)

    async def handle(self, message: Message, on_event: OnEvent | None = None) -> Response:
        """Respond to a message; transports call this. Raises only on cancellation.

        If a call requests streaming, its events are passed to `on_event` in the thread that emits them; otherwise the
        result contains them.
        """
        if isinstance(message, ToolListRequest):
            return self._list(message)
        if isinstance(message, ToolCallRequest):
            return self._refused(message) or await self._call(message, on_event)
        return ErrorMessage(req_id=message.id, code="invalid_message", message=f"{message.TYPE} is not a request")

    def _list(self, request: ToolListRequest) -> Response:
        kind, tags = request.filter_kind.casefold(), set(map(str.casefold, request.filter_tags))
        try:
            tools: Sequence[ToolDefinition] = [
                tool
                for tool in self.list_tools()
                if (request.include_deferred or not tool.defer_loading)
                and kind in ("", (tool.toolkit or self.name).casefold())
                and tags.issubset(map(str.casefold, tool.tags))
            ]
            if request.query:
                tools = self.search_tools(request.query, tools)
        except Exception as error:  # noqa: BLE001 - the plug-in's code; the host continues
            _log.exception("plug-in %r could not list its tools", self.name)
            return ErrorMessage(req_id=request.id, code="runtime_error", message=_message_of(error))
        return ToolListResponse(req_id=request.id, tools=tools)

    def _refused(self, request: ToolCallRequest) -> ErrorMessage | None:
        """Why the call cannot be made, if it cannot."""
        try:
            if any(tool.name == request.tool_name for tool in self.list_tools()):
                return None
            code, problem = ToolErrorCode.UNKNOWN_TOOL, f"there is no tool {request.tool_name!r}"
        except Exception as error:  # noqa: BLE001 - the plug-in's code; the caller receives the error
            code, problem = ToolErrorCode.TOOL_ERROR, _message_of(error)
        return ErrorMessage(req_id=request.id, code=code, message=problem)

    async def _call(self, request: ToolCallRequest, on_event: OnEvent | None) -> Response:
        kept: list[ToolEvent] = []
        number = 0

        def emit(kind: str, data: Mapping[str, Any]) -> None:
            nonlocal number
            if number >= MAX_EVENTS:
                return
            number += 1
            event = ToolEvent(kind=str(kind), data=dict(data), req_id=request.id, seq=number)
            if on_event is not None and request.streaming:
                on_event(event)
            else:
                kept.append(event)
            if self._event_callback is not None:
                notify(self._event_callback, event)

        token = _emit.set(emit)
        began = time.monotonic()
        try:
            result = await self._executed(request)
        except ToolDeniedError as error:
            return ErrorMessage(req_id=request.id, code=ToolErrorCode.TOOL_DENIED, message=_message_of(error))
        finally:
            _emit.reset(token)
        result = replace(
            result,
            tool_name=request.tool_name,
            duration_ms=result.duration_ms or round((time.monotonic() - began) * 1000),
            events=result.events or kept,
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
            return ToolResult(success=False, error=problem, error_code=ToolErrorCode.TOOL_ERROR)
        exit_code = data.get("exit_code")
        return ToolResult(success=True, data=data, exit_code=exit_code if type(exit_code) is int else None)


def notify(on_event: OnEvent, event: ToolEvent) -> None:
    """Call `on_event`; what it raises is logged."""
    try:
        on_event(event)
    except Exception:  # noqa: BLE001 - the caller's code, which runs where exceptions cannot reach the caller
        _log.exception("on_event failed")


def _message_of(error: Exception) -> str:
    return str(error) or type(error).__name__
