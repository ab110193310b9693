"""What a run scores with, and which files it writes: its report, and with ArkSim's files also in their format."""

from __future__ import annotations

import asyncio
import logging
import os
import uuid
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path

from a2a_tool_capture.errors import ConfigurationError
from a2a_tool_capture.models import ToolCall, rfc3339
from a2a_tool_capture.secret_references import resolve_header
from tool_call_evaluators.arksim.files.config import ArksimRun, Scenarios
from tool_call_evaluators.arksim.files.results import ArksimResults, conversation_id
from tool_call_evaluators.arksim.files.simulation import (
    SimulatedConversation,
    SimulatedTurn,
    SimulationFile,
    cases_by_scenario,
    simulation_text,
)
from tool_call_evaluators.options import did_you_mean
from tool_call_evaluators.outcomes.conversations import RunConversation
from tool_call_evaluators.report import Report, html_report, json_report, junit_xml, markdown_summary
from tool_call_evaluators.report.focus import focus_suites
from tool_call_evaluators.simulation.user import user_prompt
from tool_call_evaluators.suite import Case, Suite
from tool_call_evaluators.suite.model import combined
from tool_call_evaluators.suite.yaml_document import read_document
from tool_call_evaluators.visibility import TURN_SUCCEEDED

from ..errors import ConfigError
from ..ids import new_turn_id
from ..privacy.policy import Privacy
from ..scoring.scorer import TurnJson
from ..settings.store_url import masked_url
from ..store import Store, StoreError, TurnQuery, every_turn, open_store
from ..turn import Turn
from . import audit
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
    listed = ", ".join(known[:_LISTED]) + (" …" if len(known) > _LISTED else "")
    return did_you_mean(name, known) or (f"; known are {listed}" if known else "")


def _matches(case_id: str, name: str) -> bool:
    return case_id == name or fnmatchcase(case_id, name)


def unresolved_headers(file: str, suite: Suite, replaced: Container[str]) -> list[str]:
    """Sentences on headers of the suite's `agent` block whose variables or files are missing, each with its place.

    `file` has the suite; headers named in `replaced` are not sent.
    """
    found = []
    for name, value in suite.agent.headers.items():
        try:
            if name not in replaced:
                resolve_header(name, value)
        except ConfigurationError as error:
            found.append(_placed(file, str(error), ("agent", "headers", name)))
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
    arksim: ArksimResults | None = None,
) -> Path | None:
    """Write all forms of `report` into `folder` (created if necessary); the HTML page's path, None without a folder.

    `folder` gets report.html, report.json, junit.xml, summary.md, with a baseline comparison.html, and in focus/ a
    suite of everything that failed and one for each distinct error; those of an earlier report go. `page` is the name
    of the HTML page, "" for none; `arksim` adds evaluation.json, and to focus/ scenario files. The Markdown summary is
    also appended to the file that GITHUB_STEP_SUMMARY names, with or without a folder; where that cannot be written, a
    warning is logged: the CI has set it, and the run is no worse for it. Raises OSError where a file of `folder` cannot
    be written, or is a symbolic link.
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
    if arksim is not None:
        write_file(folder / "evaluation.json", arksim.evaluation())
    focus = {f"{focus.name}.yaml": focus.text for focus in focus_suites(report)}
    _write_focus(folder / _FOCUS, focus | (arksim.focus() if arksim else {}))
    return folder / (page or "report.json")


def _write_focus(folder: Path, files: Mapping[str, str]) -> None:
    refuse_link(folder)
    for pattern in _FOCUS_FILES:
        for old in folder.glob(pattern):
            old.unlink()
    for name, text in files.items():
        folder.mkdir(exist_ok=True)
        write_file(folder / name, text)


_BATCH = 50  # turns that wait for the store together


def simulation_id(run: str) -> str:
    """The id of the simulation that a run is: a UUID that depends on its name alone."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, run))


def scored_by(simulation: SimulationFile, suite: Suite, scenarios: Scenarios) -> tuple[Suite, dict[str, Case]]:
    """The suite with the cases that the conversations are of, and these by the ids of their scenarios."""
    cases = cases_by_scenario(simulation.conversations, scenarios.by_scenario_id(suite.cases))
    cases = {scenario_id: case.completed(suite) for scenario_id, case in cases.items()}
    return replace(suite, cases=tuple(cases.values())), cases


async def store_simulation(
    simulation: SimulationFile, cases: Mapping[str, Case], location: str, run: str, privacy: Privacy
) -> None:
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
        audit.changed(run=run, store=masked_url(location))
        batch: list[Turn] = []
        for turn in _turns(simulation, cases, run):
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


