"""The log of live events: a reader gets every event once, in order, or learns that some are gone."""

from __future__ import annotations

from a2a_eval_proxy.telemetry.event_bus import Event, EventLog
from hypothesis import given
from hypothesis import strategies as st

SIZES = st.lists(st.one_of(st.integers(0, 40), st.none()), max_size=60)


def event(number: int, size: int) -> Event:
    text = b"x" * size
    return Event(number, "turn.done", "r", None, text, text)


@given(SIZES, st.integers(1, 10), st.integers(1, 100), st.data())
def test_a_reader_misses_nothing_and_gets_nothing_twice(
    sizes: list[int | None], most: int, most_bytes: int, data: st.DataObject
) -> None:
    """Each size is an event; None is a time in which nothing is recorded. The reader looks now and then."""
    log = EventLog(most, most_bytes)
    place, missed, kept = 0, False, 0
    for size in sizes:
        if size is None:
            log.forget()
            kept, missed = 0, True
        else:
            log.add(event(log.last + 1, size))
            kept += 1
        whole = log.after(log.last - min(kept, most))
        if whole is not None:
            assert len(whole) <= most
            assert len(whole) <= 1 or sum(one.size for one in whole) <= most_bytes
        if data.draw(st.booleans()):
            news = log.after(place)
            if news is None:
                assert missed or log.last - place > 1
            else:
                assert [one.number for one in news] == list(range(place + 1, log.last + 1))
                assert not missed
            place, missed = log.last, False


@given(st.integers(-10, 20))
def test_numbers_that_no_event_has(number: int) -> None:
    log = EventLog()
    for one in range(1, 4):
        log.add(event(one, 1))
    assert (log.after(number) is not None) == (0 <= number <= 3)


def test_the_latest_event_is_kept_whatever_its_size() -> None:
    log = EventLog(max_bytes=10)
    log.add(event(1, 5))
    log.add(event(2, 100))
    assert log.after(0) is None
    assert log.after(1) == [event(2, 100)]


def test_a_summary_of_its_own_counts() -> None:
    assert Event(1, "text", "r", None, b"1234", b"12").size == 6
