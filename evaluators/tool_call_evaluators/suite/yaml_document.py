"""Reads YAML or JSON into plain values. A `Part` is one with its place in the text, a `Node` one whose errors name it.

The text is untrusted: size, nesting and the expansion of aliases are bounded, and nothing in it is executed. Scalars
follow YAML 1.2's core schema, whose types are those of JSON: `no`, `12:30` and `2026-01-31` are strings.
"""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NoReturn, TypeVar

import yaml
from a2a_tool_capture.json_limits import READ, too_deep
from a2a_tool_capture.json_values import not_json
from a2a_tool_capture.secret_references import open_regular

from .. import suite_fields
from ..suite_fields import unique_keys

MAX_BYTES = 5_000_000
MAX_VALUES = 200_000
"""Maximum number of values in a document, with aliases expanded."""

Path = tuple[str | int, ...]
Position = tuple[int, int]
"""Line and column, both from 1."""


class SuiteError(ValueError):
    """An invalid suite or other document. The message is one sentence: `file:line:column: problem, place, expected`."""

    line: int | None
    column: int | None
    """Both count from 1 and are None if the error has no position."""
    exit_code = 2
    """Exit code of a command that ends with this error: bad usage or input."""

    def __init__(self, problem: str, filename: str, position: Position | None = None) -> None:
        place = ":".join(str(part) for part in (filename, *(position or ())))
        super().__init__(f"{place}: {problem}")
        self.problem = problem
        self.filename = filename
        self.line, self.column = position or (None, None)


@dataclass(frozen=True)
class Document:
    """The value of a `text` (objects, lists, strings, numbers, booleans, None); of JSON data, without a text."""

    value: Any
    filename: str
    text: str = ""

    @cached_property
    def _whole(self) -> Part | None:
        try:
            return parts_of(self.text) if self.text else None
        except SuiteError:  # JSON is only nearly a subset of YAML
            return None

    def position(self, path: Path) -> Position | None:
        """The position of the value at `path` (of an entry: its key), or of the nearest one that contains it."""
        found = self._whole
        for step in path:
            inner = found.inner(step) if found else None
            if inner is None:
                break
            found = inner
        return _position((found.key or found).event.start_mark) if found else None

    def error(self, problem: str, path: Path) -> SuiteError:
        """The error that names `path`, as far as it exists in the document, and its position. A list may stand for an
        object with it."""
        value, known = self.value, list[str | int]()
        for step in path:
            if _holds(value, step):
                value = value[step]
                known.append(step)
            elif not isinstance(value, list):
                break
        where = suite_fields.place(known).removeprefix(".")
        problem = f"{where}: {problem}" if where else problem
        return SuiteError(problem, self.filename, self.position(tuple(known)))


def _holds(value: Any, step: str | int) -> bool:
    if isinstance(value, dict):
        return step in value
    return isinstance(value, list) and isinstance(step, int) and step < len(value)


@dataclass(slots=True, eq=False)
class Part:
    """A value in a text, with the `event` that begins it."""

    event: Any
    end: int
    """Where it ends; of a block, its last value."""
    in_flow: bool = False
    """Whether it is in brackets, its own ones included."""
    value: Any = None
    size: int = 0
    """The number of values in it, itself included, with aliases expanded; 0 until it is read."""
    key: Part | None = None
    """Of an entry of an object."""
    children: list[Part] = field(default_factory=list)
    target: Part | None = None
    """Of an alias."""

    @property
    def start(self) -> int:
        return int(self.event.start_mark.index)

    def inner(self, step: str | int) -> Part | None:
        """The child with that key or index."""
        if isinstance(step, int):
            return self.children[step] if isinstance(self.value, list) and step < len(self.children) else None
        return next((child for child in self.children if child.key and child.key.value == step), None)


