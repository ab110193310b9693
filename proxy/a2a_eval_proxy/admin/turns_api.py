"""The routes of turns, of those that are open now, of conversations, and the flush that waits for turns; of runs; and
of live events, which tell what happens to turns.

The parameters that select turns serve the pages as well.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Literal
from urllib.parse import quote

from pydantic import BaseModel, BeforeValidator, Field
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from ..runs.run_result import LongRunError, run_details, run_json, run_page, with_verdict
from ..runs.stored_turns import newest_runs
from ..scoring.evidence import turn_trees
from ..store import Page, RunSummary, Store, TurnQuery
from ..store.base import TurnJson
from ..store.turn_filter import TurnFilter, Verdict
from ..telemetry.event_bus import TYPES, Event, EventBus, EventFilter, EventType, shortened
from .api_route import NoQuery, api_route, json_response
from .cases_api import OfAgent
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


class EventsQuery(OfTurns):
    """Which events, of which turns."""

    types: Annotated[frozenset[EventType], BeforeValidator(lambda text: text.split(","))] = TYPES
    turn: str | None = None
    view: Literal["short", "count"] = "short"
    """Events, of which large ones are cut, or only their number."""
    last_event_id: str | None = None
    """As the header Last-Event-ID: events after the one with this id."""


_PING_S = 15.0
_PAUSE_S, _LONG_PAUSE_S, _MANY = 0.05, 0.12, 20
"""Seconds between two writes to a listener, at least; the second after a write of many events."""

_RETRY_MS = 2_000


class EventsApi(Api):
    def routes(self) -> list[Route]:
        return [api_route("GET", "/api/events", self.events, EventsQuery)]

    async def events(self, request: Request, given: EventsQuery) -> Response:
        selection = EventFilter(given.types, given.run, given.case, given.turn, given.agent)
        after = request.headers.get("last-event-id") or given.last_event_id or None
        stream = _stream(self._control.bus, selection, after, given.view)
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}  # nginx would collect events
        return StreamingResponse(stream, media_type="text/event-stream", headers=headers)


async def _stream(bus: EventBus, selection: EventFilter, after: str | None, view: str) -> AsyncIterator[bytes]:
    with bus.listen(selection, after) as listener:
        known = "" if after else f"id: {listener.last_id}\n"  # for a client that loses its connection before an event
        yield f": listening\n\nretry: {_RETRY_MS}\n{known}\n".encode()
        while True:
            try:
                async with asyncio.timeout(_PING_S):
                    news = await listener.news()
            except TimeoutError:
                yield f": ping\nid: {listener.last_id}\n\n".encode()
                continue
            if news.lost:
                yield f'event: reset\ndata: {{"reason":"{news.lost}"}}\nid: {listener.last_id}\n\n'.encode()
            if news.events and view == "count":
                count, last = len(news.events), listener.last_id
                yield f'event: changes\ndata: {{"count":{count}}}\nid: {last}\n\n'.encode()
            elif news.events:
                yield b"".join(_message(bus, event) for event in news.events)
            if news.ended:
                return
            await asyncio.sleep(_PAUSE_S if len(news.events) < _MANY else _LONG_PAUSE_S)


def _message(bus: EventBus, event: Event) -> bytes:
    return b"event: %b\ndata: %b\nid: %b\n\n" % (event.name.encode(), event.data, bus.id_of(event.number).encode())


Judge = Callable[..., Coroutine[Any, Any, Any]]

_DOWNLOAD = {
    "Content-Security-Policy": "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; "
    "style-src 'unsafe-inline'",  # the report's own policy allows its script and style by their hashes
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


class RunsApi(Api):
    """Handles `/api/runs`. Runs are judged one at a time."""

    def routes(self) -> list[Route]:
        return [
            api_route("GET", "/api/runs", self.runs, OfAgent),
            api_route("GET", "/api/runs/{name}/report", self.report),
            api_route("GET", "/api/runs/{name:path}", self.run),
        ]

    async def runs(self, _: Request, given: OfAgent) -> Response:
        store, work = self._control.store, self._control.work
        runs = reversed(await newest_runs(store, given.agent))
        judged = [await work.run(("verdict", run), partial(with_verdict, store, run)) or run for run in runs]
        return JSONResponse({"items": list(map(run_json, judged)), "next_cursor": None})

    async def run(self, _: Request, name: str, given: NoQuery) -> Response:
        return JSONResponse(await self._judged("details", name, run_details))

    async def report(self, _: Request, name: str, given: NoQuery) -> Response:
        page = await self._judged("report", name, partial(run_page, trace_url=self._control.trace_url))
        file = f"attachment; filename=\"report.html\"; filename*=UTF-8''report-{quote(name[:100], safe='')}.html"
        return HTMLResponse(page, headers=_DOWNLOAD | {"Content-Disposition": file})

    async def _run(self, name: str) -> RunSummary:
        """Raises HTTPException (404)."""
        runs = await self._control.store.runs(name)
        if not runs:
            quoted = ", and a slash in a name is written %2F" if "/" in name else ""
            raise HTTPException(404, f"no run {name!r}; GET /api/runs lists them{quoted}")
        return runs[0]

    async def _judged(self, kind: str, name: str, judge: Judge) -> Any:
        """What `judge` returns for a run. Raises HTTPException (404, 422)."""
        control, run = self._control, await self._run(name)
        try:
            return await control.work.run((kind, run), lambda: judge(control.store, run))
        except LongRunError as error:
            raise HTTPException(422, str(error)) from None
