"""The screens of runs and cases: all runs; one; and the cases in force.

Runs are read off the event loop, one at a time: a long one takes seconds, in which a page shows its counts.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, TypeAlias, TypeVar

from markupsafe import Markup
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from tool_call_evaluators.grouping import grouped
from tool_call_evaluators.outcomes.conversations import RunConversation, agent_of_conversation
from tool_call_evaluators.report.html import Place, figures, why
from tool_call_evaluators.report.model import Report, RunOutcome, duration, seconds_between
from tool_call_evaluators.suite import Case
from tool_call_evaluators.suite.editing import case_text
from tool_call_evaluators.texts import duration_text, excerpt, moment_text

from ...admin.api_route import validated
from ...admin.control import scoring_for
from ...runs.run_result import MAX_TURNS, run_report, with_verdict
from ...runs.stored_turns import newest_runs, verdict_text
from ...store import RunSummary
from .rendering import name_in, named
from .screen import Screen, Values, View

Link: TypeAlias = Callable[..., str]
"""Makes the URL of a page from the segments of its path and its query; see `rendering.Links`."""

PAGE = 25  # runs on a page
MAX_AGE_S = 60  # for so long a run serves whose counts did not change: reasons may have
MAX_CASES = 500  # of a run in the table
MAX_ATTEMPTS = 30  # of a case in the table
MAX_MISSING = 100  # cases named among those that have not come yet
MAX_NAME = 300


class _Paged(BaseModel):
    page: Annotated[int, Field(ge=1, le=10**8)] = 1


def _page_number(view: View) -> int:
    """From 1. Raises HTTPException (400)."""
    return validated(_Paged, view.request.query_params).page


async def _all_runs(view: View) -> Values:
    query, store, work = view.request.query_params, view.control.store, view.control.work
    page, agent = _page_number(view), query.get("agent") or None
    runs = await newest_runs(store, agent)
    shown = runs[(page - 1) * PAGE : page * PAGE]
    judging = (work.run(("verdict", run), partial(with_verdict, store, run), view.patience_s) for run in shown)
    judged = await asyncio.gather(*judging)
    return {
        "runs": [found or run for found, run in zip(judged, shown, strict=True)],
        "waits": None in judged,
        "count": len(runs),
        "agent": agent,
        "page": page,
        "older": page + 1 if page * PAGE < len(runs) else None,
        "newer": page - 1 if page > 1 else None,
        "verdict_text": verdict_text,
        "moment": moment_text,
        "took": _took,
    }


def _took(run: RunSummary) -> str:
    return duration_text(seconds_between(run.started_at, run.ended_at))


async def _one_run(view: View) -> Values:
    name, control = name_in(view.request), view.control
    run = next(iter(await control.store.runs(name)), None)
    if run is None:
        raise HTTPException(404, f"The store has no run {name[:200]!r}.")
    judged, key = None, ("view", run, view.link(""), time.monotonic() // MAX_AGE_S)
    if run.turns <= MAX_TURNS:
        judged = await control.work.run(key, lambda: _read(view, run), view.patience_s, keep=True)
    return {
        "run": run,
        "judged": judged,
        "too_long": MAX_TURNS if run.turns > MAX_TURNS else None,
        "words": verdict_text(run),
        "began": moment_text(run.started_at),
        "took": _took(run),
    }


async def _read(view: View, run: RunSummary) -> Values:
    report = await run_report(view.control.store, run)
    return await asyncio.to_thread(run_values, report, view.link)


_WHY: Mapping[RunOutcome, str] = {"incomplete": "Why it does not pass yet", "unjudged": "What failed"}


def run_values(report: Report, link: Link) -> Values:
    """What the page shows of the run, without its turns. `cases` are those with a conversation, the failed first."""
    executed = [item for item in report.conversations if item.sent or item.invalid]
    missing = [item.label for item in report.conversations if not (item.sent or item.invalid)]
    cases = list(grouped((item.case_name or item.label, item) for item in executed).items())
    cases.sort(key=lambda case: min((report.status(item) != "failed", bool(report.notes(item))) for item in case[1]))
    title = _WHY.get(report.outcome, "Why it failed")
    html = {"why": why(report, _links(report, link), title), "figures": figures(report)}
    return {
        "status": report.outcome,
        "passed": report.passed_text,
        "planned": sum(item.case is not None for item in report.conversations),
        "missing": len(missing),
        "missing_labels": missing[:MAX_MISSING],
        "cases": [_row(report, name, items, link) for name, items in cases[:MAX_CASES]],
        "more_cases": max(0, len(cases) - MAX_CASES),
        "agents": list(report.agents),
        **{name: Markup(text) for name, text in html.items()},  # noqa: S704  # every text in it is escaped
    }


def _row(report: Report, name: str, attempts: Sequence[RunConversation], link: Link) -> dict[str, Any]:
    """A case, and its first `MAX_ATTEMPTS` as links: the status is that of `Report`, or `noted` if the verdict
    tolerates a failure; the address is None if no turn of it came. `took` is the sum of all."""
    statuses = ["noted" if report.notes(item) else report.status(item) for item in attempts]
    shown = zip(statuses, attempts[:MAX_ATTEMPTS], strict=False)
    turns = [turn for item in attempts for turn in item.executed]
    took = [duration(turn) or 0.0 for turn in turns]
    return {
        "name": excerpt(name, MAX_NAME),
        "attempts": [
            (status, excerpt(item.label, MAX_NAME), _address(report.run, item, link)) for status, item in shown
        ],
        "passed": statuses.count("passed"),
        "count": len(attempts),
        "turns": len(turns),
        "calls": sum(len(turn["tool_calls"]) for turn in turns),
        "took": duration_text(sum(took)) if turns else None,
    }


def _address(run: str, conversation: RunConversation, link: Link) -> str | None:
    """The page of the conversation, or of its turn if it has no id."""
    if not conversation.sent:
        return None
    if conversation.conversation_id:
        agent = agent_of_conversation(conversation.sent[0])
        return named(link, "conversations", conversation.conversation_id, run=run, agent=agent)
    return link("turns", conversation.sent[0]["turn_id"])


def _links(report: Report, link: Link) -> Place:
    def place(index: int | None, number: int) -> str:
        if index is None:
            return "#cases"
        conversation = report.conversations[index]
        turn = next((item.turn for item in conversation.turns if item.index + 1 == number), None)
        return link("turns", turn["turn_id"]) if turn else _address(report.run, conversation, link) or "#missing"

    return place


CASES_PAGE = 50
MAX_SEARCH = 200  # characters
Origin = TypeVar("Origin", bound=str)


def found_cases(listed: Sequence[tuple[Case, Origin]], text: str) -> list[tuple[Case, Origin]]:
    """The cases that have each word of `text` in their id, tags, messages, goal or expected tools, in any case."""
    words = text.casefold().split()
    return [item for item in listed if all(word in _text(item[0]) for word in words)] if words else list(listed)


def _text(case: Case) -> str:
    goals = (case.user_goal, case.simulate.goal if case.simulate else None)
    expected = [case.expect, *(turn.expect for turn in case.turns)]
    tools = (call.name for expect in expected if expect for call in expect.tool_calls or ())
    return "\n".join(
        [case.id, *case.tags, *(turn.user for turn in case.turns), *filter(None, goals), *tools]
    ).casefold()


async def _all_cases(view: View) -> Values:
    query, agent = view.request.query_params, view.agent
    search, page = query.get("q", "").strip(), _page_number(view)
    if len(search) > MAX_SEARCH:
        raise HTTPException(400, f"q: expected at most {MAX_SEARCH} characters")
    scoring = scoring_for(view.control, agent)
    listed = scoring.cases.listed()
    found = found_cases(listed, search)
    pages = {"q": search or None, "agent": agent}
    return {
        "agent": agent,
        "suite": scoring.suite,
        "suite_file": scoring.suite_file,
        "count": len(listed),
        "found": len(found),
        "cases": found[(page - 1) * CASES_PAGE : page * CASES_PAGE],
        "page": page,
        "search": search,
        "case_text": case_text,
        "previous": view.link("cases", **pages, page=str(page - 1)) if page > 1 else None,
        "next": view.link("cases", **pages, page=str(page + 1)) if page * CASES_PAGE < len(found) else None,
    }


SCREENS = (
    Screen("/runs", "runs.html", _all_runs, nav="Runs", fragments=("runs",)),
    Screen("/runs/{name:path}", "run.html", _one_run, fragments=("run",)),
    Screen("/cases", "cases.html", _all_cases, nav="Cases"),
)
