"""The agents behind the proxy: all of them, those that fail now first; and one of several."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from starlette.exceptions import HTTPException

from ..admin.agent_report import FAILS_NOW, AgentReport, failing_first
from ..admin.control import Control, known_agent
from ..store import TurnQuery
from .rendering import name_in, turn_row
from .screen import Screen, Values, View

MAX_SEARCH = 200  # characters
_TURNS = 20
_NAMED = 6  # agents that fail now, by name
SIGN_OF = {"unreachable": "failed", "no card": "failed", "failing": "failed", "failed lately": "noted",
           "calls not visible": "warning", "no turns": "skipped", "ok": "passed"}  # fmt: skip
SHOWN = {"": "All", "failing": "That fail now", "wrong": "With any problem"}


@dataclass(frozen=True, slots=True)
class Overview:
    """All of several agents in one sentence."""

    count: int
    failing: list[AgentReport]
    """The first ones."""
    more: int
    lately: int
    unseen: int


async def overview(control: Control) -> Overview | None:
    """None where there is one agent, or none. Does not wait for cards that were read before."""
    if not control.scorings:
        return None
    reports = failing_first(await control.agent_reports(wait=False))
    failing = [report for report in reports if report.health in FAILS_NOW]
    return Overview(
        len(reports),
        failing[:_NAMED],
        len(failing) - len(failing[:_NAMED]),
        sum(report.health == "failed lately" for report in reports),
        sum(report.health == "calls not visible" for report in reports),
    )


async def _agents(view: View) -> Values:
    query = view.request.query_params
    search, show = query.get("q", "").strip(), query.get("show", "")
    if show not in SHOWN or len(search) > MAX_SEARCH:
        raise HTTPException(400, f"show: expected one of {', '.join(filter(None, SHOWN))}; q: {MAX_SEARCH} characters")
    reports = failing_first(await view.control.agent_reports())
    return {
        "count": len(reports),
        "reports": list(_found(reports, search, show)),
        "failing": sum(report.health in FAILS_NOW for report in reports),
        "search": search,
        "show": show,
        "shown": SHOWN,
        "sign_of": SIGN_OF,
    }


def _found(reports: Iterable[AgentReport], search: str, show: str) -> Iterable[AgentReport]:
    words = search.casefold().split()
    for report in reports:
        suite = report.scoring.suite
        texts = [report.name, report.status.name, report.status.url, report.run, suite.name if suite else ""]
        text = "\n".join(texts).casefold()
        fits = {"failing": report.health in FAILS_NOW, "wrong": report.health not in ("ok", "no turns")}
        if all(word in text for word in words) and fits.get(show, True):
            yield report


async def _one(view: View) -> Values:
    try:
        name = known_agent(view.control, name_in(view.request))
    except HTTPException as error:
        raise HTTPException(404, f"{error.detail.removeprefix('agent: ').capitalize()}.") from None
    (report,) = await view.control.agent_reports([name])
    newest = TurnQuery(agent=name, limit=_TURNS, newest_first=True, summary=True)
    turns = (await view.control.store.turns(newest)).items
    return {
        "agent": name,
        "report": report,
        "sharing": [other for other in view.control.sharing(report.scoring) if other != name],
        "rows": [turn_row(turn) for turn in turns],
        "sign_of": SIGN_OF,
    }


SCREENS = (
    Screen("/agents", "agents.html", _agents, nav="Agents", fragments=("agents",)),
    Screen("/agents/{name:path}", "agent.html", _one, fragments=("agent",)),
)
