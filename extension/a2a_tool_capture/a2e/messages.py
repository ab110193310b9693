"""The messages of A2E's tools capability, as values and as lines of JSON."""

from __future__ import annotations

import json
import time
import uuid
from dataclasses import dataclass
from typing import Any, ClassVar

from ..json_values import not_json
from .errors import ProtocolError
from .fields import (
    JsonObject,
    list_of,
    read_any,
    read_boolean,
    read_by,
    read_integer,
    read_name,
    read_number,
    read_object,
    read_rounded,
    read_string,
)
from .models import ToolDefinition, read_error_code

VERSION = "1.0"
DEFAULT_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Message(JsonObject):
    """Base of all messages: `id` is unique, `ts` the creation time in seconds since the epoch."""

    TYPE: ClassVar[str]

    id: str = read_by(read_name, lambda: uuid.uuid4().hex)
    ts: float = read_by(read_number, time.time)
    version: str = read_by(read_string, VERSION)

    def to_dict(self) -> dict[str, Any]:
        return {"type": self.TYPE, **JsonObject.to_dict(self)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolListRequest(Message):
    """Agent to host: list tools; with a `query`, search them. Deferred tools are left out unless `include_deferred`.

    `filter_kind`: only tools of this kind, "" for all. `filter_tags`: only tools that have all of these tags.
    """

    TYPE = "tool/list/req"

    filter_kind: str = read_by(read_string, "")
    filter_tags: tuple[str, ...] = read_by(list_of(read_string), ())
    query: str = read_by(read_string, "")
    include_deferred: bool = read_by(read_boolean, False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolListResponse(Message):
    """Host to agent: the tools requested by `req_id`."""

    TYPE = "tool/list/resp"

    req_id: str = read_by(read_string)
    tools: tuple[ToolDefinition, ...] = read_by(list_of(ToolDefinition.from_dict), ())


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallRequest(Message):
    """Agent to host: call a tool. `correlation_id` relates calls to a turn of the agent; `timeout` is in seconds."""

    TYPE = "tool/call/req"

    tool_name: str = read_by(read_name)
    arguments: dict[str, Any] = read_by(read_object, dict)
    session_id: str = read_by(read_string, "")
    correlation_id: str = read_by(read_string, "")
    streaming: bool = read_by(read_boolean, False)
    timeout: float = read_by(read_number, DEFAULT_TIMEOUT_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class A2EEvent(Message):
    """Host to agent, while the request `req_id` is processed; `seq` counts its events from 1.

    `kind` is an EventKind or a value defined by the host. `data` is `{pct, message}` for progress, `{message}` for
    status, `{level, message}` for log, `{name, mime, chunk, final}` for artifact, with the chunk in base64.
    """

    TYPE = "invoke/event"

    kind: str = read_by(read_string)
    data: dict[str, Any] = read_by(read_object, dict)
    req_id: str = read_by(read_string, "")
    seq: int = read_by(read_integer, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolEvent(A2EEvent):
    """An event of a tool's call."""

    TYPE = "tool/event"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult(JsonObject):
    """The outcome of a call: `data` (usually an object) on success, otherwise `error` and `error_code`.

    `duration_ms` is 0 if it was not measured. `error_code` is a ToolErrorCode or a code defined by the host.
    """

    success: bool = read_by(read_boolean)
    tool_name: str = read_by(read_string, "")
    data: Any = read_by(read_any, None)
    summary: Any = read_by(read_any, None)
    truncated: bool = read_by(read_boolean, False)
    exit_code: int | None = read_by(read_integer, None)
    error: str | None = read_by(read_string, None)
    error_code: str | None = read_by(read_error_code, None)
    duration_ms: int = read_by(read_rounded, 0)
    events: tuple[ToolEvent, ...] = read_by(list_of(ToolEvent.from_dict), ())

    @classmethod
    def failed(cls, code: str, error: str) -> ToolResult:
        return cls(success=False, error=error, error_code=code)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallResponse(Message):
    """Host to agent: the outcome of the call `req_id`."""

    TYPE = "tool/call/resp"

    req_id: str = read_by(read_string)
    data: ToolResult = read_by(ToolResult.from_dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorMessage(Message):
    """Host to agent: the request `req_id` ("" if its id is unknown) could not be processed. A2E's name is A2EError."""

    TYPE = "error"

    code: str = read_by(read_error_code)
    message: str = read_by(read_string, "")
    req_id: str = read_by(read_string, "")
    retryable: bool = read_by(read_boolean, False)


Request = ToolListRequest | ToolCallRequest
Response = ToolListResponse | ToolCallResponse | ErrorMessage

_TYPES: dict[str, type[Message]] = {
    kind.TYPE: kind
    for kind in (ToolListRequest, ToolListResponse, ToolCallRequest, ToolCallResponse, ToolEvent, ErrorMessage)
}


def encode(message: Message) -> bytes:
    """One line of JSON in ASCII with its newline. Raises ValueError for values that are not JSON."""
    try:
        return json.dumps(message.to_dict(), separators=(",", ":"), allow_nan=False).encode("ascii") + b"\n"
    except (TypeError, RecursionError) as error:
        raise ValueError(str(error)) from None


def decode(line: bytes) -> Message:
    """The message in a line. Raises ProtocolError."""
    try:
        data = json.loads(line, parse_constant=not_json)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"not JSON: {error}", "parse_error") from None
    kind = data.get("type") if isinstance(data, dict) else None
    try:
        known = _TYPES.get(kind) if isinstance(kind, str) else None
        if known is None:
            raise ProtocolError(f"unknown type {kind!r:.80}; expected one of {', '.join(_TYPES)}", "invalid_message")
        version = data.get("version") or data.get("a2e") or VERSION  # A2E's specification also names it `a2e`
        if not isinstance(version, str) or version.partition(".")[0] != "1":
            raise ProtocolError(f"version {version!r:.20} is not supported; expected {VERSION}", "version_mismatch")
        return known.from_dict(data | {"version": version})
    except ProtocolError as error:
        if isinstance(data, dict):
            error.message_id = _id(data.get("id"))
            error.req_id = _id(data.get("req_id")) if kind != ToolEvent.TYPE else ""  # an event is not a response
        raise


def _id(value: Any) -> str:
    return value if isinstance(value, str) else ""
