"""Turns, their scores and stored runs at a terminal."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from a2a_tool_capture.wire import FAILED_STATES
from jinja2 import PackageLoader
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table
from tool_call_evaluators.attempts import NOT_THE_AGENTS
from tool_call_evaluators.gates import USER_REASONS
from tool_call_evaluators.grouping import grouped
from tool_call_evaluators.model import UNPROVEN
from tool_call_evaluators.outcomes.conversations import ConversationTurn, RunConversation, turn_failure
from tool_call_evaluators.report.model import GATE_NOT_MET, Report
from tool_call_evaluators.report.templating import plain_lines, plain_text
from tool_call_evaluators.report.tree import tree_text
from tool_call_evaluators.texts import (
    counted,
    cut_within,
    gate_name,
    gate_sign,
    moment_text,
    one_line,
    printable,
    score_text,
)
from tool_call_evaluators.visibility import TURN_SUCCEEDED, state_name

from ..scoring.evidence import turn_trees
from ..store import Store, TurnQuery
from ..store.base import RunSummary
from ..store.base import TurnJson as StoredTurn
from .run_result import run_json, with_verdict
from .stored_turns import UnknownRunError, newest_runs, no_turns_of, open_existing_store, unknown_run, verdict_text

TurnJson = Mapping[str, Any]

_BAD = ("failed", "errored")
_STYLES = {
    "passed": "green",
    "failed": "red",
    "gate not met": "yellow",
    "tolerated": "yellow",
    "excluded": "yellow",
    "unscored": "dim",
    "given": "dim",
}
"""Of the verdicts on turns."""

TEMPLATES = PackageLoader(__package__ or "", "templates")
_LONGEST_ID = 32  # characters of the id of a case, which stays on a line
_LONGEST_CALL, _LONGEST_TEXT = 120, 500  # characters; reports and the export have the rest


def plain_table(*headings: str | Column) -> Table:
    """A table without rules. A heading alone is that of a column whose long words are broken."""
    columns = [Column(one, overflow="fold") if isinstance(one, str) else one for one in headings]
    return Table(*columns, box=None, pad_edge=False, header_style="bold")


def plain(text: str, limit: int = _LONGEST_TEXT) -> str:
    """`text`, whoever it is of, cut, on one line, and without what would steer the terminal."""
    return one_line(printable(text), limit)


def turn_table(report: Report, most: int | None = None) -> Table:
    """One row a turn, `failures_first`: case, tool calls, the verdict of the report, which may tolerate bad results,
    and remarks: results that did not pass or have no threshold, findings, and how it was interrupted."""
    rows = []
    for item, planned in failures_first(report)[:most]:
        turn: TurnJson = planned.turn or {}
        verdict, reason = _verdict(report, item, planned)
        notes = {result.evaluator: report.note(item, planned, result) for result in planned.results}
        remarks = _remarks(turn, verdict, notes) or ([f"[red]{escape(plain(reason, _LONGEST_CALL))}[/]"] * bool(reason))
        calls = _calls(turn)
        if item.counts_all_agents:
            calls += ["[dim]and those of asked agents[/dim]" if calls else "[dim]none of its own[/dim]"]
        rows.append((turn, "\n".join(calls) or "[dim]none[/dim]", f"[{_STYLES[verdict]}]{verdict}[/]", remarks))
    ids = [cut_within(plain(turn["case_id"] or "no case"), _LONGEST_ID) for turn, *_ in rows]
    table = plain_table(
        Column("case", overflow="fold", min_width=max(map(len, ids), default=4)),
        Column("tool calls", overflow="fold", min_width=12),
        Column("verdict", no_wrap=True, min_width=8),
    )
    if has_remarks := any(remarks for *_, remarks in rows):
        table.add_column("remarks", overflow="fold", min_width=8)
    previous: tuple[str, str] | None = None
    for case_id, (turn, shown_calls, shown_verdict, remarks) in zip(ids, rows, strict=True):
        conversation = (turn["case_id"], turn["conversation_id"])
        name = "" if conversation == previous else escape(case_id)
        table.add_row(name, shown_calls, shown_verdict, *(["\n".join(remarks)] if has_remarks else []))
        previous = conversation
    return table


def finding_lines(report: Report, most: int | None = None) -> list[str]:
    """What the codes of findings in the rows of `turn_table` say, by their first messages, with the markup of rich."""
    turns = [turn.turn or {} for _, turn in failures_first(report)[:most]]
    found = {finding["code"]: finding["message"] for turn in reversed(turns) for finding in turn["findings"]}
    return [f"[dim]{_marked(f'{code}: {message}')}[/]" for code, message in sorted(found.items())]


def conversation_list(turns: Iterable[TurnJson]) -> str:
    """Conversations with their turns, with the markup of rich: verdict and id, message, tool calls, and why it
    failed."""
    conversations = grouped(((turn["case_id"], turn["conversation_id"]), turn) for turn in turns)
    return marked_text(
        "conversations.txt",
        conversations=conversations,
        styles=_STYLES,
        verdict=lambda turn: ("passed" if _is_measured(turn) else "unscored") if passed(turn) else "failed",
        calls=_calls,
        remarks=_remarks,
    )


_ORDER = {"failed": 0, "unscored": 1}


def failures_first(report: Report) -> list[tuple[RunConversation, ConversationTurn]]:
    """The executed turns: of failed conversations, then those that were not scored, then the others."""
    conversations = sorted(report.conversations, key=lambda item: _ORDER.get(report.status(item), 2))
    return [(item, turn) for item in conversations for turn in item.turns if turn.turn is not None]


def fitting(console: Console, report: Report, lines: int) -> int:
    """How many turns have room in that many lines of `console` below the heading; at least one."""

    def height(count: int) -> int:
        return len(console.render_lines(turn_table(report, count))) - 1

    return max(1, bisect_right(range(1, min(len(report.turns), lines) + 1), lines, key=height))


def score_table(metrics: Iterable[Mapping[str, Any]]) -> Table:
    """One row a metric, of `Verdict.to_dict()["metrics"]`: its mean over the turns, and how many passed or did not.

    What was skipped or errored has a column where there is any."""
    rows = list(metrics)
    shown = ["passed", "failed", *(key for key in ("skipped", "errored") if any(row[key] for row in rows))]
    table = plain_table("score", *(Column(name, justify="right") for name in ("mean", *shown)))
    for row in rows:
        counts = (f"[red]{row[key]}[/red]" if row[key] and key in _BAD else str(row[key]) for key in shown)
        table.add_row(escape(row["metric"]), score_text(row["mean"], row["scale"]), *counts)
    return table


def conversation_lines(conversations: Iterable[RunConversation]) -> list[str]:
    """One line with the results of each conversation that was evaluated as a whole, or should have been."""
    return _cells("whole", conversations=conversations)


def passed(turn: TurnJson) -> bool:
    """Whether the turn did not break off, and none of its results failed or errored. Without results it has not."""
    results = turn["evaluations"]
    return (
        bool(results)
        and turn_failure(turn) is None
        and not any(result["status"] in ("failed", "errored") for result in results)
    )


def gate_table(gates: Iterable[Mapping[str, Any]]) -> Table:
    """One row a gate, of `Verdict.to_dict()["gates"]`: whether it is met, and the actual value."""
    table = plain_table("gate", Column("actual", justify="right"))
    for check in gates:
        style = {True: "green", False: "red", None: "yellow"}[check["passed"]]
        name = f"[{style}]{gate_sign(check)}[/{style}] {escape(plain(gate_name(check)))}"
        table.add_row(name, escape(check["text"]))
    return table


def suite_table(parts: Iterable[Report]) -> Table:
    """One row for each suite of several: its verdict, and how many of its conversations passed."""
    table = plain_table("suite", "verdict", "conversations passed")
    for part in parts:
        verdict = "[green]passed[/green]" if part.passed else "[red]failed[/red]"
        table.add_row(escape(plain(part.title)), verdict, part.passed_text)
    return table


def _verdict(report: Report, conversation: RunConversation, turn: ConversationTurn) -> tuple[str, str]:
    """The verdict on a turn, and why it failed: the first reason that names it or its conversation."""
    made: TurnJson = turn.turn or {}
    if report.exclusion(conversation) in NOT_THE_AGENTS:
        return "excluded", ""
    for reason in report.reasons_of(conversation):
        if reason["code"] not in USER_REASONS and reason["turn_id"] in (None, made["turn_id"]):
            return "failed", reason["message"].removeprefix(conversation.label).lstrip(",: ")
    if any(report.note(conversation, turn, result) == GATE_NOT_MET for result in turn.results):
        return "gate not met", ""
    if made["evaluations"] and not passed(made):
        return "tolerated", ""
    return "passed" if _is_measured(made) else "unscored", ""


def _is_measured(turn: TurnJson) -> bool:
    return any(result["status"] not in ("skipped", "errored") for result in turn["evaluations"])


def _remarks(turn: TurnJson, verdict: str, notes: Mapping[str, str], *, reasons: bool = False) -> list[str]:
    """`notes` are those of the report, by evaluator; one is there only if the verdict of the row does not say it.
    `reasons`: with those of results, and the messages of findings."""
    return _cells(
        "remarks",
        turn=turn,
        verdict=verdict,
        notes=notes,
        reasons=reasons,
        ended=state_name(turn["state"]) if turn["state"] in FAILED_STATES else "",
        failed=turn_failure(turn),
        findings={finding["code"]: finding for finding in turn["findings"]},
        gate_not_met=GATE_NOT_MET,
        turn_succeeded=TURN_SUCCEEDED,
    )


def _calls(turn: TurnJson) -> list[str]:
    return _cells("calls", turn=turn, unseen=ConversationTurn(0, turn).unseen)


def _cells(part: str, **values: Any) -> list[str]:
    return plain_lines("turn_cells.txt", TEMPLATES, _marked, part=part, unproven=UNPROVEN, **values)


def marked_text(template: str, **values: Any) -> str:
    """The text of a template with the markup of rich, whose values show as they are, each on one line."""
    return plain_text(template, TEMPLATES, _marked, **values)


def _marked(text: str) -> str:
    return escape(plain(text))


MAX_TURNS = 200  # turns of a run in a table
_MOST_REASONS = 30
_MINUTES = len("2026-11-21 08:22")


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run with its first turns, of one of several agents or of all, and the number of the others of all. `reasons`
    are those of the verdict that the run keeps."""

    summary: RunSummary
    turns: list[StoredTurn]
    more: int
    reasons: list[dict[str, Any]]

    def to_dict(self) -> dict[str, Any]:
        """The numbers of the run, as in /api/runs, the `reasons` of its verdict, and `items`, its first turns."""
        return {**run_json(self.summary), "reasons": self.reasons, "items": self.turns}


