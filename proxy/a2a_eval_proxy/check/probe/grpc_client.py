"""Makes the gRPC calls of a check. Requires grpcio, an optional dependency."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncGenerator, Iterable
from typing import Any

import grpc
import grpc.aio
from a2a_tool_capture.client_tls import HOST, grpc_channel
from a2a_tool_capture.errors import ConfigurationError
from google.protobuf.json_format import ParseDict

from ...grpc_relay.messages import METHODS, A2AMethod, as_json, decoded
from .answer import GrpcEnd, WireAnswer, WireMessage, metadata_fields
from .record import ProbeRequest


class GrpcChannels:
    """Makes calls, over one channel to each address; `metadata` goes with each.

    `tls` has the trusted authorities, and the client certificate if it is a `ClientTls`. `secure`: use TLS also for
    addresses without a scheme. Messages of more than `max_bytes` are errors.
    """

    def __init__(
        self, metadata: Iterable[tuple[str, str]], tls: ssl.SSLContext | None, secure: bool, max_bytes: int
    ) -> None:
        given = [(name.lower(), value) for name, value in metadata]
        self._metadata = [(name, value) for name, value in given if name != HOST]
        self._hosts = [(name, value) for name, value in given if name == HOST]
        self._tls = tls
        self._secure = secure
        self._options = [("grpc.max_receive_message_length", max_bytes), ("grpc.enable_http_proxy", 0)]
        self._channels: dict[str, grpc.aio.Channel] = {}

    async def close(self) -> None:
        for channel in self._channels.values():
            await channel.close(None)

    async def messages(self, request: ProbeRequest, answer: WireAnswer) -> AsyncGenerator[WireMessage, None]:
        """Make the call, with a stream of answers (on the wire, every call is the same), and yield each message.

        Leaving the iteration early cancels the call. A body that is not JSON is sent as it is.
        """
        address, service, name = request.url.rsplit("/", 2)
        method = METHODS.get(f"/{service}/{name}")
        answer.streams = method is not None and method.streams
        try:
            start = self._channel_to(address).unary_stream(f"/{service}/{name}")
        except ConfigurationError as error:  # concerns this interface only
            answer.end = GrpcEnd(grpc.StatusCode.UNAVAILABLE.name, str(error))
            return
        call = start(_message(request.body, method), metadata=[*self._metadata, *request.headers])
        try:
            answer.headers += metadata_fields(await call.initial_metadata() or ())
            async for data in call:
                yield WireMessage(_content(data, method), asyncio.get_running_loop().time())
        except grpc.aio.AioRpcError:
            pass  # its status is read below
        finally:
            call.cancel()
        trailing = await call.trailing_metadata() or ()
        answer.end = GrpcEnd.of((await call.code()).name, str(await call.details() or ""), trailing)

    def _channel_to(self, address: str) -> grpc.aio.Channel:
        """The channel to HOST:PORT, with a scheme or without. Raises ConfigurationError."""
        if address not in self._channels:
            self._channels[address] = grpc_channel(
                address, self._tls, self._options, secure=self._secure, headers=self._hosts
            )
        return self._channels[address]


def _message(body: bytes, method: A2AMethod | None) -> bytes:
    """The message with this JSON; empty for a method that A2A does not have."""
    try:
        content = json.loads(body)
    except ValueError:
        return body
    return b"" if method is None else ParseDict(content, method.request_type()).SerializeToString()


def _content(data: Any, method: A2AMethod | None) -> bytes:
    """The message as JSON; in base64 if it is not one that the method returns."""
    try:
        if method is not None:
            return json.dumps(as_json(decoded(method.response_type, data))).encode()
    except ValueError:
        pass
    return base64.b64encode(data)
