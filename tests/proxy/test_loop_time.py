"""Long work on the event loop, in parts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
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


@pytest.mark.parametrize(("busy", "rests_of"), [(0.0, 1), (0.25, 2), (0.4, 5), (1.0, 16)])
async def test_parts_rest_the_longer_the_more_the_loop_works_for_others(
    busy: float, rests_of: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parts of 0.5 ms. `busy`: the share of the time in which others work; `rests_of`: in multiples of the parts."""
    now = worked = 0.0
    rests: list[float] = []
    loop = asyncio.get_running_loop()

    def call_later(delay: float, callback: Callable[..., None], *arguments: object) -> None:
        nonlocal now, worked
        now, worked = now + delay, worked + busy * delay
        rests.append(delay)
        loop.call_soon(callback, *arguments)

    monkeypatch.setattr(loop, "call_later", call_later)
    time = LoopTime(is_shared=True, clock=lambda: now, cpu=lambda: worked)
    parts = 0
    for _ in range(40):
        await time.part("a")
        parts += 1
        now, worked = now + 0.0005, worked + 0.0005
    await asyncio.sleep(0)
    assert sum(rests) / (parts * 0.0005) == pytest.approx(rests_of, rel=0.1)