async def stored_runs(location: str, agent: str | None = None) -> list[RunSummary]:
    """See `newest_runs`; with their verdicts. Raises StoreError, UnknownRunError for an agent without turns."""
    async with open_existing_store(location) as store:
        found = [await with_verdict(store, run) for run in await newest_runs(store, agent)]
    if agent is not None and not found:
        raise UnknownRunError(no_turns_of(agent, None))
    return found


async def find(location: str, name: str, agent: str | None = None) -> StoredTurn | StoredRun:
    """The turn with the id `name`, or the run of that name, with the turns of one of several agents or (None) of all.

    Raises StoreError, UnknownRunError.
    """
    async with open_existing_store(location) as store:
        return await store.turn(name) or await _run(store, name, agent)


async def agents_asked(location: str, turn: StoredTurn) -> str:
    """Who asked whom, as text, if the turn asked others or was asked by one; else "". Raises StoreError."""
    async with open_existing_store(location) as store:
        tree = await turn_trees(store).around(turn["turn_id"])
    return "" if tree is None or not tree.children else printable(tree_text(tree, turn["turn_id"]))


async def _run(store: Store, name: str, agent: str | None) -> StoredRun:
    found = await store.runs(name)
    if not found:
        raise UnknownRunError(f"no turn {name!r}, and {await unknown_run(store, name)}")
    page = await store.turns(TurnQuery(run=name, agent=agent, limit=MAX_TURNS))
    if agent is not None and not page.items:
        raise UnknownRunError(no_turns_of(agent, name))
    more = 0 if agent is not None and len(page.items) < MAX_TURNS else found[0].turns - len(page.items)
    run = await with_verdict(store, found[0])
    kept = await store.kept_verdict(name)
    reasons = kept.verdict["whole"]["reasons"] if kept and kept.verdict else []
    return StoredRun(run, page.items, more, reasons)


