"""OTLP/gRPC: the same intake behind calls over HTTP/2."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from ..net.grpc_wire import GrpcMessage, GrpcStatus, MessageReader, MessageTooLargeError, ending, only_trailers
from ..net.http2_server import Ends, StreamHandler
from ..net.http2_streams import Data, Fields, Headers, Http2Stream
from .decoding import PROTOBUF
from .intake import SIGNALS, Intake, SinkError
from .size_limits import BodyError, BusyError, MalformedError, PayloadTooLargeError, UnsupportedError

_SIGNALS_BY_PATH = {f"/{signal.service}/Export".encode(): signal for signal in SIGNALS}

_STATUSES: dict[type[Exception], GrpcStatus] = {
    BusyError: GrpcStatus.UNAVAILABLE,  # which exporters retry
    MalformedError: GrpcStatus.INVALID_ARGUMENT,
    PayloadTooLargeError: GrpcStatus.RESOURCE_EXHAUSTED,
    SinkError: GrpcStatus.INTERNAL,
    TimeoutError: GrpcStatus.DEADLINE_EXCEEDED,
    UnsupportedError: GrpcStatus.UNIMPLEMENTED,
}


class GrpcReceiver(StreamHandler):
    """The Export methods of the trace, logs and metrics services.

    `body_timeout_s` limits the time to receive a message.
    """

    def __init__(self, intake: Intake, *, body_timeout_s: float = 30.0) -> None:
        self._intake = intake
        self._body_timeout_s = body_timeout_s

    async def answer(self, stream: Http2Stream, head: Headers, ends: Ends) -> None:
        fields = dict(head.fields)
        if not fields.get(b"content-type", b"").startswith(b"application/grpc"):
            stream.send_headers([(b":status", b"415")], end=True)
            return
        try:
            response = await self._export(stream, head, fields)
        except (BodyError, SinkError, TimeoutError) as error:
            self._intake.counts["grpc", "rejected"] += 1
            stream.send_headers(only_trailers(ending(_STATUSES[type(error)], str(error))), end=True)
            return
        self._intake.counts["grpc", "accepted"] += 1
        stream.send_headers([(b":status", b"200"), (b"content-type", b"application/grpc")], end=False)
        stream.send_data(GrpcMessage(response.SerializeToString()).frame)
        stream.send_headers(ending(GrpcStatus.OK, ""), end=True)

    def refusal(self, head: Headers, message: str) -> Fields:
        return only_trailers(ending(GrpcStatus.RESOURCE_EXHAUSTED, message))

    async def _export(self, stream: Http2Stream, head: Headers, fields: dict[bytes, bytes]) -> Any:
        path = fields.get(b":path", b"")
        signal = _SIGNALS_BY_PATH.get(path)
        if signal is None:
            accepted = ", ".join(known.decode() for known in _SIGNALS_BY_PATH)
            raise UnsupportedError(f"no {path.decode(errors='replace')} here; OTLP goes to {accepted}")
        with self._intake.arriving(signal) as hold:
            messages = [] if head.ended else await self._read(stream, hold)
            if len(messages) != 1:
                raise MalformedError(f"{len(messages)} whole messages in a call; Export takes one")
            coding = fields.get(b"grpc-encoding", b"").decode("latin-1") if messages[0].is_compressed else ""
            return await self._intake.take(signal, messages[0].payload, PROTOBUF, coding)

    async def _read(self, stream: Http2Stream, hold: Callable[[int], None]) -> list[GrpcMessage]:
        """The messages of a call; nothing is read after a second one. Raises BodyError, or TimeoutError."""
        reader = MessageReader(self._intake.max_bytes)
        messages: list[GrpcMessage] = []
        try:
            async with asyncio.timeout(self._body_timeout_s):
                while len(messages) < 2:
                    event = await stream.next()
                    if not isinstance(event, Data):
                        break
                    hold(event.size)
                    messages += reader.feed(event.content)
                    stream.taken(event.size)
                    if event.ended:
                        break
        except MessageTooLargeError:
            raise self._intake.too_large() from None
        except TimeoutError:
            raise TimeoutError(f"the message did not arrive within {self._body_timeout_s:g} s") from None
        return messages
