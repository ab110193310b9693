"""The routes by which people work on turns: assess them, make cases of them, bind them to cases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from a2a_tool_capture.models import rfc3339
from pydantic import BaseModel, StringConstraints
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from tool_call_evaluators.outcomes.calibration import LabelError, label_value
from tool_call_evaluators.outcomes.conversations import agent_of_conversation
from tool_call_evaluators.outcomes.recording import record_case
from tool_call_evaluators.suite import Case, SuiteError
from tool_call_evaluators.suite.editing import case_text

from ..ids import new_turn_id
from ..privacy.policy import Privacy
from ..privacy.redactor import lacks_content
from ..runs.stored_turns import compact
from ..runs.suite_file import SuiteFileError, add_to_suite
from ..scoring.agent_scoring import Scoring
from ..store import TurnQuery, every_turn
from ..store.base import TurnJson
from ..store.reads import MOST_OF_A_TURN, Annotation
from .api_route import NoQuery, api_route, json_object, validated
from .control import Api, Control
from .turns_api import stored_turn

_MAX_BYTES = 64 * 1024
MAX_NOTE, MAX_WHO = 2_000, 100  # characters

_Id = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]


class NewAnnotation(BaseModel, extra="forbid"):
    """An assessment of a turn or of one of its results, or a label of a result."""

    assessment: Literal["right", "wrong"] | None = None
    evaluator: str | None = None
    label: str | float | bool | None = None
    by: Literal["person", "model"] = "person"
    note: Annotated[str, StringConstraints(strip_whitespace=True, max_length=MAX_NOTE)] = ""
    who: Annotated[str, StringConstraints(strip_whitespace=True, max_length=MAX_WHO)] = ""


class NewBinding(BaseModel):
    case_id: _Id


class NewSuiteCase(BaseModel):
    turn_id: _Id
    case_id: _Id | None = None


class TurnChangesApi(Api):
    def routes(self) -> list[Route]:
        annotations, case = "/api/turns/{turn_id}/annotations", "/api/turns/{turn_id}/case"
        return [
            api_route("POST", annotations, self.annotate),
            api_route("DELETE", f"{annotations}/{{annotation_id}}", self.remove),
            api_route("GET", case, self.recorded_case),
            api_route("POST", case, self.bind_case),
            api_route("POST", "/api/suite/cases", self.append_case),
        ]

    async def annotate(self, request: Request, turn_id: str, given: NoQuery) -> Response:
        data, _ = await json_object(request, "an annotation", _MAX_BYTES)
        annotation = await annotate(self._control, turn_id, data)
        return JSONResponse(annotation.to_dict(), 201)

    async def remove(self, _: Request, turn_id: str, annotation_id: str, given: NoQuery) -> Response:
        await remove_annotation(self._control, turn_id, annotation_id)
        return Response(status_code=204)

    async def recorded_case(self, _: Request, turn_id: str, given: NoQuery) -> Response:
        case, comments, _scoring = await recorded_case(self._control, turn_id)
        return Response(case_text(case, comments), media_type="application/yaml")

    async def append_case(self, request: Request, given: NoQuery) -> Response:
        data, _ = await json_object(request, "a case to append", _MAX_CASE_BYTES)
        case_id, file = await append_case(self._control, data)
        return JSONResponse({"case_id": case_id, "file": file}, 201)

    async def bind_case(self, request: Request, turn_id: str, given: NoQuery) -> Response:
        data, _ = await json_object(request, "a binding", _MAX_CASE_BYTES)
        case_id = await bind_case(self._control, turn_id, data)
        return JSONResponse({"case_id": case_id}, 202)


async def annotate(control: Control, turn_id: str, data: Mapping[str, Any]) -> Annotation:
    """Store an annotation (`NewAnnotation`). Raises HTTPException (400, 404, 409)."""
    turn, given = await stored_turn(control.store, turn_id), validated(NewAnnotation, data)
    result = await _result(control, turn, given.evaluator)
    annotation = _annotation(control.scoring_of(turn).privacy, turn, given, result)
    if not await control.store.annotate(annotation):
        raise HTTPException(409, f"the turn has {MOST_OF_A_TURN} annotations, the maximum; delete some")
    return annotation


async def remove_annotation(control: Control, turn_id: str, annotation_id: str) -> None:
    """Raises HTTPException (404)."""
    if not await control.store.remove_annotation(turn_id, annotation_id):
        raise HTTPException(404, f"turn {turn_id!r} has no annotation {annotation_id!r}")


def _annotation(privacy: Privacy, turn: TurnJson, given: NewAnnotation, result: Mapping[str, Any] | None) -> Annotation:
    """Raises HTTPException (400) for what is no annotation of this turn."""
    label = None if given.label is None else _label(result, given.label)
    if (label is None) is (given.assessment is None):
        raise HTTPException(400, "expected either an assessment, 'right' or 'wrong', or a label")
    return Annotation(
        annotation_id=new_turn_id(),
        turn_id=turn["turn_id"],
        assessment=given.assessment,
        label=label,
        by=given.by,
        note=privacy.stored_note(given.note),
        who=privacy.stored_note(given.who),
        at=rfc3339(datetime.now(UTC)),
        **({} if result is None else {name: result[name] for name in ("evaluator", "score", "passed", "version")}),
    )


async def _result(control: Control, turn: TurnJson, evaluator: str | None) -> dict[str, Any] | None:
    """The result of the turn, or of its conversation, that is assessed; None for the turn itself. Raises HTTPException
    (400)."""
    if evaluator is None:
        return None
    whole = await control.store.conversations(turn["run"], turn["conversation_id"] or turn["turn_id"])
    place = turn["case_id"], agent_of_conversation(turn)
    of_conversation = [one for scored in whole if scored.key[2:] == place for one in scored.evaluations]
    results: dict[str, dict[str, Any]] = {
        result["evaluator"]: result for result in (*of_conversation, *turn["evaluations"])
    }
    if evaluator not in results:
        names = ", ".join(results) or "none"
        raise HTTPException(400, f"evaluator: the turn has no result of {evaluator!r:.80}; its results: {names}")
    return results[evaluator]


def _label(result: Mapping[str, Any] | None, given: Any) -> str | float:
    """What the evaluator should have found, as it is stored. Raises HTTPException (400)."""
    if result is None:
        raise HTTPException(400, "label: it is of the result of an evaluator; name the evaluator")
    try:
        value = label_value(given)
    except LabelError as error:
        raise HTTPException(400, str(error)) from None
    low, high = result["scale"]
    if isinstance(value, bool):
        return "pass" if value else "fail"
    if isinstance(value, float) and not low <= value <= high:
        raise HTTPException(400, f"label: expected a grade from {low:g} to {high:g}, got {value:g}")
    if isinstance(value, str) and len(value) > MAX_WHO:
        raise HTTPException(400, f"label: expected a text of at most {MAX_WHO} characters")
    return value


_MAX_CASE_BYTES = 10_000
_MOST_TURNS = 100  # of a conversation of which a case is made


async def recorded_case(
    control: Control, turn_id: str, case_id: str | None = None
) -> tuple[Case, Sequence[str], Scoring]:
    """The case that the conversation makes up to this turn, comments on it, and by what turns of its agent are scored.

    The case names the agent if several have the suite.

    Raises HTTPException (404, 409).
    """
    turn = await stored_turn(control.store, turn_id)
    scoring, turns = control.scoring_of(turn), await _conversation_until(control, turn)
    if case_id is not None and case_id in _taken(scoring):
        raise HTTPException(409, f"case_id: the case {case_id!r} exists; choose another id")
    if any(lacks_content(one["user_text"]) for one in turns):
        raise HTTPException(409, "the turn was stored without its content (--no-content): no case can be made")
    try:
        case, comments = record_case(turns, _taken(scoring), case_id)
    except ValueError as error:
        raise HTTPException(409, str(error)) from None
    of_several = case.agent is None and len(control.sharing(scoring)) > 1
    return replace(case, agent=turn.get("agent_name")) if of_several else case, comments, scoring


async def append_case(control: Control, data: Mapping[str, Any]) -> tuple[str, str]:
    """Append the case of a turn (`NewSuiteCase`) to the suite file of its agent; its id, and the file.

    Raises HTTPException (400, 404, 409).
    """
    given = validated(NewSuiteCase, data)
    case, comments, scoring = await recorded_case(control, given.turn_id, given.case_id)
    if problem := repeats(scoring, case):
        raise HTTPException(409, problem)
    if scoring.suite_file is None:
        raise HTTPException(409, "suite: no suite file was given (--suite)")
    books = control.books_of(scoring.suite_file)
    try:
        await add_to_suite(scoring.suite_file, books, case, comments, allow_plugins=control.allow_plugins)
    except (SuiteError, SuiteFileError) as error:
        raise HTTPException(409, str(error)) from None
    return case.id, scoring.suite_file


def repeats(scoring: Scoring, case: Case) -> str:
    """Why `case` is not appended if another one of the agent has its user messages; else "".

    Turns find their case by the text of the user: with both cases, they would find neither.
    """
    messages = [turn.user for turn in case.turns]
    found_alike = (
        other
        for other, _ in scoring.cases.listed()
        if other.agents == case.agents
        or ((None,) in (other.agents, case.agents) and len(other.agents) == len(case.agents))
    )
    same = next((other for other in found_alike if [turn.user for turn in other.turns] == messages), None)
    return (
        f"the case {same.id!r} has the same user messages; change what it expects, or bind the turn to it"
        if same
        else ""
    )


async def bind_case(control: Control, turn_id: str, data: Mapping[str, Any]) -> str:
    """Score the turn again as one of the case in `data` (`NewBinding`), whose id is returned.

    Raises HTTPException (400, 404, 409).
    """
    case_id = validated(NewBinding, data).case_id
    turn = await stored_turn(control.store, turn_id)
    name = turn.get("agent_name")
    if control.scoring_of(turn).cases.case(case_id) is None:
        of_agent = f" of the agent {name}; GET /api/cases?agent={name}" if name else "; GET /api/cases"
        raise HTTPException(404, f"case_id: no case {case_id!r}{of_agent} lists them")
    pipeline = control.pipeline_of(turn)
    if pipeline is None:
        raise HTTPException(409, f"this process does not score turns{f' of the agent {name}' if name else ''}")
    if turn["status"] != "done":
        raise HTTPException(409, f"the turn is {turn['status']}: it can be bound once it is scored")
    if lacks_content(turn["user_text"]):
        raise HTTPException(409, "the turn was stored without its content (--no-content), so it cannot be scored")
    pipeline.revise(turn, case_id=case_id)
    return case_id


async def _conversation_until(control: Control, turn: TurnJson) -> list[TurnJson]:
    """The turns of the conversation in its run, up to this one. Raises HTTPException (409)."""
    if not turn["conversation_id"]:
        return [compact(turn)]
    turns = []
    of_conversation = TurnQuery(run=turn["run"], conversation=turn["conversation_id"])
    async for one in every_turn(control.store, of_conversation, _MOST_TURNS):
        if agent_of_conversation(one) == agent_of_conversation(turn):
            turns.append(compact(one))
        if one["turn_id"] == turn["turn_id"]:
            return turns
        if len(turns) == _MOST_TURNS:
            break
    raise HTTPException(409, f"the turn comes after {_MOST_TURNS} others of its conversation: too many for a case")


def _taken(scoring: Scoring) -> set[str]:
    return {case.id for case, _ in scoring.cases.listed()}
