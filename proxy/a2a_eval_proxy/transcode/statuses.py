"""What a gRPC status of the agent is for a client over HTTP. Pure.

An error of A2A has its name in the status details, from which a2a-sdk reads it; the rules here are for any other.
"""

from __future__ import annotations

from dataclasses import dataclass

import grpc
from a2a.utils.errors import (
    A2AError,
    InternalError,
    InvalidParamsError,
    TaskNotFoundError,
    UnsupportedOperationError,
)

from ..net.http_client import UpstreamError, UpstreamTimeoutError, UpstreamUnreachableError

_ERRORS: dict[grpc.StatusCode, type[A2AError]] = {
    grpc.StatusCode.INVALID_ARGUMENT: InvalidParamsError,
    grpc.StatusCode.OUT_OF_RANGE: InvalidParamsError,
    grpc.StatusCode.NOT_FOUND: TaskNotFoundError,
    grpc.StatusCode.FAILED_PRECONDITION: UnsupportedOperationError,
    grpc.StatusCode.UNIMPLEMENTED: UnsupportedOperationError,
}
"""A2A 1.0, section 5.4: the error whose status this is. A refusal is in HTTP's statuses, further down."""

_REFUSALS = {
    grpc.StatusCode.UNAUTHENTICATED: 401,
    grpc.StatusCode.PERMISSION_DENIED: 403,
    grpc.StatusCode.RESOURCE_EXHAUSTED: 429,
}
"""HTTP statuses, as google.rpc.Code gives them."""

_TOO_LARGE_TO_SEND, _TOO_LARGE_TO_RECEIVE = "Sent message larger than max", "Received message larger than max"
"""In the details of a status that this side's gRPC library made: a message exceeds `max_body_bytes`."""

_TOO_MUCH_METADATA = "received metadata size exceeds"
"""In the details of a status of a gRPC library: at the beginning in that of the agent, which refuses the client's
headers, later in that of this side, which refuses the agent's."""


@dataclass(frozen=True, slots=True)
class RefusedCall:
    """The agent refuses a client: a response with this HTTP status. `reason` is for programs, `message` for people."""

    status: int
    reason: str
    message: str


def problem_of(code: grpc.StatusCode, details: str | None, method: str) -> A2AError | RefusedCall | UpstreamError:
    """The error for a status without an error of A2A in its details. `method` is the name of the agent's method."""
    message = details or f"gRPC status {code.name}"
    if code is grpc.StatusCode.UNAVAILABLE:
        return UpstreamUnreachableError(message)
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return UpstreamTimeoutError(message)
    if _TOO_LARGE_TO_RECEIVE in message:
        return UpstreamError(message)
    if _TOO_LARGE_TO_SEND in message:
        return RefusedCall(413, "BODY_TOO_LARGE", message)
    if message.startswith(_TOO_MUCH_METADATA):
        return RefusedCall(431, "HEADERS_TOO_LARGE", f"the agent does not take headers of this size: {message}")
    if _TOO_MUCH_METADATA in message:
        return UpstreamError(message)
    if code in _REFUSALS:
        return RefusedCall(_REFUSALS[code], code.name, message)
    if code is grpc.StatusCode.UNIMPLEMENTED:
        message = f"the agent does not implement {method}: {message}"
    return _ERRORS.get(code, InternalError)(message)
