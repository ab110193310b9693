"""The routes of turns and conversations, and the flush that waits for them."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from ..store import Page, Store, TurnQuery
from ..store.base import TurnJson
from .control import Control

_MAX_FLUSH_S = 600.0


async def stored_turn(store: Store, request: Request) -> TurnJson:
    """The turn that the path names. Raises HTTPException (404)."""
    turn_id = request.path_params["turn_id"]
    turn = await store.turn(turn_id)
    if turn is None:
        raise HTTPException(404, f"no turn {turn_id!r}; GET /api/turns lists them")
    return turn


class TurnsApi:
    """Handles `/api/turns`, `/api/conversations` and `/api/flush`."""

    def __init__(self, control: Control) -> None:
        self._control = control

    async def turns(self, request: Request) -> Response:
        query = request.query_params
        limit = query.get("limit", "100")
        if not limit.isdecimal() or not 1 <= int(limit) <= 1000:
            raise HTTPException(400, f"limit: expected a number from 1 to 1000, got {limit!r}")
        selection = TurnQuery(
            run=query.get("run"),
            conversation=query.get("conversation"),
            case=query.get("case"),
            status=query.get("status"),
            limit=int(limit),
            cursor=query.get("cursor"),
        )
        page = await self._page(selection)
        return JSONResponse({"items": page.items, "next_cursor": page.next_cursor})

    async def _page(self, query: TurnQuery) -> Page:
        try:
            return await self._control.store.turns(query)
        except ValueError as error:
            raise HTTPException(400, str(error)) from None

    async def turn(self, request: Request) -> Response:
        return JSONResponse(await stored_turn(self._control.store, request))

    async def conversation(self, request: Request) -> Response:
        conversation_id = request.path_params["conversation_id"]
        cursor = request.query_params.get("cursor")
        page = await self._page(TurnQuery(conversation=conversation_id, limit=1000, cursor=cursor))
        if not page.items:
            raise HTTPException(404, f"no turns of conversation {conversation_id!r}")
        evaluations = [
            {"run": scored.key.run, "case_id": scored.key.case_id, **result}
            for scored in await self._control.store.conversations(conversation=conversation_id)
            for result in scored.evaluations
        ]
        content = {"conversation_id": conversation_id, "turns": page.items, "evaluations": evaluations}
        return JSONResponse(content | {"next_cursor": page.next_cursor})

    async def flush(self, request: Request) -> Response:
        text = request.query_params.get("timeout", "30")
        try:
            timeout_s = float(text)
        except ValueError:
            timeout_s = -1.0
        if not 0 <= timeout_s <= _MAX_FLUSH_S:
            raise HTTPException(400, f"timeout: expected seconds from 0 to {_MAX_FLUSH_S:g}, got {text!r}")
        left = await self._control.flush(timeout_s)
        return JSONResponse({"done": left["pending"] == 0, **left}, 200 if left["pending"] == 0 else 504)
