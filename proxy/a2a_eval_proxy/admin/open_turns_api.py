"""The route of the turns that are open now, with what is known of them."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from ..store.encoding import json_bytes
from ..telemetry.event_data import shortened
from .api_operation import ApiAnswer, ApiOperation, ApiParameter, Given
from .control import Control
from .schemas import page_of

_PARAMETERS = (
    ApiParameter("run", "Turns of this run"),
    ApiParameter("case", "Turns of the case with this id"),
)


class OpenTurnsApi:
    """Handles `/api/open-turns`."""

    def __init__(self, control: Control) -> None:
        self._control = control

    def operations(self) -> list[ApiOperation]:
        found = ApiAnswer("The open turns of this proxy, the newest 1,000", page_of("Turn"))
        return [ApiOperation("GET", "/api/open-turns", "List open turns", self.open_turns, {200: found}, _PARAMETERS)]

    async def open_turns(self, _: Request, given: Given) -> Response:
        items = [
            shortened(turn)
            for turn in await self._control.turns_in_progress()
            if given["run"] in (None, turn["run"]) and given["case"] in (None, turn["case_id"])
        ]
        return Response(json_bytes({"items": items, "next_cursor": None}), media_type="application/json")