def read_document(text: str, filename: str = "suite") -> Document:
    """Read one document: JSON if the text is JSON, else YAML.

    Raises SuiteError for an empty, malformed, too large or too deep text, a repeated key, a key that is not a string,
    an unknown tag, or an alias that contains itself.
    """
    if len(text) > MAX_BYTES:
        raise SuiteError(f"is longer than {MAX_BYTES:,} characters, which is the maximum", filename)
    try:
        value = read_json(text)
    except ValueError:  # flow-style YAML, or malformed: the YAML reader reports the position
        return Document(_YamlReader(text, filename).whole().value, filename, text)
    if too_deep(value):
        raise SuiteError(f"nests deeper than {READ} levels", filename)
    return Document(value, filename, text)


def read_json(text: str) -> Any:
    """The value of a text that is a JSON object or list. Raises ValueError for any other."""
    if not text.lstrip().startswith(("{", "[")):
        raise ValueError("it is neither an object nor a list")
    try:
        return json.loads(text, object_pairs_hook=unique_keys, parse_constant=not_json)
    except RecursionError as error:
        raise ValueError("it nests too deep") from error


def is_json(text: str) -> bool:
    try:
        read_json(text)
    except ValueError:
        return False
    return True


def parts_of(text: str) -> Part:
    """The document in `text` with the places of all values in it. Raises SuiteError, also for JSON that is no YAML."""
    return _YamlReader(text, "", kept=True).whole()


class _YamlReader:
    """Turns the events of one text into a Part. Its recursion is bounded by `READ`."""

    def __init__(self, text: str, filename: str, *, kept: bool = False) -> None:
        self._text = text
        self._filename = filename
        self._kept = kept
        """Whether parts keep those in them, of which there are many."""
        self._is_json = is_json(text)
        if self._is_json:
            # YAML knows neither tabs between tokens nor halves of surrogate pairs; the replacements are as long
            text = re.sub(r"\\u[dD][89a-fA-F][0-9a-fA-F]{2}", r"\\u0041", text.replace("\t", " "))
        # events of libyaml if installed, else of the same parser in Python; neither recurses
        self._events: Iterator[Any] = yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        self._anchors: dict[str, Part] = {}

    def whole(self) -> Part:
        """The document. Raises SuiteError."""
        try:
            next(self._events)  # the start of the stream
            if isinstance(next(self._events), yaml.StreamEndEvent):
                raise SuiteError("is empty", self._filename)
            found = self._part(next(self._events), 0, in_flow=False)
            next(self._events)  # the end of the document
            if isinstance(event := next(self._events), yaml.DocumentStartEvent):
                raise self._error("holds more than one document", event)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            problem = _problem(error, self._text)
            raise SuiteError(problem, self._filename, _position(mark) if mark else None) from None
        except yaml.YAMLError as error:  # a character YAML does not allow
            raise SuiteError(" ".join(str(error).split()), self._filename) from None
        return found

    def _error(self, problem: str, event: yaml.Event) -> SuiteError:
        return SuiteError(problem, self._filename, _position(event.start_mark))

    def _part(self, event: Any, depth: int, *, in_flow: bool) -> Part:
        """The value that starts with `event`."""
        part = Part(event, _end(event), in_flow)
        if isinstance(event, yaml.AliasEvent):
            target = part.target = self._anchors.get(str(event.anchor))
            if target is None:
                raise self._error(f"alias *{event.anchor} has no anchor before it", event)
            if not target.size:
                raise self._error(f"alias *{event.anchor} contains itself", event)
            part.value, part.size = target.value, target.size
            return part
        if event.anchor:
            self._anchors[event.anchor] = part
        if not isinstance(event, yaml.ScalarEvent):
            self._collect(part, depth)
            return part
        part.value, part.size = self._scalar(event), 1
        if event.style in ("|", ">"):  # its mark is where the next value begins
            part.end = part.start + len(self._text[part.start : part.end].rstrip())
        return part

    def _collect(self, part: Part, depth: int) -> None:
        """Read what is in a list or an object."""
        start, size = part.event, 1
        if depth >= READ:
            raise self._error(f"nests deeper than {READ} levels", start)
        if start.tag and start.tag not in ("tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"):
            raise self._error(f"tag {start.tag} is not supported", start)
        part.in_flow = part.in_flow or bool(start.flow_style)
        found: dict[str | int, Any] = {}
        while not isinstance(event := next(self._events), yaml.CollectionEndEvent):
            key: Part | None = None
            if isinstance(start, yaml.MappingStartEvent):
                key = self._key(event, found)
                event = next(self._events)
            child = self._part(event, depth + 1, in_flow=part.in_flow)
            child.key, found[key.value if key else len(found)] = key, child.value
            if self._kept:
                part.children.append(child)
            size += child.size
            if size > MAX_VALUES:
                raise self._error(f"holds more than {MAX_VALUES:,} values", event)
        part.value, part.size = found if isinstance(start, yaml.MappingStartEvent) else list(found.values()), size
        part.end = _end(event) if start.flow_style or not part.children else part.children[-1].end

    def _key(self, event: Any, taken: Container[Any]) -> Part:
        if not isinstance(event, yaml.ScalarEvent):
            an_alias = ", not an alias" if isinstance(event, yaml.AliasEvent) else ""
            raise self._error(f"a key must be a string{an_alias}", event)
        key = self._scalar(event)
        if not isinstance(key, str):
            raise self._error(f"key {event.value} must be a string; put it in quotes", event)
        if key in taken:
            raise self._error(f"key {key!r} is repeated", event)
        return Part(event, _end(event), value=key)

    def _scalar(self, event: Any) -> Any:
        text: str = event.value
        if self._is_json and event.style == '"':
            return json.loads(self._text[event.start_mark.index : _end(event)])
        if event.tag is None:
            if event.implicit[0] and _NO_JSON.fullmatch(text):
                raise self._error(f"{text} is a number that JSON cannot hold; for the text, put it in quotes", event)
            return plain_value(text) if event.implicit[0] else text
        if event.tag == "tag:yaml.org,2002:str":
            return text
        if event.tag.removeprefix("tag:yaml.org,2002:") in ("int", "float", "bool", "null"):
            return plain_value(text)
        raise self._error(f"tag {event.tag} is not supported", event)


