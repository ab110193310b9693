"""The methods of the two A2A services, and their messages as JSON. Pure.

A2A 1.0 is the service `lf.a2a.v1.A2AService`, A2A 0.3 `a2a.v1.A2AService`; their descriptors are those of a2a-sdk, with
the fields of A2A 1.1.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from math import isfinite
from typing import Any

from a2a.compat.v0_3 import a2a_v0_3_pb2
from a2a.types import a2a_pb2
from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor
from google.protobuf.json_format import Error as JsonFormatError
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from ..protocol.operations import A2ARequest, Binding, Operation
from .later_fields import with_later_fields

_SMALL = 256 * 1024
"""A message up to this length has room for few values."""

_MAX_VALUES = 100_000
"""As JSON, a value takes about 10 us, during which nothing else is relayed."""

_OPERATIONS = {
    "SendMessage": Operation.SEND,
    "SendStreamingMessage": Operation.STREAM,
    "GetTask": Operation.GET,
    "ListTasks": Operation.LIST,
    "CancelTask": Operation.CANCEL,
    "SubscribeToTask": Operation.SUBSCRIBE,
    "TaskSubscription": Operation.SUBSCRIBE,
    "GetExtendedAgentCard": Operation.EXTENDED_CARD,
    "GetAgentCard": Operation.EXTENDED_CARD,
}

_NAMES_TASK = ("taskId", "id", "name", "parent")
"""Fields of requests, of which the first one present names the task."""


@dataclass(frozen=True, slots=True)
class A2AMethod:
    """A method of an A2A service. `legacy`: of protocol 0.3."""

    operation: Operation
    request_type: type[Message]
    response_type: type[Message]
    streams: bool
    legacy: bool

    def request(self, fields: dict[str, Any]) -> A2ARequest:
        """The request with these `fields` (its message as JSON), its user message not yet read."""
        resource = next(filter(None, map(fields.get, _NAMES_TASK)), "")
        return A2ARequest(
            self.operation,
            Binding.GRPC,
            task_id=_task_of(str(resource)) if resource else "",
            includes_artifacts=fields.get("includeArtifacts") is True,
            legacy=self.legacy,
            has_webhook=self.operation is Operation.PUSH_CONFIG,
        )


def _task_of(resource: str) -> str:
    """The task's id in a request: in 0.3 within a resource name, as `tasks/ID`."""
    return resource.split("/")[1] if resource.startswith("tasks/") else resource


def _methods(file: FileDescriptor) -> dict[str, A2AMethod]:
    found = {}
    for descriptor, legacy in ((file, False), (a2a_v0_3_pb2.DESCRIPTOR, True)):
        for service in descriptor.services_by_name.values():
            for method in service.methods:
                found[f"/{service.full_name}/{method.name}"] = A2AMethod(
                    _OPERATIONS.get(method.name, _other(method.name)),
                    _class(method.input_type),
                    _class(method.output_type),
                    method.server_streaming,
                    legacy,
                )
    return found


def _other(method: str) -> Operation:
    return Operation.PUSH_CONFIG if "PushNotificationConfig" in method else Operation.OTHER


def _class(descriptor: Descriptor) -> type[Message]:
    message_type: type[Message] = GetMessageClass(descriptor)
    return message_type


METHODS = _methods(with_later_fields(a2a_pb2.DESCRIPTOR))
"""By the path of the call, `/PACKAGE.SERVICE/METHOD`."""


def decoded(message_type: type[Message], data: bytes | None) -> Message:
    """The message that `data` encodes. Raises ValueError.

    `data` is None where the agent ended a call with OK, and without the message that the method returns.
    """
    if data is None:
        raise ValueError("the call ended with OK and without a message")
    message = message_type()
    try:
        message.ParseFromString(data)
    except DecodeError as error:
        raise ValueError(f"not a {message_type.DESCRIPTOR.full_name}: {error}") from None
    return message


