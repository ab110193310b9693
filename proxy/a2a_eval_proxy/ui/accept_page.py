"""Accepting the new behaviour of a run: the changes of the suite file, written when the reader confirms them."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeAlias

from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response
from tool_call_evaluators.runs.accepting import Acceptance, Proposal
from tool_call_evaluators.suite import SuiteError, load_suite
from tool_call_evaluators.suite.files import read_text

from ..admin.api_operation import form_of
from ..admin.control import Control, scoring_for
from ..errors import ConfigError
from ..runs.accept import accept, can_undo, changed_text, difference, proposed_by, undo
from ..runs.run_result import MAX_TURNS, JudgedBy, turns_of_each
from ..scoring.suite_file import SuiteFileError
from .screen import Screen, Values, View

MAX_SHOWN = 80
"""Changes that are reviewed one by one."""


async def judges_of(control: Control, run: str) -> list[JudgedBy]:
    """What judges the run: the suites of the agents whose turns it has. Raises StoreError."""
    names = await control.store.agents(run)
    return control.judged_by({name if name in control.scorings else None for name in names} or {None})


async def _values(view: View) -> Values:
    query = view.request.query_params
    run, case = query.get("run", ""), query.get("case")
    agent = query.get("agent")
    file, own = await _file(view.control, run, agent)
    done = query.get("done", "")
    values: dict[str, Any] = {
        "run": run,
        "case": case,
        "agent": agent,
        "file": str(file),
        "done": int(done) if done.isascii() and done.isdigit() else None,
        "can_undo": can_undo(file) and _is_writable(file),
        "is_writable": _is_writable(file),
        "problem": None,
        "changes": [],
        "left_out": [],
        "most": MAX_SHOWN,
    }
    if not run:
        return values
    try:
        found = await _proposed(view, run, case, file, own)
        changes = await asyncio.to_thread(lambda: list(_changes(found, file)))
    except (ConfigError, SuiteError, SuiteFileError, OSError) as error:
        return {**values, "problem": str(error)}
    return {**values, "changes": changes, "left_out": found.left_out}


_Turns: TypeAlias = Sequence[Mapping[str, Any]]


async def _file(control: Control, run: str, agent: str | None) -> tuple[Path, Callable[[_Turns], _Turns]]:
    """The suite file of the agent, or that which judges the run; and a function that leaves the turns that this suite
    judges. Raises HTTPException (409) where there is not exactly one."""
    judges = await judges_of(control, run)
    if agent is not None:
        file = scoring_for(control, agent).one_file
    else:
        file = judges[0].one_file if len(judges) == 1 else None
    if file is None:
        raise HTTPException(409, "There is no suite file here, or there are several: give one with --suite FILE.")

    def own(turns: _Turns) -> _Turns:
        return [turn for by, judged in turns_of_each(judges, turns) if by.suite_file == file for turn in judged]

    return Path(file), own


def _is_writable(file: Path) -> bool:
    return os.access(file, os.W_OK) and os.access(file.resolve().parent, os.W_OK)


async def _proposed(view: View, run: str, case: str | None, file: Path, own: Callable[[_Turns], _Turns]) -> Acceptance:
    """The changes that the run proposes, of one case or of all. Raises HTTPException (404, 409)."""
    if (await view.run(run)).turns > MAX_TURNS:
        raise HTTPException(409, f"The run has more than {MAX_TURNS:,} turns: use `a2a-eval-proxy accept`.")
    control = view.control
    everything = await proposed_by(control.store, run, file, own, allow_plugins=control.allow_plugins)
    if case is None:
        return everything
    return Acceptance(
        tuple(one for one in everything.proposals if one.case_id == case),
        tuple(one for one in everything.left_out if one.startswith((f"{case}:", f"{case}, "))),
    )


def _changes(found: Acceptance, file: Path) -> Iterator[Mapping[str, Any]]:
    """Each of the first changes with the lines of the file that it alone changes."""
    text = read_text(file)
    for proposal in found.proposals[:MAX_SHOWN]:
        lines = difference(text, changed_text(text, [proposal], file))
        kinds = {"+": "added", "-": "removed", "@": "place"}
        shown = [(kinds.get(line[:1], ""), line) for line in lines]
        yield {"key": _key(proposal), "where": proposal.where, "reasons": proposal.reasons, "lines": shown}


def _key(proposal: Proposal) -> str:
    """What identifies a change as the reader saw it."""
    content = json.dumps([proposal.path, proposal.value], sort_keys=True, default=str)
    return sha256(content.encode()).hexdigest()[:16]


async def _act(view: View) -> Response:
    form, control = await form_of(view.request), view.control
    run, case, agent = form.get("run", ""), form.get("case"), form.get("agent")
    file, own = await _file(control, run, agent)
    try:
        if form.get("action") == "undo":
            await asyncio.to_thread(undo, file, allow_plugins=control.allow_plugins)
            count = 0
        else:
            wanted = {value for name, value in form.items() if name.startswith("take-")}
            found = await _proposed(view, run, case, file, own)
            chosen = [one for one in found.proposals if _key(one) in wanted]
            if not chosen or len(chosen) < len(wanted):
                raise HTTPException(
                    409, "No change is chosen, or the suite or the run has changed meanwhile: review the changes again."
                )
            await asyncio.to_thread(accept, file, chosen, allow_plugins=control.allow_plugins)
            count = len(chosen)
        await asyncio.to_thread(_take_over, control, file)
    except (ConfigError, SuiteError, SuiteFileError, OSError) as error:
        raise HTTPException(409, str(error)) from None
    return RedirectResponse(view.link("accept", run=run or None, case=case, agent=agent, done=str(count)), 303)


def _take_over(control: Control, file: Path) -> None:
    """Later turns are scored by what the cases in the file expect now."""
    changed = {case.id: case for case in load_suite(file, allow_plugins=control.allow_plugins).cases}
    for book in control.books_of(file):
        if (suite := book.suite) is not None:
            book.extend(replace(suite, cases=tuple(changed.get(case.id, case) for case in suite.cases)))


SCREEN = Screen("/accept", "accept.html", _values, action=_act)
