"""The messages of a2a-sdk with the fields of A2A 1.1 that it does not know yet. Pure.

Without them, what an agent of 1.1 says of the order of its events would be lost in the JSON that capture reads, and
the extension would not be removed from a timeline.
"""

from __future__ import annotations

from google.protobuf.descriptor import FieldDescriptor, FileDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool

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
