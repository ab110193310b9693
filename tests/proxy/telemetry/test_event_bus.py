"""Live events: listeners read what they select from one bounded log, each event once and in order, and learn of gaps.
Large events are bounded, and still readable by the same program."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from a2a_eval_proxy.privacy.policy import Privacy
from a2a_eval_proxy.store.encoding import json_bytes
from a2a_eval_proxy.telemetry import turn_events
from a2a_eval_proxy.telemetry.event_bus import EventBus, shortened
from a2a_eval_proxy.telemetry.turn_events import TurnEvents
from a2a_eval_proxy.turn import Turn
from a2a_tool_capture import ToolCall
from hypothesis import given, settings
from hypothesis import strategies as st
from support.junk import plain_json
from support.live import heard
from support.patience import PATIENCE_S


def publish(bus: EventBus, name: str = "turn.done", **data: Any) -> None:
    bus.publish(name, {"run": "r", "case_id": None, **data})


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


# ── the log ─────────────────────────────────────────────────────────────────────────────────────────────────

SIZES = st.lists(st.one_of(st.integers(0, 40), st.none()), max_size=60)


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
            publish(log, text="x" * size)
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
    publish(log, text="x" * 5)
    publish(log, text="x" * 100)
    assert log.after(0) is None
    assert [event.number for event in log.after(1) or ()] == [2]


# ── large events ────────────────────────────────────────────────────────────────────────────────────────────


@given(st.dictionaries(st.text(max_size=20), plain_json, max_size=5))
def test_small_data_stays_as_it_is(data: dict[str, Any]) -> None:
    assert shortened(data) == data


def test_a_turn_of_many_calls_keeps_whole_calls_and_every_field() -> None:
    call = ToolCall("search", {"q": "x" * 300, "deep": [{"k": "v" * 50}] * 100}, result="y" * 5_000)
    turn = Turn("t", "r", "a", "JSONRPC", "1.0", 0.0, tool_calls=[call] * 10_000)
    whole = {**turn.to_dict(), "evaluations": [{"evaluator": "e", "reason": "z" * 50_000}]}
    short = shortened(whole)
    assert set(short) == {*whole, "cut"}
    assert len(json_bytes(short)) < 100_000
    assert 0 < len(short["tool_calls"]) < 10_000
    assert {frozenset(one) for one in short["tool_calls"]} == {frozenset(call.to_dict())}
    assert short["evaluations"][0]["evaluator"] == "e"


def test_150_calls_of_usual_size_are_all_there() -> None:
    calls = [ToolCall("search", {"q": "weather", "n": n}, result="ok") for n in range(150)]
    turn = Turn("t", "r", "a", "JSONRPC", "1.0", 0.0, tool_calls=calls)
    assert len(shortened(turn.to_dict())["tool_calls"]) == 150


@settings(max_examples=10)
@given(st.recursive(st.text() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_whatever_it_is_it_is_bounded(value: Any) -> None:
    wide = dict.fromkeys(map(str, range(20_000)), value)
    assert len(json_bytes(shortened({"run": "r", "value": [value] * 2_000, "wide": wide}))) < 200_000


# ── events of turns that wait to be redacted: in order, and bounded ─────────────────────────────────────────


class SlowPrivacy(Privacy):
    """Redacts nothing until the test opens the gate."""

    def __init__(self) -> None:
        super().__init__(keeps_content=False)
        self.gate = threading.Event()

    def redacted(self, turn: Turn) -> Turn:
        assert self.gate.wait(PATIENCE_S)
        return turn


def a_turn(number: int) -> Turn:
    return Turn(f"t{number}", "r", "agent", "JSONRPC", "1.0", 0.0)


async def test_where_redaction_does_not_keep_up_listeners_learn_of_the_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turn_events, "MOST_WAITING", 2)
    bus, privacy = EventBus(), SlowPrivacy()
    events = TurnEvents(bus, privacy)
    with bus.listen() as listener:
        events.opened(a_turn(1))
        for number in range(5):
            events.stored([a_turn(number)])
        news: Any = await listener.news()
        assert news.lost
        privacy.gate.set()
        await events.close()
        assert [event.name for event in heard(listener)] == ["turn.opened", "turn.closed"]
    bus.close()
