"""One conversation: its turns in order, as in the report, and the results of the conversation as a whole."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from starlette.exceptions import HTTPException
from tool_call_evaluators.gates import RunGates
from tool_call_evaluators.grouping import grouped
from tool_call_evaluators.report import Report
from tool_call_evaluators.report.page import conversation_data
from tool_call_evaluators.runs.outcomes import RunConversation, agent_of_conversation, conversation_name

from ..runs.run_result import Plan, judge_turns
from ..store import TurnQuery
from ..store.base import TurnJson
from .call_rows import call_rows
from .rendering import name_in, turn_row
from .screen import Screen, Values, View
from .turn_page import fitting

MAX_TURNS = 200
TEXT_LIMITS = (20_000, 4_000, 1_000)
"""Limits on the length of a text, in characters; the first with which the conversation fits is used."""


async def _values(view: View) -> Values:
    query = view.request.query_params
    name, run, agent = name_in(view.request), query.get("run"), query.get("agent") or None
    store = view.control.store
    page = await store.turns(TurnQuery(conversation=name, run=run, agent=agent, limit=MAX_TURNS))
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
        "title": await _title(view, page.items[0], name),
        "run": run,
        "agent": agent,
        "parts": [
            part
            for turns in of_agents.values()
            for run_name, of_run in grouped((turn["run"], turn) for turn in turns).items()
            for part in await _parts(view, run_name, of_run, {name: results.get(run_name, [])})
        ],
        "is_cut": page.next_cursor is not None,
        "most": MAX_TURNS,
    }


async def _title(view: View, first: TurnJson, name: str) -> str:
    """What people call the conversation, by its first turn."""
    run, case_id = first["run"], first["case_id"]
    number = await view.control.store.conversation_number(run, case_id, name, agent_of_conversation(first))
    if case_id is not None:
        return f"Attempt {number} at {case_id}"
    called = conversation_name(name, number)
    return called.capitalize() if called != name else f"Conversation {name}"


async def _parts(
    view: View, run: str, turns: Sequence[TurnJson], results: Mapping[str, list[dict[str, Any]]]
) -> list[dict[str, Any]]:
    """Each conversation alone, with the cases by which its run is judged, or for a run without suite those in force
    here: gates concern the whole run."""
    kept = await view.control.store.kept_verdict(run)
    plan = Plan.from_dict(kept.plan) if kept else Plan(view.control.judged_by({turns[0].get("agent_name")}))
    suite = plan.suite_with({turn["case_id"] for turn in turns})

    def parts() -> list[dict[str, Any]]:
        report = judge_turns(suite and replace(suite, gates={}, run_gates=RunGates()), turns, results, run).report
        return [_part(report, item) for item in report.conversations if item.executed]

    return await asyncio.to_thread(parts)


def _part(report: Report, conversation: RunConversation) -> dict[str, Any]:
    data = fitting(partial(conversation_data, report, conversation), TEXT_LIMITS)
    rows = {turn["turn_id"]: turn_row(dict(turn)) for turn in conversation.executed}
    shown = [
        (turn, rows.get(turn.get("id", "")), call_rows(turn, prefix=f"{turn.get('id', '')}-")) for turn in data["turns"]
    ]
    calls = [call for turn in data["turns"] for call in turn.get("calls", ())]
    whole = call_rows({**data, "calls": calls}, prefix="whole-") if "changes" in data else None
    has_whole = "changes" in data or "expect" in data
    return {**data, "run": report.run, "shown": shown, "has_whole": has_whole, "whole": whole}


SCREEN = Screen("/conversations/{name:path}", "conversation.html", _values, fragments=("conversation",))
