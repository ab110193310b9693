"""The timeline of a turn, what happened when, on one time axis; and its rows with bars: first what was seen of the
turn, then the spans as a tree. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from a2a_tool_capture.models import epoch_seconds

from ..grouping import grouped
from ..outcomes.conversations import TurnJson
from ..texts import tokens_text

KINDS = ("request", "exchange", "first_event", "tool_call", "span", "answer")
"""What the items of a timeline are; at one moment, in this order."""

_Since = Callable[[str | float | None], float | None]
"""Seconds from the beginning of the turn to a moment: RFC 3339, or seconds since the epoch."""


def timeline(turn: TurnJson, exchanges: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """The timeline of a turn, as in `GET /api/turns/{id}/timeline`. `exchanges` are those that are known.

    An item has a `kind` (`KINDS`), a `name`, `start_s`, and `end_s` if it took time: seconds since the turn began.
    `first_byte_s` of an exchange is when the header of the response came.
    """
    began = epoch_seconds(turn["started_at"])
    items = [item for item in _items(turn, exchanges, began) if item["start_s"] is not None]
    items.sort(key=lambda item: (item["start_s"], KINDS.index(item["kind"])))
    last = max((item["end_s"] if item["end_s"] is not None else item["start_s"] for item in items), default=0.0)
    return {"turn_id": turn["turn_id"], "started_at": turn["started_at"], "duration_s": last, "items": items}


def _items(turn: TurnJson, exchanges: Sequence[Mapping[str, Any]], began: float) -> Iterator[dict[str, Any]]:
    def since(moment: str | float | None) -> float | None:
        if moment is None:
            return None
        at = moment if isinstance(moment, float) else epoch_seconds(str(moment))
        return max(0.0, round(at - began, 6))

    yield _item("request", "request", 0.0)
    for exchange in exchanges:
        times, at = (since(exchange["started_at"]), since(exchange["ended_at"])), since(exchange["first_byte_at"])
        yield _item("exchange", exchange["name"], *times, first_byte_s=at, failed=exchange["failed"])
    yield _item("first_event", "first event", since(turn["first_event_at"]))
    for number, (call, times) in enumerate(zip_longest(turn["tool_calls"], turn.get("call_times", ())), 1):
        yield _call(number, call, times or {}, since)
    for span in turn.get("spans", ()):
        more = {name: value for name, value in span.items() if name not in ("name", "started_at", "ended_at")}
        yield _item("span", span["name"], since(span["started_at"]), since(span["ended_at"]), **more)
    yield _item("answer", "answer complete", since(turn["ended_at"]))


def _call(number: int, call: Mapping[str, Any], times: Mapping[str, Any], since: _Since) -> dict[str, Any]:
    """`first_seen`: its times are those at which the proxy saw the call and its result, for want of a span."""
    is_seen = times.get("source") == "protocol"
    begin, end = ("first_seen_at", "result_seen_at") if is_seen else ("started_at", "ended_at")
    item = _item("tool_call", call["name"], since(times.get(begin)), since(times.get(end)))
    if item["end_s"] == item["start_s"]:
        item["end_s"] = None
    return {**item, "number": number, "first_seen": is_seen, "failed": bool(call["error"])}


def _item(kind: str, name: str, start: float | None, end: float | None = None, **more: Any) -> dict[str, Any]:
    return {"kind": kind, "name": name, "start_s": start, "end_s": end, **more}


_KIND_WORDS = {"exchange": "exchange", "tool_call": "call"}
_LEAST_WIDTH = 0.4  # of a bar, in hundredths of the whole
MAX_DEPTH = 8  # levels of the tree of spans that are indented


def waterfall(timeline: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The items of a `timeline`, each with its bar.

    `begin` and `width` of the bar are hundredths of the agent's time; `mark` is a moment in it, or None. `depth` is
    the level of a span in the tree.
    """
    items = timeline["items"]
    ends = [item["end_s"] if item["end_s"] is not None else item["start_s"] for item in items]
    whole = max(ends, default=0.0) or 1.0
    seen = [(item, 0) for item in items if item["kind"] != "span"]
    spans = tree([item for item in items if item["kind"] == "span"])
    return [_row(item, depth, whole) for item, depth in [*seen, *spans]]


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
        "width": round(width, 2),
        "mark": None if first_byte is None else round(min(100.0, 100 * first_byte / whole), 2),
        "note": ", ".join(notes),
        "failed": item.get("failed", False),
    }
