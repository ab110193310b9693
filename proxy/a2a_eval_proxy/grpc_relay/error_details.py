"""Removes the extension from the details of errors, google.rpc.Status in `grpc-status-details-bin`. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from a2a_tool_capture.spec import is_capture_uri
from google.protobuf.message import DecodeError
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status

from .message_filter import may_hold_extension

_DETAILS = "grpc-status-details-bin"


def shown_error(metadata: Iterable[tuple[str, str | bytes]]) -> tuple[tuple[str, str | bytes], ...]:
    """The trailing metadata of an error for a client that did not ask for tool calls."""
    shown = (
        (key, shown_details(value) if key == _DETAILS and isinstance(value, bytes) else value)
        for key, value in metadata
    )
    return tuple((key, value) for key, value in shown if value is not None)


def shown_details(encoded: bytes) -> bytes | None:
    """The details for a client that did not ask for tool calls; None: details that cannot be read and may hold some.

    An ErrorInfo loses the keys of the extension; another detail that names the extension is left out.
    """
    if not may_hold_extension(encoded):
        return encoded
    status = Status()
    try:
        status.ParseFromString(encoded)
        for detail in status.details:
            if detail.Is(ErrorInfo.DESCRIPTOR):
                info = ErrorInfo.FromString(detail.value)
                for name in [name for name in info.metadata if is_capture_uri(name)]:
                    del info.metadata[name]
                detail.value = info.SerializeToString()
    except DecodeError:
        return None
    kept = [detail for detail in status.details if not may_hold_extension(detail.value)]
    del status.details[:]
    status.details.extend(kept)
    return bytes(status.SerializeToString())
