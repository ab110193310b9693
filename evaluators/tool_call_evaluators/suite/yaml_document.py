"""Reads YAML or JSON into plain values with the position of each.

The text is untrusted: size, nesting and the expansion of aliases are bounded, and nothing in it is executed. Scalars
follow YAML 1.2's core schema, whose types are those of JSON: `no`, `12:30` and `2026-01-31` are strings.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml
from a2a_tool_capture.canonical import MAX_DEPTH, too_deep

MAX_BYTES = 5_000_000
MAX_VALUES = 200_000
"""Maximum number of values in a document, with aliases expanded."""

Path = tuple[str | int, ...]
Position = tuple[int, int]
"""Line and column, both from 1."""


class DocumentError(ValueError):
    """A text that is not one valid document within the limits. `position` is None for errors of the whole text."""

    def __init__(self, problem: str, position: Position | None = None) -> None:
        super().__init__(problem)
        self.problem = problem
        self.position = position


@dataclass(frozen=True, slots=True)
class Document:
    """The value of a text (objects, lists, strings, numbers, booleans, None) and the positions of its parts."""

    value: Any
    positions: Mapping[Path, Position] = field(default_factory=dict)

    def position(self, path: Path) -> Position | None:
        """The position of the value at `path` (of an entry: its key), or of the nearest one that contains it."""
        for length in range(len(path), -1, -1):
            if found := self.positions.get(path[:length]):
                return found
        return None

    def error(self, problem: str, path: Path) -> DocumentError:
        """The error that names `path`, as far as it exists in the document, and its position."""
        value, known = self.value, 0
        while known < len(path) and _holds(value, path[known]):
            value, known = value[path[known]], known + 1
        where = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path[:known])
        return DocumentError(f"{where.removeprefix('.')}: {problem}" if where else problem, self.position(path))


def _holds(value: Any, step: str | int) -> bool:
    if isinstance(value, dict):
        return step in value
    return isinstance(value, list) and isinstance(step, int) and step < len(value)


def read_document(text: str) -> Document:
    """Read one document: JSON if the text is JSON, else YAML.

    Raises DocumentError for an empty, malformed, too large or too deep text, a repeated key, a key that is not a
    string, an unknown tag, or an alias that contains itself.
    """
    if len(text) > MAX_BYTES:
        raise DocumentError(f"has {len(text):,} characters; at most {MAX_BYTES:,} are read")
    if text.lstrip().startswith(("{", "[")):
        try:
            value = json.loads(text, object_pairs_hook=_unique_keys, parse_constant=_no_constant)
        except (ValueError, RecursionError):
            pass  # flow-style YAML, or malformed: the YAML reader reports the position
        else:
            if too_deep(value):
                raise DocumentError(f"nests deeper than {MAX_DEPTH} levels")
            return Document(value, _json_positions(text))
    return _Builder().build(text)


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("a key is repeated")
    return value


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _json_positions(text: str) -> Mapping[Path, Position]:
    """Positions from the YAML reader, as JSON is nearly a subset of YAML; none where they differ."""
    # YAML knows neither tabs between tokens nor halves of surrogate pairs; the replacements are as long
    like_yaml = re.sub(r"\\u[dD][89a-fA-F][0-9a-fA-F]{2}", r"\\u0041", text.replace("\t", " "))
    try:
        return _Builder().build(like_yaml).positions
    except DocumentError:
        return {}


@dataclass(slots=True)
class _OpenCollection:
    """A list or object under construction. `size` is the number of values in it, itself included."""

    value: list[Any] | dict[str, Any]
    path: Path
    anchor: str | None
    size: int = 1
    key: str | None = None

    def next_path(self) -> Path:
        return (*self.path, len(self.value) if isinstance(self.value, list) else self.key or "")


class _Builder:
    """Turns the events of one YAML text into a Document, without recursion."""

    def __init__(self) -> None:
        self._open: list[_OpenCollection] = []
        self._positions: dict[Path, Position] = {}
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._size = 0
        self._documents = 0
        self._root: Any = None

    def build(self, text: str) -> Document:
        try:
            for event in _events(text):
                self._take(event)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            raise DocumentError(_problem(error, text), _position(mark) if mark else None) from None
        except yaml.YAMLError as error:  # a character YAML does not allow
            raise DocumentError(" ".join(str(error).split())) from None
        if self._documents == 0:
            raise DocumentError("is empty")
        return Document(self._root, self._positions)

    def _take(self, event: yaml.Event) -> None:
        if isinstance(event, yaml.DocumentStartEvent):
            self._documents += 1
            if self._documents > 1:
                raise DocumentError("holds more than one document", _position(event.start_mark))
        elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            self._start(event)
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            done = self._open.pop()
            self._add(done.value, done.size, done.anchor)
        elif isinstance(event, yaml.ScalarEvent):
            self._scalar(event)
        elif isinstance(event, yaml.AliasEvent):
            self._alias(event)

    def _start(self, event: yaml.MappingStartEvent | yaml.SequenceStartEvent) -> None:
        position = _position(event.start_mark)
        if self._awaits_key():
            raise DocumentError("a key must be a string", position)
        if len(self._open) >= MAX_DEPTH:
            raise DocumentError(f"nests deeper than {MAX_DEPTH} levels", position)
        if event.tag and event.tag not in ("tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"):
            raise DocumentError(f"tag {event.tag} is not supported", position)
        path = self._open[-1].next_path() if self._open else ()
        self._positions.setdefault(path, position)
        self._open.append(_OpenCollection({} if isinstance(event, yaml.MappingStartEvent) else [], path, event.anchor))

    def _scalar(self, event: yaml.ScalarEvent) -> None:
        position = _position(event.start_mark)
        value = _scalar_value(event, position)
        if self._awaits_key():
            parent = self._open[-1]
            if not isinstance(value, str):
                raise DocumentError(f"key {event.value} must be a string; put it in quotes", position)
            if value in parent.value:
                raise DocumentError(f"key {value!r} is repeated", position)
            parent.key = value
            self._positions[parent.next_path()] = position
        else:
            if self._open:
                self._positions.setdefault(self._open[-1].next_path(), position)
            self._add(value, 1, event.anchor, position)

    def _alias(self, event: yaml.AliasEvent) -> None:
        position = _position(event.start_mark)
        if any(container.anchor == event.anchor for container in self._open):
            raise DocumentError(f"alias *{event.anchor} contains itself", position)
        if event.anchor not in self._anchors:
            raise DocumentError(f"alias *{event.anchor} has no anchor before it", position)
        if self._awaits_key():
            raise DocumentError("a key must be a string, not an alias", position)
        value, size = self._anchors[event.anchor]
        self._positions.setdefault(self._open[-1].next_path(), position)
        self._add(value, size, None, position)

    def _awaits_key(self) -> bool:
        return bool(self._open) and isinstance(self._open[-1].value, dict) and self._open[-1].key is None

    def _add(self, value: Any, size: int, anchor: str | None, position: Position | None = None) -> None:
        if anchor is not None:
            self._anchors[anchor] = (value, size)
        if not self._open:
            self._root = value
            return
        parent = self._open[-1]
        parent.size += size
        if parent.size > MAX_VALUES:
            raise DocumentError(f"holds more than {MAX_VALUES:,} values", position)
        if isinstance(parent.value, list):
            parent.value.append(value)
        elif parent.key is not None:
            parent.value[parent.key] = value
            parent.key = None


def _events(text: str) -> Iterator[yaml.Event]:
    """Events of libyaml if installed, else of the same parser in Python; neither recurses."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    yield from yaml.parse(text, Loader=loader)


