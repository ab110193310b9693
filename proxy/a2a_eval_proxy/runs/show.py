"""`runs` and `show`: what a store has, for people at a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from rich.markup import escape
from rich.table import Column, Table
from tool_call_evaluators.report.model import seconds_between
from tool_call_evaluators.report.wording import call_text, counted, duration_text, moment_text, printable, state_text

from ..store import Store, TurnQuery
from ..store.base import RunSummary, TurnJson
from .stored_turns import UnknownRunError, open_existing_store, unknown_run
from .tables import PlainTable, plain

MAX_TURNS = 200
"""Turns of a run in a table."""

_MINUTES = len("2026-11-21 08:22")
_LONGEST = 2_000
"""Characters of a text, result or error."""


class StoredRun:
    """A run with its first turns, and the number of the others."""

    def __init__(self, summary: RunSummary, turns: list[TurnJson]) -> None:
        self.summary = summary
        self.turns = turns
        self.more = summary.turns - len(turns)

    def to_dict(self) -> dict[str, Any]:
        """The numbers of the run, as in /api/runs, and `items`, its first turns."""
        return {**asdict(self.summary), "items": self.turns}


async def stored_runs(location: str) -> list[RunSummary]:
    """The runs of a store, newest first. Raises StoreError."""
    async with open_existing_store(location) as store:
        return list(reversed(await store.runs()))


async def find(location: str, name: str) -> TurnJson | StoredRun:
    """The turn with the id `name`, or the run of that name. Raises StoreError, UnknownRunError."""
    async with open_existing_store(location) as store:
        return await store.turn(name) or await _run(store, name)


async def _run(store: Store, name: str) -> StoredRun:
    found = await store.runs(name)
    if not found:
        raise UnknownRunError(f"no turn {name!r}, and {await unknown_run(store, name)}")
    page = await store.turns(TurnQuery(run=name, limit=MAX_TURNS))
    return StoredRun(found[0], page.items)


def runs_table(runs: Sequence[RunSummary]) -> Table:
    """One row a run: when it began, its turns, and its results (not turns) by status. Names stay whole."""
    table = PlainTable(
        Column("run", no_wrap=True, min_width=max(len(plain(run.name)) for run in runs)),
        Column("began (UTC)", no_wrap=True),
        Column("turns", justify="right"),
        Column("results"),
    )
    for run in runs:
        table.add_row(escape(plain(run.name)), moment_text(run.started_at)[:_MINUTES], str(run.turns), _results(run))
    return table


def _results(run: RunSummary) -> str:
    """`4 passed, 1 failed`, as markup."""
    styles = {"passed": "none", "failed": "red", "errored": "red", "skipped": "none"}
    said = (f"[{style}]{count} {key}[/]" for key, style in styles.items() if (count := getattr(run, key)))
    return ", ".join(said) or "none"


def turn_text(turn: TurnJson) -> str:
    """All of a turn: messages, calls with their results, scores with their reasons, annotations, findings."""
    return printable("\n".join(_turn_lines(turn)))


def _turn_lines(turn: TurnJson) -> Iterator[str]:
    case = f"case {turn['case_id']}" if turn["case_id"] else "no case"
    yield f"turn {turn['turn_id']}, {case}, run {turn['run']}, conversation {turn['conversation_id'] or '–'}"
    state = state_text(turn["state"]) or "no state"
    duration = duration_text(seconds_between(turn["started_at"], turn["ended_at"]))
    yield f"{moment_text(turn['started_at'])} UTC, {duration}, {turn['binding']} {turn['protocol_version']}, {state}"
    yield ""
    yield f"user: {_text(turn['user_text'])}"
    for call in turn["tool_calls"]:
        yield f"→ {call_text(call, _LONGEST)}   ({call['source']})"
        outcome = call["error"] if call["error"] is not None else call["result"]
        if outcome is not None:
            yield f"  {'error: ' if call['error'] is not None else ''}{_text(outcome)}"
    yield f"agent: {_text(turn['response_text'])}"
    yield ""
    if turn["status"] != "done":
        yield f"{turn['status']}: not scored yet"
    for result in turn["evaluations"]:
        score = "" if result["score"] is None else f" {result['score']:.2f}"
        label = f" ({result['label']})" if result["label"] else ""
        yield f"{result['evaluator']}{score} {result['status']}{label}: {_text(result['reason'])}"
    for one in turn.get("annotations", ()):
        who = f" by {one['who']}" if one["who"] else ""
        note = f": {_text(one['note'])}" if one["note"] else ""
        yield f"annotated {one['assessment']}: {one['evaluator'] or 'the turn'}{who}{note}"
    for finding in turn["findings"]:
        yield f"{finding['severity']}: {finding['code']}: {_text(finding['message'])}"


def run_heading(run: StoredRun) -> str:
    """The run in one line, as markup."""
    name, turns = escape(plain(run.summary.name)), counted(run.summary.turns, "turn")
    return f"run {name}: {turns}, results: {_results(run.summary)}"


def _text(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… (--output json shows all)"
