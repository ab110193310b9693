"""The raw wire of a turn, while it is in memory, and its timeline: what happened when, on one time axis.

Bodies and events are shown by the rules of stored turns, and without credentials.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from a2a_tool_capture.models import rfc3339
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from tool_call_evaluators.report.timeline import seconds, timeline

from ..privacy.policy import Privacy
from ..privacy.redactor import Redactor, detector_rule
from ..protocol.sse import event_data, with_data
from ..store.base import TurnJson
from .api_operation import ApiAnswer, ApiOperation, Given
from .control import Control
from .schemas import named
from .turns_api import NO_TURN, TURN_ID, stored_turn

_CREDENTIALS = Redactor([detector_rule("token")], b"")
_FILES = frozenset({"raw", "bytes"})
"""Members with the content of a file (A2A 1.0 and 0.3): no rule can look into it, and turns do not have it."""
_PIECES = _FILES | {"text"}  # in an event, a text may be a piece: what a rule would find may continue in the next event


def shown_body(privacy: Privacy, content: Mapping[str, Any]) -> dict[str, Any]:
    """A body of `relay.wire_json` as it may be shown.

    With rules, a body that is cut or binary has no content (`withheld` says why), nor has a file in it.
    """
    if not privacy.changes_turns:
        return {**content, "text": _CREDENTIALS.text(content["text"])} if "text" in content else dict(content)
    if "text" not in content or content.get("cut"):
        return _withheld(content, "rules cannot be applied to bytes, or to part of a body")
    return {**content, "text": privacy.text(_CREDENTIALS.text(_without_members(content["text"], _FILES)))}


def shown_event(privacy: Privacy, content: Mapping[str, Any]) -> dict[str, Any]:
    """An event of `relay.wire_json` as it may be shown. With rules, the members named `text` have no content."""
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


class WireApi:
    """Handles `/api/turns/{turn_id}/wire` and `/api/turns/{turn_id}/timeline`."""

    def __init__(self, control: Control) -> None:
        self._control = control

    def operations(self) -> list[ApiOperation]:
        return [
            ApiOperation(
                "GET", "/api/turns/{turn_id}/wire", "Get the raw wire of a turn", self.wire,
                {
                    200: ApiAnswer("Its exchanges with the agent", named("Wire")),
                    404: ApiAnswer("There is no such turn, or its wire is not in memory", named("Error")),
                },
                [TURN_ID],
            ),
            ApiOperation(
                "GET", "/api/turns/{turn_id}/timeline", "Get what happened when in a turn", self.timeline,
                {200: ApiAnswer("The timeline", named("Timeline")), 404: NO_TURN}, [TURN_ID],
            ),
        ]  # fmt: skip

    async def wire(self, _: Request, given: Given) -> Response:
        return JSONResponse(await wire_of(self._control, given["turn_id"]))

    async def timeline(self, _: Request, given: Given) -> Response:
        turn = await stored_turn(self._control.store, given["turn_id"])
        return JSONResponse(await timeline_of(self._control, turn))


async def wire_of(control: Control, turn_id: str) -> dict[str, Any]:
    """The exchanges of a turn, masked and redacted. Raises HTTPException (404) where none is in memory."""
    turn = await control.store.turn(turn_id)
    if turn is None and not await control.turns_in_progress(turn_id=turn_id):
        raise HTTPException(404, f"no turn {turn_id!r}; GET /api/turns lists them")
    if not control.privacy.covers_texts:
        raise HTTPException(404, "the wire is not kept with --no-content, or with redaction rules by path")
    exchanges = await _exchanges(control, turn_id, turn)
    if not exchanges:
        raise HTTPException(
            404,
            f"the wire of turn {turn_id!r} is not in memory: this proxy keeps the last exchanges since its start, and "
            "under load only some",
        )
    return await asyncio.to_thread(_shown, control.privacy, turn_id, exchanges)


async def timeline_of(control: Control, turn: TurnJson) -> dict[str, Any]:
    """The timeline of a turn; targets of requests are redacted."""
    exchanges = await _exchanges(control, turn["turn_id"], turn)
    found = timeline(turn, exchanges, control.scored_at(turn["turn_id"]))
    for item in found["items"]:
        if item["kind"] == "exchange":
            item["name"] = control.privacy.text(item["name"])
    return found


async def _exchanges(control: Control, turn_id: str, turn: TurnJson | None) -> list[dict[str, Any]]:
    """The exchanges in the order in which they began."""
    tasks = {turn["task_id"]} - {""} if turn is not None else set()
    began = seconds(turn["started_at"]) if turn is not None else 0.0
    ended = seconds(turn["ended_at"]) if turn is not None and turn["ended_at"] else None
    found = await control.wire(turn_id, sorted(tasks), began, ended)
    named = {task_id for one in found if one["turn_id"] == turn_id for task_id in one["task_ids"]}
    if not named <= tasks:  # the store has other ids where they are redacted; other processes do not know them yet
        found = await control.wire(turn_id, sorted(tasks | named), began, ended)
    return sorted(found, key=lambda one: float(one["started_at"]))


def _shown(privacy: Privacy, turn_id: str, exchanges: list[dict[str, Any]]) -> dict[str, Any]:
    began = exchanges[0]["started_at"]
    return {
        "turn_id": turn_id,
        "started_at": rfc3339(datetime.fromtimestamp(began, UTC)),
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
