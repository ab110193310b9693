"""The timeline of a turn as rows with bars: first what the proxy saw, then the spans as a tree. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tool_call_evaluators.grouping import grouped
from tool_call_evaluators.texts import tokens_text

_KIND_WORDS = {"exchange": "exchange", "tool_call": "call"}
_LEAST_WIDTH = 0.4  # of a bar, in hundredths of the whole
MAX_DEPTH = 8  # levels of the tree of spans that are indented


def waterfall(timeline: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The items of a timeline (`admin.wire_api`), each with its bar.

    `begin` and `width` of the bar are hundredths of the agent's time; `mark` is a moment in it, or None. What comes
    after that time, the scoring, has no bar (`width` None). `depth` is the level of a span in the tree.
    """
    items = timeline["items"]
    ends = [item["end_s"] if item["end_s"] is not None else item["start_s"] for item in items if _is_agents(item)]
    whole = max(ends, default=0.0) or 1.0
    seen = [(item, 0) for item in items if item["kind"] != "span"]
    spans = tree([item for item in items if item["kind"] == "span"])
    return [_row(item, depth, whole) for item, depth in [*seen, *spans]]


def _is_agents(item: Mapping[str, Any]) -> bool:
    return bool(item["kind"] != "scoring")


def tree(spans: Sequence[Mapping[str, Any]]) -> list[tuple[Mapping[str, Any], int]]:
    """The spans in the order of their tree, each with its level, from 0. A span whose parent is unknown is a root."""
    known = {span["span_id"] for span in spans}
    below = grouped((span["parent_span_id"], span) for span in spans)
    roots = [span for span in spans if span["parent_span_id"] not in known]
    found: dict[str, tuple[Mapping[str, Any], int]] = {}
    for root in [*roots, *spans]:  # spans that are each other's parents have no root
        waiting = [(root, 0)]
        while waiting:
            span, depth = waiting.pop()
            if span["span_id"] not in found:
                found[span["span_id"]] = span, depth
                waiting += [(child, depth + 1) for child in reversed(below.get(span["span_id"], []))]
    return list(found.values())


def _row(item: Mapping[str, Any], depth: int, whole: float) -> dict[str, Any]:
    start, end, first_byte = item["start_s"], item["end_s"], item.get("first_byte_s")
    seconds = None if end is None else end - start
    begin = min(100 * start / whole, 100 - _LEAST_WIDTH)
    width = max(_LEAST_WIDTH, min(100 - begin, 100 * (seconds or 0.0) / whole))
    notes = [f"first byte after {1000 * (first_byte - start):.0f} ms"] if first_byte is not None else []
    notes += ["seen in the response"] if item.get("first_seen") else []
    notes += [f"{tokens_text(item)} tokens"] if "input_tokens" in item or "output_tokens" in item else []
    return {
        **item,
        "word": _KIND_WORDS.get(item["kind"], ""),
        "depth": min(depth, MAX_DEPTH),
        "seconds": seconds,
        "begin": round(begin, 2),
        "width": round(width, 2) if _is_agents(item) else None,
        "mark": None if first_byte is None else round(min(100.0, 100 * first_byte / whole), 2),
        "note": ", ".join(notes),
        "failed": item.get("failed", False),
    }
