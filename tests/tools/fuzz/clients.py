"""The clients: connections to the proxy that send, wait, read and leave as their plans say."""

from __future__ import annotations

import asyncio

from .ledger import Ledger
from .reading import AnswerReader
from .sockets import PIECE, Line, has_looked
from .values import Close, ConnectionPlan, Exchange, Pause, Reset, Send

_AGENT_DONE_WITHIN_S = 1.5
_REST_S = 5.0
_POLL_S = 0.5
_BUSY_S = 60.0
"""How long the proxy may be busy with others before it handles an exchange in which nothing moves."""


class Client:
    """One client, and its connection to the proxy. What becomes of its exchanges stands in the ledger."""

    def __init__(self, plan: ConnectionPlan, ledger: Ledger, port: int, patience_s: float) -> None:
        self._plan = plan
        self._ledger = ledger
        self._port = port
        self._patience_s = patience_s
        self._resets = plan.reading.reset
        """Whether it leaves with a reset."""
        self._paced = plan.reading.slow_pieces

    async def run(self) -> None:
        """All batches, on a new connection where the last one has ended. Raises OSError if the proxy takes none."""
        open_ = False
        try:
            for batch in self._plan.batches:
                if not open_:
                    self._line = await Line.connect(self._port, receive_buffer=self._plan.reading.buffer)
                    self._answers = AnswerReader(self._ledger)
                open_ = await self._converse(batch)
                if not open_:
                    self._line.close(reset=self._answers.leaving and self._resets)
        finally:
            self._line.close()

    async def _converse(self, batch: tuple[Exchange, ...]) -> bool:
        """Whether the connection continues."""
        for exchange in batch:
            self._answers.expect(exchange)
        writing = asyncio.create_task(self._write(batch))
        reading = asyncio.create_task(self._read())
        try:
            await asyncio.wait({writing, reading}, return_when=asyncio.FIRST_COMPLETED)
            if writing.done() and not reading.done() and not writing.result():
                self._answers.left()
                return False
            if not await reading or self._answers.closing or not self._plan.stays(batch):
                return False
            await asyncio.wait({writing}, timeout=_REST_S)  # an early answer: the rest of the request
            return writing.done() and writing.result()
        finally:
            writing.cancel()
            reading.cancel()
            await asyncio.gather(writing, reading, return_exceptions=True)

    async def _write(self, batch: tuple[Exchange, ...]) -> bool:
        """Sends the requests; False where the client has left over it."""
        try:
            for exchange in batch:
                for step in exchange.request.steps:
                    match step:
                        case Send(data):
                            await self._line.send(data)
                        case Pause(seconds):
                            await asyncio.sleep(seconds)
                        case Close() | Reset():
                            self._answers.leaving = True
                            self._resets = isinstance(step, Reset)
                            return False
        except OSError:
            pass  # the proxy closed: what came before that is for the reader
        return True

    async def _read(self) -> bool:
        """Reads until no answer is missing; whether the connection is still open."""
        reading = self._plan.reading
        if reading.wait_s:
            await self._agent_is_done()
            await asyncio.sleep(reading.wait_s)
        while self._answers.current is not None:
            if reading.leave_after is not None and self._answers.size >= reading.leave_after:
                self._answers.left()
                return False
            data, error = await self._receive(reading.piece if self._paced > 0 else PIECE)
            if data is None:
                return False
            if not data:
                self._answers.eof(clean=not error)
                return False
            self._answers.feed(data)
            if self._paced > 0:
                self._paced -= 1
                await asyncio.sleep(reading.pause_s)
        return not self._answers.leaving

    async def _agent_is_done(self) -> None:
        """Waits until the agent has sent the first answer, or can send no more because the client does not read."""
        exchange = self._answers.current
        try:
            async with asyncio.timeout(_AGENT_DONE_WITHIN_S):
                while exchange is not None and not self._ledger.has_answered(exchange.token):
                    await asyncio.sleep(0.01)
        except TimeoutError:
            pass

    async def _receive(self, size: int) -> tuple[bytes | None, bool]:
        """Bytes, b"" at the end and whether that was an error; None where the exchange hangs."""
        receiving = asyncio.create_task(self._line.receive(size))
        try:
            while not receiving.done():
                await asyncio.wait({receiving}, timeout=_POLL_S)  # cancels nothing, so no byte is lost
                if not receiving.done() and self._line.idle_s > self._patience_s and await self._hangs():
                    self._answers.hung()
                    return None, False
            return receiving.result(), False
        except OSError:
            return b"", True
        finally:
            receiving.cancel()

    async def _hangs(self) -> bool:
        """Whether nothing moves though the proxy is not busy."""
        try:
            async with asyncio.timeout(_BUSY_S):
                await has_looked(self._port)
        except TimeoutError:
            return True
        return self._line.idle_s > self._patience_s
