"""What the core of the relay has its shell do: it yields steps, and is sent what each of them gives."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, NamedTuple, TypeVar

from ..body_memory import LARGE_BYTES
from ..protocol.content_coding import Decoding

T = TypeVar("T")


class Room(NamedTuple):
    """Hold this many more bytes. Gives whether there is room for them; where the core `waits`, there is at last."""

    size: int
    waits: bool


class GiveBack(NamedTuple):
    """Hold this many bytes fewer."""

    size: int


class Parse(NamedTuple):
    """Do work that takes memory and time in proportion to the `size` of a body, which is large. Gives what it gives."""

    work: Callable[[], Any]
    size: int


class OwnUrls(NamedTuple):
    """Gives this JSON with the clients' own URLs of webhooks in place of the proxy's addresses."""

    content: bytes


Step = bytes | Room | GiveBack | Parse | OwnUrls
"""Bytes are for the client, which takes them before the core goes on."""

Steps = Generator[Step, Any, T]


def parsed(work: Callable[[], T], size: int) -> Steps[T]:
    """What `work` gives, which reads `size` bytes."""
    if size <= LARGE_BYTES:
        return work()
    result: T = yield Parse(work, size)
    return result


def decoded(steps: Decoding, *, waits: bool) -> Steps[bytes]:
    """What is decoded, each part once there is room for it. Raises what the decoding raises."""
    try:
        size = next(steps)
        while True:
            size = steps.send((yield Room(size, waits)))
    except StopIteration as end:
        content: bytes = end.value
        return content