def runs_table(runs: Sequence[RunSummary]) -> Table:
    """One row a run: when it began, its verdict, and how many of its conversations passed. Names stay whole."""
    table = plain_table(
        Column("run", no_wrap=True, min_width=max(len(plain(run.name)) for run in runs)),
        Column("began (UTC)", no_wrap=True),
        Column("verdict", no_wrap=True),
        "conversations passed",
        Column("turns", justify="right"),
        "suite",
    )
    for run in runs:
        began = moment_text(run.started_at)[:_MINUTES]
        suite, passed_of = (run.verdict.suite, run.verdict.conversations) if run.verdict else ("", "")
        name, suite = escape(plain(run.name)), escape(plain(suite))
        table.add_row(name, began, _said_of(run), passed_of or "–", f"{run.turns:,}", suite or "–")
    return table


def _said_of(run: RunSummary) -> str:
    style = {"passed": "green", "failed": "red"}.get(run.verdict.status if run.verdict else "", "none")
    errors = f", [red]{counted(run.errored, 'error')}[/]" if run.errored else ""
    return f"[{style}]{verdict_text(run).lower()}[/]{errors}"


def run_text(run: StoredRun) -> str:
    """The verdict on a run in numbers, and its reasons below."""
    name, turns, by = escape(plain(run.summary.name)), counted(run.summary.turns, "turn"), run.summary.verdict
    of_suite = f" (suite {escape(plain(by.suite))})" if by else ""
    passed_of = f", conversations passed: {by.conversations}" if by and by.conversations else ""
    reasons = [f"\n  {escape(plain(reason['message']))}" for reason in run.reasons]
    if len(reasons) > _MOST_REASONS:
        reasons[_MOST_REASONS:] = [f"\n  … and {len(reasons) - _MOST_REASONS} more; see `--output json`"]
    return f"run {name}: {_said_of(run.summary)}{of_suite}{passed_of}; {turns}{''.join(reasons)}"
