"""`record`: a suite from the stored turns of an agent that is known to be good."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from tool_call_evaluators.report.wording import counted
from tool_call_evaluators.runs.accepting import acceptance
from tool_call_evaluators.runs.recording import record_suite
from tool_call_evaluators.suite import Suite, load_suite, parse_suite
from tool_call_evaluators.suite.files import read_text
from tool_call_evaluators.suite.yaml_document import read_document

from ..ids import prefix_of
from ..settings.store_url import masked_url
from ..store import StoreError
from .accept import accept
from .stored_turns import compact, open_existing_store, turns_of


class NothingToRecordError(StoreError):
    """Every stored conversation failed, or its tool calls are unknown; the message names the store and the run."""


@dataclass(frozen=True, slots=True)
class Recording:
    """The `text` of a suite file, how many `cases` it has, and in sentences what was left out."""

    text: str
    cases: int
    left_out: tuple[str, ...]


async def update_suite(location: str, run: str | None, file: Path) -> tuple[int, tuple[str, ...]]:
    """Let the suite in `file` expect the calls of a run, or of all: those that differ are changed in its text.

    Returns how many turns have other calls now, and in sentences what was left out. Raises StoreError, SuiteError.
    """
    suite = load_suite(file)
    async with open_existing_store(location) as store:
        turns = [compact(turn) async for turn in turns_of(store, run)]
    found = acceptance(suite, read_document(read_text(file), str(file)).value, turns, all_calls=True)
    if found.proposals:
        accept(file, found.proposals)
    return len(found.proposals), found.left_out


async def record_run(location: str, run: str | None, known: Suite | None = None) -> Recording:
    """A suite that expects what the agent did in one run or (None) in all. Else it is the suite `known`, if given.

    Raises StoreError where there is no store or no such run, NothingToRecordError.
    """
    async with open_existing_store(location) as store:
        turns = [compact(turn) async for turn in turns_of(store, run)]
    text = record_suite(turns, prefix_of(run or "") or "recorded", known)
    cases = len(parse_suite(text, allow_plugins=True).cases)  # they have run if `known` has any
    if not cases:
        where = f"store {masked_url(location)}" + (f", run {run!r}" if run else "")
        raise NothingToRecordError(
            f"{where}: no conversation of {counted(len(turns), 'turn')} can be recorded: each failed, or its "
            "tool calls are unknown"
        )
    head = takewhile(lambda line: line.startswith("# "), text.splitlines())
    return Recording(text, cases, tuple(line[2:] for line in head if line.startswith("# Left out")))
