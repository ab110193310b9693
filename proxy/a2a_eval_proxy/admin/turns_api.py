"""The routes of turns, of those that are open now, of conversations, and the flush that waits for turns.

The parameters that select turns serve the pages as well.
"""

from __future__ import annotations

import asyncio
from typing import Annotated, Literal

from pydantic import Field
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from ..graph.trees import MOST_DEPTH, MOST_SHOWN, MOST_TURNS, Family, family_of
from ..scoring.turn_in_case import turn_in_case
from ..store import Page, Store, TurnQuery
from ..store.base import TurnJson
from ..store.turn_filter import TurnFilter, Verdict
from ..telemetry.event_bus import shortened
from .api_operation import ApiOperation, ApiParameter, Given, json_response
from .control import Api, Control
from .long_computations import LongComputations

_NAME = Annotated[str, Field(max_length=1000)]

CURSOR = ApiParameter("cursor", "`next_cursor` of the page before, with the same other parameters")
LIMIT = ApiParameter("limit", "The most turns of a page", Annotated[int, Field(ge=1, le=1000)], 100)
ORDER = ApiParameter("order", "Which turns come first", Literal["newest", "oldest"], "oldest")
VIEW = ApiParameter("view", "Whole turns, or turns in short for long lists", Literal["whole", "summary"], "whole")
FILTERS = (
    ApiParameter("run", "Turns of this run"),
    ApiParameter("agent", "Turns of the agent with this name, where several are behind the proxy", _NAME),
    ApiParameter("conversation", "Turns of this contextId"),
    ApiParameter("case", "Turns of the case with this id"),
    ApiParameter("tag", "Turns of cases with this tag, in the suite and among registered ones", _NAME),
    ApiParameter("status", "Turns with this status", Literal["open", "pending", "done"]),
    ApiParameter(
        "verdict",
        "The worst status of the turn's results (`scored` counts as `passed`), `unscored` without results. With"
        " `evaluator`, that of its results",
        Verdict,
    ),
    ApiParameter("evaluator", "Turns with a result of this evaluator", _NAME),
    ApiParameter("tool", "Turns with a call of this tool", _NAME),
    ApiParameter("finding", "Turns with a finding of this code", _NAME),
    ApiParameter(
        "q",
        "Turns that contain this text in the user text, the response, the name or the arguments of a tool call, or the"
        " id of the case, in letters of any case",
        Annotated[str, Field(max_length=200)],
    ),
)


def turn_query(control: Control, given: Given) -> TurnQuery:
    """The query for these values of CURSOR, LIMIT, ORDER, VIEW and FILTERS; any may be missing.

    Raises HTTPException (400) for a tag that no case has.
    """
    tag, agent = given.get("tag"), given.get("agent")
    content = TurnFilter(
        text=given.get("q"),
        verdict=given.get("verdict"),
        tool=given.get("tool"),
        evaluator=given.get("evaluator"),
        finding=given.get("finding"),
        cases=_tagged(control, tag, agent) if tag is not None else None,
    )
    return TurnQuery(
        run=given.get("run"),
        conversation=given.get("conversation"),
        case=given.get("case"),
        agent=given.get("agent"),
        status=given.get("status"),
        limit=given.get("limit") or LIMIT.default,
        cursor=given.get("cursor"),
        content=content,
        newest_first=given.get("order") == "newest",
        summary=given.get("view") == "summary",
    )


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


TURN_ID = ApiParameter("turn_id", "Id of the turn")
NO_TURN = "There is no such turn"
_MOST_TURNS = ApiParameter(
    "turns", "The most turns of the tree", Annotated[int, Field(ge=1, le=MOST_TURNS)], MOST_SHOWN
)  # fmt: skip
_DEPTH = ApiParameter("depth", "The most turns on one way down", Annotated[int, Field(ge=1, le=MOST_DEPTH)], MOST_DEPTH)
_OF_OPEN_TURNS = [one for one in FILTERS if one.name in ("run", "agent", "case")]
_TIMEOUT = ApiParameter("timeout", "Seconds to wait", Annotated[float, Field(ge=0, le=600)], 30)


async def stored_turn(store: Store, turn_id: str) -> TurnJson:
    """The turn with this id. Raises HTTPException (404)."""
    turn = await store.turn(turn_id)
    if turn is None:
        raise no_turn(turn_id)
    return turn


