"""The hostile agent: a raw server on loopback that answers each request as its exchange says."""

from __future__ import annotations

import asyncio
import json
import socket
from types import TracebackType
from typing import Self

from a2a_tool_capture import URI

from .ledger import Ledger
from .reading import RequestReader
from .sockets import Line
from .values import Answered, Close, Exchange, Pause, ReadBody, Reset, Send, Step, Unasked

_RECEIVE_BUFFER = 65_536
"""Small, so that an upload that is not read soon holds its sender up."""


class Agent:
    """Serves the exchanges of one ledger; `port` is where."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)
        self._socket.bind(("127.0.0.1", 0))
        self._socket.listen(512)
        self._socket.setblocking(False)
        self.port: int = self._socket.getsockname()[1]
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self._tasks.append(asyncio.create_task(self._accept()))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.hang_up()
        self._socket.close()

    async def hang_up(self) -> None:
        """Ends all connections, and with them the accepting of new ones."""
        asyncio.get_running_loop().remove_reader(self._socket)  # lest one be accepted for who no longer waits
        for task in self._tasks:
            task.cancel()
        for result in await asyncio.gather(*self._tasks, return_exceptions=True):
            if isinstance(result, Exception):
                raise result

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            connection, _ = await loop.sock_accept(self._socket)
            link = _Link(self._ledger, Line(connection), self.port)
            self._tasks.append(asyncio.create_task(link.serve()))


class _Link:
    """One connection from the proxy."""

    def __init__(self, ledger: Ledger, line: Line, port: int) -> None:
        self._ledger = ledger
        self._line = line
        self._reader = RequestReader(ledger, b"127.0.0.1:%d" % port)
        self._closed = False

    async def serve(self) -> None:
        try:
            while await self._read_head() and not self._closed:
                exchange = self._reader.exchange
                if exchange is None:
                    await self._answer_own()
                else:
                    await self._answer(exchange)
                if self._closed or not await self._read_body(None):
                    return
                self._reader.next()
        except OSError:
            pass  # the proxy has left
        finally:
            self._line.close()

    # ── reading ─────────────────────────────────────────────────────────────────────────────────────────

    async def _read_head(self) -> bool:
        while self._reader.head is None:
            if not await self._read():
                return False
        return True

    async def _read_body(self, size: int | None) -> bool:
        while not self._reader.whole and (size is None or self._reader.body_size < size):
            if not await self._read():
                return False
        return True

    async def _read(self) -> bool:
        data = await self._line.receive()
        if data:
            self._reader.feed(data)
        return bool(data) and not self._reader.broken

    # ── answering ───────────────────────────────────────────────────────────────────────────────────────

    async def _answer_own(self) -> None:
        """The card, which the proxy fetches for itself."""
        await self._read_body(None)
        body = json.dumps({"name": "fuzz", "capabilities": {"extensions": [{"uri": URI}]}}).encode()
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
        await self._line.send(head + body)

    async def _answer(self, exchange: Exchange) -> None:
        again = self._ledger.attempts(exchange.token) > 1
        steps: tuple[Step, ...] = exchange.answer.steps
        if again and not any(isinstance(step, Answered) for step in steps):
            steps = (ReadBody(), *steps)  # who tries again must send all of it again
        for step in steps:
            if not await self._do(step):
                self._closed = True
                return

    async def _do(self, step: Step) -> bool:
        """Whether the connection continues."""
        arrival = self._reader.arrival
        assert arrival is not None
        match step:
            case Send(data):
                await self._line.send(data)
                arrival.begun = True
            case Pause(seconds):
                await asyncio.sleep(seconds)
            case ReadBody(size):
                return await self._read_body(size)
            case Answered():
                arrival.answered = True
            case Unasked():
                self._reader.doubted = "had answered unasked, or said that it would close"
            case Close():
                if not self._reader.doubted:
                    self._ledger.unsaid_closes += 1
                self._line.close()
                return False
            case Reset():
                self._line.close(reset=True)
                return False
        return True
