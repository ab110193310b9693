"""Computations in turn, shared by requests."""

from __future__ import annotations

import asyncio

import pytest
from a2a_eval_proxy.admin.long_computations import LongComputations


async def test_equal_keys_share_a_computation_and_others_wait_their_turn():
    work, running, most, made = LongComputations(), 0, 0, []

    async def compute(key: str) -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        made.append(key)
        return key

    keys = ["a", "b", "a", "b"]
    assert await asyncio.gather(*(work.run(key, lambda key=key: compute(key)) for key in keys)) == keys
    assert (made, most) == (["a", "b"], 1)


async def test_an_error_reaches_every_request_and_the_next_one_tries_again():
    work, attempts = LongComputations(), 0

    async def fails() -> None:
        nonlocal attempts
        attempts += 1
        raise ValueError("no")

    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            await work.run("a", fails)
    assert attempts == 2


async def test_a_request_that_does_not_wait_leaves_the_computation_running(caplog):
    work, go = LongComputations(), asyncio.Event()

    async def slow() -> int:
        await go.wait()
        return 1

    async def fails() -> None:
        raise ValueError("no")

    assert await work.run("a", slow, within_s=0) is None
    assert await work.run("b", fails, within_s=0) is None
    go.set()
    assert await work.run("a", slow) == 1
    assert caplog.text == ""


async def test_a_value_that_is_kept_is_not_computed_again():
    work, made = LongComputations(), []

    async def compute() -> int:
        made.append(1)
        return len(made)

    assert [await work.run("kept", compute, keep=True) for _ in range(2)] == [1, 1]
    assert [await work.run("other", compute) for _ in range(2)] == [2, 3]
