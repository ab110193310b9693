"""The raw wire of a turn: its own screen, which the page of the turn shows as a part."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.exceptions import HTTPException

from ...admin.wire_api import wire_of
from ...protocol.sse import event_data
from ..screen import Screen, Values, View
from .curl import curl_command

_MOST_EVENTS = 500
_MOST_CHARACTERS = 20_000
"""Of a body or event; the JSON has all."""


async def _values(view: View) -> Values:
    turn_id = view.request.path_params["turn_id"]
    try:
        wire = await wire_of(view.control, turn_id)
    except HTTPException as error:
        if error.status_code != 404:
            raise
        return {"turn_id": turn_id, "problem": error.detail, "exchanges": [], "complete": True}
    turn = await view.control.store.turn(turn_id)
    agent = turn["agent"] if turn is not None else ""
    shown = [_exchange(one, view.control.proxy_url, agent) for one in wire["exchanges"]]
    return {"turn_id": turn_id, "problem": None, "exchanges": shown, "complete": wire["complete"]}


def _exchange(one: Mapping[str, Any], proxy_url: str | None, agent: str) -> dict[str, Any]:
    request, response = one["request"], one["response"]
    has_curl = not (one["notification"] or ["content-type", "application/grpc"] in request["headers"])
    events = response.get("events", []) if response is not None else []
    return {
        **one,
        "curl": curl_command(request, proxy_url, agent) if proxy_url and has_curl else None,
        "request_text": _text(request["body"]),
        "response_text": _text(response["body"]) if response is not None and "body" in response else None,
        "events": [{**event, **_event(event)} for event in events[:_MOST_EVENTS]],
        "more_events": len(events) - _MOST_EVENTS + response.get("events_left_out", 0)
        if len(events) > _MOST_EVENTS
        else (response or {}).get("events_left_out", 0),
    }


def _event(event: Mapping[str, Any]) -> dict[str, str]:
    """The data of an event for reading, and its beginning."""
    text = _text(event)
    data = event_data(event["text"].encode()).decode() if "text" in event else text
    return {"data": (data or text)[:_MOST_CHARACTERS], "raw": text}


def _text(content: Mapping[str, Any]) -> str:
    """What can be shown of a body or event."""
    if "withheld" in content:
        return f"[{content['bytes']} bytes, not shown: {content['withheld']}]"
    if "base64" in content:
        return f"[{content['bytes']} bytes that are not text, in base64]\n{content['base64'][:_MOST_CHARACTERS]}"
    text = content["text"]
    more = len(text) - _MOST_CHARACTERS
    return text if more <= 0 else f"{text[:_MOST_CHARACTERS]}\n[{more:,} more characters in the JSON]"


SCREEN = Screen("/turns/{turn_id}/wire", "wire.html", _values, fragments=("wire",))
