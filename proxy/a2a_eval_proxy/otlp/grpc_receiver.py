"""OTLP/gRPC: the same intake behind calls over HTTP/2."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import Any

from ..net.grpc_wire import GrpcMessage, GrpcStatus, MessageReader, MessageTooLargeError, ending, only_trailers
from ..net.http2_server import Ends
from ..net.http2_streams import Data, Headers, Http2Stream
from .decoding import PROTOBUF, BodyError
from .intake import SIGNALS, Intake, Packed

_SIGNALS_BY_PATH = {f"/{signal.service}/Export".encode(): signal for signal in SIGNALS}


class GrpcReceiver:
    """The Export methods of the trace, logs and metrics services."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake

    async def __call__(self, stream: Http2Stream, head: Headers, ends: Ends) -> None:
        fields = dict(head.fields)
        if not fields.get(b"content-type", b"").startswith(b"application/grpc"):
            stream.send_headers([(b":status", b"415")], end=True)
            return
        try:
            response = await self._export(stream, head, fields)
        except BodyError as error:
            self._intake.counts["grpc", "rejected"] += 1
            stream.send_headers(only_trailers(ending(error.code, str(error))), end=True)
            return
        self._intake.counts["grpc", "accepted"] += 1
        stream.send_headers([(b":status", b"200"), (b"content-type", b"application/grpc")], end=False)
        stream.send_data(GrpcMessage(response.SerializeToString()).frame)
        stream.send_headers(ending(GrpcStatus.OK, ""), end=True)

    async def _export(self, stream: Http2Stream, head: Headers, fields: dict[bytes, bytes]) -> Any:
        path = fields.get(b":path", b"")
        signal = _SIGNALS_BY_PATH.get(path)
        if signal is None:
            accepted = ", ".join(known.decode() for known in _SIGNALS_BY_PATH)
            raise BodyError(404, f"no {path.decode(errors='replace')} here; OTLP goes to {accepted}")
        coding = fields.get(b"grpc-encoding", b"").decode("latin-1")
        return await self._intake.answer(signal, _parts(stream, head.ended), partial(self._unpacked, coding))

    def _unpacked(self, coding: str, body: bytes) -> Packed:
        """Raises BodyError."""
        try:
            messages = list(MessageReader(self._intake.max_bytes).feed(body))
        except MessageTooLargeError:
            raise self._intake.too_large() from None
        if len(messages) != 1:
            raise BodyError(400, f"{len(messages)} whole messages in a call; Export takes one")
        return Packed(messages[0].payload, PROTOBUF, coding if messages[0].is_compressed else "")


async def _parts(stream: Http2Stream, ended: bool) -> AsyncIterator[bytes]:
    """What the body of a call consists of, as it arrives."""
    while not ended and isinstance(event := await stream.next(), Data):
        stream.taken(event.size)
        ended = event.ended
        yield event.content