def _problem(error: yaml.MarkedYAMLError, text: str) -> str:
    """The message of the parser, with its usual cause."""
    said, mark = error.problem or "is not YAML", error.problem_mark
    if "maximum nesting depth" in said:  # libyaml's own limit, where it reads ahead of the events
        return f"nests deeper than {READ} levels"
    if mark is not None and "cannot start any token" in said:
        found = text.split("\n")[mark.line][mark.column :][:1]
        return f"{said}: a tab; indent with spaces" if found == "\t" else f"{said}: {found!r}; put the string in quotes"
    return said + next((cause for part, cause in _CAUSES.items() if part in said), "")


_NOT_CLOSED = "; is a bracket or a quote not closed, or a line not indented like its neighbours?"
_CAUSES = {
    "mapping values are not allowed": ": a string with ': ' needs quotes",
    "violates indentation": "; indent with spaces",
    "did not find expected": _NOT_CLOSED,
    "unexpected end of stream": _NOT_CLOSED,
}
"""What usually causes a problem, by a part of the parser's message."""


def _position(mark: Any) -> Position:
    # libyaml's marks and PyYAML's own are two classes with the same attributes
    return mark.line + 1, mark.column + 1


def _end(event: Any) -> int:
    return int(event.end_mark.index)


def plain_value(text: str) -> Any:
    """The value of an unquoted word (YAML 1.2, 10.3.2)."""
    if text in ("", "~", "null", "Null", "NULL"):
        return None
    if text in ("true", "True", "TRUE", "false", "False", "FALSE"):
        return text[0] in "tT"
    if _INTEGER.fullmatch(text):
        return int(text, 10)
    if _OTHER_BASE.fullmatch(text):
        return int(text, 0)
    return float(text) if _FLOAT.fullmatch(text) else text


