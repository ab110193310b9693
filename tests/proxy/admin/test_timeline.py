"""What happened when in a turn, on one time axis."""

from __future__ import annotations

from typing import Any

import pytest
from a2a_eval_proxy.traces.merge import MAX_SPANS, spans_of
from a2a_tool_capture.spans.model import STATUS_ERROR, Span
from support.turn_samples import BEGIN, at, call, turn
from tool_call_evaluators.report.timeline import timeline

BEGAN = BEGIN.timestamp()


def span(name: str, start: float, end: float, **fields: Any) -> Span:
    return Span("t", name, name=name, start_ns=int((BEGAN + start) * 1e9), end_ns=int((BEGAN + end) * 1e9), **fields)


def shown(items: list[dict[str, Any]]) -> list[tuple[str, str, float, float | None]]:
    return [(item["kind"], item["name"], item["start_s"], item["end_s"]) for item in items]


def test_items_come_in_the_order_in_which_they_began() -> None:
    exchange = {
        "name": "POST /",
        "started_at": BEGAN,
        "first_byte_at": BEGAN + 0.25,
        "ended_at": BEGAN + 2.5,
        "failed": False,
    }
    calls = [
        call("lookup"),
        call("refund", error="no"),
        call("at once"),
        call("without time"),
    ]
    times = [
        {"source": "trace", "started_at": at(0.5), "ended_at": at(0.75)},
        {"source": "protocol", "first_seen_at": at(1.5), "result_seen_at": at(1.75)},
        {"source": "protocol", "first_seen_at": at(2.0), "result_seen_at": at(2.0)},
        None,
    ]
    spans = spans_of([span("agent", 0.125, 2.25), span("tool", 0.5, 0.75, status_code=STATUS_ERROR)])
    found = timeline(
        {**turn("1", calls=calls, seconds=3.0), "ended_at": at(2.5), "call_times": times, "spans": spans},
        [exchange],
    )
    assert shown(found["items"]) == [
        ("request", "request", 0.0, None),
        ("exchange", "POST /", 0.0, 2.5),
        ("span", "agent", 0.125, 2.25),
        ("tool_call", "lookup", 0.5, 0.75),
        ("span", "tool", 0.5, 0.75),
        ("first_event", "first event", 1.0, None),
        ("tool_call", "refund", 1.5, 1.75),
        ("tool_call", "at once", 2.0, None),
        ("answer", "answer complete", 2.5, None),
    ]
    assert found["duration_s"] == 2.5
    assert found["items"][1]["first_byte_s"] == 0.25
    assert [item["first_seen"] for item in found["items"] if item["kind"] == "tool_call"] == [False, True, True]
    assert [item["failed"] for item in found["items"] if "failed" in item] == [False, False, False, True, True, False]


@pytest.mark.parametrize(
    ("more", "kinds", "seconds"),
    [({}, ["request", "first_event", "answer"], 1.0), ({"first_event_at": None, "ended_at": None}, ["request"], 0.0)],
    ids=["of another process", "open"],
)
def test_what_is_stored_is_shown(more: dict[str, Any], kinds: list[str], seconds: float) -> None:
    found = timeline({**turn("1", seconds=1.0), **more}, [])
    assert ([item["kind"] for item in found["items"]], found["duration_s"]) == (kinds, seconds)


def test_clocks_that_differ_and_many_spans_do_no_harm() -> None:
    spans = [span(f"s{number}", number - 5.0, 0.0) for number in range(MAX_SPANS + 50)]
    kept = spans_of([Span("t", "no time"), *spans])
    items = timeline({**turn("1"), "spans": kept}, [])["items"]
    assert sum(item["kind"] == "span" for item in items) == MAX_SPANS
    assert all(0 <= item["start_s"] <= (item["end_s"] or item["start_s"]) for item in items)
