"""The wire of a turn as it may be shown: by the rules of stored turns, and without credentials. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from a2a_tool_capture.models import rfc3339

from ..privacy.detectors import tokens
from ..privacy.policy import Privacy
from ..privacy.redactor import Redactor, detector_rule
from ..protocol.sse import event_data, with_data

_CREDENTIALS = Redactor([detector_rule("token")], b"")
_NAMES_SECRETS = (
    "\\u",
    "token",
    "secret",
    "passw",
    "passphrase",
    "pwd",
    "key",
    "credential",
    "authorization",
    "cookie",
)
"""What a text has in lower case in which a credential may be known by its name alone, which may be escaped."""
_FILES = frozenset({"raw", "bytes"})
"""Members with the content of a file (A2A 1.0 and 0.3): no rule can look into it, and turns do not have it."""
_PIECES = _FILES | {"text"}  # in an event, a text may be a piece: what a rule would find may continue in the next event


def shown_body(privacy: Privacy, content: Mapping[str, Any]) -> dict[str, Any]:
    """A body of `relay.wire_json` as it may be shown.

    With rules, a body that is cut or binary has no content (`withheld` says why), nor has a file in it.
    """
    if not privacy.changes_turns:
        return {**content, "text": _without_credentials(content["text"])} if "text" in content else dict(content)
    if "text" not in content or content.get("cut"):
        return _withheld(content, "rules cannot be applied to bytes, or to part of a body")
    return {**content, "text": privacy.text(_without_credentials(_without_members(content["text"], _FILES)))}


def shown_event(privacy: Privacy, content: Mapping[str, Any]) -> dict[str, Any]:
    """An event of `relay.wire_json` as it may be shown. With rules, the members named `text` have no content."""
    if "text" not in content:
        return _withheld(content, "rules cannot be applied to bytes") if privacy.changes_turns else dict(content)
    raw = content["text"].encode()
    data = event_data(raw).decode()
    text = data or content["text"]  # a comment, or the message of another protocol
    if privacy.changes_turns:
        text = _without_members(text, _PIECES)
    shown = privacy.text(_without_credentials(text))
    return {**content, "text": with_data(raw, shown.encode()).decode() if data else shown}


def _without_credentials(text: str) -> str:
    """As `_CREDENTIALS`, which reads texts as JSON: one that cannot have a credential is not read."""
    small = text.lower()
    if not any(word in small for word in _NAMES_SECRETS) and next(iter(tokens(text)), None) is None:
        return text
    return _CREDENTIALS.text(text)


def _withheld(content: Mapping[str, Any], why: str) -> dict[str, Any]:
    return {**{name: value for name, value in content.items() if name not in ("text", "base64")}, "withheld": why}


def _without_members(text: str, names: frozenset[str]) -> str:
    """JSON text whose strings under these names are replaced by their length; "" for text that is not JSON."""

    def emptied(member: dict[str, Any]) -> dict[str, Any]:
        texts = ((name, member.get(name)) for name in names)
        return member | {name: f"[not shown: {len(text)} characters]" for name, text in texts if isinstance(text, str)}

    try:
        return json.dumps(json.loads(text, object_hook=emptied), ensure_ascii=False) if text else ""
    except (ValueError, RecursionError):
        return f"[not shown: {len(text)} characters that are not JSON]"


def shown_wire(privacy: Privacy, turn_id: str, exchanges: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The exchanges of a turn (`relay.wire_json`), in the order in which they began, at least one; offsets are seconds
    since the first one."""
    began = exchanges[0]["started_at"]
    return {
        "turn_id": turn_id,
        "started_at": rfc3339(began),
        "complete": any(one["turn_id"] == turn_id for one in exchanges),
        "exchanges": [_exchange(privacy, one, began) for one in exchanges],
    }


def _exchange(privacy: Privacy, one: Mapping[str, Any], began: float) -> dict[str, Any]:
    """An exchange with offsets in seconds in place of times."""
    request, response = one["request"], one["response"]
    shown: dict[str, Any] = {
        "offset_s": _offset(one["started_at"], began),
        "opens_turn": bool(one["turn_id"]),
        "notification": one["notification"],
        "request": {
            **request,
            "target": privacy.text(request["target"]),
            "headers": _headers(privacy, request["headers"]),
            "body": shown_body(privacy, request["body"]),
        },
        "response": None if response is None else _response(privacy, response, began),
        "end_s": None if one["ended_at"] is None else _offset(one["ended_at"], began),
        "problem": one["problem"] or None,
    }
    return shown


def _response(privacy: Privacy, response: Mapping[str, Any], began: float) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "offset_s": _offset(response["at"], began),
        "status": response["status"],
        "headers": _headers(privacy, response["headers"]),
        "bytes_left_out": response["bytes_left_out"],
    }
    if "events" in response:
        shown["events"] = [
            {"offset_s": _offset(at, began), **shown_event(privacy, content)} for at, content in response["events"]
        ]
        shown["events_left_out"] = response["events_left_out"]
    else:
        cut = {"cut": True} if response["bytes_left_out"] else {}
        shown["body"] = shown_body(privacy, response["body"] | cut)
        shown["pieces"] = [{"offset_s": _offset(at, began), "bytes": size} for at, size in response["pieces"]]
    return shown


def _headers(privacy: Privacy, headers: list[list[str]]) -> list[list[str]]:
    return [[name, privacy.text(value)] for name, value in headers]


def _offset(at: float, began: float) -> float:
    return round(at - began, 6)


_MOST_EVENTS = 500
_MOST_CHARACTERS = 20_000  # of a body or event; the JSON has all


def with_texts(one: Mapping[str, Any]) -> dict[str, Any]:
    """An exchange of `shown_wire` with its bodies and events as texts for reading, cut where they are long."""
    response = one["response"] or {}
    events = response.get("events", [])
    return {
        **one,
        "curl": None,
        "request_text": _text(one["request"]["body"]),
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
