"""One turn in full: texts, calls next to expected ones, scores, findings, timeline, wire; what people do with it
(annotate it, copy or append the case that it makes, bind it to a case); and one conversation with its turns."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response
from tool_call_evaluators.gates import RunGates
from tool_call_evaluators.grouping import grouped
from tool_call_evaluators.outcomes.conversations import RunConversation, agent_of_conversation
from tool_call_evaluators.report.model import Report
from tool_call_evaluators.report.page import conversation_data, turn_data
from tool_call_evaluators.report.shorten import Shortener
from tool_call_evaluators.report.timeline import timeline, waterfall
from tool_call_evaluators.report.tree import shown_tree
from tool_call_evaluators.suite import Suite
from tool_call_evaluators.suite.editing import case_text
from tool_call_evaluators.texts import EXPECTATION_WORDS

from ...admin.api_route import form_of
from ...admin.turn_changes_api import (
    MAX_NOTE,
    MAX_WHO,
    annotate,
    append_case,
    bind_case,
    recorded_case,
    remove_annotation,
    repeats,
)
from ...admin.wire_api import timeline_of, wire_of
from ...protocol.sse import event_data
from ...runs.run_result import Plan, judge_turns
from ...scoring.case_book import CaseBook
from ...scoring.evidence import turn_trees
from ...scoring.turn_in_case import turn_in_case
from ...store import TurnQuery
from ...store.base import TurnJson
from .call_rows import call_rows
from .rendering import MEANINGS, name_in, named, turn_row
from .screen import Screen, Values, View
from .turn_list import filtered, given_filters

_MOST_EVENTS = 500
_MOST_CHARACTERS = 20_000  # of a body or event; the JSON has all


async def _wire_values(view: View) -> Values:
    turn_id = view.request.path_params["turn_id"]
    values = {"turn_id": turn_id, "most_events": _MOST_EVENTS, "most": _MOST_CHARACTERS, "data_in": _data_in}
    try:
        return {**values, **await wire_of(view.control, turn_id), "problem": None}
    except HTTPException as error:
        if error.status_code != 404:
            raise
        return {**values, "problem": error.detail, "exchanges": [], "complete": True}


def _data_in(event: str) -> str:
    """The data of a server-sent event, else its text."""
    return event_data(event.encode()).decode() or event


TEXT_LIMITS = (200_000, 20_000, 4_000, 1_000)
"""Limits on the length of a text, in characters; the first with which a turn fits is used."""
MAX_CHARACTERS = 2_000_000  # of the data of a page
_EVENTS = "tool_call,text,state,turn.closed,turn.done"


async def _values(view: View) -> Mapping[str, Any]:
    turn = await _turn(view)
    row, link = turn_row(turn), view.link
    shown, work = await shown_turn(view, turn), await _work(view, turn)
    shown["results"] = sorted(shown.get("results", ()), key=lambda result: _WORST_FIRST.get(result["status"], 0))
    is_changing = row["verdict"] in ("open", "pending")
    conversation, agent = turn["conversation_id"], agent_of_conversation(turn)
    return {
        "turn": turn,
        "row": row,
        "shown": shown,
        "is_open": row["verdict"] == "open",
        **await _tree(view, turn),
        "json": link("api", "open-turns") if row["verdict"] == "open" else link("api", "turns", row["turn_id"]),
        **work,
        **({} if "fragment" in view.request.query_params else await _neighbours(view, turn)),
        "events": link("api", "events", types=_EVENTS, turn=turn["turn_id"]) if is_changing else None,
        "calls": call_rows(shown, is_open=row["verdict"] == "open"),
        "findings": [(finding, MEANINGS.get(finding["code"])) for finding in turn["findings"]],
        "expected_names": EXPECTATION_WORDS,
        "more_of": {
            "conversation": (conversation, named(link, "conversations", conversation or "", agent=agent)),
            "run": (turn["run"], named(link, "runs", turn["run"])),
            "case": (turn["case_id"], link(case=turn["case_id"])),
        },
    }


async def _tree(view: View, turn: TurnJson) -> dict[str, Any]:
    """Who asked whom, if it asked others or was asked by one; and the turn that caused all that, if the store does not
    have it."""
    store, turn_id = view.control.store, turn["turn_id"]
    tree = await turn_trees(store).around(turn_id)
    first = await store.linked_turn(tree.turn_id if tree else turn_id)
    lost = first.links.parent_turn_id if first else ""
    if lost and (await store.cursor_after(lost) is not None or await view.control.turns_in_progress(1, lost)):
        lost = ""
    shown = shown_tree(tree, turn_id, lambda other: view.link("turns", other)) if tree and tree.children else None
    return {"tree": shown, "lost_parent": lost}


async def _work(view: View, turn: TurnJson) -> dict[str, Any]:
    is_done = turn["status"] == "done"
    # The page of an open turn is rendered again with each event: reading its wire as often would be much work.
    found = await timeline_of(view.control, turn) if is_done else timeline(turn, ())
    return {
        "waterfall": waterfall(found),
        "annotations": turn.get("annotations", []),
        "evaluators": [result["evaluator"] for result in turn["evaluations"]],
        "max_note": MAX_NOTE,
        "max_who": MAX_WHO,
        "is_done": is_done,
        "cases_to_bind": [case.id for case, _ in view.control.scoring_of(turn).cases.listed()]
        if is_done and view.control.pipeline_of(turn)
        else [],
    }


async def shown_turn(view: View, turn: TurnJson) -> dict[str, Any]:
    """The data of a turn as in the report (`report.page`), with its aligned calls if its case expects some: that of the
    suite by which its run is judged, else the one in force here."""
    suite = await _suite_of(view, turn["run"], [turn]) if turn["status"] == "done" else None
    cases = CaseBook(suite) if suite else view.control.scoring_of(turn).cases
    planned = await turn_in_case(cases, view.control.store, turn)

    def data(texts: Shortener) -> dict[str, Any]:
        return turn_data(planned.report, planned.conversation, planned.turn, turn["started_at"], texts)

    return await asyncio.to_thread(fitting, data, TEXT_LIMITS)  # comparing many calls takes time


def fitting(data: Callable[[Shortener], dict[str, Any]], limits: Sequence[int]) -> dict[str, Any]:
    """The data with texts of the first of these lengths with which it fits into a page, or of the last one."""
    for limit in limits:
        found = data(Shortener(limit))
        if len(json.dumps(found, default=str)) <= MAX_CHARACTERS:
            break
    return found


async def _turn(view: View) -> TurnJson:
    """The turn, as it is now if it is open. Raises HTTPException (404).

    A page that has shown an open turn waits until the closed one is stored, up to a second.
    """
    turn_id = view.request.path_params["turn_id"]
    for _ in range(20 if "fragment" in view.request.query_params else 1):
        stored = await view.control.store.turn(turn_id)
        if stored is not None and stored["status"] != "open":
            return stored
        in_progress = await view.control.turns_in_progress(turn_id=turn_id)
        if turn := next(iter(in_progress), stored):
            return turn
        await asyncio.sleep(0.05)
    raise HTTPException(404, f"There is no turn {turn_id!r}. It may have been deleted, or not be stored yet.")


_WORST_FIRST = {"failed": -2, "errored": -1}


async def _neighbours(view: View, turn: TurnJson) -> Mapping[str, Any]:
    """The way back to the list from which the reader came, and to the turns next to this one in it."""
    filters, link = given_filters(view.request), view.link
    query = replace(filtered(view.control, filters), limit=1)
    cursor = await view.control.store.cursor_after(turn["turn_id"])
    pages = {
        name: await view.control.store.turns(replace(query, cursor=cursor, newest_first=newest_first))
        for name, newest_first in (("newer", False), ("older", True))
        if cursor is not None
    }
    return {
        **{name: link("turns", page.items[0]["turn_id"], **filters) for name, page in pages.items() if page.items},
        "filters": filters,
        "back": link("", **filters) + f"#t-{turn['turn_id']}",
    }


async def _to_turn(view: View) -> Response:
    return RedirectResponse(view.link("turns", view.request.path_params["turn_id"]), 303)


async def _annotate(view: View) -> Response:
    turn_id, form = view.request.path_params["turn_id"], await form_of(view.request)
    if "delete" in form:
        await remove_annotation(view.control, turn_id, form["delete"])
    else:
        await annotate(view.control, turn_id, form)
    return RedirectResponse(view.link("turns", turn_id) + "#annotations", 303)


async def _case_values(view: View) -> Values:
    turn_id = view.request.path_params["turn_id"]
    values = {"turn_id": turn_id, "suite_file": None, "text": "", "case_id": "", "repeats": ""}
    try:
        case, comments, scoring = await recorded_case(view.control, turn_id)
    except HTTPException as error:
        if error.status_code != 409:
            raise
        return {**values, "problem": error.detail}
    values |= {"suite_file": scoring.one_file, "text": case_text(case, comments), "repeats": repeats(scoring, case)}
    return {**values, "problem": None, "case_id": case.id}


async def _use_case(view: View) -> Response:
    turn_id, form = view.request.path_params["turn_id"], await form_of(view.request)
    if form.pop("action", "") == "bind":
        await bind_case(view.control, turn_id, form)
        return RedirectResponse(view.link("turns", turn_id), 303)
    await append_case(view.control, {**form, "turn_id": turn_id})
    agent = ((await view.control.store.turn(turn_id)) or {}).get("agent_name")
    return RedirectResponse(view.link("cases", agent=agent if agent in view.control.scorings else None), 303)


MAX_OF_PAGE = 200
CONVERSATION_LIMITS = (20_000, 4_000, 1_000)
"""Limits on the length of a text, in characters; the first with which the conversation fits is used."""


async def _conversation_values(view: View) -> Values:
    query = view.request.query_params
    name, run, agent = name_in(view.request), query.get("run"), query.get("agent") or None
    store = view.control.store
    page = await store.turns(TurnQuery(conversation=name, run=run, agent=agent, limit=MAX_OF_PAGE))
    if not page.items:
        of_run = "" if run is None else f" in run {run[:200]!r}"
        raise HTTPException(404, f"The store has no turns of conversation {name[:200]!r}{of_run}.")
    scored = await store.conversations(run, name)
    results = grouped(
        (item.key.run, {**one, "case_id": item.key.case_id, "agent_name": item.key.agent_name})
        for item in scored
        for one in item.evaluations
    )
    of_agents = grouped((agent_of_conversation(turn), turn) for turn in page.items)
    return {
        "name": name,
        "run": run,
        "agent": agent,
        "parts": [
            part
            for turns in of_agents.values()
            for run_name, of_run in grouped((turn["run"], turn) for turn in turns).items()
            for part in await _parts(view, run_name, of_run, {name: results.get(run_name, [])})
        ],
        "is_cut": page.next_cursor is not None,
        "most": MAX_OF_PAGE,
    }


async def _parts(
    view: View, run: str, turns: Sequence[TurnJson], results: Mapping[str, list[dict[str, Any]]]
) -> list[dict[str, Any]]:
    """Each conversation alone: gates concern the whole run."""
    suite = await _suite_of(view, run, turns)

    def parts() -> list[dict[str, Any]]:
        report = judge_turns(suite and replace(suite, gates={}, run_gates=RunGates()), turns, results, run).report
        return [_part(report, item) for item in report.conversations if item.sent]

    return await asyncio.to_thread(parts)


async def _suite_of(view: View, run: str, turns: Sequence[TurnJson]) -> Suite | None:
    """The cases of these turns, of the suite by which their run is judged, or for a run without one that in force
    here."""
    kept = await view.control.store.kept_verdict(run)
    plan = Plan.from_dict(kept.plan) if kept else Plan(view.control.judged_by({turns[0].get("agent_name")}))
    return plan.suite_with({turn["case_id"] for turn in turns})


def _part(report: Report, conversation: RunConversation) -> dict[str, Any]:
    data = fitting(partial(conversation_data, report, conversation), CONVERSATION_LIMITS)
    rows = {turn["turn_id"]: turn_row(dict(turn)) for turn in conversation.sent}
    turns = [*data.get("given", ()), *data["turns"]]
    shown = [(turn, rows.get(turn.get("id", "")), call_rows(turn)) for turn in turns]
    calls = [call for turn in data["turns"] for call in turn.get("calls", ())]
    whole = call_rows({**data, "calls": calls}) if "changes" in data else None
    has_whole = "changes" in data or "expect" in data
    return {**data, "run": report.run, "shown": shown, "has_whole": has_whole, "whole": whole}


SCREENS = (
    Screen("/conversations/{name:path}", "conversation.html", _conversation_values, fragments=("conversation",)),
    Screen("/turns/{turn_id}", "turn.html", _values, fragments=("turn", "work")),
    Screen("/turns/{turn_id}/wire", "wire.html", _wire_values),
    Screen("/turns/{turn_id}/annotations", "error.html", _to_turn, action=_annotate),
    Screen("/turns/{turn_id}/case", "turn_case.html", _case_values, action=_use_case),
)
