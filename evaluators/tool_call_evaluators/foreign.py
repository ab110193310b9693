"""What an importer of another tool's files declares, and its helpers.

Unknown keys are no error, as the formats grow, but are noted.

A module in the folder `importers`, or the module `importer` of a folder there, is an importer: it has an `IMPORTER`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

from a2a_tool_capture.models import Finding, ToolCall

from .matching.placeholders import quoted
from .model import ExpectedCall
from .options import did_you_mean, snake_case
from .outcomes.conversations import TurnJson
from .plugins import ForeignCode, foreign_tools
from .report.model import Report
from .suite import Case, Suite
from .suite.writing import free_id
from .suite.yaml_document import Document, Node


@dataclass(frozen=True, slots=True)
class HeldTurn:
    """A message of a user with the answer that follows it."""

    user: str
    response: str
    tool_calls: tuple[ToolCall, ...] = ()
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True)
class HeldConversations:
    """Conversations that were held elsewhere, and are scored here: turns by the ids of conversation and case.

    `at` is an RFC 3339 time, or empty; `suite` has the cases that they are of, `notes` a sentence for what is not read.
    """

    id: str
    at: str
    suite: Suite
    turns: Sequence[tuple[str, str, HeldTurn]]
    notes: Sequence[str] = ()


class RunFiles(Protocol):
    """The files of a run in the format of another tool: read, and written beside the store and the report."""

    @property
    def conversations(self) -> Path | None:
        """Conversations to score in place of a run."""

    @property
    def folder(self) -> Path | None:
        """Where the report is written, unless the command line says otherwise."""

    @property
    def page(self) -> str | None:
        """The name of the report's HTML page, "" for none; None: the usual one."""

    def output(self, report: Path | None) -> Path | None:
        """Where the conversations of a run are written, whose report is in the folder `report`."""

    def read(self, path: Path, suite: Suite) -> HeldConversations:
        """The conversations in a file, of cases of `suite` or their own. Raises SuiteError."""

    def written(self, report: Report, turns: Mapping[str, Sequence[TurnJson]]) -> str:
        """The text of `output` for a run; `turns` are those of its conversations, by their labels in the report."""

    def results(self, report: Report, held: HeldConversations | None) -> Mapping[str, str]:
        """The texts of the files beside a report, by their paths in its folder."""


@dataclass(frozen=True, kw_only=True)
class Importer:
    """A tool whose files become suites."""

    files: str
    """What they are called, for the error about a file of no known tool."""
    recognises: Callable[[Any], bool]
    """Whether the value of a document is one of them."""
    read: Callable[[Node, Path, Notes], Suite]
    """The suite in a document, whose file is at the path. Raises SuiteError."""
    documents: Mapping[str, Callable[[str, str], Document]] = field(default_factory=dict)
    """The readers of files that are no JSON or YAML, by suffix, from text and name of the file."""
    with_cases: Callable[[Document, Path], Document] | None = None
    """A document that names the file at the path as that of its cases. Raises SuiteError for one that names none."""
    run_files: Callable[[], RunFiles] | None = None
    """The files of a run of any suite in the format of the tool."""
    code: ForeignCode | None = None
    """Lets Python files that are written for the tool run here."""


def importers() -> dict[str, Importer]:
    """By the names of their formats."""
    return {name: module.IMPORTER for name, module in foreign_tools().items()}


class Notes:
    """What was not imported: one sentence for each kind, with the number of its occurrences.

    `allow_plugins` says whether Python files outside the folder of the imported file may run; `run_files` are those
    that it names."""

    def __init__(self, *, allow_plugins: bool = False) -> None:
        self.allow_plugins = allow_plugins
        self.run_files: RunFiles | None = None
        self._counts: Counter[str] = Counter()

    def add(self, sentence: str) -> None:
        self._counts[sentence] += 1

    def unknown_keys(self, node: Node, known: Collection[str], name: str) -> None:
        """Add the keys of an object that are not `known`; `name` is what the object is called."""
        for key in sorted(node.object().keys() - set(known)):
            self.add(f"key {key} of {name} is unknown{did_you_mean(key, known)}")

    def dropped(
        self, node: Node, known: Iterable[str], name: str, reasons: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """Add the keys of an object, called `name`, that are not imported: those that are not `known` (in snake_case)
        and say something. `reasons`: what is added to the sentence, by key."""
        known = set(known)
        for key, value in node.object().items():
            plain = snake_case(key)
            if plain not in known and value not in (None, False, "", [], {}):
                reason = f": {reasons[plain]}" if plain in reasons else ""
                self.add(f"{key} of {name} was not imported{reason}")

    @property
    def sentences(self) -> tuple[str, ...]:
        return tuple(f"{text} ({count} times)" if count > 1 else text for text, count in self._counts.items())


def expected_call(node: Node, *arguments_names: str, notes: Notes | None = None) -> ExpectedCall:
    """`{name, <one of arguments_names>}` as an expected call whose arguments are taken literally. Further keys but an
    `id` are noted in `notes`."""
    name, arguments = node.need("name").text(), node.get(*arguments_names)
    if notes is not None:
        notes.dropped(node, ("id", "name", *arguments_names), "an expected call")
    return ExpectedCall(name, {} if arguments is None else quoted(arguments.object()))


def user_text(inputs: Mapping[str, Any], notes: Notes) -> str:
    """The user message for an agent's named inputs: the only string, or the one named like a message, else JSON.
    Notes the inputs that are not in the message."""
    texts = {name: value for name, value in inputs.items() if isinstance(value, str) and value.strip()}
    if len(inputs) == 1 and texts:
        return next(iter(texts.values()))
    for name in ("message", "input", "query", "question", "prompt", "user_input", "userInput", "task", "text"):
        if name in texts:
            if len(inputs) > 1:
                notes.add(f"of several inputs, only {name} is sent; the others were not imported")
            return texts[name]
    return json.dumps(inputs, ensure_ascii=False)


def unique_ids(cases: Iterable[Case]) -> tuple[Case, ...]:
    """The same cases, with a number appended to repeated ids."""
    taken: set[str] = set()
    return tuple(replace(case, id=free_id(case.id, taken)) for case in cases)
