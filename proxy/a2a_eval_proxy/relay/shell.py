"""Does the steps of the relay's core."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from ..body_memory import LARGE_BYTES, HeldBody
from .steps import GiveBack, Parse, Room, Steps

T = TypeVar("T")


async def _nothing(content: bytes) -> Any:
    raise RuntimeError("a step that was not expected")


async def run(
    steps: Steps[T],
    held: HeldBody,
    show: Callable[[bytes], Awaitable[None]] = _nothing,
    restored: Callable[[bytes], Awaitable[bytes]] = _nothing,
) -> T:
    """Returns what the core returns, and raises what it raises. `held`: what this exchange holds. `show` gives bytes to
    the client; `restored`: see `OwnUrls`."""
    given: Any = None
    try:
        while True:
            try:
                step = steps.send(given)
            except StopIteration as end:
                result: T = end.value
                return result
            given = None
            if isinstance(step, bytes):
                await show(step)
            elif isinstance(step, Room):
                given = await _held(step, held)
            elif isinstance(step, GiveBack):
                held.give_back(step.size)
            elif isinstance(step, Parse):
                given = await held.parse(step.work, step.size)
            else:
                given = await restored(step.content)
    finally:
        steps.close()


async def _held(room: Room, held: HeldBody) -> bool:
    if held.size > LARGE_BYTES:  # others go on between the parts of a large body
        await asyncio.sleep(0)
    if not room.waits:
        return held.take(room.size)
    await held.wait(room.size)
    return True
