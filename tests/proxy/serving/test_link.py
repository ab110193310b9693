"""Messages between the main process and serving ones."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvloop
from a2a_eval_proxy.capture.observations import turn_from_message, turn_to_message
from a2a_eval_proxy.memory import MemoryPool
from a2a_eval_proxy.serving.link import Link, Reports
from a2a_eval_proxy.turn import Turn
from a2a_tool_capture import Finding, Severity, ToolCall


def turn(**more: object) -> Turn:
    made = Turn("t1", "run", "http://agent", "JSONRPC", "1.0", 1_700_000_000.25, parent_span_id="p", in_store=True)
    made.tool_calls = [ToolCall(name="search", arguments={"q": "ü", "n": 2.0}, id="c1", result="r")]
    made.findings = [Finding("incomplete", "why", Severity.WARNING)]
    made.ended_at = made.started_at + 1
    for name, value in more.items():
        setattr(made, name, value)
    return made


def test_a_turn_arrives_as_it_was_sent() -> None:
    sent = turn()
    assert turn_from_message(json.loads(json.dumps(turn_to_message(sent)))) == sent


@asynccontextmanager
async def link() -> AsyncIterator[tuple[Link, socket.socket]]:
    """A link, and the socket of the process at its other end."""
    one, other = socket.socketpair()
    made = await Link.over(one)
    with other:
        yield made, other
    await made.close()


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_what_a_killed_process_had_sent_arrives_though_it_is_written_to(run: Any) -> None:
    async def unread() -> list[Any]:
        async with link() as (receiver, other):
            messages = [json.dumps({"kind": "n", "n": number}).encode() for number in range(1000)]
            other.sendall(b"".join(struct.pack("!I", len(one)) + one for one in messages))
            other.close()
            for _ in range(3):
                receiver.send("mark")
            return [message["n"] async for message in receiver.messages()]

    assert run(unread()) == list(range(1000))


async def received(sent: bytes) -> list[dict[str, Any]]:
    """The messages of a process that sends these bytes and ends."""
    async with link() as (receiver, other):
        other.sendall(sent)
        other.shutdown(socket.SHUT_WR)
        return [message async for message in receiver.messages()]


async def test_messages_arrive_in_order_until_the_other_process_ends() -> None:
    async with link() as (sender, other):
        for number in range(100):
            sender.send("number", number=number, text="x" * number)
        await sender.close()
        sender.send("late")  # after the end: does nothing
        sent = b"".join(iter(lambda: other.recv(65_536), b""))
    assert [message["number"] for message in await received(sent)] == list(range(100))


@pytest.mark.parametrize("junk", [b"", b"\0\0", struct.pack("!I", 1 << 31), struct.pack("!I", 9) + b"{}"])
async def test_a_cut_or_oversized_message_ends_the_link(junk: bytes) -> None:
    whole = b'{"kind":"whole"}'
    assert await received(struct.pack("!I", len(whole)) + whole + junk) == [{"kind": "whole"}]


async def test_of_what_is_not_read_each_agent_has_its_share() -> None:
    async with link() as (sender, other):
        alone = Reports(sender, 2_000_000)
        pool = MemoryPool(8_000_000)
        large, small = Reports(sender, pool), Reports(sender, pool)
        for one in (alone, large):
            while not one.is_full:
                one.send("turn", text="x" * 100_000)
        large.send("turn", text="x" * 20_000_000)
        assert (alone.total, large.total) == (pytest.approx(2_000_000, rel=0.3), pytest.approx(4_000_000, rel=0.3))
        small.send("turn", text="x" * 100_000)
        assert not small.is_full
        assert pool.total == large.total + small.total
        while sender.taken < sender.written:
            await asyncio.to_thread(other.recv, 1 << 20)
        assert not any([alone.is_full, large.is_full, small.is_full])
        assert (alone.total, pool.total) == (0, 0)
        large.send("turn", text="x" * 100_000)
        large.leave()
        assert pool.total == small.total
        other.close()


async def test_questions_are_answered_each_as_asked_and_not_at_all_by_a_process_that_ends() -> None:
    one, other = socket.socketpair()
    asking = await Link.over(one)
    asked = await Link.over(other)
    taking = asyncio.create_task(anext(asking.messages(), None))
    questions = [asyncio.create_task(asking.ask("double", number=number)) for number in range(3)]
    messages = asked.messages()
    first, _, last = [await anext(messages) for _ in range(3)]
    for question in (last, first):
        asked.answer(question, 2 * question["question"]["number"])
    await asked.close()
    assert await asyncio.gather(*questions) == [0, None, 4]
    assert await taking is None
    await asking.close()
