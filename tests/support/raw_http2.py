"""A client of HTTP/2 on h2, for what no gRPC library sends or shows."""

from __future__ import annotations

import socket
from typing import Any

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, Event, ResponseReceived, StreamEnded, StreamReset, TrailersReceived
from support.patience import PATIENCE_S

Fields = list[tuple[bytes, bytes]]


class RawClient:
    """One connection to HOST:PORT, closed at the end of `with`. Header fields are neither checked nor changed."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=PATIENCE_S)
        self.h2 = H2Connection(
            H2Configuration(
                header_encoding=False,
                validate_outbound_headers=False,
                normalize_outbound_headers=False,
                validate_inbound_headers=False,
            )
        )
        self.h2.initiate_connection()

    def __enter__(self) -> RawClient:
        return self

    def __exit__(self, *_: Any) -> None:
        self._socket.close()

    def begin(self, path: bytes, fields: Fields = (), *, end: bool = False) -> int:  # type: ignore[assignment]
        """Begin a call; returns the id of its stream."""
        stream_id = self.h2.get_next_available_stream_id()
        head = [(b":method", b"POST"), (b":scheme", b"http"), (b":path", path), (b":authority", b"agent")]
        more = [(b"te", b"trailers"), (b"content-type", b"application/grpc"), *fields]
        self.h2.send_headers(stream_id, [*head, *more], end_stream=end)
        return stream_id

    def flush(self) -> None:
        self._socket.sendall(self.h2.data_to_send())

    def events(self) -> list[Event]:
        """What arrives next, at least one. Raises ConnectionError at the end of the connection."""
        while True:
            self.flush()
            data = self._socket.recv(65536)
            if not data:
                raise ConnectionError("the connection has ended")
            if events := self.h2.receive_data(data):
                return events

    def until(self, stream_id: int, *kinds: type[Event]) -> list[Any]:
        """The events of a stream up to one of these kinds."""
        seen: list[Any] = []
        while not any(isinstance(event, kinds) for event in seen):
            seen += [event for event in self.events() if getattr(event, "stream_id", None) == stream_id]
        return seen


def framed(message: bytes, flags: int = 0) -> bytes:
    """A message of gRPC on the wire."""
    return bytes([flags]) + len(message).to_bytes(4, "big") + message


def raw_answer(address: str, path: bytes, fields: Fields, message: bytes) -> dict[str, Any]:
    """Head, body and trailers of the response to a call, or the code with which it was reset."""
    with RawClient(address) as client:
        stream_id = client.begin(path, fields)
        client.h2.send_data(stream_id, framed(message), end_stream=True)
        answer: dict[str, Any] = {"body": b""}
        for event in client.until(stream_id, StreamEnded, StreamReset):
            if isinstance(event, ResponseReceived):
                answer["head"] = list(event.headers)
            elif isinstance(event, TrailersReceived):
                answer["trailers"] = list(event.headers)
            elif isinstance(event, DataReceived):
                answer["body"] += event.data
            elif isinstance(event, StreamReset):
                answer["reset"] = event.error_code
    return answer
