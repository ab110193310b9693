"""Takes the extension out of bodies for clients that did not ask for it, and touches no other byte.

What is left is what the agent would have sent a client that never asked: the metadata key, the URI in
`extensions`, and the fields that held nothing else are cut out of the text; the rest is never re-encoded, so numbers,
key order and white space stay the agent's. Calls belong into artifacts; an agent that puts them on messages, tasks or
events errs, but it did so because the proxy asked, so they are taken out there too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from a2a_tool_capture.spec import is_capture_uri, requested_uris

_MARKER = b"tool-call-capture"
_ESCAPE = b"\\u00"  # a serializer may spell ASCII so; then only the walk can tell
_AS_SENT = "surrogateescape"  # JavaScript clients read on after a wrong byte
_SPACE = " \t\n\r"
_STRUCTURE = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)
_string: Callable[[str, int], tuple[str, int]] = json.decoder.scanstring  # type: ignore[attr-defined]  # typeshed omits it
_scan: Callable[[str, int], tuple[Any, int]] = json.JSONDecoder(parse_int=str).scan_once  # type: ignore[attr-defined]  # typeshed omits it

# What leads to objects that carry metadata, or hold such: the JSON-RPC envelope, a StreamResponse of either version, a
# Task, a ListTasks answer.
_OBJECTS = frozenset({"result", "task", "artifactUpdate", "artifact_update", "artifact"})
_LISTS = frozenset({"tasks", "artifacts"})
# The same, but seldom carriers of anything: looked into only where the extension is named.
_MESSAGES = frozenset({"statusUpdate", "status_update", "status", "message", "history"})
_TASK_IDS = frozenset({"id", "taskId", "task_id"})
_MAX_DEPTH = 8
"""Of such objects inside each other; no answer of A2A has more than six."""

# Proto fields that a serializer prints as "" only when it prints defaults; such a body keeps an emptied list as [].
_DEFAULTS = frozenset({"name", "description", "filename", "mediaType"})

Span = tuple[int, int]


def may_hold_extension(body: bytes) -> bool:
    """Cheap test that lets most bodies pass without a look inside; never a false no."""
    return _MARKER in body or _ESCAPE in body


def strip(body: bytes, keep_task: Callable[[str], bool]) -> bytes:
    """`body` (JSON of an A2A response or event) without the extension; the same object where nothing is to go.

    `keep_task` says of a task id whether its client asked for the extension earlier, so that this task's calls
    stay. What is not JSON comes back as it is. Never raises.
    """
    if not may_hold_extension(body):
        return body
    try:
        text = body.decode(errors=_AS_SENT)
        walk = _Walk(text, keep_task)
        walk.document()
    except (ValueError, StopIteration, IndexError):
        return body
    if not walk.cuts:
        return body
    kept = []
    position = 0
    for start, end in sorted(walk.cuts):
        kept.append(text[position:start])
        position = end
    kept.append(text[position:])
    return "".join(kept).encode(errors=_AS_SENT)


def strip_header(value: str) -> str:
    """An extensions header without this extension's URIs; "" where nothing else was listed."""
    uris = requested_uris([value])
    kept = [uri for uri in uris if not is_capture_uri(uri)]
    return value if len(kept) == len(uris) else ", ".join(kept)


def _after_space(text: str, at: int) -> int:
    while text[at] in _SPACE:
        at += 1
    return at


