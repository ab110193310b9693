"""The short form of large events: bounded, and still readable by the same program."""

from __future__ import annotations

from typing import Any

from a2a_eval_proxy.store.encoding import json_bytes
from a2a_eval_proxy.telemetry.event_bus import shortened
from a2a_eval_proxy.turn import Turn
from a2a_tool_capture import ToolCall
from hypothesis import given, settings
from hypothesis import strategies as st
from support.junk import plain_json


@given(st.dictionaries(st.text(max_size=20), plain_json, max_size=5))
def test_small_data_stays_as_it_is(data: dict[str, Any]) -> None:
    assert shortened(data) == data


def test_a_long_text_is_cut_with_a_mark() -> None:
    assert shortened({"text": "x" * 100_000, "other": 1}) == {
        "text": "x" * 1_000 + "… [99,000 more characters]",
        "other": 1,
        "cut": True,
    }


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


def test_nested_objects_are_bounded_too() -> None:
    value: Any = "x"
    for _ in range(4):
        value = dict.fromkeys("abcdefghijklmnopqrst", value)
    assert len(json_bytes(value)) > 1_000_000
    assert len(json_bytes(shortened({"value": value}))) < 200_000


@settings(max_examples=30)
@given(st.recursive(st.text() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_whatever_it_is_it_is_bounded(value: Any) -> None:
    assert (
        len(
            json_bytes(
                shortened({"run": "r", "value": [value] * 5_000, "wide": dict.fromkeys(map(str, range(50_000)), value)})
            )
        )
        < 200_000
    )
