"""Live events: listeners read what they select from one bounded log, and learn of gaps."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from a2a_eval_proxy.telemetry.event_bus import EventBus
from support.live import heard


def publish(bus: EventBus, name: str = "turn.done", **data: Any) -> None:
    bus.publish(name, {"run": "r", "case_id": None, **data})


async def test_every_listener_hears_what_happens_while_it_listens() -> None:
    bus = EventBus()
    assert not bus.recording
    with bus.listen() as one:
        publish(bus, "turn.closed", n=1)
        with bus.listen() as two:
            publish(bus, n=2)
            assert [(event.name, event.data["n"]) for event in heard(one)] == [("turn.closed", 1), ("turn.done", 2)]
            assert [event.data["n"] for event in heard(two)] == [2]
    assert bus.recording
    bus.close()
    assert not bus.recording


async def test_a_slow_listener_is_told_of_its_loss_and_goes_on() -> None:
    bus = EventBus(max_events=2)
    with bus.listen() as slow, bus.listen() as quick:
        for number in range(4):
            publish(bus, n=number)
            assert [event.data["n"] for event in heard(quick)] == [number]
        assert slow.now().lost
        assert heard(slow) == []
        publish(bus, n=4)
        assert [event.data["n"] for event in heard(slow)] == [4]
    bus.close()


async def test_news_come_in_parts_of_bounded_size() -> None:
    bus = EventBus()
    with bus.listen() as listener:
        for number in range(8):
            publish(bus, n=number, texts=["x" * 900] * 100)
        parts = []
        while events := (await listener.news() if len(parts) < 3 else listener.now()).events:
            parts.append(len(events))
    assert sum(parts) == 8
    assert max(parts) < 8
    bus.close()


async def test_closing_ends_every_listener_after_what_it_has_not_read() -> None:
    bus = EventBus()
    with bus.listen() as slow, bus.listen() as idle:
        publish(bus)
        bus.close()
        for listener in (slow, idle):
            news = await listener.news()
            assert ([event.name for event in news.events], news.ended) == (["turn.done"], True)


async def test_events_are_recorded_for_a_while_after_the_last_listener() -> None:
    bus = EventBus(linger_s=0.0)
    with bus.listen() as listener:
        publish(bus)
        heard(listener)
        known = listener.last_id
    assert bus.recording
    publish(bus, n="between")
    with bus.listen(after=known) as again:
        assert [event.data["n"] for event in heard(again)] == ["between"]
        known = again.last_id
    while bus.recording:
        await asyncio.sleep(0)
    with bus.listen(after=known) as late:  # what happened meanwhile was not recorded, if anything did
        assert late.now().lost
    bus.close()


@pytest.mark.parametrize("number", ["", "1" * 5000, "+1", "٣", "99"])
async def test_ids_that_were_never_given(number: str) -> None:
    bus = EventBus()
    origin = bus.id_of(bus.last).rpartition("-")[0]
    with bus.listen(after=f"{origin}-{number}") as listener:
        assert listener.now().lost
    bus.close()


def test_ids_of_another_process_are_others() -> None:
    assert EventBus().id_of(1) != EventBus().id_of(1)
