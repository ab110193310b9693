"""What the core of the relay has its shell do: it yields steps, and is sent what each of them gives."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, NamedTuple, TypeVar

from ..body_memory import LARGE_BYTES
from ..protocol.content_coding import STEP_BYTES, DecodedTooLargeError, Decoder

T = TypeVar("T")


class Room(NamedTuple):
    """Hold this many more bytes. Gives whether there is room for them; where the core `waits`, there is at last."""

    size: int
    waits: bool


class GiveBack(NamedTuple):
    """Hold this many bytes fewer."""

    size: int


class Parse(NamedTuple):
    """Do work that takes memory and time in proportion to a large body. Gives what it gives."""

    work: Callable[[], Any]


class OwnUrls(NamedTuple):
    """Gives this JSON with the clients' own URLs of webhooks in place of the proxy's addresses."""

    content: bytes


Step = bytes | Room | GiveBack | Parse | OwnUrls
"""Bytes are for the client, which takes them before the core goes on."""

Steps = Generator[Step, Any, T]


class NoRoomError(DecodedTooLargeError):
    """There is no memory to decode a body."""


def parsed(work: Callable[[], T], size: int) -> Steps[T]:
    """What `work` gives, which reads `size` bytes."""
    if size <= LARGE_BYTES:
        return work()
    result: T = yield Parse(work)
    return result


def decoded_within(decoder: Decoder, limit: int, *, waits: bool) -> Steps[bytes]:
    """What is left in `decoder`, each part once there is room for it. Raises ValueError where it exceeds `limit` bytes,
    or is not so coded."""
    parts: list[bytes] = []
    size = 0
    while True:
        if not (yield Room(STEP_BYTES, waits)):
            raise NoRoomError("there is no memory to decode it")
        part = decoder.take()
        if not part:
            return b"".join(parts)
        parts.append(part)
        size += len(part)
        if size > limit:
            raise DecodedTooLargeError(f"the decoded content exceeds {limit} bytes")
