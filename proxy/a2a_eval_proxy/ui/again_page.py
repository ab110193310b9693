"""Trying again: cases of a run in a new run, with both results in one table, and single messages to the agent."""

from __future__ import annotations

from collections.abc import Container, Sequence

from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response

from .. import audit
from ..admin.api_operation import form_of, upload_of
from ..errors import ConfigError
from ..ids import new_run_name
from ..scoring.agent_scoring import Scoring
from ..store import TurnQuery
from .judged_runs import CaseRow
from .rendering import turn_row
from .reruns import Rerun
from .screen import Screen, Values, View

MAX_CASES = 50
MAX_TEXT = 20_000
MAX_FILE_BYTES = 10_000_000  # as `runs.send`, which loads the A2A SDK
_TURNS = 10
_URLS = ("http://", "https://", "grpc://", "grpcs://")


def can_run_again(scoring: Scoring) -> bool:
    """Whether cases of an agent can run again from here: of one suite file, and without rules of redaction,
    which the new run would not have."""
    return scoring.one_file is not None and not scoring.privacy.changes_turns


async def _compared(view: View) -> Values:
    name = view.request.query_params.get("run", "")
    last = view.reruns.last
    if last is None or last.name != name:
        raise HTTPException(404, "This run was not started here, or another one was started since.")
    before, now = [await _rows(view, run, last.agent) for run in (last.earlier, last.name)]
    return {"rerun": last, "rows": [(case, before.get(case, ()), now.get(case, ())) for case in last.cases]}


async def _rows(view: View, run: str, agent: str | None) -> dict[str, list[CaseRow]]:
    """The conversations of a run (with this agent) by case; none before its first turn."""
    found = await view.control.store.runs(run)
    judged = await view.runs.view(found[0], view.link) if found else None
    rows: dict[str, list[CaseRow]] = {}
    for row in judged.cases if judged else ():
        if row.case_id is not None and row.is_of(agent):
            rows.setdefault(row.case_id, []).append(row)
    return rows


async def _again(view: View) -> Response:
    form, control = await form_of(view.request), view.control
    earlier, case = form.get("run", ""), form.get("case")
    found = await control.store.runs(earlier)
    judged = await view.runs.view(found[0], view.link) if found else None
    agent = form.get("agent") or (judged.agent_name if judged else None)
    scoring = control.scoring_of({"agent_name": agent})
    if not can_run_again(scoring):
        raise HTTPException(409, "Cases cannot run again from here: use `a2a-eval-proxy run`.")
    if judged is None:
        raise HTTPException(404, f"The store has no run {earlier[:200]!r} that can be judged.")
    own = {one.id: one for one in scoring.suite.cases} if scoring.suite else {}
    cases = _chosen([row for row in judged.cases if row.is_of(agent)], case, own)
    url = judged.agent_url
    if any(own[case_id].agents != (None,) for case_id in cases):
        agent, url = None, url or control.proxy_url or ""
    elif agent and agent in view.reruns.agents:
        url = view.reruns.agents[agent].upstream
    if not url.startswith(_URLS) or not cases:
        raise HTTPException(409, "There is nothing to run again: no such case of the suite failed, or no one agent.")
    rerun = Rerun(new_run_name(f"{earlier}-again"), earlier, cases, agent)
    try:
        view.reruns.start(rerun, str(scoring.suite_file), url, allow_plugins=control.allow_plugins)
    except ConfigError as error:
        raise HTTPException(409, str(error)) from None
    audit.changed(started=rerun.name, cases=len(cases))
    return RedirectResponse(view.link("again", run=rerun.name), 303)


def _chosen(rows: Sequence[CaseRow], case: str | None, known: Container[str]) -> tuple[str, ...]:
    """The one case that is named, or the first ones that failed, as far as the suite has them."""
    failed = (row.case_id for row in rows if row.status in ("failed", "errored"))
    wanted = [case] if case is not None else [case_id for case_id in failed if case_id is not None]
    return tuple(dict.fromkeys(case_id for case_id in wanted if case_id in known))[:MAX_CASES]


async def _playground(view: View) -> Values:
    query, agent = view.request.query_params, view.agent
    play = view.playground.get(agent or "")
    if play is None:
        return {"play": None, "agent": agent}
    turn_id, store = query.get("turn"), view.control.store
    old = await store.turn(turn_id) if turn_id else None
    newest = TurnQuery(run=play.run, limit=_TURNS, newest_first=True, summary=True)
    stored = (await store.turns(newest)).items
    in_progress = [turn for turn in await view.control.turns_in_progress() if turn["run"] == play.run]
    turns = {turn["turn_id"]: turn for turn in [*in_progress, *stored]}
    return {
        "play": play,
        "agent": agent,
        "is_sending": play.is_busy,
        "old": None if old is None else turn_row(old),
        "text": query.get("text", old["user_text"] if old else ""),
        "conversation": query.get("conversation", ""),
        "rows": [turn_row(turn) for turn in turns.values()],
        "run": play.run,
        "most": MAX_TEXT,
        "most_bytes": MAX_FILE_BYTES,
    }


async def _send(view: View) -> Response:
    form, files = await upload_of(view.request, MAX_FILE_BYTES + 4 * MAX_TEXT)
    text = form.get("text", "")
    agent = view.chosen_agent(form)
    play = view.playground.get(agent or "")
    if play is None:
        raise HTTPException(404, "There is no agent here, only a store: use `a2a-eval-proxy send`.")
    if not text.strip() or len(text) > MAX_TEXT:
        raise HTTPException(400, f"text: expected 1 to {MAX_TEXT:,} characters")
    try:
        play.send(text, form.get("conversation"), files)
    except ConfigError as error:
        raise HTTPException(409, str(error)) from None
    return RedirectResponse(view.link("playground", agent=agent, turn=form.get("turn")), 303)


AGAIN = Screen("/again", "again.html", _compared, fragments=("result",), action=_again)
PLAY = Screen(
    "/playground",
    "playground.html",
    _playground,
    nav="Playground",
    fragments=("result",),
    action=_send,
    needs_agent=True,
)
