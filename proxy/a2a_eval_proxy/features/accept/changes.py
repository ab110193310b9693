"""`accept` and `record`: suites that expect what the agent did in stored runs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from tool_call_evaluators.outcomes.accepting import Acceptance, Proposal, acceptance
from tool_call_evaluators.outcomes.recording import record_suite
from tool_call_evaluators.suite import Suite, load_suite, parse_suite
from tool_call_evaluators.suite.editing import with_values
from tool_call_evaluators.suite.yaml_document import read_document, read_text
from tool_call_evaluators.texts import counted

from ...errors import ConfigError
from ...ids import prefix_of
from ...privacy.redactor import lacks_content
from ...runs.run_plan import Selection
from ...runs.stored_turns import compact, conversation_results, open_existing_store, turns_of
from ...settings.store_url import masked_url
from ...store import StoreError


async def proposed(
    store: str, run: str, file: Path, selection: Selection | None = None, *, allow_plugins: bool = False
) -> Acceptance:
    """The changes of the suite in `file` that `run` proposes, with its selected cases.

    Raises SuiteError where it is no suite in this project's own format, StoreError where there is no
    store or run, ConfigError for a run without content.
    """
    async with open_existing_store(store) as opened:
        suite = load_suite(file, allow_plugins=allow_plugins)
        document = read_document(read_text(file), str(file)).value
        turns = [turn async for turn in turns_of(opened, run)]
        results = await conversation_results(opened, run)
    if any(lacks_content(turn["user_text"]) for turn in turns):
        raise ConfigError(f"run {run}: was stored without its content (--no-content): it shows no values to accept")
    found = await asyncio.to_thread(acceptance, suite, document, turns, results)
    if selection is None or not selection:
        return found
    (chosen,) = selection.of_each([suite])
    ids = {case.id for case in chosen.cases}
    return Acceptance(tuple(one for one in found.proposals if one.case_id in ids), found.left_out)


def changed_text(text: str, proposals: Iterable[Proposal], file: Path) -> str:
    """The suite `text` with these changes. Raises SuiteError."""
    return with_values(text, {proposal.path: proposal.value for proposal in proposals}, str(file))


class NothingToRecordError(StoreError):
    """No stored conversation can be expected; the message names the store and the run, and says why."""


@dataclass(frozen=True, slots=True)
class Recording:
    """The `text` of a suite file, how many `cases` it has, and in sentences what was left out."""

    text: str
    cases: int
    left_out: tuple[str, ...]


async def record_run(location: str, run: str | None, known: Suite | None = None) -> Recording:
    """A suite that expects what the agent did in one run or (None) in all. Else it is the suite `known`, if given.

    Raises StoreError where there is no store or no such run, NothingToRecordError.
    """
    async with open_existing_store(location) as store:
        turns = [compact(turn) async for turn in turns_of(store, run)]
    text = record_suite(turns, prefix_of(run or "") or "recorded", known)
    head = takewhile(lambda line: line.startswith("# "), text.splitlines())
    left_out = tuple(line[2:] for line in head if line.startswith("# Left out"))
    cases = len(parse_suite(text, allow_plugins=True).cases)  # they have run if `known` has any
    if not cases:
        where = f"store {masked_url(location)}" + (f", run {run!r}" if run else "")
        nothing = f"{where}: no conversation of {counted(len(turns), 'turn')} can be recorded. "
        raise NothingToRecordError(nothing + " ".join(left_out))
    return Recording(text, cases, left_out)
