"""Suites from the formats of other tools: the format is detected or given.

    imported = import_suite("scenarios.json")
    imported.suite, imported.format, imported.notes

Suite files of this project are accepted too. Each other format is a module or folder here, named like it; to delete it
is to do without it (see `foreign`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..foreign import Notes, RunFiles, importers
from ..model import UNREAD_EXPECTATION
from ..plugins import tool_names
from ..suite import Suite, parse_suite
from ..suite.lint import unused_expectations
from ..suite.model import CombinedSuite, combined
from ..suite.yaml_document import Document, Node, SuiteError, read_document, read_source, read_text

__all__ = ["Imported", "import_suite", "import_text"]

FORMATS = ("suite", *tool_names())
"""`suite` is the format of this project."""


@dataclass(frozen=True, slots=True)
class Imported:
    """A suite, its original format (one of `FORMATS`), and a sentence for each kind of content not imported.

    `run_files` are the files of a run that the file names."""

    suite: Suite
    format: str
    notes: tuple[str, ...] = ()
    run_files: RunFiles | None = None


def import_suite(
    path: str | Path, form: str | None = None, *, allow_plugins: bool = False, scenario_file: Path | None = None
) -> Imported:
    """Read the file at `path`, in the format `form` or the detected one. Raises SuiteError.

    `allow_plugins`: see `parse_suite`; `scenario_file`: see `import_text`."""
    path = Path(path)
    return import_text(read_text(path), str(path), form, allow_plugins=allow_plugins, scenario_file=scenario_file)


def import_text(
    text: str,
    filename: str = "suite",
    form: str | None = None,
    *,
    allow_plugins: bool = False,
    scenario_file: Path | None = None,
) -> Imported:
    """The suite in `text`. Raises SuiteError with `filename` and position; ValueError for an unknown `form`.

    Related files are read relative to `filename`: those that a suite names, and UiPath's evaluators. `scenario_file`
    replaces the one that a configuration names.
    """
    if form is not None and form not in FORMATS:
        raise ValueError(f"unknown format {form!r}; known are {', '.join(FORMATS)}")
    known = importers()
    readers = {suffix: read for tool in known.values() for suffix, read in tool.documents.items()}
    document = readers.get(Path(filename).suffix, read_document)(text, filename)
    form = form or _detected(document)
    tool = known.get(form)
    if scenario_file is not None:
        if tool is None or tool.with_cases is None:
            raise SuiteError("names no file of scenarios that --scenario-file-path could replace", document.filename)
        document = tool.with_cases(document, scenario_file)
    if tool is None:
        return Imported(parse_suite(text, filename, allow_plugins=allow_plugins), form)
    notes = Notes(allow_plugins=allow_plugins)
    suite = tool.read(Node(document, document.value), Path(filename), notes)
    if unused_expectations(suite):  # a data set may hold more than its evaluators read
        suite = replace(suite, tolerate=suite.tolerate | {UNREAD_EXPECTATION})
    return Imported(suite, form, notes.sentences, notes.run_files)


def _detected(document: Document) -> str:
    value = document.value
    if isinstance(value, dict) and "suite" in value:
        return "suite"
    for name, tool in importers().items():
        if tool.recognises(value):
            return name
    files = ", ".join(tool.files for tool in importers().values())
    raise SuiteError(
        f"is neither a suite (an object with the key `suite`) nor in a format that can be imported: {files}",
        document.filename,
    )


_SUFFIXES = (".yaml", ".yml")


def suite_files(paths: Iterable[str]) -> tuple[list[str], list[str]]:
    """The files at `paths`, each once; of a folder, the suites directly in it, by name. And the YAML files of the
    folders that are no suites.

    Raises SuiteError for a folder without a suite, and for a YAML file in a folder that cannot be read.
    """
    files: dict[Path, str] = {}
    others: list[str] = []
    for path in paths:
        found = _in_folder(Path(path)) if Path(path).is_dir() else {path: True}
        if not any(found.values()):
            raise SuiteError("the folder has no suite (a .yaml or .yml file with the keys `suite` and `cases`)", path)
        for file, is_suite in found.items():
            if is_suite:
                files.setdefault(Path(os.path.realpath(file)), file)  # of a loop of links, too
            else:
                others.append(file)
    return list(files.values()), others


@dataclass(frozen=True, slots=True)
class ImportedSuites:
    """The suites of a file or folder as one (see `combined`); `file` is the only one, or else the folder."""

    suite: Suite
    file: str
    notes: Sequence[str]
    """What was not imported, each with its file."""

    @property
    def parts(self) -> Sequence[Suite]:
        return self.suite.parts if isinstance(self.suite, CombinedSuite) else [self.suite]


def import_suites(path: str, *, allow_plugins: bool = False) -> ImportedSuites:
    """The suites at `path`. Raises as `suite_files`, `import_suite` and `combined` do."""
    files, others = suite_files([path])
    imported = {file: import_suite(file, allow_plugins=allow_plugins) for file in files}
    notes = [f"{file}: not imported: {note}" for file, item in imported.items() for note in item.notes]
    notes += [f"{file} is skipped: it is not a suite" for file in others]
    suite = combined([item.suite for item in imported.values()], files)
    return ImportedSuites(suite, files[0] if len(files) == 1 else path, notes)


def _in_folder(folder: Path) -> dict[str, bool]:
    """The YAML files of the folder, and whether each is a suite."""
    try:
        names = sorted(path for path in folder.iterdir() if path.suffix in _SUFFIXES and path.is_file())
    except OSError as error:
        raise SuiteError(f"cannot be read: {error.strerror or error}", str(folder)) from None
    return {str(path): _is_suite(read_source(path).value) for path in names}


def _is_suite(value: object) -> bool:
    """Whether a file is meant as a suite: it has cases, or evaluators. Settings may have a key `suite`."""
    if not isinstance(value, dict):
        return False
    keys = [str(key) for key in value]
    return "cases" in keys or ("suite" in keys and "evaluators" in keys)
