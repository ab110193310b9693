"""The screens of runs and cases: all runs; one; two compared; and the cases in force."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from markupsafe import Markup
from starlette.exceptions import HTTPException
from tool_call_evaluators.matching.explain import expected_call_text
from tool_call_evaluators.matching.placeholders import readable
from tool_call_evaluators.model import ExpectedCall
from tool_call_evaluators.report import comparison_body
from tool_call_evaluators.report.model import OUTCOMES, seconds_between
from tool_call_evaluators.suite import Case, Expectation
from tool_call_evaluators.texts import EXPECTATION_WORDS, duration_text, excerpt, moment_text
from tool_call_evaluators.visibility import state_name

from ...admin.control import scoring_for
from ...admin.runs_api import compared
from ...runs.run_result import MAX_TURNS, LongRunError
from ...runs.stored_turns import VERSION, UnknownRunError, known_versions, newest_runs, verdict_text
from ...store import RunSummary
from .judged_runs import RunView, last_rows
from .rendering import name_in, sentence
from .screen import Screen, Values, View


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run in the table. `view` is None until it is judged, and for very long runs."""

    run: RunSummary
    view: RunView | None
    lags: bool  # whether the run is still to be judged, or has changed since it was
    when: str
    took: str

    @property
    def words(self) -> str:
        """The verdict: of a run that is not read yet, as it keeps it."""
        return OUTCOMES[self.view.status][1] if self.view else verdict_text(self.run)


def run_row(run: RunSummary, view: RunView | None, *, lags: bool = False) -> RunRow:
    return RunRow(
        run, view, lags, moment_text(run.started_at), duration_text(seconds_between(run.started_at, run.ended_at))
    )


PAGE = 25  # runs on a page
MAX_CHOICES = 100  # runs to choose from, for a comparison
FIRST_PAINT_S = 0.4  # for so long a page waits for verdicts; its fragment, for the others, for FRAGMENT_S
FRAGMENT_S = 5.0


def page_number(text: str | None) -> int:
    """The value of `?page=`, from 1. Raises HTTPException."""
    if text is None:
        return 1
    if not (text.isdecimal() and text.isascii() and len(text) < 9 and int(text) > 0):
        raise HTTPException(400, f"page: expected a whole number from 1, got {text[:100]!r}")
    return int(text)


async def _all_runs(view: View) -> Values:
    query = view.request.query_params
    page = page_number(query.get("page"))
    agent = query.get("agent") or None
    runs = await newest_runs(view.control.store, agent)
    shown = runs[(page - 1) * PAGE : page * PAGE]
    rows = await judged(view, shown, FRAGMENT_S if "fragment" in query else FIRST_PAINT_S)
    return {
        "rows": rows,
        "waits": any(row.lags for row in rows),
        "count": len(runs),
        "agent": agent,
        "page": page,
        "older": page + 1 if page * PAGE < len(runs) else None,
        "newer": page - 1 if page > 1 else None,
    }


async def judged(view: View, runs: list[RunSummary], within_s: float) -> list[RunRow]:
    """Rows of these runs, with the verdicts that are ready within that time. Raises StoreError."""
    clock = asyncio.get_running_loop().time
    until = clock() + within_s
    views = [await view.runs.view(run, view.link, max(0.0, until - clock())) for run in runs]
    return [run_row(run, found, lags=view.runs.lags(run, view.link)) for run, found in zip(runs, views, strict=True)]


async def _one_run(view: View) -> Values:
    run = await view.run(name_in(view.request))
    query = view.request.query_params
    waits = None if "fragment" in query or "wait" in query else FIRST_PAINT_S
    judged = await view.runs.view(run, view.link, waits)
    row = run_row(run, judged, lags=view.runs.lags(run, view.link))
    return {
        "run": run,
        "row": row,
        "judged": judged,
        "too_long": MAX_TURNS if run.turns > MAX_TURNS else None,
        "ended": moment_text(run.ended_at),
    }


async def _two_runs(view: View) -> Values:
    query, store = view.request.query_params, view.control.store
    before, after = names = [query.get("a"), query.get("b")]
    known = [run.name for run in await newest_runs(store)]
    for name in names:
        if name is not None and name not in known and not (name == before and name.startswith(VERSION)):
            raise HTTPException(404, f"The store has no run {name[:200]!r}.")
    agent = query.get("agent") or None
    values: dict[str, Any] = {
        "names": names,
        "agent": agent,
        "choices": known[:MAX_CHOICES],
        "versions": {VERSION + version: version for version in await known_versions(store)},
        "swaps": before in known and after in known,
        "body": None,
        "waits": False,
    }
    if before is None or after is None:
        return values | {"problem": None}
    if before == after:
        return values | {"problem": "Choose two different runs."}
    waits = None if "fragment" in query or "wait" in query else FIRST_PAINT_S
    try:
        found = await compared(view.control, before, after, agent, comparison_body, waits)
    except UnknownRunError as error:
        return values | {"problem": f"There is {error}."}
    except LongRunError as error:
        return values | {"problem": sentence(str(error))}
    body = None if found is None else Markup(found)  # noqa: S704  # every text in it is escaped
    return values | {"problem": None, "body": body, "waits": body is None}


