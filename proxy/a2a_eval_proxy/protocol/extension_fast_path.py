"""Cuts the extension out of responses of the usual form, without reading the text member by member. Pure.

The usual form: each of the extension's names stands in the metadata or the extensions of an artifact that has a text,
and the JSON has no spaces between its elements, or those of Python's `json`; with line breaks, another element follows
each that is removed. `extension_scanner` handles all others.
"""

from __future__ import annotations

import re
from typing import Any

import orjson
from a2a_tool_capture.extension_positions import EXTENSIONS, METADATA
from a2a_tool_capture.spec import BASE_URI, is_capture_uri
from a2a_tool_capture.wire import parts_text

from .extension_scanner import ESCAPE, MARKER

_MARKER = MARKER.encode()
_ESCAPED, _EMPTY = re.compile(re.escape(ESCAPE.encode())), re.compile(b'""')
"""Patterns: `in` takes twice as long for a few bytes."""
_NAME = re.compile(rb'"%b(?:/[^"\\]*)?"(: ?\[)?' % re.escape(BASE_URI).encode())
"""A URI of the extension, or a metadata key with the beginning of its list."""
_ALONE = re.compile(rb'"(?:%b": ?{|%b": ?\[)\Z' % (METADATA.encode(), EXTENSIONS.encode()))
"""What stands before the only element of the metadata or the extensions."""
_COMMA = re.compile(rb",[ \t\n\r]*")
_LONGEST_OPENING = 16
_MAX_TRIES = 10


def cut_usual(body: bytes, payload: Any) -> bytes | None:
    """`body` (JSON, decoded: `payload`) without the extension; None where it does not have the usual form."""
    if _ESCAPED.search(body) or _EMPTY.search(body):  # another spelling; a serializer that prints defaults
        return None
    names = list(_NAME.finditer(body))
    if not len(names) == body.count(_MARKER) == _names_in_artifacts(payload):
        return None
    runs: list[tuple[int, int]] = []
    """Starts and ends of neighbouring elements to remove, without the commas around them."""
    for name in names:
        start, end = name.span()
        if name[1] is not None:
            end = _end_of_list(body, end - 1)
        if body[end] not in b",]}":
            return None
        if body[start - 1] in b"{[" and body[end] in b"}]":  # nothing else is in there
            opening = _ALONE.search(body, max(0, start - _LONGEST_OPENING), start)
            if opening is None:
                return None
            start, end = opening.start(), end + 1
        if runs and body[runs[-1][1] : start] in (b",", b", "):
            start = runs.pop()[0]
        runs.append((start, end))
    kept = []
    position = 0
    for start, end in runs:
        comma = _COMMA.match(body, end)
        if comma is not None:
            end = comma.end()
        elif body[start - 1] == 0x2C:
            start -= 1
        elif body[start - 2 : start] == b", ":
            start -= 2
        else:
            return None
        kept.append(body[position:start])
        position = end
    kept.append(body[position:])
    return b"".join(kept)


def _end_of_list(body: bytes, start: int) -> int:
    """The end of the list at `start`; 0, where no element ends, if it is not found soon."""
    end = start
    for _ in range(_MAX_TRIES):
        end = body.find(b"]", end) + 1
        try:
            orjson.loads(body[start:end])
        except orjson.JSONDecodeError:
            continue
        return end  # no JSON array begins with another one
    return 0


def _names_in_artifacts(payload: Any) -> int:
    """How often the artifacts of a response name the extension; -1 where one without text does."""
    response = payload.get("result", payload) if isinstance(payload, dict) else None
    if not isinstance(response, dict):
        return -1
    holder = response.get("task") or response.get("artifactUpdate") or response
    if not isinstance(holder, dict):
        return -1
    artifacts = holder.get("artifacts") or [holder.get("artifact")]
    total = 0
    for artifact in artifacts if isinstance(artifacts, list) else ():
        if not isinstance(artifact, dict):
            return -1
        names = 0
        metadata, extensions = artifact.get(METADATA), artifact.get(EXTENSIONS)
        if isinstance(metadata, dict):
            names = sum(map(is_capture_uri, metadata))
        if isinstance(extensions, list):
            names += sum(map(is_capture_uri, extensions))
        if names and not (artifact.get("parts") and parts_text(artifact)):
            return -1
        total += names
    return total