_OTHER_BASE = re.compile(r"0x[0-9a-fA-F]{1,1000}|0o[0-7]{1,1000}")
_NO_JSON = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_INTEGER = re.compile(r"[-+]?[0-9]{1,1000}")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Node:
    """The value at `path` of a document. Every reading method raises SuiteError for a value of another type."""

    document: Document
    value: Any
    path: Path = ()

    def fail(self, problem: str) -> NoReturn:
        raise self.document.error(problem, self.path)

    def object(self) -> dict[str, Any]:
        return self.convert(suite_fields.checked_object)

    def entries(self) -> dict[str, Node]:
        """The entries of an object, whatever their keys."""
        return {key: Node(self.document, item, (*self.path, key)) for key, item in self.object().items()}

    def get(self, *keys: str) -> Node | None:
        """The first of these entries that exists and is not null: formats use snake_case and camelCase."""
        entries = self.object()
        found = next((key for key in keys if entries.get(key) is not None), None)
        return None if found is None else Node(self.document, entries[found], (*self.path, found))

    def need(self, *keys: str) -> Node:
        """As `get`, for a required entry."""
        found = self.get(*keys)
        return self.fail(f"{keys[0]} is missing") if found is None else found

    def at(self, *keys: str) -> Node:
        """An entry that is an object; an empty object if it is missing."""
        found = self.get(*keys) or Node(self.document, {}, self.path)
        found.object()
        return found

    def text_at(self, *keys: str) -> str | None:
        """The string of an entry; None if it is missing or blank."""
        found = self.get(*keys)
        return None if found is None or found.blank else found.text()

    def items_at(self, *keys: str) -> list[Node]:
        """The items of an entry; empty if it is missing."""
        found = self.get(*keys)
        return [] if found is None else found.items()

    @property
    def blank(self) -> bool:
        """Whether the value is a blank string."""
        return isinstance(self.value, str) and not self.value.strip()

    def items(self) -> list[Node]:
        items = self.convert(suite_fields.checked_list)
        return [Node(self.document, item, (*self.path, index)) for index, item in enumerate(items)]

    def text(self) -> str:
        return self.convert(suite_fields.text)

    def choice(self, accepted: tuple[str, ...]) -> str:
        return self.convert(lambda value: suite_fields.choice(value, accepted))

    def convert(self, function: Callable[[Any], T]) -> T:
        """The result of `function` for the value; its ValueError becomes an error with this position."""
        try:
            return function(self.value)
        except ValueError as error:
            raise self.document.error(str(error), (*self.path, *getattr(error, "path", ()))) from None


def read_bytes(path: pathlib.Path, most: int, kind: str) -> bytes:
    """The content of the file at `path`, `kind` in messages. Raises SuiteError if missing or over `most` bytes."""
    try:
        with open_regular(path) as file:
            data = file.read(most + 1)
    except OSError as error:
        hint = "; name a file in it" if isinstance(error, IsADirectoryError) else ""
        name = re.sub("^(https?:/)(?!/)", r"\1/", str(path))  # Path makes one slash of two
        if name.startswith(("http://", "https://")):
            hint = "; it is a URL: give that of an agent with --agent, and a file here"
        raise SuiteError(f"cannot be read: {error.strerror or error}{hint}", name) from None
    if len(data) > most:
        raise SuiteError(f"is larger than {most:,} bytes, the maximum size of {kind}", str(path))
    return data


def read_text(path: pathlib.Path) -> str:
    """The text of the file at `path`. Raises SuiteError if it is missing, too large or not UTF-8."""
    data = read_bytes(path, MAX_BYTES, "a suite")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SuiteError(f"is not UTF-8: byte {error.start} cannot be decoded", str(path)) from None


def read_source(path: pathlib.Path) -> Node:
    """The value of the YAML or JSON document in the file at `path`. Raises SuiteError."""
    document = read_document(read_text(path), str(path))
    return Node(document, document.value)
