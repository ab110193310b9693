"""The formats, their detection, and their readers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from ..adk import evalset
from ..arksim.files.config import CONFIG_KEYS, ArksimRun, read_run
from ..dokimos import dataset
from ..dokimos.tables import read_lines, read_table
from ..model import UNREAD_EXPECTATION
from ..suite import Suite, parse_suite
from ..suite.files import read_text
from ..suite.importing import Notes
from ..suite.lint import unused_expectations
from ..suite.node import Node
from ..suite.yaml_document import Document, SuiteError, read_document
from ..uipath import evaluation_set

_KEYS: dict[str, tuple[str, ...]] = {
    "arksim": ("scenarios",),
    "google-adk": ("eval_cases", "evalCases"),
    "uipath": ("evaluations",),
    "dokimos": ("examples",),
}
"""By format: the keys one of which holds a list in its documents."""

_READERS: dict[str, Callable[[Node, Path, Notes], Suite]] = {
    "google-adk": evalset.read,
    "uipath": evaluation_set.read,
    "dokimos": dataset.read,
}

FORMATS = ("suite", *_KEYS)
"""`suite` is the format of this project."""


@dataclass(frozen=True, slots=True)
class Imported:
    """A suite, its original format (one of `FORMATS`), and a sentence for each kind of content not imported.

    `arksim` has what ArkSim's files state beyond a suite."""

    suite: Suite
    format: str
    notes: tuple[str, ...] = ()
    arksim: ArksimRun | None = None


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
    replaces the one that an ArkSim configuration names.
    """
    if form is not None and form not in FORMATS:
        raise ValueError(f"unknown format {form!r}; known are {', '.join(FORMATS)}")
    document = _TABLES.get(Path(filename).suffix, read_document)(text, filename)
    form = form or _detected(document)
    if scenario_file is not None:
        document = _with_scenario_file(document, form, scenario_file)
    if form == "suite":
        return Imported(parse_suite(text, filename, allow_plugins=allow_plugins), form)
    notes = Notes()
    node, path = Node(document, document.value), Path(filename)
    if form == "arksim":
        run = read_run(node, path, notes, allow_plugins=allow_plugins)
        return Imported(_tolerant(run.suite), form, notes.sentences, run)
    return Imported(_tolerant(_READERS[form](node, path, notes)), form, notes.sentences)


def _tolerant(suite: Suite) -> Suite:
    """The suite of a data set, which may hold more than its own evaluators read: reports name that as tolerated."""
    unread = {UNREAD_EXPECTATION} if unused_expectations(suite) else set()
    return replace(suite, tolerate=suite.tolerate | unread)


def _with_scenario_file(document: Document, form: str, scenario_file: Path) -> Document:
    if form != "arksim" or not isinstance(document.value, dict) or "scenarios" in document.value:
        raise SuiteError("names no scenario file to replace: it is not an ArkSim configuration", document.filename)
    return replace(document, value=document.value | {"scenario_file_path": str(scenario_file.absolute())})


_TABLES: dict[str, Callable[[str, str], Document]] = {".jsonl": read_lines, ".csv": read_table}
"""The readers of documents that are no JSON or YAML, by the suffix of the file."""


def _detected(document: Document) -> str:
    value = document.value
    if isinstance(value, dict) and "suite" in value:
        return "suite"
    for name, keys in _KEYS.items():
        if isinstance(value, dict) and any(isinstance(value.get(key), list) for key in keys):
            return name
    if isinstance(value, dict) and any(key in value for key in CONFIG_KEYS):
        return "arksim"
    if evalset.is_old_form(value):
        return "google-adk"
    raise SuiteError(
        "is neither a suite (an object with the key `suite`) nor in a format that can be imported: "
        "an ArkSim configuration, its scenarios (`scenarios`), a google-adk evalset (`eval_cases`), "
        "a UiPath evaluation set (`evaluations`), a Dokimos dataset (`examples`)",
        document.filename,
    )
