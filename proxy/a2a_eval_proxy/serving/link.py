"""Messages between the main process and a serving process, questions among them, and turns in them."""

from __future__ import annotations

import asyncio
import itertools
import socket
import struct
from collections import deque
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import fields
from io import BytesIO
from typing import Any

import orjson

from ..capture.observations import turn_from_message, turn_to_message
from ..capture.turn_changes import TurnChanges
from ..memory import HeldBytes, MemoryPool

_LENGTH = struct.Struct("!I")
_MAX_MESSAGE_BYTES = 1 << 30
_CLOSE_S = 5.0

ASK, _ANSWER = "ask", "answer"
"""The kinds of messages with a question (`number`, `subject`, `question`), and its answer."""


class _UntilItsEnd(asyncio.StreamReader):
    """Gives what has arrived, also after a write has failed."""

    def set_exception(self, exc: Exception) -> None:
        self.feed_eof()


class Link:
    """JSON messages in order over a Unix socket: each an object with its `kind`, after its length in 4 bytes.

    What the other process had sent when it was killed arrives: a write that fails then closes the connection, and a
    duplicate socket gives what is left.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, same: socket.socket) -> None:
        """See `over`. `same`: the duplicate, which does not block."""
        self._reader = reader
        self._writer = writer
        self._same = same
        self.written = 0
        """Bytes of all messages so far."""
        self._rest: BytesIO | None = None
        """What is left at the end."""
        self._numbers = itertools.count(1)
        self._asked: dict[int, asyncio.Future[Any]] = {}

    @classmethod
    async def over(cls, connection: socket.socket) -> Link:
        """A link over a connected socket, which it closes."""
        loop = asyncio.get_running_loop()
        same, reader = connection.dup(), _UntilItsEnd()
        same.setblocking(False)
        protocol = asyncio.StreamReaderProtocol(reader)
        transport, _ = await loop.create_unix_connection(lambda: protocol, sock=connection)
        return cls(reader, asyncio.StreamWriter(transport, protocol, reader, loop), same)

    @property
    def taken(self) -> int:
        """Bytes of messages that are not in the memory of this process any more."""
        return self.written - self._writer.transport.get_write_buffer_size()

    def send(self, kind: str, **content: Any) -> None:
        """Send a message. Does not wait; once the link has ended, does nothing."""
        if self._writer.is_closing():
            return
        message = orjson.dumps({"kind": kind, **content})
        self._writer.writelines((_LENGTH.pack(len(message)), message))
        self.written += _LENGTH.size + len(message)

    async def ask(self, subject: str, **question: Any) -> Any:
        """What the other process answers, while `messages` are taken; None where it ends before that."""
        number = next(self._numbers)
        self._asked[number] = answer = asyncio.get_running_loop().create_future()
        self.send(ASK, number=number, subject=subject, question=question)
        try:
            return await answer
        finally:
            del self._asked[number]

    def answer(self, asked: dict[str, Any], answer: Any) -> None:
        """Answer a question of the other process, which came as a message."""
        self.send(_ANSWER, number=asked["number"], answer=answer)

    async def messages(self) -> AsyncIterator[dict[str, Any]]:
        """The messages of the other process, until it closes the link or ends."""
        while (message := await self._next()) is not None:
            if message["kind"] != _ANSWER:
                yield message
            elif (asked := self._asked.get(message["number"])) is not None and not asked.done():
                asked.set_result(message["answer"])
        for asked in self._asked.values():
            if not asked.done():
                asked.set_result(None)

    async def _next(self) -> dict[str, Any] | None:
        try:
            (length,) = _LENGTH.unpack(await self._exactly(_LENGTH.size))
            if length > _MAX_MESSAGE_BYTES:
                return None
            message: dict[str, Any] = orjson.loads(await self._exactly(length))
        except (EOFError, OSError):
            return None
        return message

    async def _exactly(self, size: int) -> bytes:
        """The next bytes. Raises EOFError where there are fewer."""
        if self._rest is None:
            try:
                return await self._reader.readexactly(size)
            except asyncio.IncompleteReadError as error:
                self._rest = BytesIO(error.partial + self._unread())
        data = self._rest.read(size)
        if len(data) < size:
            raise EOFError
        return data

    def _unread(self) -> bytes:
        """What has arrived and was not read when the connection was closed."""
        parts = []
        with suppress(OSError):
            while part := self._same.recv(1 << 20):
                parts.append(part)
        return b"".join(parts)

    async def close(self) -> None:
        """Send what is written, if the other process reads it within `_CLOSE_S`, then close."""
        self._writer.close()
        self._same.close()
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(_CLOSE_S):
                await self._writer.wait_closed()


class Reports(HeldBytes):
    """What one agent's relay reports over a link. Those of all agents share the memory for what is not taken yet."""

    def __init__(self, link: Link, limit: int | MemoryPool) -> None:
        super().__init__(limit)
        self._link = link
        self._untaken: deque[tuple[int, int]] = deque()
        """Where each message ends among all of the link, and the bytes that count for it."""

    def send(self, kind: str, **content: Any) -> None:
        """See `Link.send`."""
        before = self._link.written
        self._link.send(kind, **content)
        counted = min(self._link.written - before, max(0, self.limit - self.total))  # a larger one is not the others'
        self._untaken.append((self._link.written, counted))
        self.add(self, counted)

    @property
    def is_full(self) -> bool:
        """Whether the other process is so far behind with reading that this agent has its share."""
        self._forget_taken()
        if self.total >= self.limit and self._pool is not None:
            for other in self._pool.members:
                if isinstance(other, Reports):
                    other._forget_taken()
        return self.total >= self.limit

    def _forget_taken(self) -> None:
        taken = self._link.taken
        while self._untaken and self._untaken[0][0] <= taken:
            self.add(self, -self._untaken.popleft()[1])


def changes_to_message(changes: TurnChanges, *, all_calls: bool) -> dict[str, Any]:
    """The JSON form of what is new in a turn."""
    turn = turn_to_message(changes.brief(all_calls=all_calls))
    return {spec.name: getattr(changes, spec.name) for spec in fields(changes)} | {"turn": turn}


def changes_from_message(message: dict[str, Any]) -> TurnChanges:
    return TurnChanges(**message | {"turn": turn_from_message(message["turn"])})
