"""Makes the gRPC calls of a check. Requires grpcio, an optional dependency."""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncGenerator, Iterable
from typing import Any

import grpc
import grpc.aio
from a2a_tool_capture.client_tls import channel_credentials
from a2a_tool_capture.errors import ConfigurationError
from google.protobuf.json_format import ParseDict
from google.protobuf.message import DecodeError
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status

from ...grpc_relay.messages import METHODS, A2AMethod, as_json, decoded
from .record import GrpcError, OperationRequest

_SECURE = ("https://", "grpcs://")
_DETAILS = "grpc-status-details-bin"
_GIVEN_UP = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED})
"""Statuses of calls that no agent answered; an agent may send them, too."""


class CallFailed(Exception):  # noqa: N818  # an answer
    """The call ended with a status other than OK; `answered` is False if the agent did not answer at all."""

    def __init__(self, error: GrpcError, answered: bool) -> None:
        super().__init__(f"gRPC {error.code}: {error.message}".rstrip(": "))
        self.error = error
        self.answered = answered


class GrpcChannels:
    """Makes calls, over one channel to each address; `metadata` goes with each.

    `tls` has the trusted authorities, and the client certificate if it is a `ClientTls`. `secure`: use TLS also for
    addresses without a scheme. Messages of more than `max_bytes` are errors.
    """

    def __init__(
        self, metadata: Iterable[tuple[str, str]], tls: ssl.SSLContext | None, secure: bool, max_bytes: int
    ) -> None:
        self._metadata = [(name.lower(), value) for name, value in metadata]
        self._tls = tls
        self._secure = secure
        self._options = [("grpc.max_receive_message_length", max_bytes), ("grpc.enable_http_proxy", 0)]
        self._channels: dict[str, grpc.aio.Channel] = {}

    async def close(self) -> None:
        for channel in self._channels.values():
            await channel.close(None)

    def start(self, request: OperationRequest, timeout_s: float | None = None) -> Any:
        """Start the call, with a stream of answers: on the wire, every call is the same.

        A body that is not JSON is sent as it is. Raises ConfigurationError, which concerns this interface only.
        """
        address, path = request.grpc_target
        message = _message(request.body, METHODS.get(path))
        metadata = [*self._metadata, *request.headers]
        return self._channel_to(address).unary_stream(path)(message, metadata=metadata, timeout=timeout_s)

    def _channel_to(self, address: str) -> grpc.aio.Channel:
        """The channel to HOST:PORT, with a scheme or without. Raises ConfigurationError."""
        if address not in self._channels:
            target = address.rpartition("://")[2].rstrip("/")
            if self._secure or address.startswith(_SECURE):
                channel = grpc.aio.secure_channel(target, channel_credentials(self._tls), self._options)
            else:
                channel = grpc.aio.insecure_channel(target, self._options)
            self._channels[address] = channel
        return self._channels[address]

    async def answers(self, request: OperationRequest, seen: list[tuple[str, str]]) -> AsyncGenerator[bytes, None]:
        """Make the call and yield each message of the answer as JSON; puts the answer's metadata into `seen`.

        Leaving the iteration early cancels the call. Raises CallFailed, or ValueError for an answer that is not A2A.
        """
        method = METHODS[request.grpc_target[1]]
        try:
            call = self.start(request)
        except ConfigurationError as error:
            raise CallFailed(GrpcError(grpc.StatusCode.UNAVAILABLE.name, str(error)), answered=False) from None
        try:
            seen += _texts(await call.initial_metadata())
            async for data in call:
                yield json.dumps(as_json(decoded(method.response_type, data))).encode()
            await self._end(call, seen)
        except grpc.aio.AioRpcError:
            await self._end(call, seen)
        finally:
            call.cancel()

    async def _end(self, call: Any, seen: list[tuple[str, str]]) -> None:
        """Read the trailing metadata and status of a call that has ended. Raises CallFailed unless it is OK."""
        trailing = await call.trailing_metadata()
        seen += _texts(trailing)
        code = await call.code()
        if code is not grpc.StatusCode.OK:
            details = next((value for name, value in trailing or () if name == _DETAILS), b"")
            error = _error(code.name, str(await call.details() or ""), details)
            raise CallFailed(error, answered=code not in _GIVEN_UP)


def _message(body: bytes, method: A2AMethod | None) -> bytes:
    """The message with this JSON; empty for a method that A2A does not have."""
    try:
        content = json.loads(body)
    except ValueError:
        return body
    return b"" if method is None else ParseDict(content, method.request_type()).SerializeToString()


def _texts(metadata: Any) -> list[tuple[str, str]]:
    return [(name, value) for name, value in metadata or () if isinstance(value, str)]


def _error(code: str, message: str, details: bytes) -> GrpcError:
    """The error of a status with these `grpc-status-details-bin`; details that cannot be read count as absent."""
    status, info = Status(), ErrorInfo()
    try:
        status.ParseFromString(details)
        if any(detail.Unpack(info) for detail in status.details):
            return GrpcError(code, message, info.reason, info.domain)
    except DecodeError:
        pass
    return GrpcError(code, message)