def check_values(message: Message) -> None:
    """Raises ValueError for more than `_MAX_VALUES` values."""
    if message.ByteSize() <= _SMALL:
        return
    found, pending = 0, [message]
    while pending and found <= _MAX_VALUES:
        for field, value in pending.pop().ListFields():
            kind = field.message_type
            if kind is not None and kind.GetOptions().map_entry:
                value, kind = value.values(), kind.fields_by_name["value"].message_type
            elif not field.is_repeated:
                value = (value,)
            found += len(value)
            if kind is not None:
                pending.extend(value)
    if found > _MAX_VALUES:
        raise ValueError("too many values to be read")


def as_json(message: Message) -> dict[str, Any]:
    """The message as ProtoJSON.

    Raises ValueError for one with too many values, or that nests too deeply.
    """
    check_values(message)
    try:
        return _fields(message)
    except (JsonFormatError, TypeError, RecursionError) as error:
        raise ValueError(str(error)) from None


_Reader = Callable[[Any], Any]


def _fields(message: Message) -> dict[str, Any]:
    """What `MessageToDict` returns, in half of its time: the kinds of fields are looked up once for each type."""
    known, content = _known_fields(message.DESCRIPTOR), {}
    for field, value in message.ListFields():
        name, read = known[field.number]
        content[name] = value if read is None else read(value)
    return content


@cache
def _known_fields(kind: Descriptor) -> dict[int, tuple[str, _Reader | None]]:
    """The name and the reader of each field, by its number; without a reader, a value is as it is in JSON."""
    return {field.number: (field.json_name, _reader(field)) for field in kind.fields}


def _reader(field: FieldDescriptor) -> _Reader | None:
    kind = field.message_type
    if kind is not None and kind.GetOptions().map_entry:
        read = _reader_of_one(kind.fields_by_name["value"])
        return lambda values: {str(key): values[key] if read is None else read(values[key]) for key in values}
    read = _reader_of_one(field)
    if field.is_repeated:
        return list if read is None else lambda values: list(map(read, values))
    return read


def _reader_of_one(field: FieldDescriptor) -> _Reader | None:
    """Of a value that is not repeated."""
    if field.message_type is not None:
        name: str = field.message_type.full_name
        if name.startswith("google.protobuf."):
            return _WELL_KNOWN.get(name) or _by_protobuf
        return _fields
    if field.enum_type is not None:
        return _Names({value.number: value.name for value in field.enum_type.values}).__getitem__
    if field.type == FieldDescriptor.TYPE_BYTES:
        return lambda content: b64encode(content).decode()
    return _OF_NUMBERS.get(field.cpp_type)


class _Names(dict[int, str | int]):
    """Of the values of an enum; one that is not known is its number."""

    def __missing__(self, number: int) -> int:
        return number


def _by_protobuf(message: Message) -> Any:
    return MessageToDict(message)


def _value(value: Any) -> Any:
    kind = value.WhichOneof("kind")
    if kind == "string_value":
        return value.string_value
    if kind == "struct_value":
        return _struct(value.struct_value)
    if kind == "list_value":
        return _list(value.list_value)
    if kind == "number_value":
        return _number(value.number_value)
    return value.bool_value if kind == "bool_value" else None


def _struct(struct: Any) -> dict[str, Any]:
    fields, content = struct.fields, {}
    for name in fields:  # its `items` is slow
        content[name] = _value(fields[name])
    return content


def _list(values: Any) -> list[Any]:
    return list(map(_value, values.values))


def _number(number: float) -> float | str:
    """As `a2a_tool_capture.json_values.read_json` reads what JSON lacks."""
    return number if isfinite(number) else str(number)


def value_content(message: Message) -> Any:
    """What a Struct, Value or ListValue has as JSON."""
    return _WELL_KNOWN[message.DESCRIPTOR.full_name](message)


_WELL_KNOWN: dict[str, _Reader] = {
    "google.protobuf.Struct": _struct,
    "google.protobuf.Value": _value,
    "google.protobuf.ListValue": _list,
}
_OF_NUMBERS: dict[int, _Reader] = {
    **dict.fromkeys((FieldDescriptor.CPPTYPE_FLOAT, FieldDescriptor.CPPTYPE_DOUBLE), _number),
    **dict.fromkeys((FieldDescriptor.CPPTYPE_INT64, FieldDescriptor.CPPTYPE_UINT64), str),
}
"""By the type of a field in C++."""
