"""Both sides of HTTP/2 on h2, for what no gRPC library sends or shows."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from h2.config import H2Configuration
from h2.connection import ConnectionInputs, H2Connection, H2ConnectionStateMachine
from h2.events import (
    DataReceived,
    Event,
    RequestReceived,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
)
from h2.settings import SettingCodes, Settings
from support.patience import PATIENCE_S

Fields = list[tuple[bytes, bytes]]

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
"""What begins a connection of HTTP/2, with empty settings."""


def deliver(address: str, data: bytes, until: bytes = b"") -> bytes:
    """Send the bytes to HOST:PORT, and return the answer up to where `until` has arrived, or its end."""
    host, _, port = address.rpartition(":")
    answer = b""
    with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as connection, suppress(ConnectionError):
        connection.sendall(data)
        while part := connection.recv(65536):
            answer += part
            if until in answer:
                break
    return answer


class _Going(H2ConnectionStateMachine):
    """Lets open streams continue after a GOAWAY (RFC 9113, section 6.8)."""

    def process_input(self, input_: ConnectionInputs) -> list[Any]:
        return [] if input_ is ConnectionInputs.RECV_GOAWAY else super().process_input(input_)


class _H2(H2Connection):
    def __init__(self, config: H2Configuration) -> None:
        super().__init__(config)
        self.state_machine = _Going()

    def clear_outbound_data_buffer(self) -> None:
        """Called at a GOAWAY; open streams need what is in it."""


def unchecked_connection(*, client_side: bool, settings: dict[int, int] | None = None) -> H2Connection:
    checks = dict.fromkeys(
        ("validate_outbound_headers", "normalize_outbound_headers", "validate_inbound_headers"), False
    )
    connection = _H2(H2Configuration(client_side=client_side, header_encoding=False, **checks))
    connection.local_settings = Settings(client=client_side, initial_values=settings)
    connection.max_inbound_frame_size = connection.local_settings.max_frame_size
    connection.initiate_connection()
    return connection


class RawClient:
    """One connection to HOST:PORT, closed at the end of `with`. Header fields are neither checked nor changed."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=PATIENCE_S)
        self.h2 = unchecked_connection(client_side=True)

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
        self.send(b"")

    def send(self, frames: bytes) -> None:
        """Send what h2 has to say, and frames of which it knows nothing, in one piece."""
        self._socket.sendall(self.h2.data_to_send() + frames)

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


Handler = Callable[["RawConnection", Event], None]


class RawConnection(asyncio.Protocol):
    """A connection to a `raw_agent`."""

    def __init__(self, handle: Handler, settings: dict[int, int]) -> None:
        self._handle = handle
        self.h2 = unchecked_connection(client_side=False, settings=settings)
        self.requests: dict[int, Fields] = {}
        """The heads of the calls, by their streams."""

    def calls(self, path: bytes) -> int:
        """How many calls of a method came."""
        return sum((b":path", path) in head for head in self.requests.values())

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.flush()

    def data_received(self, data: bytes) -> None:
        for event in self.h2.receive_data(data):
            if isinstance(event, RequestReceived):
                self.requests[event.stream_id] = list(event.headers)
            self._handle(self, event)
        self.flush()

    def flush(self) -> None:
        if data := self.h2.data_to_send():
            self.transport.write(data)

    def answer(self, stream_id: int, *messages: bytes, head: Fields = (), trailers: Fields = ()) -> None:  # type: ignore[assignment]
        """A whole response, by default with the status OK."""
        self.h2.send_headers(stream_id, [(b":status", b"200"), (b"content-type", b"application/grpc"), *head])
        for message in messages:
            self.h2.send_data(stream_id, message)
        self.h2.send_headers(stream_id, trailers or [(b"grpc-status", b"0")], end_stream=True)


@asynccontextmanager
async def raw_agent(handle: Handler, **settings: int) -> AsyncIterator[tuple[str, list[RawConnection]]]:
    """HOST:PORT of an agent that does what `handle` does at each event, and its connections so far.

    `settings`: of HTTP/2, by their names in lower case.
    """
    connections: list[RawConnection] = []
    codes: dict[int, int] = {SettingCodes[name.upper()]: value for name, value in settings.items()}

    def connected() -> RawConnection:
        connections.append(RawConnection(handle, codes))
        return connections[-1]

    server = await asyncio.get_running_loop().create_server(connected, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}", connections
    finally:
        server.close()
        for connection in connections:
            connection.transport.abort()
