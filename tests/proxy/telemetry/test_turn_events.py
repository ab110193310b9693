"""Events of turns that wait to be redacted: in order, and bounded."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from a2a_eval_proxy.privacy.policy import Privacy
from a2a_eval_proxy.telemetry import turn_events
from a2a_eval_proxy.telemetry.event_bus import EventBus
from a2a_eval_proxy.telemetry.turn_events import TurnEvents
from a2a_eval_proxy.turn import Turn
from support.live import heard
from support.patience import PATIENCE_S


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


async def test_events_keep_their_order_while_one_is_redacted() -> None:
    bus, privacy = EventBus(), SlowPrivacy()
    events = TurnEvents(bus, privacy)
    with bus.listen() as listener:
        events.opened(a_turn(1))
        events.stored([a_turn(1)])
        await asyncio.sleep(0)
        assert heard(listener) == []
        privacy.gate.set()
        await events.close()
        assert [event.name for event in heard(listener)] == ["turn.opened", "turn.closed"]
    bus.close()


async def test_where_redaction_does_not_keep_up_listeners_learn_of_the_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turn_events, "_MOST_WAITING", 2)
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
