"""The routes of turns, of those that are open now, of conversations, and the flush that waits for turns.

The parameters that select turns serve the pages as well.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ..scoring.evidence import turn_trees
from ..store import Page, Store, TurnQuery
from ..store.base import TurnJson
from ..store.turn_filter import TurnFilter, Verdict
from ..telemetry.event_bus import shortened
from .api_route import NoQuery, api_route, json_response
from .control import Api, Control

_Name = Annotated[str, Field(max_length=1000)]


class OfTurns(BaseModel):
    """Names that turns have."""

    run: str | None = None
    agent: _Name | None = None
    """Of one of several agents."""
    case: str | None = None


class TurnFilters(OfTurns):
    """What selects turns, for the API and for the pages."""

    conversation: str | None = None
    """Their contextId."""
    tag: _Name | None = None
    """Of their cases, in the suite and among registered ones."""
    status: Literal["open", "pending", "done"] | None = None
    verdict: Verdict | None = None
    """The worst status of their results (`scored` counts as `passed`), `unscored` without results. With `evaluator`,
    that of its results."""
    evaluator: _Name | None = None
    tool: _Name | None = None
    finding: _Name | None = None
    """A code."""
    q: Annotated[str, Field(max_length=200)] | None = None
    """A text in the user text, the response, the name or the arguments of a tool call, or the id of the case, in
    letters of any case."""


class TurnsQuery(TurnFilters):
    order: Literal["newest", "oldest"] = "oldest"
    view: Literal["whole", "summary"] = "whole"
    limit: Annotated[int, Field(ge=1, le=1000)] = 100
    cursor: str | None = None


class _Page(BaseModel):
    cursor: str | None = None


class _Wait(BaseModel):
    timeout: Annotated[float, Field(ge=0, le=600)] = 30
    """Seconds."""


def turn_query(control: Control, given: TurnFilters) -> TurnQuery:
    """The turns with all of this. Raises HTTPException (400) for a tag that no case has."""
    content = TurnFilter(
        text=given.q,
        verdict=given.verdict,
        tool=given.tool,
        evaluator=given.evaluator,
        finding=given.finding,
        cases=_tagged(control, given.tag, given.agent) if given.tag is not None else None,
    )
    of_turns = {name: getattr(given, name) for name in ("run", "conversation", "case", "agent", "status")}
    return TurnQuery(**of_turns, content=content)


def _tagged(control: Control, tag: str, agent: str | None) -> frozenset[str]:
    """The cases with this tag, of that agent or of all."""
    every = control.every_scoring if agent is None else [control.scoring_of({"agent_name": agent})]
    in_force = [case for scoring in every for case, _ in scoring.cases.listed()]
    found = frozenset(case.id for case in in_force if tag in case.tags)
    if unclear := sorted(case.id for case in in_force if case.id in found and tag not in case.tags):
        raise HTTPException(400, f"tag: only some agents give it to their case {unclear[0]!r}; give `agent`, too")
    if not found:
        tags = sorted({tag for case in in_force for tag in case.tags})
        known = f"expected one of {', '.join(tags)}" if tags else "no case has tags"
        raise HTTPException(400, f"tag: {known}, got {tag[:100]!r}")
    return found


async def stored_turn(store: Store, turn_id: str) -> TurnJson:
    """The turn with this id. Raises HTTPException (404)."""
    turn = await store.turn(turn_id)
    if turn is None:
        raise no_turn(turn_id)
    return turn


def no_turn(turn_id: str) -> HTTPException:
    return HTTPException(404, f"no turn {turn_id!r}; GET /api/turns lists them")


class TurnsApi(Api):
    def routes(self) -> list[Route]:
        return [
            api_route("GET", "/api/turns", self.turns, TurnsQuery),
            api_route("GET", "/api/turns/{turn_id}", self.turn),
            api_route("GET", "/api/conversations/{conversation_id:path}", self.conversation, _Page),
            api_route("POST", "/api/flush", self.flush, _Wait),
            api_route("GET", "/api/open-turns", self.open_turns, OfTurns),
        ]

    async def turns(self, _: Request, given: TurnsQuery) -> Response:
        query = turn_query(self._control, given)
        query = replace(query, newest_first=given.order == "newest", summary=given.view == "summary")
        page = await self._page(replace(query, limit=given.limit, cursor=given.cursor))
        return json_response({"items": page.items, "next_cursor": page.next_cursor})

    async def _page(self, query: TurnQuery) -> Page:
        try:
            return await self._control.store.turns(query)
        except ValueError as error:
            raise HTTPException(400, str(error)) from None

    async def turn(self, _: Request, turn_id: str, given: NoQuery) -> Response:
        store = self._control.store
        return json_response(await stored_turn(store, turn_id) | await turn_trees(store).relations(turn_id))

    async def conversation(self, _: Request, conversation_id: str, given: _Page) -> Response:
        page = await self._page(TurnQuery(conversation=conversation_id, limit=1000, cursor=given.cursor))
        if not page.items:
            raise HTTPException(404, f"no turns of conversation {conversation_id!r}")
        evaluations = [
            {
                "run": key.run,
                "case_id": key.case_id,
                **({"agent_name": key.agent_name} if key.agent_name else {}),
                **result,
            }
            for scored in await self._control.store.conversations(conversation=conversation_id)
            for key in [scored.key]
            for result in scored.evaluations
        ]
        content = {"conversation_id": conversation_id, "turns": page.items, "evaluations": evaluations}
        return json_response(content | {"next_cursor": page.next_cursor})

    async def flush(self, _: Request, given: _Wait) -> Response:
        left = await self._control.flush(given.timeout)
        return JSONResponse({"done": left["pending"] == 0, **left}, 200 if left["pending"] == 0 else 504)

    async def open_turns(self, _: Request, given: OfTurns) -> Response:
        items = [
            shortened(turn)
            for turn in await self._control.turns_in_progress()
            if given.run in (None, turn["run"])
            and given.case in (None, turn["case_id"])
            and given.agent in (None, turn.get("agent_name"))
        ]
        return json_response({"items": items, "next_cursor": None})
