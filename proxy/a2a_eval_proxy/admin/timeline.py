"""What happened when in a turn: request, responses, calls, spans, answer and scoring, on one time axis. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import zip_longest
from typing import Any, NamedTuple

from a2a_tool_capture.spans.model import STATUS_ERROR, Span

from ..store.base import TurnJson

MAX_SPANS = 200
"""The first spans of a turn that are shown."""

KINDS = ("request", "exchange", "first_event", "tool_call", "span", "answer", "scoring")


class Observed(NamedTuple):
    """What the proxy that captured a turn knows about its times."""

    scored_at: float | None = None
    """Seconds since the epoch."""
    spans: Sequence[Span] = ()


_Since = Callable[[str | float | None], float | None]
"""Seconds from the beginning of the turn to a moment: RFC 3339, or seconds since the epoch."""


def timeline(turn: TurnJson, exchanges: Sequence[Mapping[str, Any]], observed: Observed) -> dict[str, Any]:
    """The timeline of a turn, as in `GET /api/turns/{id}/timeline`. `exchanges` are those that are in memory.

    An item has a `kind` (`KINDS`), a `name`, `start_s`, and `end_s` if it took time: seconds since the turn began.
    """
    began = seconds(turn["started_at"])
    items = [item for item in _items(turn, exchanges, observed, began) if item["start_s"] is not None]
    items.sort(key=lambda item: (item["start_s"], KINDS.index(item["kind"])))
    last = max((item["end_s"] if item["end_s"] is not None else item["start_s"] for item in items), default=0.0)
    return {"turn_id": turn["turn_id"], "started_at": turn["started_at"], "duration_s": last, "items": items}


def _items(
    turn: TurnJson, exchanges: Sequence[Mapping[str, Any]], observed: Observed, began: float
) -> Iterator[dict[str, Any]]:
    def since(moment: str | float | None) -> float | None:
        if moment is None:
            return None
        at = moment if isinstance(moment, float) else seconds(str(moment))
        return max(0.0, round(at - began, 6))

    yield _item("request", "request", 0.0)
    for exchange in exchanges:
        yield _exchange(exchange, since)
    yield _item("first_event", "first event", since(turn["first_event_at"]))
    for call, times in zip_longest(turn["tool_calls"], turn.get("call_times", ())):
        yield _call(call, times or {}, since)
    timed = sorted((span for span in observed.spans if span.start_ns), key=lambda span: span.start_ns)
    for span in timed[:MAX_SPANS]:
        start, end = since(span.start_ns / 1e9), since(max(span.start_ns, span.end_ns) / 1e9)
        yield _item("span", span.name, start, end, failed=span.status_code == STATUS_ERROR)
    yield _item("answer", "answer complete", since(turn["ended_at"]))
    if observed.scored_at is not None and turn["ended_at"] is not None:
        yield _item("scoring", "scoring", since(turn["ended_at"]), since(observed.scored_at))


def _exchange(exchange: Mapping[str, Any], since: _Since) -> dict[str, Any]:
    """`first_byte_s` is when the header of the response came."""
    request, response = exchange["request"], exchange["response"]
    name = f"{request['method']} {request['target']}"
    item = _item("exchange", name, since(exchange["started_at"]), since(exchange["ended_at"]))
    item["first_byte_s"] = None if response is None else since(response["at"])
    item["failed"] = bool(exchange["problem"]) or (response is not None and response["status"] >= 400)
    return item


def _call(call: Mapping[str, Any], times: Mapping[str, Any], since: _Since) -> dict[str, Any]:
    """`first_seen`: its times are those at which the proxy saw the call and its result, for want of a span."""
    is_seen = times.get("source") == "protocol"
    begin, end = ("first_seen_at", "result_seen_at") if is_seen else ("started_at", "ended_at")
    item = _item("tool_call", call["name"], since(times.get(begin)), since(times.get(end)))
    if item["end_s"] == item["start_s"]:
        item["end_s"] = None
    return {**item, "first_seen": is_seen, "failed": bool(call["error"])}


def _item(kind: str, name: str, start: float | None, end: float | None = None, **more: Any) -> dict[str, Any]:
    return {"kind": kind, "name": name, "start_s": start, "end_s": end, **more}


def seconds(moment: str) -> float:
    """Seconds since the epoch of an RFC 3339 time."""
    return datetime.fromisoformat(moment).timestamp()