def _problem(error: yaml.MarkedYAMLError, text: str) -> str:
    """The message of the parser, with its usual cause."""
    said = error.problem or "is not YAML"
    mark = error.problem_mark
    if "mapping values are not allowed" in said:
        return f"{said}: a string with ': ' needs quotes"
    if mark is not None and "cannot start any token" in said:
        found = text.split("\n")[mark.line][mark.column :][:1]
        return f"{said}: a tab; indent with spaces" if found == "\t" else f"{said}: {found!r}; put the string in quotes"
    return said


def _position(mark: Any) -> Position:
    # libyaml's marks and PyYAML's own are two classes with the same attributes
    return mark.line + 1, mark.column + 1


def _scalar_value(event: yaml.ScalarEvent, position: Position) -> Any:
    text: str = event.value
    if event.tag is None:
        return plain_value(text) if event.implicit[0] else text
    if event.tag == "tag:yaml.org,2002:str":
        return text
    if event.tag.removeprefix("tag:yaml.org,2002:") in ("int", "float", "bool", "null"):
        return plain_value(text)
    raise DocumentError(f"tag {event.tag} is not supported", position)


def plain_value(text: str) -> Any:
    """The value of an unquoted word (YAML 1.2, 10.3.2)."""
    if text in ("", "~", "null", "Null", "NULL"):
        return None
    if text in ("true", "True", "TRUE", "false", "False", "FALSE"):
        return text[0] in "tT"
    if _INTEGER.fullmatch(text):
        return int(text, 10)
    return float(text) if _FLOAT.fullmatch(text) else text


_INTEGER = re.compile(r"[-+]?[0-9]{1,1000}")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
