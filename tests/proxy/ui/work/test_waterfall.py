"""Bars of a timeline: inside the picture, whatever the times."""

from __future__ import annotations

from typing import Any

from a2a_eval_proxy.ui.turn_page import waterfall
from hypothesis import given
from hypothesis import strategies as st

times = st.floats(0, 1e6, allow_nan=False)


def item(kind: str, start: float, end: float | None = None, **more: Any) -> dict[str, Any]:
    return {"kind": kind, "name": kind, "start_s": start, "end_s": end, **more}


@given(st.lists(st.tuples(times, st.none() | times), max_size=8))
def test_bars_stay_inside(spans: list[tuple[float, float | None]]) -> None:
    items = [item("span", start, None if took is None else start + took) for start, took in spans]
    whole = max((one["end_s"] or one["start_s"] for one in items), default=0.0)
    rows = waterfall({"duration_s": whole, "items": items})
    assert len(rows) == len(items)
    for row in rows:
        assert 0 <= row["begin"] <= 100
        assert 0.39 <= row["width"] <= 100.01
        assert row["begin"] + row["width"] <= 100.02


def test_what_a_row_says() -> None:
    exchange, call = waterfall(
        {
            "duration_s": 2.0,
            "items": [
                item("exchange", 0.5, 1.5, first_byte_s=1.0),
                item("tool_call", 1.0, failed=True, first_seen=True),
            ],
        }
    )
    bar = {"begin": 25, "width": 50, "mark": 50, "note": "first byte after 500 ms"}
    assert {key: exchange[key] for key in bar} == bar
    bar = {"begin": 50, "width": 0.4, "seconds": None, "note": "seen in the response", "failed": True}
    assert {key: call[key] for key in bar} == bar