ORDERS = {"": "In order", "id": "By id", "failed": "Failed first"}
"""The orders by their values in the URL."""
_RANK = {"failed": 0, "errored": 0, "invalid": 1, "noted": 2}
"""Of the last verdicts; those that are not seen come last."""
_OTHER, _NOT_SEEN = 3, 4

MAX_RUNS = 5  # the newest runs are searched for the last conversations of cases
CASES_PAGE = 50
MAX_SEARCH = 200  # characters
MAX_TEXT = 2_000  # characters of an expected value
MAX_CALLS = 100  # expected calls of a turn

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


def in_order(
    cases: Iterable[tuple[Case, Origin]], order: str, statuses: Mapping[str, str]
) -> list[tuple[Case, Origin]]:
    """The cases in one of ORDERS; `statuses` are the last verdicts by id."""
    keys: Mapping[str, Callable[[tuple[Case, Origin]], Any]] = {
        "id": lambda item: item[0].id,
        "failed": lambda item: _RANK.get(statuses.get(item[0].id, ""), _OTHER) if item[0].id in statuses else _NOT_SEEN,
    }
    return sorted(cases, key=keys[order]) if order in keys else list(cases)


async def _all_cases(view: View) -> Values:
    query = view.request.query_params
    search, order, page = query.get("q", "").strip(), query.get("sort", ""), page_number(query.get("page"))
    if order not in ORDERS or len(search) > MAX_SEARCH:
        raise HTTPException(400, f"sort: expected one of {', '.join(filter(None, ORDERS))}; q: {MAX_SEARCH} characters")
    agent = view.agent
    scoring = scoring_for(view.control, agent)
    listed = scoring.cases.listed()
    store = view.control.store
    names = await store.run_names(MAX_RUNS, agent) if listed else []
    newest = [run for found in await asyncio.gather(*map(store.runs, names)) for run in found]
    rows = await judged(view, newest, FRAGMENT_S if "fragment" in query else FIRST_PAINT_S)
    views = {row.run.name: row.view for row in rows if row.view}
    found = found_cases(listed, search)
    last = last_rows(views, (case.id for case, _ in found), agent) if order == "failed" else {}
    found = in_order(found, order, {case_id: row.status for case_id, (_, row) in last.items()})
    cases = found[(page - 1) * CASES_PAGE : page * CASES_PAGE]
    pages = {"q": search or None, "sort": order or None, "agent": agent}
    return {
        "agent": agent,
        "suite": scoring.suite,
        "suite_file": scoring.suite_file,
        "count": len(listed),
        "found": len(found),
        "cases": cases,
        "page": page,
        "search": search,
        "order": order,
        "orders": ORDERS,
        "previous": view.link("cases", **pages, page=str(page - 1)) if page > 1 else None,
        "next": view.link("cases", **pages, page=str(page + 1)) if page * CASES_PAGE < len(found) else None,
        "last": last or last_rows(views, (case.id for case, _ in cases), agent),
        "expected": expectations,
        "waits": any(row.lags for row in rows),
    }


def expectations(expect: Expectation) -> dict[str, tuple[str, ...]]:
    """What is expected, in the order of a suite file and in the words of the report: values, each on a line."""
    given = ((item.name, getattr(expect, item.name)) for item in fields(Expectation))
    return {EXPECTATION_WORDS[name]: _lines(name, value) for name, value in given if value is not None}


def _lines(name: str, value: Any) -> tuple[str, ...]:
    if name == "tool_calls":
        more = len(value) - MAX_CALLS
        calls = [expected_call(call) for call in value[:MAX_CALLS]] or ["no call"]
        return (*calls, *([f"… and {more:,} more"] if more > 0 else []))
    match name:
        case "tool_calls_order":
            text = " → ".join(value)
        case "tool_calls_count":
            text = ", ".join(f"{tool} {criterion[0]} {criterion[1]}" for tool, criterion in value.items())
        case "tool_outputs":
            return tuple(excerpt(f"{output.name}: {output.output}", MAX_TEXT) for output in value[:MAX_CALLS])
        case "agents":
            text = ", ".join(map(str, value[:MAX_CALLS]))
        case "state":
            text = " or ".join(map(state_name, value))
        case "forbidden_calls":
            text = ", ".join(map(expected_call_text, value[:MAX_CALLS]))
        case _:
            text = value if isinstance(value, str) else readable(value)
    return (excerpt(text, MAX_TEXT),)


def expected_call(call: ExpectedCall) -> str:
    """`refund(order_id=/ORD-[0-9]+/, amount=≈ 14.5)`; `refund(any arguments), succeeded: true`."""
    arguments = [f"{key}={readable(value)}" for key, value in (call.arguments or {}).items()]
    given = "any arguments" if call.arguments is None else ", ".join(arguments)
    outcome = [f", {part}: {readable(value)}" for part, value in call.outcome.items()]
    return excerpt(f"{call.name}({given}){''.join(outcome)}", MAX_TEXT)


SCREENS = (
    Screen("/runs", "runs.html", _all_runs, nav="Runs", fragments=("runs",)),
    Screen("/runs/{name:path}", "run.html", _one_run, fragments=("run",)),
    Screen("/compare", "compare.html", _two_runs, fragments=("comparison",)),
    Screen("/cases", "cases.html", _all_cases, nav="Cases", fragments=("cases",)),
)
