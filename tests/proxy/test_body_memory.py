"""The memory for bodies: who finds room, who waits, and that nobody waits for ever."""

from __future__ import annotations

import asyncio
import gzip
import threading

import pytest
from a2a_eval_proxy.body_memory import SMALL_BYTES, BodyMemory, HeldBody
from a2a_eval_proxy.protocol.content_coding import Decoding, NoRoomError, decoding
from support.patience import PATIENCE_S

MB = 1024 * 1024


def test_a_quarter_is_kept_free_for_small_bodies() -> None:
    memory = BodyMemory(8 * MB)
    bodies = [HeldBody(memory) for _ in range(5)]
    assert [body.take(2 * MB) for body in bodies] == [True, True, True, False, False]
    assert bodies[4].take(SMALL_BYTES)
    assert not bodies[4].take(MB)
    bodies[0].drop()
    assert bodies[3].take(MB)
    assert memory.total == sum(body.size for body in bodies)


async def test_one_body_at_a_time_may_exceed_the_limit_so_that_none_waits_for_ever() -> None:
    memory = BodyMemory(4 * MB)
    first, second = HeldBody(memory), HeldBody(memory)
    assert first.take(2 * MB)
    assert second.take(MB)
    await first.wait(2 * MB)
    assert memory.total == 5 * MB
    waiting = asyncio.create_task(second.wait(MB))
    await asyncio.sleep(0)
    assert memory.waiting  # so that clients are given up that take nothing of what is held
    assert not waiting.done()
    first.drop()
    await waiting
    assert (second.size, memory.total) == (2 * MB, 2 * MB)
    assert not memory.waiting


async def test_many_bodies_that_wait_for_each_other_all_get_their_room() -> None:
    memory = BodyMemory(4 * MB)
    most = 0

    async def read(body: HeldBody) -> None:
        nonlocal most
        for _ in range(30):
            await body.wait(MB // 10)
            most = max(most, memory.total)
            await asyncio.sleep(0)
        body.drop()

    await asyncio.gather(*(read(HeldBody(memory)) for _ in range(40)))
    assert memory.total == 0
    assert most <= 4 * MB + 3 * MB  # one body more than the limit


async def test_what_is_decoded_is_held_before_it_is_decoded() -> None:
    body, decoded = HeldBody(BodyMemory(MB)), 0

    def steps() -> Decoding:
        nonlocal decoded
        content = decoding(["gzip"], gzip.compress(bytes(4 * MB)), 4 * MB)
        size = next(content)
        while True:
            has_room = yield size
            decoded += size if has_room else 0
            assert body.size >= decoded
            size = content.send(has_room)

    with pytest.raises(NoRoomError):
        await body.decoded(steps())
    assert MB // 2 < decoded == body.size <= MB


async def test_large_bodies_are_parsed_one_at_a_time_and_small_ones_at_once() -> None:
    body, begun, ended = HeldBody(BodyMemory(MB)), threading.Event(), threading.Event()

    def large() -> None:
        begun.set()
        assert ended.wait(PATIENCE_S)

    first = asyncio.create_task(body.parse(MB, large))
    await asyncio.to_thread(begun.wait, PATIENCE_S)
    second = asyncio.create_task(body.parse(MB, ended.is_set))
    assert not await body.parse(10, ended.is_set)
    await asyncio.to_thread(begun.wait, PATIENCE_S)  # if the second were in a thread, it would be over
    ended.set()
    await first
    assert await second
