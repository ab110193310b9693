"""The list of turns, newest first, with filters whose state is the URL; and the agents behind the proxy: all of them,
those that fail now first, and one of several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request

from ...admin.agent_status import FAILS_NOW, failing_first
from ...admin.api_route import validated
from ...admin.control import MAX_OPEN, Control, known_agent
from ...admin.turns_api import TurnFilters, turn_query
from ...store import TurnQuery
from ...store.base import TurnJson
from ...store.encoding import json_text
from .rendering import MEANINGS, name_in, turn_row
from .screen import Screen, Values, View

_NEWEST_TURNS = 20
_NAMED = 6  # agents that fail now, by name
SIGN_OF = {"unreachable": "failed", "no card": "failed", "failing": "failed", "failed lately": "noted",
           "calls not visible": "warning", "no turns": "skipped", "ok": "passed"}  # fmt: skip


async def _agents(view: View) -> Values:
    reports = failing_first(await view.control.agent_statuses())
    return {"reports": reports, "fails_now": FAILS_NOW, "sign_of": SIGN_OF}


async def _one(view: View) -> Values:
    try:
        name = known_agent(view.control, name_in(view.request))
    except HTTPException as error:
        raise HTTPException(404, f"{error.detail.removeprefix('agent: ').capitalize()}.") from None
    (report,) = await view.control.agent_statuses([name])
    newest = TurnQuery(agent=name, limit=_NEWEST_TURNS, newest_first=True, summary=True)
    turns = (await view.control.store.turns(newest)).items
    return {
        "agent": name,
        "report": report,
        "sharing": [other for other in view.control.sharing(report.scoring) if other != name],
        "rows": [turn_row(turn) for turn in turns],
        "sign_of": SIGN_OF,
    }


_PAGE = 50
_MOST_RUNS = 100
_VERDICTS = (
    ("", "All"),
    ("failed", "Failed"),
    ("errored", "Errored"),
    ("passed", "Passed"),
    ("unscored", "Not scored"),
)
_NARROWING = (("case", "Case"), ("tag", "Tag"), ("tool", "Tool"), ("evaluator", "Evaluator"), ("finding", "Finding"))


def given_filters(request: Request) -> dict[str, str]:
    given = request.query_params
    return {name: given[name].strip() for name in TurnFilters.model_fields if given.get(name, "").strip()}


def filtered(control: Control, filters: Mapping[str, str]) -> TurnQuery:
    """The query for summaries of the turns that have passed these filters, newest first. Raises HTTPException (400)."""
    return replace(turn_query(control, validated(TurnFilters, filters)), newest_first=True, summary=True)


async def _values(view: View) -> Mapping[str, Any]:
    given = view.request.query_params
    filters, cursor = given_filters(view.request), given.get("cursor")
    query = replace(filtered(view.control, filters), limit=_PAGE, cursor=cursor)
    try:
        page = await view.control.store.turns(query)
    except ValueError as error:
        raise HTTPException(400, str(error)) from None
    link = view.link
    in_progress = await view.control.turns_in_progress(MAX_OPEN if filters else _PAGE)
    run, name = filters.get("run"), filters.get("agent", "")
    open_turns = view.control.open_turns
    if run is not None or name:
        open_turns = sum(run in (None, turn["run"]) and name in ("", turn.get("agent_name")) for turn in in_progress)
    found = page.items if cursor else [*_selected(in_progress, query), *page.items]
    (report,) = await view.control.agent_statuses([name]) if name in view.control.scorings else (None,)
    several = view.control.scorings and not report  # of all, as they were read before
    first = next((f"/agents/{agent}" for agent in view.control.scorings), "")
    return {
        "agent": report.status if report else await view.control.agent.status() if view.control.agent else None,
        "report": report,
        "all_agents": failing_first(await view.control.agent_statuses(wait=False)) if several else [],
        "fails_now": FAILS_NOW,
        "most_named": _NAMED,
        "proxy_url": report.address if report else view.control.proxy_url and view.control.proxy_url + first,
        "is_live": cursor is None,
        "figures": await view.figures.of(run, name or None),
        "open_turns": open_turns,
        "turns": list({turn["turn_id"]: turn for turn in reversed(found)}.values())[::-1],
        "filters": filters,
        "first_page": link(**filters),
        "next_page": link(**filters, cursor=page.next_cursor) if page.next_cursor else None,
        **({} if "fragment" in given else await _form(view, filters, found)),
    }


def _selected(in_progress: Sequence[TurnJson], query: TurnQuery) -> list[TurnJson]:
    has_content = bool(query.content)
    wanted = {"run": query.run, "case_id": query.case, "conversation_id": query.conversation, "status": query.status}
    exact = {name: value for name, value in {**wanted, "agent_name": query.agent}.items() if value is not None}
    found = [
        turn
        for turn in in_progress
        if all(turn.get(name) == value for name, value in exact.items())
        and (query.content.cases is None or turn["case_id"] in query.content.cases)
        and (not has_content or query.content.matches(json_text(turn), "[]"))
    ]
    return found[:_PAGE]


async def _form(view: View, filters: Mapping[str, str], found: Sequence[TurnJson]) -> dict[str, Any]:
    """What the form offers. Fragments do not contain it."""
    control, agent = view.control, filters.get("agent")
    every = [control.scorings[agent]] if agent and agent in control.scorings else control.every_scoring
    cases = [case for scoring in every for case, _ in scoring.cases.listed()]
    known = {
        "agent": control.agent_names,
        "case": list(dict.fromkeys(case.id for case in cases)),
        "tag": sorted({tag for case in cases for tag in case.tags}),
        "tool": sorted({call["name"] for turn in found for call in turn["tool_calls"]}),
        "evaluator": list(dict.fromkeys(name for scoring in every if scoring.suite for name in scoring.suite.metrics)),
        "finding": MEANINGS,
    }
    names = await control.store.run_names(_MOST_RUNS)
    narrowing = [("agent", "Agent"), *_NARROWING] if known["agent"] or "agent" in filters else _NARROWING
    return {
        "verdicts": _VERDICTS,
        "is_narrowed": any(name in filters for name, _ in narrowing),
        "narrowing": [(name, title, known.get(name, ())) for name, title in narrowing],
        "runs": dict.fromkeys([*([filters["run"]] if "run" in filters else []), *names]),
    }


SCREENS = (
    Screen("/", "turns.html", _values, nav="Turns", fragments=("head", "list")),
    Screen("/agents", "agents.html", _agents, nav="Agents", fragments=("agents",)),
    Screen("/agents/{name:path}", "agent.html", _one, fragments=("agent",)),
)
