"""The raw wire of a turn, from memory, and its timeline: what happened when, on one time axis.

Bodies and events are shown by the rules of stored turns, and without credentials.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any

from a2a_tool_capture.models import epoch_seconds, rfc3339
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from tool_call_evaluators.report.timeline import timeline

from ..net.http_client import RawHeaders
from ..privacy.policy import Privacy
from ..privacy.redactor import Redactor, detector_rule
from ..protocol.content_coding import codings, decoded_whole
from ..protocol.sse import event_data, with_data
from ..relay.wire_log import MAX_EXCHANGE_BYTES, WireRecord
from ..store.base import TurnJson
from ..telemetry.logs import SHOWN_HEADERS, without_secrets
from .api_route import NoQuery, api_route
from .control import Api, Control

MASKED = "***"
"""Replaces the value of a header that may hold a credential."""

_CREDENTIALS = Redactor([detector_rule("token")], b"")
_FILES = frozenset({"raw", "bytes"})
"""Members with the content of a file (A2A 1.0 and 0.3): no rule can look into it, and turns do not have it."""
_PIECES = _FILES | {"text"}  # in an event, a text may be a piece: what a rule would find may continue in the next event


def shown_wire(privacy: Privacy, turn_id: str, exchanges: Sequence[WireRecord]) -> dict[str, Any]:
    """The exchanges of a turn, in the order in which they began, at least one; offsets are seconds since the first."""
    began = exchanges[0].started_at
    return {
        "turn_id": turn_id,
        "started_at": rfc3339(began),
        "complete": any(one.turn_id == turn_id for one in exchanges),
        "exchanges": [_exchange(privacy, one, began) for one in exchanges],
    }


def _exchange(privacy: Privacy, one: WireRecord, began: float) -> dict[str, Any]:
    method, target, headers = one.request
    return {
        "offset_s": round(one.started_at - began, 6),
        "opens_turn": bool(one.turn_id),
        "notification": one.is_notification,
        "request": {
            "method": method,
            "target": shown_target(privacy, target),
            "headers": _headers(privacy, headers),
            "body": _body(privacy, one.body, headers, is_cut=one.body_is_cut),
        },
        "response": _response(privacy, one, began) if one.status else None,
        "end_s": None if one.ended_at is None else round(one.ended_at - began, 6),
        "problem": one.problem or None,
    }


def shown_target(privacy: Privacy, target: str) -> str:
    """The target of a request."""
    return privacy.text(without_secrets(target))


def _response(privacy: Privacy, one: WireRecord, began: float) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "offset_s": round(one.response_at - began, 6),
        "status": one.status,
        "headers": _headers(privacy, one.headers),
        "bytes_left_out": one.left_out,
    }
    parts = [({"offset_s": round(at - began, 6)}, raw) for at, raw in list(one.parts)]  # more may arrive meanwhile
    if one.is_stream:
        shown["events"] = [offset | shown_event(privacy, _content(raw)) for offset, raw in parts]
        shown["events_left_out"] = one.events_left_out
    else:
        body = b"".join(raw for _, raw in parts)
        shown["body"] = _body(privacy, body, one.headers, is_cut=bool(one.left_out))
        shown["pieces"] = [offset | {"bytes": len(raw)} for offset, raw in parts]
    return shown


def _headers(privacy: Privacy, headers: RawHeaders) -> list[list[str]]:
    """Names and values, in order; values are masked unless the header is known to be harmless."""
    texts = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers]
    return [
        [name, privacy.text(without_secrets(value) if name.lower() in SHOWN_HEADERS else MASKED)]
        for name, value in texts
    ]


def _body(privacy: Privacy, raw: bytes, headers: RawHeaders, *, is_cut: bool) -> dict[str, Any]:
    """The body; decoded, where it has a content coding that the proxy knows and is complete."""
    content = _content(raw)
    coding = ",".join(value.decode("latin-1") for name, value in headers if name.lower() == b"content-encoding")
    if raw and codings(coding):
        try:
            content = _content(decoded_whole(coding, raw, MAX_EXCHANGE_BYTES))
        except ValueError:  # it is shown as it is
            pass
        content |= {"coding": coding, "bytes": len(raw)}
    return shown_body(privacy, content | ({"cut": True} if is_cut else {}))


def _content(raw: bytes) -> dict[str, Any]:
    """`bytes`, their number, with `text`; or `base64` where they are no text in UTF-8."""
    try:
        return {"bytes": len(raw), "text": raw.decode()}
    except UnicodeDecodeError:
        return {"bytes": len(raw), "base64": base64.b64encode(raw).decode()}


def shown_body(privacy: Privacy, content: Mapping[str, Any]) -> dict[str, Any]:
    """A body as it may be shown.

    With rules, a body that is cut or binary has no content (`withheld` says why), nor has a file in it.
    """
    if not privacy.changes_turns:
        return {**content, "text": _CREDENTIALS.text(content["text"])} if "text" in content else dict(content)
    if "text" not in content or content.get("cut"):
        return _withheld(content, "rules cannot be applied to bytes, or to part of a body")
    return {**content, "text": privacy.text(_CREDENTIALS.text(_without_members(content["text"], _FILES)))}


def shown_event(privacy: Privacy, content: Mapping[str, Any]) -> dict[str, Any]:
    """An event as it may be shown. With rules, the members named `text` have no content."""
    if "text" not in content:
        return _withheld(content, "rules cannot be applied to bytes") if privacy.changes_turns else dict(content)
    raw = content["text"].encode()
    data = event_data(raw).decode()
    text = data or content["text"]  # a comment, or the message of another protocol
    if privacy.changes_turns:
        text = _without_members(text, _PIECES)
    shown = privacy.text(_CREDENTIALS.text(text))
    return {**content, "text": with_data(raw, shown.encode()).decode() if data else shown}


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


class WireApi(Api):
    def routes(self) -> list[Route]:
        return [api_route("GET", "/api/turns/{turn_id}/wire", self.wire)]

    async def wire(self, _: Request, turn_id: str, given: NoQuery) -> Response:
        return JSONResponse(await wire_of(self._control, turn_id))


async def wire_of(control: Control, turn_id: str) -> dict[str, Any]:
    """The exchanges of a turn, masked and redacted. Raises HTTPException (404) where none is in memory."""
    turn = await control.store.turn(turn_id)
    known = [turn] if turn is not None else await control.turns_in_progress(turn_id=turn_id)
    if not known:
        raise HTTPException(404, f"no turn {turn_id!r}; GET /api/turns lists them")
    privacy = control.scoring_of(known[0]).privacy
    if not privacy.covers_texts:
        raise HTTPException(404, "the wire is not kept with --no-content, or with redaction rules by name")
    if exchanges := _exchanges(control, turn_id, turn, known[0].get("agent_name")):
        return await asyncio.to_thread(shown_wire, privacy, turn_id, exchanges)
    raise HTTPException(
        404,
        f"the wire of turn {turn_id!r} is not known: `serve` keeps the last exchanges since its start in memory, under "
        "load only some",
    )


async def timeline_of(control: Control, turn: TurnJson) -> dict[str, Any]:
    """The timeline of a turn; targets of requests are redacted."""
    privacy = control.scoring_of(turn).privacy
    exchanges = [
        {
            "name": f"{one.request[0]} {shown_target(privacy, one.request[1])}",
            "started_at": one.started_at,
            "first_byte_at": one.response_at if one.status else None,
            "ended_at": one.ended_at,
            "failed": bool(one.problem) or one.status >= 400,
        }
        for one in _exchanges(control, turn["turn_id"], turn, turn.get("agent_name"))
    ]
    return timeline(turn, exchanges)


def _exchanges(control: Control, turn_id: str, turn: TurnJson | None, agent_name: str | None) -> list[WireRecord]:
    """The exchanges in the order in which they began."""
    tasks = [turn["task_id"]] if turn is not None and turn["task_id"] else []
    began = epoch_seconds(turn["started_at"]) if turn is not None else 0.0
    ended = epoch_seconds(turn["ended_at"]) if turn is not None and turn["ended_at"] else None
    return sorted(control.wire(agent_name or "", turn_id, tasks, began, ended), key=lambda one: one.started_at)
