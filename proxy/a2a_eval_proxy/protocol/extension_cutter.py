"""Cuts the extension out of responses of the usual form, without reading the text member by member. Pure.

The usual form: each of the extension's names stands in the metadata or the extensions of an artifact that has a text,
and the text has no spaces between its elements, or those of Python's `json`. `extension_scanner` handles every other.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from json import JSONDecoder
from typing import Any

from a2a_tool_capture.places import EXTENSIONS, METADATA
from a2a_tool_capture.spec import BASE_URI, is_capture_uri

from .extension_scanner import ESCAPE, MARKER

_NAME = re.compile(rf'"{re.escape(BASE_URI)}(?:/[^"\\]*)?"(: ?)?')
"""A URI of the extension, or a metadata key with the colon after it."""
_scan: Callable[[str, int], tuple[Any, int]] = JSONDecoder().scan_once  # type: ignore[attr-defined]  # typeshed omits it
_OPENINGS = tuple(f'"{key}":{opening}' for key in (METADATA, EXTENSIONS) for opening in ("{", " {", "[", " ["))


def cut_usual(text: str, payload: Any) -> str | None:
    """`text` (JSON, decoded: `payload`) without the extension; None where it does not have the usual form."""
    if ESCAPE in text or '""' in text:  # another spelling; a serializer that prints defaults
        return None
    names = list(_NAME.finditer(text))
    if not len(names) == text.count(MARKER) == _names_in_artifacts(payload):
        return None
    runs: list[tuple[int, int]] = []
    """Starts and ends of neighbouring elements to remove, without the commas around them."""
    for name in names:
        start, end = name.span()
        if name[1]:
            end = _scan(text, end)[1]
        if text[start - 1] in "{[" and text[end] in "}]":  # nothing else is in there
            opening = next((opening for opening in _OPENINGS if text.startswith(opening, start - len(opening))), None)
            if opening is None:
                return None
            start, end = start - len(opening), end + 1
        if runs and text[runs[-1][1] : start] in (",", ", "):
            start = runs.pop()[0]
        runs.append((start, end))
    kept = []
    position = 0
    for start, end in runs:
        if text[end] == ",":
            end += 2 if text[end + 1] == " " else 1
        elif text[start - 1] == ",":
            start -= 1
        elif text[start - 2 : start] == ", ":
            start -= 2
        else:
            return None
        kept.append(text[position:start])
        position = end
    kept.append(text[position:])
    return "".join(kept)


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
        if names and not _has_text(artifact.get("parts")):
            return -1
        total += names
    return total


def _has_text(parts: Any) -> bool:
    return isinstance(parts, list) and any(isinstance(part, dict) and bool(part.get("text")) for part in parts)
