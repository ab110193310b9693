"""Long work on the event loop, in parts."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from a2a_eval_proxy.loop_time import LoopTime


async def work(time: LoopTime, agent: str, name: str, parts: int, done: list[str]) -> None:
    for _ in range(parts):
        await time.part(agent)
        done.append(name)


@pytest.mark.parametrize("is_shared", [False, True])
async def test_agents_take_turns_and_so_do_the_exchanges_of_one(is_shared: bool) -> None:
    time, done = LoopTime(is_shared=is_shared), list[str]()
    await asyncio.gather(*(work(time, name[0], name, 2, done) for name in ("a1", "a2", "a3", "b1")))
    assert done == ["a1", "b1", "a2", "b1", "a3", "a1", "a2", "a3"]


async def test_other_work_runs_between_two_parts() -> None:
    time, done = LoopTime(is_shared=False), list[str]()

    async def other() -> None:
        while done.count("part") < 3:
            done.append("other")
            await asyncio.sleep(0)

    await asyncio.gather(*(work(time, str(number), "part", 1, done) for number in range(3)), other())
    assert "partpart" not in "".join(done)


async def test_an_exchange_that_ended_leaves_its_part_to_the_next() -> None:
    time, done = LoopTime(is_shared=False), list[str]()
    ended = asyncio.create_task(work(time, "a", "ended", 1, done))
    last = asyncio.create_task(work(time, "a", "last", 1, done))
    await asyncio.sleep(0)
    ended.cancel()
    with suppress(asyncio.CancelledError):
        await ended
    await last
    assert done == ["last"]