def _turns(simulation: SimulationFile, cases: Mapping[str, Case], run: str) -> list[Turn]:
    """The turns, a millisecond apart: the file has no times of theirs."""
    started = _time(simulation.generated_at)
    found: list[Turn] = []
    for conversation in simulation.conversations:
        for said in conversation.turns:
            moment = started + len(found) / 1000
            found.append(
                Turn(
                    turn_id=new_turn_id(),
                    run=run,
                    agent=f"simulation {simulation.simulation_id}",
                    binding="",
                    protocol_version="",
                    started_at=moment,
                    ended_at=moment,
                    case_id=cases[conversation.scenario_id].id,
                    conversation_id=conversation.conversation_id,
                    status="pending",
                    user_text=said.user,
                    response_text=said.response,
                    tool_calls=list(said.tool_calls),
                    findings=list(said.findings),
                    shown_by="outputs",
                )
            )
    return found


def _time(text: str) -> float:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = datetime.now(UTC)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


async def write_simulation(path: Path, report: Report, scenarios: Scenarios, location: str) -> None:
    """Write the conversations of a run in the store at `location`, whose report is `report`. Raises OSError."""
    prompt = user_prompt(report.suite.simulated_user.prompt if report.suite else None).text
    async with open_existing_store(location) as store:
        conversations = [
            replace(await _conversation(item, scenarios, store, report.run), prompt=prompt)
            for item in report.conversations
            if item.executed
        ]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, simulation_text(simulation_id(report.run), rfc3339(datetime.now(UTC)), conversations))


async def _conversation(
    conversation: RunConversation, scenarios: Scenarios, store: Store, run: str
) -> SimulatedConversation:
    query = TurnQuery(run=run, conversation=conversation.conversation_id, case=conversation.case_id)
    turns = [
        SimulatedTurn(turn["user_text"], turn["response_text"], tuple(map(ToolCall.from_dict, turn["tool_calls"])))
        async for turn in every_turn(store, query)
    ]
    user = conversation.case.simulate if conversation.case else None
    variables = user and {
        "agent_context": user.context or "",
        "goal": user.goal,
        "knowledge": list(user.knowledge),
        "user_profile": user.profile or "",
    }
    scenario_id = scenarios.scenario_id(conversation.case_id or "")
    return SimulatedConversation(conversation_id(conversation), scenario_id, turns, variables or {})


_NAMED = 20


@dataclass(frozen=True)
class RunPlan:
    """`given` is the folder for the report that the command line names; `arksim` the files that the suite is of, which
    then is the only one."""

    suites: Mapping[str, Suite]  # by file
    given: Path | None
    arksim: ArksimRun | None
    warnings: Sequence[str] = ()
    simulation: SimulationFile | None = None  # the conversations to score
    cases: Mapping[str, Case] = field(default_factory=dict)  # those of the conversations, by the ids of their scenarios

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

    def of_simulation(self, simulation: SimulationFile) -> RunPlan:
        """This plan for these conversations. Raises ConfigError for several suites."""
        if len(self.suites) > 1:
            raise ConfigError("--simulation-file-path: needs one suite, the one of its conversations")
        suite, cases = scored_by(simulation, self.suite, self.scenarios)
        warnings = [*self.warnings, *simulation.notes]
        scored = {case.id for case in suite.cases}
        if absent := [case.id for case in self.suite.cases if case.id not in scored]:
            more = f" and {len(absent) - _NAMED} more" if len(absent) > _NAMED else ""
            warnings.append(f"without a conversation, and not scored: {', '.join(absent[:_NAMED])}{more}")
        suites = dict.fromkeys(self.suites, suite)
        return replace(self, suites=suites, simulation=simulation, cases=cases, warnings=warnings)

    @property
    def scenarios(self) -> Scenarios:
        return self.arksim.scenarios if self.arksim else Scenarios()

    @property
    def report(self) -> Path | None:
        return self.given or (self.arksim.output_dir if self.arksim else None)

    @property
    def simulation_output(self) -> Path | None:
        """The file for the conversations of `run`."""
        if self.arksim is None:
            return None
        return self.arksim.simulation_output or (self.given and self.given / "simulation.json")

    def publish(self, report: Report) -> Path | None:
        """Write the files of `report`; returns the path of the page, None without a folder. Raises OSError."""
        if self.arksim is None and self.simulation is None:
            return publish_report(report, self.report)
        results = ArksimResults(
            report,
            self.scenarios,
            self.simulation.simulation_id if self.simulation else simulation_id(report.run),
            str(uuid.uuid4()),
            rfc3339(datetime.now(UTC)),
        )
        page = PAGE
        if self.arksim and self.arksim.output_dir:  # of a configuration
            page = "final_report.html" if self.arksim.html else ""
        return publish_report(report, self.report, page=page, arksim=results)
