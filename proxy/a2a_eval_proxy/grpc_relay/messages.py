"""The methods of the two A2A services, and their messages as JSON. Pure.

A2A 1.0 is the service `lf.a2a.v1.A2AService`, A2A 0.3 `a2a.v1.A2AService`; their descriptors are those of a2a-sdk, with
the fields of A2A 1.1 that it does not know yet. Without them, what an agent of 1.1 says of the order of its events
would be lost in the JSON that capture reads, and the extension would not be removed from a timeline.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from a2a.compat.v0_3 import a2a_v0_3_pb2
from a2a.types import a2a_pb2
from google.protobuf.descriptor import FieldDescriptor, FileDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.json_format import Error as JsonFormatError
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from ..protocol.operations import RPC_METHODS, A2ARequest, Binding, Operation

_ENTRY = "TimelineEntry"
_INT64, _MESSAGE = FieldDescriptor.TYPE_INT64, FieldDescriptor.TYPE_MESSAGE

_LATER = {
    "Task": (("generation", 7, _INT64, ""), ("timeline", 8, _MESSAGE, _ENTRY)),
    "TaskStatusUpdateEvent": (("generation", 5, _INT64, ""),),
    "TaskArtifactUpdateEvent": (("generation", 7, _INT64, ""),),
    "GetTaskRequest": (("current_generation", 4, _INT64, ""),),
    "SendMessageConfiguration": (("if_generation_match", 5, _INT64, ""),),
    _ENTRY: (
        ("message", 1, _MESSAGE, "Message"),
        ("status", 2, _MESSAGE, "TaskStatus"),
        ("generation", 3, _INT64, ""),
    ),
}
"""By message: name, number, type of each field, and the message that it holds. `timeline` is a list."""


def with_later_fields(file: FileDescriptor) -> FileDescriptor:
    """The file with these fields, unless it has others of their names or numbers."""
    extended: FileDescriptor = DescriptorPool(_Files(file)).FindFileByName(file.name)
    return extended


class _Files:
    """Where a pool finds the files that it needs."""

    def __init__(self, file: FileDescriptor) -> None:
        """`file`: what gets more fields."""
        self._file = file

    def FindFileByName(self, name: str) -> FileDescriptorProto:  # noqa: N802  # protobuf calls it
        content = FileDescriptorProto()
        self._file.pool.FindFileByName(name).CopyToProto(content)
        if name == self._file.name:
            if all(message.name != _ENTRY for message in content.message_type):
                content.message_type.add(name=_ENTRY)
            for message in content.message_type:
                _extend(message, content.package)
        return content


def _extend(message: DescriptorProto, package: str) -> None:
    names = {field.name for field in message.field}
    numbers = {field.number for field in message.field}
    for name, number, kind, held in _LATER.get(message.name, ()):
        if name in names or number in numbers:
            continue
        label = FieldDescriptor.LABEL_REPEATED if name == "timeline" else FieldDescriptor.LABEL_OPTIONAL
        field = message.field.add(name=name, number=number, type=kind, label=label)
        if held:
            field.type_name = f".{package}.{held}"


_SMALL = 256 * 1024
"""A message up to this length has room for few values."""

_MAX_VALUES = 100_000
"""As JSON, a value takes about 10 us, during which nothing else is relayed."""

_OPERATIONS = {
    **{method: operation for operation, (method, _) in RPC_METHODS.items()},
    "TaskSubscription": Operation.SUBSCRIBE,
    "GetAgentCard": Operation.EXTENDED_CARD,
}
"""By the name of the method; both versions have the names of 1.0, but for two of 0.3."""

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
        resource = str(next(filter(None, map(fields.get, _NAMES_TASK)), ""))
        return A2ARequest(
            self.operation,
            Binding.GRPC,
            task_id=resource.split("/")[1] if resource.startswith("tasks/") else resource,  # 0.3: tasks/ID
            includes_artifacts=fields.get("includeArtifacts") is True,
            legacy=self.legacy,
            has_webhook=self.operation is Operation.PUSH_CONFIG,
        )


def _methods(file: FileDescriptor) -> dict[str, A2AMethod]:
    found = {}
    for descriptor, legacy in ((file, False), (a2a_v0_3_pb2.DESCRIPTOR, True)):
        for service in descriptor.services_by_name.values():
            for method in service.methods:
                other = Operation.PUSH_CONFIG if "PushNotificationConfig" in method.name else Operation.OTHER
                found[f"/{service.full_name}/{method.name}"] = A2AMethod(
                    _OPERATIONS.get(method.name, other),
                    GetMessageClass(method.input_type),
                    GetMessageClass(method.output_type),
                    method.server_streaming,
                    legacy,
                )
    return found


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


def fields_within(message: Message) -> Iterator[tuple[Any, FieldDescriptor, Sequence[Any]]]:
    """Each field that is set in `message`, and in all messages in it, with its values, and the message that has it."""
    pending = [message]
    while pending:
        one = pending.pop()
        for field, value in one.ListFields():
            kind = field.message_type
            if kind is not None and kind.GetOptions().map_entry:
                value, kind = value.values(), kind.fields_by_name["value"].message_type
            elif not field.is_repeated:
                value = (value,)
            yield one, field, value
            if kind is not None:
                pending.extend(value)


def as_json(message: Message) -> dict[str, Any]:
    """The message as ProtoJSON.

    Raises ValueError for one with too many values, or that nests too deeply.
    """
    if message.ByteSize() > _SMALL:
        found = 0
        for _, _, values in fields_within(message):
            found += len(values)
            if found > _MAX_VALUES:
                raise ValueError("too many values to be read")
    try:
        return _fields(message)
    except (JsonFormatError, TypeError, RecursionError) as error:
        raise ValueError(str(error)) from None


def _fields(message: Message) -> dict[str, Any]:
    """What `MessageToDict` returns, but for numbers that JSON lacks."""
    content: dict[str, Any] = {}
    for field, value in message.ListFields():
        kind = field.message_type
        if kind is not None and kind.GetOptions().map_entry:
            one = kind.fields_by_name["value"]
            content[field.json_name] = {str(key): _field(one, value[key]) for key in value}
        elif field.is_repeated:
            content[field.json_name] = [_field(field, one) for one in value]
        else:
            content[field.json_name] = _field(field, value)
    return content


def _field(field: FieldDescriptor, value: Any) -> Any:
    """One value of a field."""
    kind = field.message_type
    if kind is not None:
        if read := _WELL_KNOWN.get(kind.full_name):
            return read(value)
        return MessageToDict(value) if kind.full_name.startswith("google.protobuf.") else _fields(value)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return value if known is None else known.name
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if field.cpp_type in (FieldDescriptor.CPPTYPE_INT64, FieldDescriptor.CPPTYPE_UINT64):
        return str(value)
    return _number(value) if isinstance(value, float) else value


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


_WELL_KNOWN: dict[str, Callable[[Any], Any]] = {
    "google.protobuf.Struct": _struct,
    "google.protobuf.Value": _value,
    "google.protobuf.ListValue": _list,
}
