"""The routes that make a case of a turn, and bind a turn to a case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from tool_call_evaluators.runs.recording import record_case
from tool_call_evaluators.suite import Case, SuiteError
from tool_call_evaluators.suite.appending import case_text

from ..privacy.content_removal import lacks_content
from ..runs.stored_turns import compact
from ..scoring.suite_file import SuiteFileError
from ..store import TurnQuery, every_turn
from ..store.base import TurnJson
from .api_operation import TEXT, ApiAnswer, ApiOperation, Given
from .control import Control
from .request_body import json_object
from .schemas import named
from .turns_api import NO_TURN, TURN_ID, stored_turn

_MAX_BYTES = 10_000
_MOST_TURNS = 100
"""Of a conversation of which a case is made."""
_MAX_ID = 200
"""Characters of the id of a new case."""


class TurnCasesApi:
    """Handles `/api/turns/{turn_id}/case` and `/api/suite/cases`."""

    def __init__(self, control: Control) -> None:
        self._control = control

    def operations(self) -> list[ApiOperation]:
        path, error = "/api/turns/{turn_id}/case", named("Error")
        return [
            ApiOperation(
                "GET", path, "Get a case that expects what the agent did", self.recorded_case,
                {
                    200: ApiAnswer("An item of `cases` of a suite file", TEXT, "application/yaml"),
                    404: NO_TURN,
                    409: ApiAnswer("No case can be made of the turn", error),
                },
                [TURN_ID],
            ),
            ApiOperation(
                "POST", path, "Bind the turn to a case, and score it again", self.bind_case,
                {
                    202: ApiAnswer("It is being scored", named("Binding")),
                    404: ApiAnswer("There is no such turn or case", error),
                    409: ApiAnswer("The turn cannot be scored now", error),
                    413: ApiAnswer("The body is too large", error),
                },
                [TURN_ID], named("Binding"),
            ),
            ApiOperation(
                "POST", "/api/suite/cases", "Append the case of a turn to the suite file", self.append_case,
                {
                    201: ApiAnswer("It is in the file, and in the suite of the proxy", named("AppendedCase")),
                    404: NO_TURN,
                    409: ApiAnswer("No case can be made of the turn, or not in this file", error),
                    413: ApiAnswer("The body is too large", error),
                },
                (), named("NewSuiteCase"),
            ),
        ]  # fmt: skip

    async def recorded_case(self, _: Request, given: Given) -> Response:
        case, comments = await recorded_case(self._control, given["turn_id"])
        return Response(case_text(case, comments), media_type="application/yaml")

    async def append_case(self, request: Request, given: Given) -> Response:
        data, _ = await json_object(request, "a case to append", _MAX_BYTES)
        case_id = await append_case(self._control, data)
        return JSONResponse({"case_id": case_id, "file": self._control.suite_file}, 201)

    async def bind_case(self, request: Request, given: Given) -> Response:
        data, _ = await json_object(request, "a binding", _MAX_BYTES)
        return JSONResponse({"case_id": await bind_case(self._control, given["turn_id"], data)}, 202)


async def recorded_case(control: Control, turn_id: str, case_id: str | None = None) -> tuple[Case, Sequence[str]]:
    """The case of the conversation up to this turn, and comments on it. Raises HTTPException (404, 409)."""
    turn = await stored_turn(control.store, turn_id)
    turns = await _conversation_until(control, turn)
    if any(lacks_content(one["user_text"]) for one in turns):
        raise HTTPException(409, "the turn was stored without its content (--no-content): no case can be made")
    try:
        return record_case(turns, _taken(control), case_id)
    except ValueError as error:
        raise HTTPException(409, str(error)) from None


async def append_case(control: Control, data: Mapping[str, Any]) -> str:
    """Append the case of a turn (`NewSuiteCase` of the schemas) to the suite file; returns its id.

    Raises HTTPException (400, 404, 409).
    """
    turn_id, case_id = _text(data, "turn_id"), _text(data, "case_id") if data.get("case_id") is not None else None
    if case_id in _taken(control):
        raise HTTPException(409, f"case_id: the case {case_id!r} exists; choose another id")
    case, comments = await recorded_case(control, turn_id, case_id)
    if problem := repeats(control, case):
        raise HTTPException(409, problem)
    try:
        await control.add_case(case, comments)
    except (SuiteError, SuiteFileError) as error:
        raise HTTPException(409, str(error)) from None
    return case.id


def repeats(control: Control, case: Case) -> str:
    """Why `case` is not appended if another one has its user messages; else "".

    Turns find their case by the text of the user: with both cases, they would find neither.
    """
    messages = [turn.user for turn in case.turns]
    same = next((other for other, _ in control.cases.listed() if [turn.user for turn in other.turns] == messages), None)
    return (
        f"the case {same.id!r} has the same user messages; change what it expects, or bind the turn to it"
        if same
        else ""
    )


async def bind_case(control: Control, turn_id: str, data: Mapping[str, Any]) -> str:
    """Score the turn again as one of the case in `data` (`Binding` of the schemas), whose id is returned.

    Raises HTTPException (400, 404, 409).
    """
    case_id = _text(data, "case_id")
    turn = await stored_turn(control.store, turn_id)
    if control.cases.case(case_id) is None:
        raise HTTPException(404, f"case_id: no case {case_id!r}; GET /api/cases lists them")
    if not control.evaluates:
        raise HTTPException(409, "this process does not score turns")
    if turn["status"] != "done":
        raise HTTPException(409, f"the turn is {turn['status']}: it can be bound once it is scored")
    if lacks_content(turn["user_text"]):
        raise HTTPException(409, "the turn was stored without its content (--no-content), so it cannot be scored")
    control.bind(turn, case_id)
    return case_id


async def _conversation_until(control: Control, turn: TurnJson) -> list[TurnJson]:
    """The turns of the conversation in its run, up to this one. Raises HTTPException (409)."""
    if not turn["conversation_id"]:
        return [compact(turn)]
    turns = []
    of_conversation = TurnQuery(run=turn["run"], conversation=turn["conversation_id"])
    async for one in every_turn(control.store, of_conversation, _MOST_TURNS):
        turns.append(compact(one))
        if one["turn_id"] == turn["turn_id"]:
            return turns
        if len(turns) == _MOST_TURNS:
            break
    raise HTTPException(409, f"the turn comes after {_MOST_TURNS} others of its conversation: too many for a case")


def _taken(control: Control) -> set[str]:
    """The ids of all cases."""
    return {case.id for case, _ in control.cases.listed()}


def _text(data: Mapping[str, Any], name: str) -> str:
    value = data.get(name)
    if not isinstance(value, str) or not 1 <= len(value.strip()) <= _MAX_ID:
        raise HTTPException(400, f"{name}: expected a text of 1 to {_MAX_ID} characters, got {value!r:.80}")
    return value.strip()
