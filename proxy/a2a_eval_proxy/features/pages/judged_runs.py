"""Runs read for the pages when they are asked for: off the event loop, one at a time, kept until a run changes.

What is kept of a run is a small *view*: its verdict, its cases, those that have not come yet, the report's sections.
Reading a long run takes seconds, in which pages show the counts of the store.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from a2a_tool_capture.recent import Recent
from markupsafe import Markup
from tool_call_evaluators.model import Status
from tool_call_evaluators.outcomes.conversations import RunConversation, agent_of_conversation
from tool_call_evaluators.report import Report
from tool_call_evaluators.report.causes import Cause
from tool_call_evaluators.report.html import SectionLinks, sections
from tool_call_evaluators.report.model import RunOutcome, seconds_between
from tool_call_evaluators.texts import duration_text, excerpt

from ...admin.long_computations import LongComputations
from ...runs.run_result import MAX_TURNS, judged_summary, run_report
from ...store import RunSummary, Store
from .rendering import named

Link: TypeAlias = Callable[
    ..., str
]  # makes the URL of a page from the segments of its path and its query; see `rendering.Links`

MAX_CASES = 500  # conversations of a run in the table
MAX_MISSING = 100  # cases named among those that have not come yet
MAX_SELECTED = 10  # cases that the command to run a suite again names
MAX_REASON = 300


@dataclass(frozen=True, slots=True)
class CaseRow:
    """A conversation of the run. `status` is that of `Report`, or `noted` if the verdict tolerates a failure."""

    label: str
    case_id: str | None
    status: str
    note: str
    href: str | None  # None if none of its turns came
    turns: int
    calls: int
    took: str
    agent_name: str | None = None  # with which of several agents it is; None: any

    def is_of(self, agent_name: str | None) -> bool:
        """Whether it may be one with this agent (None: any)."""
        return agent_name is None or self.agent_name in (None, agent_name)


@dataclass(frozen=True, slots=True)
class RunView:
    """A run with the verdict that it keeps. Small: it keeps no turn.

    `passed` of `judged` conversations passed. Of the `planned` conversations of the suite, `missing` have not come yet:
    their labels, at most MAX_MISSING, are in `missing_labels`.
    """

    status: RunOutcome
    passed: int
    judged: int
    gates_met: int
    gates: int
    planned: int
    missing: int
    missing_labels: tuple[str, ...]
    cases: tuple[CaseRow, ...]
    more_cases: int
    case_ids: frozenset[str]
    agents: tuple[str, ...]
    sections: Markup
    again: str | None
    """The command that runs the suite again, only the failed cases if they are few; None without a suite file."""

    @property
    def failed(self) -> int:
        return self.judged - self.passed


_WHY: Mapping[RunOutcome, str] = {"incomplete": "Why it does not pass yet", "unjudged": "What failed"}


def run_view(report: Report, link: Link, suite_file: str | None = None) -> RunView:
    """What pages show of the run. `suite_file` is the file of the report's suite."""
    executed = [item for item in report.conversations if item.executed or item.invalid]
    missing = [item.label for item in report.conversations if not (item.executed or item.invalid)]
    statuses = [report.status(item) for item in executed]
    why = _WHY.get(report.outcome, "Why it failed")
    failures_first = sorted(executed, key=lambda item: (report.status(item) != "failed", bool(report.notes(item))))
    return RunView(
        status=report.outcome,
        passed=statuses.count("passed"),
        judged=statuses.count("passed") + statuses.count("failed"),
        gates_met=sum(check["passed"] is not False for check in report.gates),
        gates=len(report.gates),
        planned=sum(item.case is not None for item in report.conversations),
        missing=len(missing),
        missing_labels=tuple(missing[:MAX_MISSING]),
        cases=tuple(_row(report, item, link) for item in failures_first[:MAX_CASES]),
        more_cases=max(0, len(executed) - MAX_CASES),
        case_ids=frozenset(item.case_id for item in executed if item.case_id is not None),
        agents=tuple(report.agents),
        sections=Markup(sections(report, _links(report, link), why)),  # noqa: S704  # every text in it is escaped
        again=None if suite_file is None else _command(report, suite_file),
    )