def no_turn(turn_id: str) -> HTTPException:
    return HTTPException(404, f"no turn {turn_id!r}; GET /api/turns lists them")


class TurnsApi(Api):
    def __init__(self, control: Control) -> None:
        super().__init__(control)
        self._alignments = LongComputations()

    def operations(self) -> list[ApiOperation]:
        return [
            ApiOperation(
                "GET", "/api/turns", "List turns", self.turns,
                {200: "A page of turns"},
                (*FILTERS, ORDER, VIEW, LIMIT, CURSOR),
            ),
            ApiOperation(
                "GET", "/api/turns/{turn_id}", "Get a turn", self.turn,
                {200: "The turn", 404: NO_TURN}, [TURN_ID],
            ),
            ApiOperation(
                "GET", "/api/turns/{turn_id}/tree", "Get the tree of turns to which a turn belongs", self.tree,
                {200: "Who asked whom, from the first turn on", 404: NO_TURN},
                [TURN_ID, _MOST_TURNS, _DEPTH],
            ),
            ApiOperation(
                "GET", "/api/turns/{turn_id}/diff", "Get the aligned expected and actual calls of a turn", self.diff,
                {200: "The difference", 404: NO_TURN}, [TURN_ID],
            ),
            ApiOperation(
                "GET", "/api/conversations/{conversation_id:path}", "Get a conversation", self.conversation,
                {
                    200: "Its turns and its results as a whole",
                    404: "The conversation has no turns",
                },
                [ApiParameter("conversation_id", "contextId of the conversation"), CURSOR],
            ),
            ApiOperation(
                "POST", "/api/flush", "Wait until all turns captured so far are done", self.flush,
                {200: "All are done", 504: "The time is over"},
                [_TIMEOUT],
            ),
            ApiOperation(
                "GET", "/api/open-turns", "List open turns", self.open_turns,
                {200: "The open turns of this proxy, the newest 1,000"}, _OF_OPEN_TURNS,
            ),
        ]  # fmt: skip

    async def turns(self, _: Request, given: Given) -> Response:
        page = await self._page(turn_query(self._control, given))
        return json_response({"items": page.items, "next_cursor": page.next_cursor})

    async def _page(self, query: TurnQuery) -> Page:
        try:
            return await self._control.store.turns(query)
        except ValueError as error:
            raise HTTPException(400, str(error)) from None

    async def turn(self, _: Request, given: Given) -> Response:
        turn, family = await stored_turn(self._control.store, given["turn_id"]), await self._family(given["turn_id"])
        return json_response(turn | family.relations_of(turn["turn_id"]))

    async def tree(self, _: Request, given: Given) -> Response:
        turn_id = given["turn_id"]
        family = await self._family(turn_id)
        tree = family.tree_below(family.root_of(turn_id), turns=given["turns"], depth=given["depth"])
        return json_response({"turn_id": turn_id, **tree.to_dict()})

    async def _family(self, turn_id: str) -> Family:
        family = await family_of(self._control.store, turn_id)
        if family is None:
            raise no_turn(turn_id)
        return family

    async def diff(self, _: Request, given: Given) -> Response:
        turn = await stored_turn(self._control.store, given["turn_id"])
        planned = await turn_in_case(self._control.scoring_of(turn).cases, self._control.store, turn)
        return json_response(await self._alignments.run(object(), lambda: asyncio.to_thread(planned.diff)))

    async def conversation(self, _: Request, given: Given) -> Response:
        conversation_id = given["conversation_id"]
        page = await self._page(TurnQuery(conversation=conversation_id, limit=1000, cursor=given["cursor"]))
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

    async def flush(self, _: Request, given: Given) -> Response:
        left = await self._control.flush(given["timeout"])
        return JSONResponse({"done": left["pending"] == 0, **left}, 200 if left["pending"] == 0 else 504)

    async def open_turns(self, _: Request, given: Given) -> Response:
        items = [
            shortened(turn)
            for turn in await self._control.turns_in_progress()
            if given["run"] in (None, turn["run"])
            and given["case"] in (None, turn["case_id"])
            and given["agent"] in (None, turn.get("agent_name"))
        ]
        return json_response({"items": items, "next_cursor": None})
