"""The raw wire of a turn: its own screen, which the page of the turn shows as a part.

A request is also shown as a curl command, sent to the proxy, with placeholders for credentials.
"""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException
from tool_call_evaluators.texts import printable

from ..admin.shown_wire import MASKED
from ..admin.wire_api import wire_of
from ..protocol.sse import event_data
from .screen import Screen, Values, View

_LEFT_OUT = frozenset(
    {
        "host",
        "content-length",
        "transfer-encoding",
        "connection",
        "accept-encoding",
        "user-agent",
        "traceparent",
        "tracestate",
    }
)
"""Headers that curl or the proxy sets."""
_CURLS_OWN = ("accept", "content-type")
"""Headers that curl adds to a request without them, unless it is given the name alone."""
_MOST_EVENTS = 500
_MOST_CHARACTERS = 20_000  # of a body or event; the JSON has all


def curl_command(request: Mapping[str, Any], proxy_url: str, agent: str) -> str:
    """`agent` is the URL of the agent, whose path the target begins with.

    A body that cannot be copied as text is not repeated. What a client sent is data for the shell and for curl, which
    would read a file for a body of `--data-binary` that begins with @, and expand brackets in a target.
    """
    target = request["target"].removeprefix(urlsplit(agent).path.rstrip("/"))
    words = ["curl", "-sS", "-N", "-g", "--path-as-is", "-X", request["method"], proxy_url.rstrip("/") + target]
    for name, value in request["headers"]:
        if name.lower() not in _LEFT_OUT:
            value = f"YOUR-{name.upper()}" if value == MASKED else value
            words += ["-H", f"{name}: {value}" if value else f"{name};"]  # curl removes a header without a value
    sent = {name.lower() for name, _ in request["headers"]}
    words += [word for name in _CURLS_OWN if name not in sent for word in ("-H", f"{name}:")]
    body = request["body"]
    if body["bytes"]:
        text = body.get("text")
        shown = text is not None and printable(text) == text and "\r" not in text  # a page has \n instead
        words += ["--data-raw", text] if shown and not body.get("cut") else ["--data-binary", "@request-body"]
    return shlex.join(words)


async def _values(view: View) -> Values:
    turn_id = view.request.path_params["turn_id"]
    try:
        wire = await wire_of(view.control, turn_id)
    except HTTPException as error:
        if error.status_code != 404:
            raise
        return {"turn_id": turn_id, "problem": error.detail, "exchanges": [], "complete": True}
    turn = await view.control.store.turn(turn_id)
    agent, calls = (turn["agent"], turn["tool_calls"]) if turn is not None else ("", [])
    proxy_url = view.control.proxy_url
    if proxy_url and turn is not None and turn.get("agent_name"):
        proxy_url += f"/agents/{turn['agent_name']}"
    shown = [_exchange(one, proxy_url, agent) for one in wire["exchanges"]]
    await asyncio.to_thread(mark_calls, shown, calls)
    return {"turn_id": turn_id, "problem": None, "exchanges": shown, "complete": wire["complete"]}


def _exchange(one: Mapping[str, Any], proxy_url: str | None, agent: str) -> dict[str, Any]:
    """An exchange with its bodies and events as texts for reading, cut where they are long."""
    request, response = one["request"], one["response"] or {}
    events = response.get("events", [])
    has_curl = not (one["notification"] or ["content-type", "application/grpc"] in request["headers"])
    return {
        **one,
        "curl": curl_command(request, proxy_url, agent) if proxy_url and has_curl else None,
        "request_text": _text(request["body"]),
        "response_text": _text(response["body"]) if "body" in response else None,
        "events": [{**event, **_event(event)} for event in events[:_MOST_EVENTS]],
        "more_events": max(0, len(events) - _MOST_EVENTS) + response.get("events_left_out", 0),
    }


def _event(event: Mapping[str, Any]) -> dict[str, str]:
    """The data of an event for reading, and its beginning."""
    text = _text(event)
    data = event_data(event["text"].encode()).decode() if "text" in event else text
    return {"data": (data or text)[:_MOST_CHARACTERS], "raw": text}


def _text(content: Mapping[str, Any]) -> str:
    if "withheld" in content:
        return f"[{content['bytes']} bytes, not shown: {content['withheld']}]"
    if "base64" in content:
        return f"[{content['bytes']} bytes that are not text, in base64]\n{content['base64'][:_MOST_CHARACTERS]}"
    text = content["text"]
    more = len(text) - _MOST_CHARACTERS
    return text if more <= 0 else f"{text[:_MOST_CHARACTERS]}\n[{more:,} more characters in the JSON]"


def mark_calls(exchanges: Sequence[dict[str, Any]], calls: Sequence[Mapping[str, Any]]) -> None:
    """Set `calls` of the response or event in which each call comes first to the numbers of these calls."""
    wanted = {number: json.dumps(call["id"] or call["name"])[1:-1] for number, call in enumerate(calls, 1)}
    for exchange in exchanges:
        texts = [(event, event["raw"]) for event in exchange["events"]]
        for place, text in [*texts, (exchange, exchange["response_text"] or "")]:
            place["calls"] = [number for number, word in wanted.items() if word in text]
            for number in place["calls"]:
                del wanted[number]


SCREEN = Screen("/turns/{turn_id}/wire", "wire.html", _values, fragments=("wire",))
