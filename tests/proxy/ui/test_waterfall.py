"""Bars of a timeline: inside the picture, whatever the times."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tool_call_evaluators.report.timeline import waterfall

times = st.floats(0, 1e6, allow_nan=False)


def item(kind: str, start: float, end: float | None = None, **more: Any) -> dict[str, Any]:
    return {"kind": kind, "name": kind, "start_s": start, "end_s": end, **more}


@given(st.lists(st.tuples(times, st.none() | times, st.integers(-1, 8)), max_size=8))
def test_bars_stay_inside(spans: list[tuple[float, float | None, int]]) -> None:
    items = [
        span(str(number), str(parent), start, None if took is None else start + took)
        for number, (start, took, parent) in enumerate(spans)
    ]
    rows = waterfall({"items": items})
    assert sorted(row["span_id"] for row in rows) == sorted(one["span_id"] for one in items)
    for row in rows:
        assert 0 <= row["begin"] <= 100
        assert 0.39 <= row["width"] <= 100.01
        assert row["begin"] + row["width"] <= 100.02


def span(span_id: str, parent: str, start: float, end: float | None = None, **more: Any) -> dict[str, Any]:
    return {**item("span", start, end, span_id=span_id, parent_span_id=parent), **more}


def test_spans_are_a_tree_with_tokens_after_what_the_proxy_saw() -> None:
    items = [
        item("request", 0.0),
        span("tool", "agent", 0.2, 0.4),
        span("agent", "elsewhere", 0.1, 0.9),
        span("model", "agent", 0.5, 0.8, input_tokens=1200, output_tokens=30),
        span("http", "model", 0.6, 0.7),
        item("answer", 1.0),
    ]
    rows = waterfall({"items": items})
    assert [(row.get("span_id", row["kind"]), row["depth"]) for row in rows] == [
        ("request", 0),
        ("answer", 0),
        ("agent", 0),
        ("tool", 1),
        ("model", 1),
        ("http", 2),
    ]
    assert rows[4]["note"] == "1,200 + 30 tokens"


def test_what_a_row_says() -> None:
    exchange, call, _ = waterfall(
        {
            "items": [
                item("exchange", 0.5, 1.5, first_byte_s=1.0),
                item("tool_call", 1.0, failed=True, first_seen=True),
                item("answer", 2.0),
            ],
        }
    )
    bar = {"begin": 25, "width": 50, "mark": 50, "note": "first byte after 500 ms"}
    assert {key: exchange[key] for key in bar} == bar
    bar = {"begin": 50, "width": 0.4, "seconds": None, "note": "seen in the response", "failed": True}
    assert {key: call[key] for key in bar} == bar