def _row(report: Report, conversation: RunConversation, link: Link) -> CaseRow:
    status, notes, turns = report.status(conversation), report.notes(conversation), conversation.executed
    ends = [turn["ended_at"] for turn in turns if turn["ended_at"]]
    return CaseRow(
        label=excerpt(conversation.label, MAX_REASON),
        case_id=conversation.case_id,
        status="noted" if notes else status,
        note="; ".join(notes) or (_why(report, conversation) if status == "failed" else ""),
        href=_address(report.run, conversation, link),
        turns=len(turns),
        calls=sum(len(turn["tool_calls"]) for turn in turns),
        took=duration_text(seconds_between(turns[0]["started_at"], max(ends)) if turns and ends else None),
        agent_name=agent_of_conversation(turns[0]) if turns else None,
    )


def _why(report: Report, conversation: RunConversation) -> str:
    """The first reason against the conversation: the turn, if it has several, and what is wrong."""
    for reason in report.reasons_of(conversation):
        where = str(reason["where"])
        text = str(reason["message"]).removeprefix(f"{where}: ")
        turn = where.removeprefix(conversation.label).removeprefix(", ")
        return excerpt(f"{turn}: {text}" if turn else text, MAX_REASON)
    return ""


def _address(run: str, conversation: RunConversation, link: Link) -> str | None:
    """The page of the conversation, or of its turn if it has no id."""
    if not conversation.executed:
        return None
    if conversation.conversation_id:
        agent = agent_of_conversation(conversation.executed[0])
        return named(link, "conversations", conversation.conversation_id, run=run, agent=agent)
    return link("turns", conversation.executed[0]["turn_id"])


def _links(report: Report, link: Link) -> SectionLinks:
    kinds = dict(_kinds(report))
    executed = {item.label for item in report.conversations if item.executed}
    executed |= {item.conversation_id for item in report.conversations if item.executed}

    def of_cause(cause: Cause) -> str | None:
        if not any(name in executed and turn for name, turn in cause.places):
            return None  # no turn, or no turn of its own, has it
        found = {kinds[label] for label in cause.labels if label in kinds}
        evaluators, statuses = ({kind[place] for kind in found} for place in (0, 1))
        return link(
            "",
            run=report.run,
            verdict=statuses.pop() if len(statuses) == 1 else None if statuses else "failed",
            evaluator=evaluators.pop() if len(evaluators) == 1 else None,
            case=cause.cases[0] if len(cause.cases) == 1 else None,
        )

    def of_place(index: int | None, number: int) -> str:
        if index is None:
            return "#cases"
        conversation = report.conversations[index]
        turn = next((item.turn for item in conversation.turns if item.index + 1 == number), None)
        return link("turns", turn["turn_id"]) if turn else _address(report.run, conversation, link) or "#missing"

    return SectionLinks(of_cause, of_place)


def _kinds(report: Report) -> Iterator[tuple[str, tuple[str, str]]]:
    """The evaluator and the status, failed or errored, of each label that such results have."""
    for conversation in report.conversations:
        for result in conversation.all_results:
            if result.status in (Status.FAILED, Status.ERRORED):
                yield result.label or result.evaluator, (result.evaluator, str(result.status))


def _command(report: Report, suite_file: str) -> str:
    executed = (item for item in report.conversations if item.case_id is not None and item.case and item.executed)
    failed = {str(item.case_id) for item in executed if report.status(item) == "failed"}
    selected = sorted(failed) if len(failed) <= MAX_SELECTED else []
    agent = ["--agent", report.agent_url] if report.agent_url else []
    cases = [part for case_id in selected for part in ("--case", case_id)]
    return shlex.join(["a2a-eval-proxy", "run", suite_file, *agent, *cases])


