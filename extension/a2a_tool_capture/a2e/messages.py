"""The messages of A2E and what they carry, checked as they are read."""

from __future__ import annotations

import dataclasses
import json
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum
from functools import partial
from typing import Any, ClassVar, TypeVar

from ..json_limits import READ
from ..json_values import not_json

T = TypeVar("T", bound="JsonObject")


class A2EError(Exception):
    """Base class of the exceptions of A2E."""


class ProtocolError(A2EError):
    """A received message is invalid; the text names the field and the expected value.

    `code` is A2E's error code, `message_id` the message's id, `req_id` the id of the request it responds to; "" if
    unknown.
    """

    def __init__(self, message: str, code: str = "schema_violation") -> None:
        super().__init__(message)
        self.code = code
        self.message_id = ""
        self.req_id = ""


class HostGoneError(A2EError):
    """The host has ended, closed the connection, or does not respond."""


class HostRefusedError(A2EError):
    """The host responded with an error; `code` is the host's error code."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}" if message else code)
        self.code = code


Read = Callable[[Any, str], Any]
"""Converts a JSON value, given its path, to a field's value. Raises ProtocolError."""


def read_by(read: Read, default: Any = dataclasses.MISSING) -> Any:
    """A field read by `read`; required without a default. Null means the default."""
    factory = {"default_factory": default} if callable(default) else {"default": default}
    return dataclasses.field(metadata={"read": read}, **factory)


class JsonObject:
    """Base class of dataclasses whose fields are defined with `read_by`."""


def plain(value: JsonObject) -> dict[str, Any]:
    """The JSON object; fields that are None are omitted."""
    fields = dataclasses.fields(value)  # type: ignore[arg-type]  # subclasses are dataclasses
    values = ((field.name, getattr(value, field.name)) for field in fields)
    content = {name: _json(one) for name, one in values if one is not None}
    return {"type": value.TYPE, **content} if isinstance(value, Message) else content


def _json(value: Any) -> Any:
    if isinstance(value, JsonObject):
        return plain(value)
    if isinstance(value, Enum):
        return value.value
    return [_json(item) for item in value] if isinstance(value, list | tuple) else value


def object_of(kind: type[T], data: Any, where: str = "") -> T:
    """An object of `kind`, a JsonObject. Unknown keys are ignored. Raises ProtocolError."""
    where = where or kind.__name__
    given = read_object(data, where)
    values: dict[str, Any] = {}
    for field in dataclasses.fields(kind):  # type: ignore[arg-type]  # subclasses are dataclasses
        value = given.get(field.name)
        if value is not None:
            values[field.name] = field.metadata["read"](value, f"{where}.{field.name}")
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise ProtocolError(f"{where}.{field.name} is missing")
    return kind(**values)


def objects_of(kind: type[JsonObject]) -> Read:
    return list_of(partial(object_of, kind))


# ── readers ─────────────────────────────────────────────────────────────────────────────────────────────────


def _reader(expected: str, is_valid: Callable[[Any], bool]) -> Read:
    def read(value: Any, where: str) -> Any:
        if not is_valid(value):
            raise ProtocolError(f"{where}: expected {expected}, got {_kind(value)}")
        return value

    return read


read_any = _reader("anything", lambda value: True)
read_string = _reader("a string", lambda value: isinstance(value, str))
read_name = _reader("a string that is not empty", lambda value: isinstance(value, str) and value != "")
read_boolean = _reader("true or false", lambda value: isinstance(value, bool))
read_object = _reader("an object", lambda value: isinstance(value, dict))
_read_items = _reader("a list", lambda value: isinstance(value, list))
_read_finite = _reader(
    "a finite number", lambda value: type(value) in (int, float) and abs(value) <= sys.float_info.max
)
_read_whole = _reader("an integer", lambda value: float(value).is_integer())


def read_number(value: Any, where: str) -> float:
    return float(_read_finite(value, where))


def read_integer(value: Any, where: str) -> int:
    return int(_read_whole(_read_finite(value, where), where))


def read_rounded(value: Any, where: str) -> int:
    return round(read_number(value, where))


def list_of(read: Read) -> Callable[[Any, str], tuple[Any, ...]]:
    def read_items(value: Any, where: str) -> tuple[Any, ...]:
        items = enumerate(_read_items(value, where))
        return tuple(read(item, f"{where}[{number}]") for number, item in items)

    return read_items


read_list = list_of(read_any)


def _kind(value: Any) -> str:
    return {type(None): "null", dict: "an object", list: "a list"}.get(type(value)) or f"{value!r:.60}"


class EventKind(StrEnum):
    """Kind of a `ToolEvent`; its data is `{pct, message}`, `{message}`, a piece of a file, `{level, message}`."""

    PROGRESS = "progress"
    STATUS = "status"
    ARTIFACT = "artifact"
    LOG = "log"


