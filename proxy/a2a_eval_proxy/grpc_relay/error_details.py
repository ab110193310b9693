"""Removes the extension from the details of errors, google.rpc.Status in `grpc-status-details-bin`. Pure."""

from __future__ import annotations

from a2a_tool_capture.extension_filter import names_extension
from a2a_tool_capture.spec import is_capture_uri
from google.protobuf.message import DecodeError
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status

from ..net.grpc_wire import DETAILS, decoded_value, encoded_value
from ..net.http2_streams import Fields


def shown_error(trailers: Fields) -> Fields:
    """The trailers of an error for a client that did not ask for tool calls."""
    found = [(name, _shown(value) if name == DETAILS else value) for name, value in trailers]
    return [(name, value) for name, value in found if value is not None]


def _shown(value: bytes) -> bytes | None:
    """The details without the extension; None: details that cannot be read and may hold some of it.

    An ErrorInfo loses the keys of the extension; another detail that names the extension is left out.
    """
    try:
        encoded = decoded_value(value)
    except ValueError:
        return value  # its client cannot read it either
    if not names_extension(encoded):
        return value
    try:
        status = Status.FromString(encoded)
        for detail in status.details:
            if detail.Is(ErrorInfo.DESCRIPTOR):
                info = ErrorInfo.FromString(detail.value)
                for name in [name for name in info.metadata if is_capture_uri(name)]:
                    del info.metadata[name]
                detail.value = info.SerializeToString()
    except DecodeError:
        return None
    kept = [detail for detail in status.details if not names_extension(detail.value)]
    del status.details[:]
    status.details.extend(kept)
    return encoded_value(status.SerializeToString())
