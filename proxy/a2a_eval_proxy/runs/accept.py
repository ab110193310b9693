"""`accept`: lets a suite file expect what the agent did in a stored run."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import unified_diff
from pathlib import Path

from tool_call_evaluators import load_suite
from tool_call_evaluators.runs.accepting import Acceptance, Proposal, acceptance
from tool_call_evaluators.suite import SuiteError
from tool_call_evaluators.suite.editing import with_values
from tool_call_evaluators.suite.files import read_text
from tool_call_evaluators.suite.yaml_document import read_document

from ..errors import ConfigError
from ..files import write_file
from ..privacy.content_removal import lacks_content
from ..scoring.suite_file import change_suite_file
from .selection import Selection
from .stored_turns import conversation_results, open_existing_store, turns_of


async def proposed(
    store: str, run: str, file: Path, selection: Selection | None = None, *, allow_plugins: bool = False
) -> Acceptance:
    """The changes of the suite in `file` that `run` proposes, with its selected cases.

    Raises SuiteError where it is no suite in this project's own format, StoreError where there is no store or run.
    """
    suite = load_suite(file, allow_plugins=allow_plugins)
    document = read_document(read_text(file), str(file)).value
    async with open_existing_store(store) as opened:
        turns = [turn async for turn in turns_of(opened, run)]
        results = await conversation_results(opened, run)
    if any(lacks_content(turn["user_text"]) for turn in turns):
        raise ConfigError(f"run {run}: was stored without its content (--no-content): it shows no values to accept")
    found = acceptance(suite, document, turns, results)
    if selection is None or not selection:
        return found
    (chosen,) = selection.of_each([suite])
    ids = {case.id for case in chosen.cases}
    return Acceptance(tuple(one for one in found.proposals if one.case_id in ids), found.left_out)


def changed_text(text: str, proposals: Iterable[Proposal], file: Path) -> str:
    """The suite `text` with these changes. Raises SuiteError."""
    return with_values(text, {proposal.path: proposal.value for proposal in proposals}, str(file))


def difference(before: str, after: str) -> list[str]:
    """The changed lines with two lines around them, as of `diff -U2`, without its heading."""
    return list(unified_diff(before.splitlines(), after.splitlines(), n=2, lineterm=""))[2:]


def accept(file: Path, proposals: Iterable[Proposal], *, allow_plugins: bool = False) -> Path:
    """Change the suite file, and keep the former one next to it for `undo`; returns its path.

    Raises SuiteError, SuiteFileError, OSError.
    """
    before = change_suite_file(file, lambda text: changed_text(text, proposals, file), allow_plugins=allow_plugins)
    write_file(_kept(file), before)
    return _kept(file)


def undo(file: Path, *, allow_plugins: bool = False) -> None:
    """Take back the last `accept`. Raises SuiteError without one, SuiteFileError, OSError."""
    kept = _kept(file)
    if not kept.is_file():
        raise SuiteError(f"nothing to undo: {kept.name} does not exist", str(file))
    before = read_text(kept)
    change_suite_file(file, lambda _: before, allow_plugins=allow_plugins)
    kept.unlink()


def _kept(file: Path) -> Path:
    target = file.resolve()
    return target.with_name(f".{target.name}.before-accept")
