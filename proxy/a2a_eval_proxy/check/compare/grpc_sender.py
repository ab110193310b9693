"""Makes gRPC calls and reads whole answers. Requires grpcio, an optional dependency."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import grpc
import grpc.aio
from a2a_tool_capture.errors import ConfigurationError
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2  # noqa: F401  # registers the types of details

from ...grpc_relay.messages import METHODS, as_json, decoded
from ..probe.client import MAX_EVENTS
from ..probe.grpc_client import GrpcChannels
from ..probe.record import OperationRequest
from .answers import AnswerPart, SideAnswer

_DETAILS = "grpc-status-details-bin"


async def call_whole(channels: GrpcChannels, request: OperationRequest, timeout_s: float) -> SideAnswer:
    """Returns the answer, however it ends."""
    method = METHODS.get(request.grpc_target[1])
    try:
        call = channels.start(request, timeout_s)
    except ConfigurationError as error:
        return SideAnswer(grpc.StatusCode.UNAVAILABLE.name, message=str(error))
    parts: list[AnswerPart] = []
    times: list[float] = []
    initial: Any = ()
    end = ""
    try:
        initial = await call.initial_metadata()
        async for data in call:
            times.append(asyncio.get_running_loop().time())
            parts.append(AnswerPart(_value(method.response_type if method else None, data)))
            if len(parts) > MAX_EVENTS:
                end = f"longer than {MAX_EVENTS} messages"
                break
    except grpc.aio.AioRpcError:
        pass  # its status is read below
    finally:
        call.cancel()
    trailing = await call.trailing_metadata()
    return SideAnswer(
        (await call.code()).name,
        _texts(initial),
        tuple(parts),
        streams=method is not None and method.streams,
        message=await call.details() or "",
        details=_details(trailing),
        trailers=_texts(trailing),
        end=end,
        spread_s=times[-1] - times[0] if times else 0.0,
    )


def _value(message_type: Any, data: bytes) -> Any:
    """The message as JSON; its bytes in base64 if its type is unknown."""
    try:
        if message_type is not None:
            return as_json(decoded(message_type, data))
    except ValueError:
        pass
    return base64.b64encode(data).decode()


def _texts(metadata: Any) -> tuple[tuple[str, str], ...]:
    return tuple(
        (name, value if isinstance(value, str) else base64.b64encode(value).decode())
        for name, value in metadata or ()
        if name != _DETAILS
    )


def _details(trailing: Any) -> Any:
    """The google.rpc.Status in the trailing metadata as JSON; in base64 if it cannot be read, None without one."""
    data = next((value for name, value in trailing or () if name == _DETAILS), None)
    if data is None:
        return None
    try:
        return MessageToDict(status_pb2.Status.FromString(data))
    except (DecodeError, TypeError, ValueError):
        return base64.b64encode(data).decode()
