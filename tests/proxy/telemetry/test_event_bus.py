"""Live events: everybody hears everything, and who is slow loses the oldest."""

from __future__ import annotations

from a2a_eval_proxy.telemetry.event_bus import Event, EventBus


async def test_every_listener_hears_what_happens_while_it_listens() -> None:
    bus = EventBus()
    bus.publish("before", {})
    assert not bus._queues
    async with bus.listen() as one:
        bus.publish("first", {"n": 1})
        async with bus.listen() as two:
            bus.publish("second", {"n": 2})
            assert [await one.get(), await one.get()] == [Event("first", {"n": 1}), Event("second", {"n": 2})]
            assert await two.get() == Event("second", {"n": 2})
        assert bus._queues
    assert not bus._queues


async def test_a_slow_listener_loses_the_oldest() -> None:
    bus = EventBus(backlog=2)
    async with bus.listen() as slow:
        for number in range(5):
            bus.publish("turn", {"n": number})
        assert [await slow.get(), await slow.get()] == [Event("turn", {"n": 3}), Event("turn", {"n": 4})]
        assert slow.empty()


async def test_closing_tells_everybody_even_the_slow() -> None:
    bus = EventBus(backlog=1)
    async with bus.listen() as slow, bus.listen() as idle:
        bus.publish("turn", {})
        assert await idle.get() == Event("turn", {})
        bus.close()
        assert await slow.get() is None
        assert await idle.get() is None
