"""Messages between the main process and a serving process, and turns in them."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import fields
from typing import Any

import orjson

from ..capture.live_turns import TurnChanges
from ..capture.observations import turn_from_message, turn_to_message

_LENGTH = struct.Struct("!I")
_MAX_MESSAGE_BYTES = 1 << 30
_MAX_UNSENT_BYTES = 64 * 1024 * 1024
"""Of messages that the other process has not read; then turns are not sent."""

_CLOSE_S = 5.0


class Link:
    """JSON messages in order over a Unix socket: each an object with its `kind`, after its length in 4 bytes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @property
    def is_full(self) -> bool:
        """Whether the other process is far behind with reading."""
        return self._writer.transport.get_write_buffer_size() > _MAX_UNSENT_BYTES

    def send(self, kind: str, **content: Any) -> None:
        """Send a message. Does not wait; once the link has ended, does nothing."""
        if self._writer.is_closing():
            return
        message = orjson.dumps({"kind": kind, **content})
        self._writer.write(_LENGTH.pack(len(message)) + message)

    async def messages(self) -> AsyncIterator[dict[str, Any]]:
        """The messages of the other process, until it closes the link or ends."""
        while True:
            try:
                (length,) = _LENGTH.unpack(await self._reader.readexactly(_LENGTH.size))
                if length > _MAX_MESSAGE_BYTES:
                    return
                message = await self._reader.readexactly(length)
            except (asyncio.IncompleteReadError, OSError):
                return
            yield orjson.loads(message)

    async def close(self) -> None:
        """Send what is written, if the other process reads it within `_CLOSE_S`, then close."""
        self._writer.close()
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(_CLOSE_S):
                await self._writer.wait_closed()


def changes_to_message(changes: TurnChanges, *, all_calls: bool) -> dict[str, Any]:
    """The JSON form of what is new in a turn."""
    turn = turn_to_message(changes.brief(all_calls=all_calls))
    return {spec.name: getattr(changes, spec.name) for spec in fields(changes)} | {"turn": turn}


def changes_from_message(message: dict[str, Any]) -> TurnChanges:
    return TurnChanges(**message | {"turn": turn_from_message(message["turn"])})
