"""The log of live events: a reader gets every event once, in order, or learns that some are gone."""

from __future__ import annotations

from a2a_eval_proxy.telemetry.event_bus import EventBus
from hypothesis import given
from hypothesis import strategies as st

SIZES = st.lists(st.one_of(st.integers(0, 40), st.none()), max_size=60)


def publish(bus: EventBus, size: int) -> None:
    bus.publish("turn.done", {"run": "r", "case_id": None, "text": "x" * size})


@given(SIZES, st.integers(1, 10), st.integers(1, 200), st.data())
def test_a_reader_misses_nothing_and_gets_nothing_twice(
    sizes: list[int | None], most: int, most_bytes: int, data: st.DataObject
) -> None:
    """Each size is an event; None is a time in which nothing is recorded. The reader looks now and then."""
    log = EventBus(max_events=most, max_bytes=most_bytes)
    place, missed, kept = 0, False, 0
    for size in sizes:
        if size is None:
            log.lose()
            kept, missed = 0, True
        else:
            publish(log, size)
            kept += 1
        whole = log.after(log.last - min(kept, most))
        if whole is not None:
            assert len(whole) <= most
            assert len(whole) <= 1 or sum(len(one.data) for one in whole) <= most_bytes
        if data.draw(st.booleans()):
            news = log.after(place)
            if news is None:
                assert missed or log.last - place > 1
            else:
                assert [one.number for one in news] == list(range(place + 1, log.last + 1))
                assert not missed
            place, missed = log.last, False


def test_the_latest_event_is_kept_whatever_its_size() -> None:
    log = EventBus(max_bytes=60)
    publish(log, 5)
    publish(log, 100)
    assert log.after(0) is None
    assert [event.number for event in log.after(1) or ()] == [2]
