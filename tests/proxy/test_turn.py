"""A turn as JSON and back."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

import pytest
from a2a_eval_proxy.turn import CaptureFacts, Turn
from a2a_tool_capture import Finding, Severity, ToolCall, ToolCallSource
from hypothesis import given
from hypothesis import strategies as st
from support.junk import plain_json

moments = st.integers(0, 4_102_444_800_000_000).map(lambda microseconds: microseconds / 1_000_000)
turns = st.builds(
    Turn,
    turn_id=st.text(),
    run=st.text(),
    agent=st.text(),
    binding=st.sampled_from(["JSONRPC", "HTTP+JSON"]),
    protocol_version=st.sampled_from(["1.0", "0.3"]),
    started_at=moments,
    case_id=st.none() | st.text(),
    first_event_at=st.none() | moments,
    ended_at=st.none() | moments,
    state=st.none() | st.just("TASK_STATE_COMPLETED"),
    tool_calls=st.lists(
        st.builds(
            ToolCall,
            name=st.text(),
            arguments=st.none() | st.dictionaries(st.text(), plain_json, max_size=2),
            first_seen_at=st.none() | moments,
        ),
        max_size=2,
    ),
    capture=st.builds(CaptureFacts, declared=st.booleans(), matched_by_id=st.integers(0, 9)),
    findings=st.lists(st.builds(Finding, st.text(), st.text(), st.sampled_from(Severity), st.text()), max_size=2),
)


@given(turns)
def test_a_turn_survives_its_json_form(turn: Turn) -> None:
    again = Turn.from_dict(json.loads(json.dumps(turn.to_dict())))
    for spec in fields(Turn):
        if spec.name.endswith("_at") and getattr(turn, spec.name) is not None:
            assert getattr(again, spec.name) == pytest.approx(getattr(turn, spec.name), abs=1e-6)
        else:
            assert getattr(again, spec.name) == getattr(turn, spec.name)
    assert again.to_dict() == turn.to_dict()


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (0.0, "1970-01-01T00:00:00.000000Z"),
        (1_763_715_600.0, "2025-11-21T09:00:00.000000Z"),
        (1_763_715_599.9999996, "2025-11-21T09:00:00.000000Z"),
        (1_763_715_600.1234567, "2025-11-21T09:00:00.123457Z"),
        (None, None),
    ],
)
def test_times_are_utc_with_microseconds(moment: float | None, text: str | None) -> None:
    turn = Turn("t", "r", "a", "JSONRPC", "1.0", 0.0, ended_at=moment)
    assert turn.to_dict()["ended_at"] == text


@pytest.mark.parametrize(
    "spoil", [lambda d: d.pop("run"), lambda d: d.update(started_at="x"), lambda d: d["capture"].clear()]
)
def test_what_is_no_turn(spoil: Callable[[dict[str, Any]], object]) -> None:
    data = Turn("t", "r", "a", "JSONRPC", "1.0", 0.0).to_dict()
    spoil(data)
    with pytest.raises((KeyError, ValueError)):
        Turn.from_dict(data)


def test_times_of_calls_say_where_they_are_from() -> None:
    began, ended = datetime(2026, 1, 1, 12, tzinfo=UTC), datetime(2026, 1, 1, 12, 0, 1, tzinfo=UTC)
    calls = [
        ToolCall("traced", source=ToolCallSource.OTEL_TRACE, started_at=began, ended_at=ended, first_seen_at=5.0),
        ToolCall("seen", first_seen_at=5.0, result_seen_at=6.5),
        ToolCall("running", first_seen_at=5.0),
        ToolCall("unknown"),
    ]
    data = Turn("t", "r", "a", "JSONRPC", "1.0", 0.0, tool_calls=calls).to_dict()
    assert data["capture"]["sources"] == {"client": 3, "otel_trace": 1}
    second = "1970-01-01T00:00:0"
    assert data["call_times"] == [
        {"source": "trace", "started_at": "2026-01-01T12:00:00.000000Z", "ended_at": "2026-01-01T12:00:01.000000Z"},
        {"source": "protocol", "first_seen_at": f"{second}5.000000Z", "result_seen_at": f"{second}6.500000Z"},
        {"source": "protocol", "first_seen_at": f"{second}5.000000Z", "result_seen_at": None},
        None,
    ]
    assert Turn.from_dict(data).to_dict() == data
    traced = data.pop("call_times")[0]  # as of a turn that an earlier version stored
    assert Turn.from_dict(data).to_dict()["call_times"] == [traced, None, None, None]
