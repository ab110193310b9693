"""The timeline of a turn as rows with bars. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

KIND_WORDS = {
    "request": "",
    "exchange": "exchange",
    "first_event": "",
    "tool_call": "call",
    "span": "span",
    "answer": "",
    "scoring": "",
}
_LEAST_WIDTH = 0.4
"""Of a bar, in hundredths of the whole."""


def waterfall(timeline: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The items of a timeline (`admin.timeline`), each with its bar.

    `begin` and `width` of the bar are hundredths of the whole; `mark` is a moment in it, or None.
    """
    whole = timeline["duration_s"] or 1.0
    rows = []
    for item in timeline["items"]:
        start, end, first_byte = item["start_s"], item["end_s"], item.get("first_byte_s")
        seconds = None if end is None else end - start
        begin = min(100 * start / whole, 100 - _LEAST_WIDTH)
        notes = [f"first byte after {1000 * (first_byte - start):.0f} ms"] if first_byte is not None else []
        notes += ["seen in the response"] if item.get("first_seen") else []
        rows.append(
            {
                **item,
                "word": KIND_WORDS[item["kind"]],
                "seconds": seconds,
                "begin": round(begin, 2),
                "width": round(max(_LEAST_WIDTH, min(100 - begin, 100 * (seconds or 0.0) / whole)), 2),
                "mark": None if first_byte is None else round(100 * first_byte / whole, 2),
                "note": ", ".join(notes),
                "failed": item.get("failed", False),
            }
        )
    return rows