class ToolErrorCode(StrEnum):
    """Why a call failed. Hosts may define further codes."""

    UNKNOWN_TOOL = "unknown_tool"
    TOOL_DENIED = "tool_denied"
    TOOL_ERROR = "tool_error"


def read_error_code(value: Any, where: str) -> str:
    """A ToolErrorCode in any case; other codes unchanged."""
    code = read_string(value, where)
    return ToolErrorCode(code.lower()) if code.lower() in tuple(ToolErrorCode) else code


def _parameters(value: Any, where: str) -> tuple[ToolParameter, ...]:
    """Reads a list of parameters or a mapping by name; A2E allows both."""
    if where.count(".") > READ:
        raise ProtocolError(f"{where}: parameters nest deeper than {READ}")
    if isinstance(value, dict):
        value = [{"name": name, **read_object(parameter, f"{where}.{name}")} for name, parameter in value.items()]
    read: tuple[ToolParameter, ...] = objects_of(ToolParameter)(value, where)
    return read


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolParameter(JsonObject):
    """A parameter of a tool. `type` is JSON Schema's; `properties` are those of an object."""

    name: str = read_by(read_name)
    type: str = read_by(read_string, "string")
    description: str = read_by(read_string, "")
    required: bool = read_by(read_boolean, False)
    enum: Sequence[Any] | None = read_by(read_list, None)
    properties: Sequence[ToolParameter] | None = read_by(_parameters, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolDefinition(JsonObject):
    """A tool of the host. `defer_loading`: only search returns it, not the default list.

    `tool_call_evaluators.ToolDefinition.from_dict(tool.to_dict())` converts it to JSON Schema.
    """

    name: str = read_by(read_name)
    description: str = read_by(read_string, "")
    input_parameters: Sequence[ToolParameter] = read_by(_parameters, ())
    output_parameters: Sequence[ToolParameter] = read_by(_parameters, ())
    streaming: bool = read_by(read_boolean, False)
    idempotent: bool = read_by(read_boolean, False)
    tags: Sequence[str] = read_by(list_of(read_string), ())
    version: str = read_by(read_string, "1.0.0")
    toolkit: str | None = read_by(read_string, None)
    defer_loading: bool = read_by(read_boolean, False)

    def to_dict(self) -> dict[str, Any]:
        """The JSON object; fields that are None are omitted."""
        return plain(self)


VERSION = "1.0"
DEFAULT_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Message(JsonObject):
    """Base of all messages: `id` is unique, `ts` the creation time in seconds since the epoch."""

    TYPE: ClassVar[str]

    id: str = read_by(read_name, lambda: uuid.uuid4().hex)
    ts: float = read_by(read_number, time.time)
    version: str = read_by(read_string, VERSION)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolListRequest(Message):
    """Agent to host: list tools; with a `query`, search them. Deferred tools are left out unless `include_deferred`.

    `filter_kind`: only tools of this kind, "" for all. `filter_tags`: only tools that have all of these tags.
    """

    TYPE = "tool/list/req"

    filter_kind: str = read_by(read_string, "")
    filter_tags: Sequence[str] = read_by(list_of(read_string), ())
    query: str = read_by(read_string, "")
    include_deferred: bool = read_by(read_boolean, False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolListResponse(Message):
    """Host to agent: the tools requested by `req_id`."""

    TYPE = "tool/list/resp"

    req_id: str = read_by(read_string)
    tools: Sequence[ToolDefinition] = read_by(objects_of(ToolDefinition), ())


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
class ToolEvent(Message):
    """Host to agent, while the call `req_id` is processed; `seq` counts its events from 1.

    `kind` is an EventKind or a value defined by the host. `data` is `{pct, message}` for progress, `{message}` for
    status, `{level, message}` for log, `{name, mime, chunk, final}` for artifact, with the chunk in base64.
    """

    TYPE = "tool/event"

    kind: str = read_by(read_string)
    data: dict[str, Any] = read_by(read_object, dict)
    req_id: str = read_by(read_string, "")
    seq: int = read_by(read_integer, 0)


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
    events: Sequence[ToolEvent] = read_by(objects_of(ToolEvent), ())


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallResponse(Message):
    """Host to agent: the outcome of the call `req_id`."""

    TYPE = "tool/call/resp"

    req_id: str = read_by(read_string)
    data: ToolResult = read_by(partial(object_of, ToolResult))


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorMessage(Message):
    """Host to agent: the request `req_id` ("" if its id is unknown) could not be processed."""

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
        return json.dumps(plain(message), separators=(",", ":"), allow_nan=False).encode("ascii") + b"\n"
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
        return object_of(known, data | {"version": version})
    except ProtocolError as error:
        if isinstance(data, dict):
            error.message_id = _id(data.get("id"))
            error.req_id = _id(data.get("req_id")) if kind != ToolEvent.TYPE else ""  # an event is not a response
        raise


def _id(value: Any) -> str:
    return value if isinstance(value, str) else ""
