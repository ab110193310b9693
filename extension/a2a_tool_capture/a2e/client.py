"""The agent's side: lists tools, calls them and records each call."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..models import ToolCallSource
from ..recorder import NO_RECORDING, CallRecording, ToolCallRecorder
from .messages import (
    DEFAULT_TIMEOUT_S,
    ErrorMessage,
    HostGoneError,
    HostRefusedError,
    ProtocolError,
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
from .plugin import MAX_EVENTS, OnEvent, notify
from .transport import Transport

ANSWER_GRACE_S = 2.0
"""Time that the client waits longer than the host, whose timeout error is more precise."""


class ToolAPI:
    """The tools of one host, behind `transport`.

    With a `recorder`, every call is recorded in the current request, if there is one: the request's id is the call's
    id, its data the result, and an error begins with its code. `session_id` comes from the host's handshake, if any.
    """

    def __init__(self, transport: Transport, *, recorder: ToolCallRecorder | None = None, session_id: str = "") -> None:
        self._transport = transport
        self._recorder = recorder
        self._session_id = session_id
        self._listed: Sequence[ToolDefinition] | None = None

    async def list(
        self, *, query: str = "", tags: Iterable[str] = (), kind: str = "", include_deferred: bool | None = None
    ) -> Sequence[ToolDefinition]:
        """The host's tools; with a `query`, those that it matches.

        `tags`: only tools that have all of these tags. `kind`: only tools of this kind, "" for all.
        `include_deferred`: with deferred tools; by default, a search includes them, a list does not.
        The list without arguments is requested once and cached.

        Raises HostRefusedError if the host responds with an error, ProtocolError if the response is invalid,
        HostGoneError without a response.
        """
        deferred = bool(query) if include_deferred is None else include_deferred
        request = ToolListRequest(query=query, filter_tags=tuple(tags), filter_kind=kind, include_deferred=deferred)
        plain = not (query or request.filter_tags or kind or deferred)
        if plain and self._listed is not None:
            return self._listed
        try:
            async with asyncio.timeout(DEFAULT_TIMEOUT_S):
                response = await self._transport.exchange(request, lambda event: None)
        except TimeoutError:
            raise HostGoneError(f"the host did not list its tools within {DEFAULT_TIMEOUT_S:g} s") from None
        if isinstance(response, ErrorMessage):
            raise HostRefusedError(response.code, response.message)
        if not isinstance(response, ToolListResponse):
            raise HostRefusedError("invalid_message", f"the host responded to {request.TYPE} with {response.TYPE}")
        if plain:
            self._listed = response.tools
        return response.tools

    async def call(
        self,
        tool_name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        streaming: bool = False,
        on_event: OnEvent | None = None,
        timeout: float = DEFAULT_TIMEOUT_S,  # noqa: ASYNC109 - a field of A2E, enforced by the host
        correlation_id: str = "",
    ) -> ToolResult:
        """Call a tool. Failures, denials and timeouts (in seconds) are results, not exceptions.

        With `streaming`, `on_event` receives events as they happen; the result contains them in any case.
        `correlation_id` relates calls to a turn of the agent. Raises HostGoneError if the host has ended, ValueError
        if the arguments are not JSON or too large.
        """
        request = ToolCallRequest(
            tool_name=tool_name,
            arguments=dict(arguments or {}),
            session_id=self._session_id,
            correlation_id=correlation_id,
            streaming=streaming,
            timeout=timeout,
        )
        recording = NO_RECORDING if self._recorder is None else self._recorder.recording_of(tool_name)
        recording.started(tool_name, request.arguments, id=request.id, source=ToolCallSource.A2E)
        try:
            result = await self._exchange(request, on_event)
        except BaseException as error:
            recording.failed(request.id, error)
            raise
        _record(recording, request.id, result)
        return result

    async def _exchange(self, request: ToolCallRequest, on_event: OnEvent | None) -> ToolResult:
        events: list[ToolEvent] = []

        def take(event: ToolEvent) -> None:
            if len(events) < MAX_EVENTS:
                events.append(event)
                if on_event is not None:
                    notify(on_event, event)

        try:
            async with asyncio.timeout(request.timeout + ANSWER_GRACE_S):
                response = await self._transport.exchange(request, take)
        except TimeoutError:
            result = _failed(f"the host did not respond within {request.timeout:g} s")
        except ProtocolError as error:
            result = _failed(f"the host's response is invalid: {error}")
        else:
            result = _result(response)
        return replace(result, tool_name=result.tool_name or request.tool_name, events=result.events or tuple(events))


def _result(response: Response) -> ToolResult:
    if isinstance(response, ToolCallResponse):
        return response.data
    if isinstance(response, ErrorMessage):
        return _failed(response.message, response.code)
    return _failed(f"the host responded to a call with {response.TYPE}")


def _failed(error: str, code: str = ToolErrorCode.TOOL_ERROR) -> ToolResult:
    return ToolResult(success=False, error=error, error_code=code)


def _record(recording: CallRecording, call_id: str, result: ToolResult) -> None:
    if result.success:
        given = result.summary if result.data is None else result.data
        recording.finished(call_id, "null" if given is None else given)
    else:
        code = result.error_code or ToolErrorCode.TOOL_ERROR
        recording.failed(call_id, f"{code}: {result.error}" if result.error else str(code))
