"""An agent that reads HTTP with h11: whatever the proxy puts on a connection, it is split into requests by the book."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self, TypeVar

import h11

T = TypeVar("T")

CARD_PATH = b"/.well-known/agent-card.json"
CARD = (
    '{"name":"h11","version":"1","protocolVersion":"1.0","capabilities":{},"skills":[],"supportedInterfaces":'
    '[{"url":"%s","protocolBinding":"JSONRPC","protocolVersion":"1.0"}]}'
)


@dataclass
class Request:
    """One request as h11 read it. `whole` is false where the connection ended inside its body."""

    method: bytes
    target: bytes
    headers: list[tuple[bytes, bytes]]
    connection: int
    body: bytes = b""
    whole: bool = False

    def header(self, name: bytes) -> list[bytes]:
        """All values of a header, by lower-case name."""
        return [value for key, value in self.headers if key == name]


@dataclass
class Wire:
    """A connection of the agent, for behaviours that do more than answer."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    http: h11.Connection
    number: int

    async def next_event(self) -> h11.Event | type[h11.PAUSED]:
        """The next thing that arrived. Raises h11.RemoteProtocolError, and ConnectionError at the end."""
        while (event := self.http.next_event()) is h11.NEED_DATA:
            self.http.receive_data(await self.reader.read(65_536))
        if event is h11.PAUSED or not isinstance(event, type):
            return event
        raise ConnectionResetError("the proxy has closed the connection")

    async def read_body(self, request: Request) -> None:
        """Read the body of a request to its end."""
        while True:
            event = await self.next_event()
            if isinstance(event, h11.Data):
                request.body += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                request.whole = True
                return

    def send(self, *events: h11.Event) -> None:
        """Write events."""
        for event in events:
            self.writer.write(self.http.send(event) or b"")

    def answer(self, body: bytes, status: int = 200, content_type: bytes = b"application/json") -> None:
        """A whole response."""
        fields = [(b"content-type", content_type), (b"content-length", b"%d" % len(body))]
        self.send(h11.Response(status_code=status, headers=fields), h11.Data(data=body), h11.EndOfMessage())


Behaviour = Callable[[Wire, Request], Awaitable[None]]


async def echo(wire: Wire, request: Request) -> None:
    """Answers with the target and the length of the body."""
    await wire.read_body(request)
    wire.answer(b"%s %d" % (request.target, len(request.body)), content_type=b"text/plain")


@dataclass
class H11Agent:
    """Context manager: serves in a thread; `behave` answers all requests but those for the card."""

    behave: Behaviour = echo
    requests: list[Request] = field(default_factory=list)
    """As they came, without those for the card."""
    card_requests: list[Request] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    """What was no HTTP on a connection."""
    connections: int = 0

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server = self._call(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._call(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _call(self, what: Awaitable[T]) -> T:
        async def run() -> T:
            return await what

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(30)

    async def _end(self) -> None:
        self._server.close()
        for _ in range(10):  # connections accepted a moment ago become tasks, ended tasks close their sockets
            tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await asyncio.sleep(0)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)  # with reading paused, nobody else holds it
        task.add_done_callback(self._tasks.discard)
        wire = Wire(reader, writer, h11.Connection(h11.SERVER), self.connections)
        try:
            while True:
                await self._one(wire)
                if wire.http.our_state is h11.MUST_CLOSE or wire.http.their_state is h11.MUST_CLOSE:
                    break
                wire.http.start_next_cycle()
        except h11.RemoteProtocolError as error:
            self.errors.append(str(error))
        except (ConnectionError, asyncio.CancelledError, h11.LocalProtocolError):
            pass  # the proxy closed, the test is over, or a behaviour broke off
        finally:
            with contextlib.suppress(ConnectionError):
                writer.close()

    async def _one(self, wire: Wire) -> None:
        event = await wire.next_event()
        if not isinstance(event, h11.Request):
            raise ConnectionResetError("no request")
        request = Request(event.method, event.target, list(event.headers), wire.number)
        if request.target == CARD_PATH:
            self.card_requests.append(request)
            await wire.read_body(request)
            fields = [(b"cache-control", b"public, max-age=60"), (b"transfer-encoding", b"chunked")]
            card = h11.Data(data=(CARD % self.url).encode())
            wire.send(h11.Response(status_code=200, headers=fields), card, h11.EndOfMessage())
        else:
            self.requests.append(request)
            await self.behave(wire, request)
        await wire.writer.drain()
