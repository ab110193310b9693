"""What a run scores with, and which files it writes: its report, and those in the format of another tool."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path

from a2a_tool_capture.errors import ConfigurationError
from a2a_tool_capture.secret_references import resolve_header
from tool_call_evaluators.foreign import HeldConversations, RunFiles, importers
from tool_call_evaluators.options import did_you_mean
from tool_call_evaluators.report import html_report, json_report, junit_xml, markdown_summary
from tool_call_evaluators.report.focus import focus_suites
from tool_call_evaluators.report.model import Report
from tool_call_evaluators.suite import Suite
from tool_call_evaluators.suite.model import combined
from tool_call_evaluators.suite.yaml_document import read_document
from tool_call_evaluators.texts import listed
from tool_call_evaluators.visibility import TURN_SUCCEEDED

from ..errors import ConfigError
from ..ids import new_turn_id
from ..privacy.policy import Privacy
from ..scoring.scorer import TurnJson
from ..settings.store_url import masked_url
from ..store import Store, StoreError, TurnQuery, every_turn, open_store
from ..turn import Turn
from .compare import write_page
from .files import refuse_link, write_file
from .stored_turns import open_existing_store

_LISTED = 20


@dataclass(frozen=True, slots=True)
class Selection:
    """Selects cases whose id matches one of `ids` and which have one of `tags`; without either, all cases.

    `ids` may be shell patterns.
    """

    ids: Sequence[str] = ()
    tags: Sequence[str] = ()

    def __bool__(self) -> bool:
        return bool(self.ids or self.tags)

    def of(self, suite: Suite) -> Suite:
        """`suite` with the selected cases. Raises ConfigError if a name, or all together, select none."""
        known = [case.id for case in suite.cases]
        for name in self.ids:
            if not any(_matches(case_id, name) for case_id in known):
                raise ConfigError(f"--case: no case {name!r} in suite {suite.name!r}{_meant(name, known)}")
        tags = list(dict.fromkeys(tag for case in suite.cases for tag in case.tags))
        for tag in self.tags:
            if tag not in tags:
                raise ConfigError(f"--tag: no case of suite {suite.name!r} has the tag {tag!r}{_meant(tag, tags)}")
        cases = tuple(
            case
            for case in suite.cases
            if (not self.ids or any(_matches(case.id, name) for name in self.ids))
            and (not self.tags or not set(self.tags).isdisjoint(case.tags))
        )
        if self and not cases:
            raise ConfigError(f"--case, --tag: no case of suite {suite.name!r} matches both")
        return replace(suite, cases=cases)

    def of_each(self, suites: Sequence[Suite]) -> list[Suite]:
        """The suites of one run with the selected cases, without those that have none. Raises as `of` does."""
        if len(suites) == 1:
            return [self.of(suites[0])]
        ids = {case.id for case in self.of(combined(suites)).cases}
        parts = (replace(suite, cases=tuple(case for case in suite.cases if case.id in ids)) for suite in suites)
        return [suite for suite in parts if suite.cases]


ALL = Selection()


def selected_turns(suite: Suite, turns: Sequence[TurnJson], *, partial: bool) -> tuple[Suite, Sequence[TurnJson]]:
    """What the verdict on a selection, or on one suite of several, reads: `suite`, and the turns of its cases.

    `partial`: `suite` has a part of its cases; an evaluator that measures nothing in them is tolerated if another one
    does: it may be for the other cases.
    """
    ids = {case.id for case in suite.cases}
    turns = [turn for turn in turns if turn["case_id"] in ids]
    results = (result for turn in turns for result in turn["evaluations"] if result["evaluator"] != TURN_SUCCEEDED)
    if partial and any(result["status"] not in ("skipped", "errored") for result in results):
        suite = replace(suite, tolerate=suite.tolerate | {"unmeasured"})
    return suite, turns


def _meant(name: str, known: Sequence[str]) -> str:
    return did_you_mean(name, known) or (f"; known are {listed(known, _LISTED)}" if known else "")


def _matches(case_id: str, name: str) -> bool:
    return case_id == name or fnmatchcase(case_id, name)


def unresolved_headers(file: str, suite: Suite, replaced: Container[str]) -> list[str]:
    """Sentences on headers of the suite, for its agent and its probes, whose variables or files are missing.

    `file` has the suite; headers named in `replaced` are not sent.
    """
    sent = [("", item) for item in suite.agent.headers.items() if item[0] not in replaced]
    for case in suite.cases:
        probes = [one.state_of_world.http for one in case.expectations if one.state_of_world]
        sent += [(case.id, item) for probe in probes if probe for item in probe.headers.items()]
    found = []
    for case_id, (name, value) in sent:
        try:
            resolve_header(name, value)
        except ConfigurationError as error:
            place = ("agent", "headers", name)
            found.append(f"{file}: case {case_id}: {error}" if case_id else _placed(file, str(error), place))
    return found


def _placed(file: str, problem: str, path: tuple[str, ...]) -> str:
    try:
        document = read_document(Path(file).read_text("utf-8"), file)
    except (OSError, ValueError):  # it is in a format of another tool
        return f"{file}: {problem}"
    return str(document.error(problem, path))


PAGE = "report.html"
_FORMS = {"report.json": json_report, "junit.xml": junit_xml, "summary.md": markdown_summary}
_FOCUS = "focus"
_FOCUS_FILES = ("all-failures.yaml", "error-[0-9][0-9]*.yaml", "all_failures.json", "error_[0-9]*.json")

STEP_SUMMARY = "GITHUB_STEP_SUMMARY"

logger = logging.getLogger(__name__)


def publish_report(
    report: Report,
    folder: Path | None,
    environ: Mapping[str, str] = os.environ,
    *,
    page: str = PAGE,
    others: Mapping[str, str] | None = None,
) -> Path | None:
    """Write all forms of `report` into `folder` (created if necessary); the HTML page's path, None without a folder.

    `folder` gets report.html, report.json, junit.xml, summary.md, with a baseline comparison.html, and in focus/ a
    suite of everything that failed and one for each distinct error; those of an earlier report go. `page` is the name
    of the HTML page, "" for none; `others` are the texts of further files, by their paths in the folder. The Markdown
    summary is also appended to the file that GITHUB_STEP_SUMMARY names, with or without a folder; where that cannot be
    written, a warning is logged: the CI has set it, and the run is no worse for it. Raises OSError where a file of
    `folder` cannot be written, or is a symbolic link.
    """
    if summary := environ.get(STEP_SUMMARY):
        try:
            with Path(summary).open("a", encoding="utf-8") as file:
                file.write(markdown_summary(report) + "\n")
        except OSError as error:
            logger.warning("%s names %s, which cannot be written: %s", STEP_SUMMARY, summary, error.strerror)
    if folder is None:
        return None
    folder.mkdir(parents=True, exist_ok=True)
    for name, form in {**_FORMS, page: html_report}.items():
        if name:
            write_file(folder / name, form(report))
    if report.baseline is not None:
        write_page(report.baseline, folder)
    refuse_link(folder / _FOCUS)
    for pattern in _FOCUS_FILES:
        for old in (folder / _FOCUS).glob(pattern):
            old.unlink()
    focus = {f"{_FOCUS}/{name}.yaml": text for name, text in focus_suites(report).items()}
    for name, text in {**focus, **(others or {})}.items():
        (folder / name).parent.mkdir(exist_ok=True)
        write_file(folder / name, text)
    return folder / (page or "report.json")


_BATCH = 50  # turns that wait for the store together


async def store_held(held: HeldConversations, location: str, run: str, privacy: Privacy) -> None:
    """Store the conversations as turns of `run` that wait to be scored, redacted by `privacy`.

    Raises ConfigError for a run that exists, StoreError for the store.
    """
    store = open_store(location)
    try:
        if await store.runs(run):
            raise ConfigError(
                f"run {run!r} already exists in {masked_url(location)}; the conversations of a simulation are a new "
                "run: give another --run name"
            )
        batch: list[Turn] = []
        for turn in _turns(held, run):
            batch.append(privacy.stored(privacy.redacted(turn)))
            if len(batch) == _BATCH:
                await _add(store, batch)
                batch = []
        await _add(store, batch)
    finally:
        await asyncio.to_thread(store.close)


async def _add(store: Store, turns: list[Turn]) -> None:
    if not store.add(turns, lambda: None):
        raise StoreError("the turns of the simulation are too large for the store")
    await store.drained()


def _turns(held: HeldConversations, run: str) -> list[Turn]:
    """The turns, a millisecond apart: the file has no times of theirs."""
    started = _time(held.at)
    return [
        Turn(
            turn_id=new_turn_id(),
            run=run,
            agent=f"simulation {held.id}",
            binding="",
            protocol_version="",
            started_at=started + number / 1000,
            ended_at=started + number / 1000,
            case_id=case_id,
            conversation_id=conversation_id,
            status="pending",
            user_text=said.user,
            response_text=said.response,
            tool_calls=list(said.tool_calls),
            findings=list(said.findings),
            shown_by="outputs",
        )
        for number, (conversation_id, case_id, said) in enumerate(held.turns)
    ]


def _time(text: str) -> float:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = datetime.now(UTC)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


async def write_held(path: Path, report: Report, files: RunFiles, location: str) -> None:
    """Write the conversations of a run in the store at `location`, whose report is `report`. Raises OSError."""
    async with open_existing_store(location) as store:
        turns = {
            one.label: [
                turn
                async for turn in every_turn(
                    store, TurnQuery(run=report.run, conversation=one.conversation_id, case=one.case_id)
                )
            ]
            for one in report.conversations
            if one.executed
        }
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, files.written(report, turns))


@dataclass(frozen=True)
class RunPlan:
    """`given` is the folder for the report that the command line names; `files` are those of the tool that the suite is
    of, which then is the only one; `held` are the conversations to score."""

    suites: Mapping[str, Suite]  # by file
    given: Path | None
    files: RunFiles | None = None
    warnings: Sequence[str] = ()
    held: HeldConversations | None = None

    @property
    def suite(self) -> Suite:
        """The suite, or all as one. Raises CombinationError."""
        return combined(list(self.suites.values()), list(self.suites))

    def selecting(self, selection: Selection) -> RunPlan:
        """This plan with the selected cases. Raises as `Selection.of`."""
        chosen = {suite.name: suite for suite in selection.of_each(list(self.suites.values()))}
        suites = {file: chosen[suite.name] for file, suite in self.suites.items() if suite.name in chosen}
        return replace(self, suites=suites)

    def repeating(self, times: int | None) -> RunPlan:
        """This plan with that number of attempts at each case, if it is given."""
        if times is None:
            return self
        suites = {
            file: replace(suite, cases=tuple(case.held(times) for case in suite.cases))
            for file, suite in self.suites.items()
        }
        return replace(self, suites=suites)

    def scoring(self, path: Path) -> RunPlan:
        """This plan for the conversations in a file. Raises ConfigError for several suites, SuiteError for the file."""
        if len(self.suites) > 1:
            raise ConfigError("--simulation-file-path: needs one suite, the one of its conversations")
        files = self.files or next((tool.run_files() for tool in importers().values() if tool.run_files), None)
        if files is None:
            raise ConfigError("--simulation-file-path: no importer reads conversations")
        held = files.read(path, self.suite)
        warnings = [*self.warnings, *held.notes]
        scored = {case.id for case in held.suite.cases}
        if absent := [case.id for case in self.suite.cases if case.id not in scored]:
            warnings.append(f"without a conversation, and not scored: {listed(absent, _LISTED)}")
        suites = dict.fromkeys(self.suites, held.suite)
        return replace(self, suites=suites, files=files, held=held, warnings=warnings)

    @property
    def report(self) -> Path | None:
        return self.given or (self.files.folder if self.files else None)

    @property
    def output(self) -> Path | None:
        """The file for the conversations of `run`."""
        return self.files.output(self.given) if self.files else None

    def publish(self, report: Report) -> Path | None:
        """Write the files of `report`; returns the path of the page, None without a folder. Raises OSError."""
        if self.files is None:
            return publish_report(report, self.report)
        page = PAGE if self.files.page is None else self.files.page
        return publish_report(report, self.report, page=page, others=self.files.results(report, self.held))
