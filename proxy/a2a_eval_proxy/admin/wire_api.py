"""The raw wire of a turn, from memory, and its timeline: what happened when, on one time axis.

Bodies and events are shown by the rules of stored turns, and without credentials.
"""

from __future__ import annotations

import asyncio
from typing import Any

from a2a_tool_capture.models import epoch_seconds
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from tool_call_evaluators.report.timeline import timeline

from ..relay.wire_log import WireExchange
from ..store.base import TurnJson
from .api_operation import ApiAnswer, ApiOperation, Given
from .control import Api, Control
from .schemas import named
from .shown_wire import shown_target, shown_wire
from .turns_api import NO_TURN, TURN_ID, stored_turn


class WireApi(Api):
    def operations(self) -> list[ApiOperation]:
        return [
            ApiOperation(
                "GET", "/api/turns/{turn_id}/wire", "Get the raw wire of a turn", self.wire,
                {
                    200: ApiAnswer("Its exchanges with the agent", named("Wire")),
                    404: ApiAnswer("There is no such turn, or its wire is not known", named("Error")),
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
    known = [turn] if turn is not None else await control.turns_in_progress(turn_id=turn_id)
    if not known:
        raise HTTPException(404, f"no turn {turn_id!r}; GET /api/turns lists them")
    privacy = control.scoring_of(known[0]).privacy
    if not privacy.covers_texts:
        raise HTTPException(404, "the wire is not kept with --no-content, or with redaction rules by path")
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
    exchanges = []
    for one in _exchanges(control, turn["turn_id"], turn, turn.get("agent_name")):
        method, target, _ = one.request
        exchanges.append(
            {
                "name": f"{method} {shown_target(privacy, target)}",
                "started_at": one.started_at,
                "first_byte_at": one.response_at if one.status else None,
                "ended_at": one.ended_at,
                "failed": bool(one.problem) or one.status >= 400,
            }
        )
    return timeline(turn, exchanges)


def _exchanges(control: Control, turn_id: str, turn: TurnJson | None, agent_name: str | None) -> list[WireExchange]:
    """The exchanges in the order in which they began."""
    tasks = [turn["task_id"]] if turn is not None and turn["task_id"] else []
    began = epoch_seconds(turn["started_at"]) if turn is not None else 0.0
    ended = epoch_seconds(turn["ended_at"]) if turn is not None and turn["ended_at"] else None
    return sorted(control.wire(agent_name or "", turn_id, tasks, began, ended), key=lambda one: one.started_at)