def last_rows(
    views: Mapping[str, RunView], wanted: Iterable[str], agent_name: str | None = None
) -> dict[str, tuple[str, CaseRow]]:
    """The latest conversation of each `wanted` case, by its id, with the name of its run; of some others, too. `views`
    are runs by name, the newest first. `agent_name`: whose cases they are, of several agents."""
    rows: dict[str, tuple[str, CaseRow]] = {}
    wanted = list(wanted)
    for name, view in views.items():
        for row in view.cases:  # failures come first
            if row.case_id is not None and row.is_of(agent_name):
                rows.setdefault(row.case_id, (name, row))
        for case_id in wanted:
            if case_id not in rows and case_id in view.case_ids:  # beyond MAX_CASES
                rows[case_id] = name, CaseRow(case_id, case_id, "judged", "", None, 0, 0, "")
    return rows


MAX_KEPT = 100  # runs in memory
MAX_AGE_S = 60.0  # for so long a view serves for a run whose counts did not change: its scores may have
_LEAST_S_A_TURN = 0.0002  # what reading a turn takes on a fast machine
_REST = 10  # a run that changes is read again after a multiple of what that took last


@dataclass(frozen=True, slots=True)
class _Kept:
    summary: RunSummary
    view: RunView
    at: float
    took_s: float

    def is_of(self, run: RunSummary) -> bool:
        """Whether the run is as it was read, and judged then or now."""
        is_pending = run.verdict is not None and run.verdict.status == "pending"
        return self.summary == (replace(run, verdict=self.summary.verdict) if is_pending else run)


class JudgedRuns:
    """Reads the runs of a store with their verdicts; see `run_report`. `suite_file`: that of the suite in force for an
    agent, if it has this name."""

    def __init__(
        self,
        store: Store,
        work: LongComputations,
        suite_file: Callable[[str | None, str], str | None] = lambda agent, suite: None,
    ) -> None:
        self._store = store
        self._suite_file = suite_file
        self._kept: Recent[tuple[str, str], _Kept] = Recent(MAX_KEPT)
        self._work = work

    def lags(self, run: RunSummary, link: Link) -> bool:
        """Whether the run has changed since it was read, or is still to be read."""
        kept = self._kept.get((run.name, link("")))
        return run.turns <= MAX_TURNS and (kept is None or not kept.is_of(run))

    async def view(self, run: RunSummary, link: Link, within_s: float | None = None) -> RunView | None:
        """The run as it is now, or a little earlier if it changes all the time; links in it are those of `link`.

        None beyond MAX_TURNS, and if it takes longer than `within_s`: without waiting where it is sure to. Raises
        StoreError.
        """
        if run.turns > MAX_TURNS:
            return None
        key = (run.name, link(""))
        if kept := self._fresh(key, run):
            self._kept.move_to_end(key)
            return kept.view
        if within_s is not None and run.turns * _LEAST_S_A_TURN > within_s:
            within_s = 0.0
        return await self._work.run(("view", *key), lambda: self._read(key, run, link), within_s)

    def _fresh(self, key: tuple[str, str], run: RunSummary) -> _Kept | None:
        kept = self._kept.get(key)
        if kept is None:
            return None
        age_s = asyncio.get_running_loop().time() - kept.at
        return kept if age_s < (MAX_AGE_S if kept.is_of(run) else _REST * kept.took_s) else None

    async def _read(self, key: tuple[str, str], run: RunSummary, link: Link) -> RunView:
        clock = asyncio.get_running_loop().time
        began = clock()
        report = await run_report(self._store, run)
        agents = {turn.get("agent_name") for turn in report.turns}
        file = self._suite_file(min(agents, key=str, default=None), report.title) if report.suite else None
        view = await asyncio.to_thread(run_view, report, link, file)
        self._kept[key] = _Kept(judged_summary(run, report), view, clock(), clock() - began)
        return view
