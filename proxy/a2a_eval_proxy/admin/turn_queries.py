"""Parameters that select turns, for the admin API and the pages."""

from __future__ import annotations

from starlette.exceptions import HTTPException

from ..scoring.case_book import CaseBook
from ..store import TurnQuery
from ..store.base import STATUSES
from ..store.turn_filter import VERDICTS, TurnFilter
from .api_operation import ApiParameter, Given, Schema, choice

_NAME: Schema = {"type": "string", "maxLength": 1000}

CURSOR = ApiParameter("cursor", "`next_cursor` of the page before, with the same other parameters")
LIMIT = ApiParameter(
    "limit", "The most turns of a page", {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100}
)
ORDER = ApiParameter("order", "Which turns come first", choice(["newest", "oldest"], "oldest"))
VIEW = ApiParameter("view", "Whole turns, or turns in short for long lists", choice(["whole", "summary"], "whole"))
FILTERS = (
    ApiParameter("run", "Turns of this run"),
    ApiParameter("conversation", "Turns of this contextId"),
    ApiParameter("case", "Turns of the case with this id"),
    ApiParameter("tag", "Turns of cases with this tag, in the suite and among registered ones", _NAME),
    ApiParameter("status", "Turns with this status", choice(STATUSES)),
    ApiParameter(
        "verdict",
        "The worst status of the turn's results (`scored` counts as `passed`), `unscored` without results. With"
        " `evaluator`, that of its results",
        choice(VERDICTS),
    ),
    ApiParameter("evaluator", "Turns with a result of this evaluator", _NAME),
    ApiParameter("tool", "Turns with a call of this tool", _NAME),
    ApiParameter("finding", "Turns with a finding of this code", _NAME),
    ApiParameter(
        "q",
        "Turns that contain this text in the user text, the response, the name or the arguments of a tool call, or the"
        " id of the case, in letters of any case",
        {"type": "string", "maxLength": 200},
    ),
)


def turn_query(cases: CaseBook, given: Given) -> TurnQuery:
    """The query for these values of CURSOR, LIMIT, ORDER, VIEW and FILTERS; any may be missing.

    Raises HTTPException (400) for a tag that no case has.
    """
    content = TurnFilter(
        text=given.get("q"),
        verdict=given.get("verdict"),
        tool=given.get("tool"),
        evaluator=given.get("evaluator"),
        finding=given.get("finding"),
        cases=_tagged(cases, given["tag"]) if given.get("tag") is not None else None,
    )
    return TurnQuery(
        run=given.get("run"),
        conversation=given.get("conversation"),
        case=given.get("case"),
        status=given.get("status"),
        limit=given.get("limit") or LIMIT.schema["default"],
        cursor=given.get("cursor"),
        content=content,
        newest_first=given.get("order") == "newest",
        summary=given.get("view") == "summary",
    )


def _tagged(cases: CaseBook, tag: str) -> frozenset[str]:
    """The ids of the cases with this tag."""
    in_force = [case for case, _ in cases.listed()]
    found = frozenset(case.id for case in in_force if tag in case.tags)
    if not found:
        tags = sorted({tag for case in in_force for tag in case.tags})
        known = f"expected one of {', '.join(tags)}" if tags else "no case has tags"
        raise HTTPException(400, f"tag: {known}, got {tag[:100]!r}")
    return found