class _Walk:
    """Goes down the few paths where metadata can be; C code skips everything beside them.

    Methods take the position of a value's first character and return the position after it.
    """

    def __init__(self, text: str, keep_task: Callable[[str], bool]) -> None:
        self.text = text
        self.keep_task = keep_task
        self.cuts: list[Span] = []
        self._depth = 0

    def document(self) -> None:
        start = _after_space(self.text, self.text.startswith("\ufeff"))
        if self.text[start] == "[":  # the answers to a JSON-RPC batch
            self._items(start, self._whole)
        else:
            self._whole(start)

    def _value(self, at: int) -> tuple[Any, int]:
        """The value at `at` and its end; None for one that nests deeper than Python reads."""
        try:
            return _scan(self.text, at)
        except RecursionError:
            return None, self._over(at)

    def _skip(self, at: int) -> int:
        return self._value(at)[1]

    def _over(self, at: int) -> int:
        """The place after the object or array at `at`, however deep it is."""
        depth = 0
        for token in _STRUCTURE.finditer(self.text, at):
            if token[0] in ("{", "["):
                depth += 1
            elif token[0] in ("}", "]"):
                depth -= 1
                if depth == 0:
                    return token.end()
        raise ValueError(f"the value at {at} does not end")

    def _members(self, at: int, visit: Callable[[str, int], int]) -> list[Span]:
        """Visit each member of the object at `at`; returns their spans, key to value, and the end as last span."""
        text = self.text
        spans: list[Span] = []
        at += 1
        while True:
            at = _after_space(text, at) if text[at] in _SPACE else at
            if text[at] == "}":
                break
            start = at
            if text[at] != '"':
                raise ValueError(f"expected a key at {at}")
            key, at = _string(text, at + 1)
            at = _after_space(text, at) if text[at] in _SPACE else at
            if text[at] != ":":
                raise ValueError(f"expected ':' at {at}")
            at += 1
            at = visit(key, _after_space(text, at) if text[at] in _SPACE else at)
            spans.append((start, at))
            at = _next_element(text, at, "}")
        spans.append((at + 1, at + 1))
        return spans

    def _items(self, at: int, visit: Callable[[int], int]) -> list[Span]:
        """As `_members`, for the array at `at`."""
        text = self.text
        spans: list[Span] = []
        at = _after_space(text, at + 1)
        while text[at] != "]":
            start = at
            at = visit(at)
            spans.append((start, at))
            at = _after_space(text, _next_element(text, at, "]"))
        spans.append((at + 1, at + 1))
        return spans

    def _may_hold_extension(self, start: int, end: int) -> bool:
        find = self.text.find
        return find(_MARKER.decode(), start, end) >= 0 or find(_ESCAPE.decode(), start, end) >= 0

    def _whole(self, at: int) -> int:
        """A value around which no task's id is told."""
        return self._object(at, self.cuts)

    def _inside(self, at: int, cuts: list[Span]) -> int:
        """An object, or an array of such."""
        if self.text[at] == "[":
            return self._items(at, lambda item: self._object(item, cuts))[-1][1]
        return self._object(at, cuts)

    def _object(self, at: int, cuts: list[Span]) -> int:
        """A value that may carry the extension and hold others that do; what goes is added to `cuts`.

        Where it has a task's id, that decides for all that is in it.
        """
        if self.text[at] != "{" or self._depth == _MAX_DEPTH:
            return self._skip(at)
        self._depth += 1
        own: list[Span] = []
        keys: list[str] = []
        inner: dict[int, tuple[list[Span], set[int]]] = {}
        task_id = ""
        prints_defaults = False

        def visit(key: str, at: int) -> int:
            nonlocal task_id, prints_defaults
            keys.append(key)
            opening = self.text[at]
            if key == "result":
                return self._whole(at)
            if (key in _OBJECTS and opening == "{") or (key in _LISTS and opening == "["):
                return self._inside(at, own)
            if key in _MESSAGES and opening in "{[":
                end = self._skip(at)
                return self._inside(at, own) if self._may_hold_extension(at, end) else end
            if (key == "metadata" and opening == "{") or (key == "extensions" and opening == "["):
                found = self._named(at) if opening == "{" else self._listed(at)
                inner[len(keys) - 1] = found
                return found[0][-1][1]
            value, end = self._value(at)
            if key in _TASK_IDS and isinstance(value, str):
                task_id = value
            prints_defaults = prints_defaults or _is_default(key, value)
            return end

        spans = self._members(at, visit)
        emptied = set()
        for position, (inner_spans, gone) in inner.items():
            if not gone:
                continue
            if len(gone) < len(inner_spans) - 1:
                own += _cut(inner_spans, gone)
            elif keys[position] == "extensions" and prints_defaults:
                opening = self.text.rindex("[", 0, inner_spans[0][0])
                own.append((opening + 1, inner_spans[-1][1] - 1))
            else:
                emptied.add(position)
        own += _cut(spans, emptied)
        if not task_id:
            cuts += own
        elif own and not self.keep_task(task_id):
            self.cuts += own
        self._depth -= 1
        return spans[-1][1]

    def _named(self, at: int) -> tuple[list[Span], set[int]]:
        """The members of the metadata at `at`, and which of them are ours."""
        ours: list[bool] = []

        def member(name: str, at: int) -> int:
            ours.append(is_capture_uri(name))
            return self._skip(at)

        return self._members(at, member), {i for i, found in enumerate(ours) if found}

    def _listed(self, at: int) -> tuple[list[Span], set[int]]:
        """The items of the extensions at `at`, and which of them are ours."""
        ours: list[bool] = []

        def item(at: int) -> int:
            value, end = self._value(at)
            ours.append(is_capture_uri(value))
            return end

        return self._items(at, item), {i for i, found in enumerate(ours) if found}


def _next_element(text: str, at: int, closing: str) -> int:
    """The place after the comma that follows, or of the closing bracket."""
    at = _after_space(text, at) if text[at] in _SPACE else at
    if text[at] == ",":
        return at + 1
    if text[at] != closing:
        raise ValueError(f"expected ',' or {closing!r} at {at}")
    return at


def _is_default(key: str, value: Any) -> bool:
    if key == "parts" and isinstance(value, list):
        return any(_is_default(name, item) for part in value if isinstance(part, dict) for name, item in part.items())
    return value == "" and key in _DEFAULTS


def _cut(spans: list[Span], gone: set[int]) -> list[Span]:
    """What to cut so that the members (or items) `gone` and just the right commas disappear."""
    cuts = []
    last = len(spans) - 2  # the final span is the end of the whole
    position = 0
    while position <= last:
        if position not in gone:
            position += 1
            continue
        first = position
        while position < last and position + 1 in gone:
            position += 1
        if position < last:
            cuts.append((spans[first][0], spans[position + 1][0]))
        elif first > 0:
            cuts.append((spans[first - 1][1], spans[position][1]))
        else:
            cuts.append((spans[first][0], spans[position][1]))
        position += 1
    return cuts


def strip_headers(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Response headers without the extension's activation; a header that listed nothing else goes."""
    out = []
    for name, value in headers:
        if name.lower() in (b"a2a-extensions", b"x-a2a-extensions"):
            value = strip_header(value.decode("latin-1")).encode("latin-1")
            if not value:
                continue
        out.append((name, value))
    return out
