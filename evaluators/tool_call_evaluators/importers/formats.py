"""The formats, their detection, and their readers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ..suite import Suite, parse_suite
from ..suite.files import read_text
from ..suite.node import Node
from ..suite.yaml_document import Document, SuiteError, read_document
from . import adk, arksim, dokimos, uipath
from .common import Notes, read_lines

_Reader = Callable[[Node, Path, Notes], Suite]

_READERS: dict[str, tuple[tuple[str, ...], _Reader]] = {
    "arksim": (("scenarios",), arksim.read),
    "google-adk": (("eval_cases", "evalCases"), adk.read),
    "uipath": (("evaluations",), uipath.read),
    "dokimos": (("examples",), dokimos.read),
}
"""By format: the keys one of which holds a list in its documents, and the reader."""

FORMATS = ("suite", *_READERS)
"""`suite` is the format of this project."""


@dataclass(frozen=True, slots=True)
class Imported:
    """A suite, its original format (one of `FORMATS`), and a sentence for each kind of content not imported."""

    suite: Suite
    format: str
    notes: tuple[str, ...] = ()


def import_suite(path: str | Path, form: str | None = None, *, allow_plugins: bool = False) -> Imported:
    """Read the file at `path`, in the format `form` or the detected one. Raises SuiteError.

    `allow_plugins`: see `parse_suite`."""
    path = Path(path)
    return import_text(read_text(path), str(path), form, allow_plugins=allow_plugins)


def import_text(
    text: str, filename: str = "suite", form: str | None = None, *, allow_plugins: bool = False
) -> Imported:
    """The suite in `text`. Raises SuiteError with `filename` and position; ValueError for an unknown `form`.

    Related files are read relative to `filename`: those that a suite names, and UiPath's evaluators.
    """
    if form is not None and form not in FORMATS:
        raise ValueError(f"unknown format {form!r}; known are {', '.join(FORMATS)}")
    document = (read_lines if filename.endswith(".jsonl") else read_document)(text, filename)
    form = form or _detected(document)
    if form == "suite":
        return Imported(parse_suite(text, filename, allow_plugins=allow_plugins), form)
    notes = Notes()
    suite = _READERS[form][1](Node(document, document.value), Path(filename), notes)
    return Imported(suite, form, notes.sentences)


def _detected(document: Document) -> str:
    value = document.value
    if isinstance(value, dict) and "suite" in value:
        return "suite"
    for name, (keys, _) in _READERS.items():
        if isinstance(value, dict) and any(isinstance(value.get(key), list) for key in keys):
            return name
    if adk.is_old_form(value):
        return "google-adk"
    raise SuiteError(
        "is neither a suite (an object with the key `suite`) nor in a format that can be imported: "
        "arksim scenarios (`scenarios`), a google-adk evalset (`eval_cases`), a UiPath evaluation set "
        "(`evaluations`), a Dokimos dataset (`examples`)",
        document.filename,
    )
