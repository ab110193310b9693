"""Removes the extension from bodies for clients that did not ask for it, and changes no other byte. Pure.

The result is what the agent would have sent to a client that never asked. These are cut out of the text: the metadata
key, the URI in `extensions`, the fields that held nothing else, and artifacts that exist for their tool calls alone.
The rest is never re-encoded, so numbers, key order and white space stay the agent's. Where the extension may appear:
`a2a_tool_capture.extension_positions`.
"""

from __future__ import annotations

import codecs
import json
import re
from typing import Any

import orjson
from a2a_tool_capture.json_limits import has_too_many_values, may_have_too_many_values

from .extension_fast_path import cut_usual
from .extension_scanner import ESCAPE, MARKER, ExtensionScanner, KeepTask
from .json_stream import JsonSplitter

_MARKER = MARKER.encode()
_ESCAPE = ESCAPE.encode()
_SPELT = re.compile(b"".join(rb"(?:%c|\\u00%02x)" % (char, char) for char in _MARKER), re.IGNORECASE)
_LONGEST = len(_MARKER) * 6 * 4
"""Bytes of the marker in its longest spelling: every character escaped, in UTF-32."""
_CHARACTER = re.compile(rb"\\u00([0-9a-f]{2})|(\\(?:u0{0,2}[0-9a-f]?)?\Z)|.", re.IGNORECASE | re.DOTALL)
"""A character of the marker in any spelling; at the end, an escape that may be cut."""

_BOMS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


class UnreadableError(ValueError):
    """A body names the extension and cannot be read, so the extension cannot be removed."""


def may_hold_extension(body: bytes) -> bool:
    """Whether the body must be read; a cheap test that never wrongly returns False."""
    return _MARKER in body or _ESCAPE in body or 0 in body[:4]


def names_extension(data: bytes) -> bool:
    """Whether `data` names the extension anywhere, in any spelling or encoding of JSON."""
    if b"\0" in data:  # UTF-16 and UTF-32 have ASCII between zeros
        data = data.replace(b"\0", b"")
    return _MARKER in data or (_ESCAPE in data and _SPELT.search(data) is not None)


class UnreadBodyFilter:
    """Passes a body that cannot be read until it names the extension. Bytes that may begin the name are held back."""

    def __init__(self) -> None:
        self._held = b""

    def feed(self, chunk: bytes) -> bytes:
        """The bytes that may pass. Raises UnreadableError where the body names the extension."""
        data = self._held + chunk
        if names_extension(data):
            raise UnreadableError("it names the extension, and is no JSON, or too large to be read")
        border = _beginning_of_name(data)
        self._held = data[border:]
        return data[:border]

    def rest(self) -> bytes:
        """Take what is held back: nothing follows that could complete a name."""
        held, self._held = self._held, b""
        return held


def _beginning_of_name(data: bytes) -> int:
    """Where the end of `data` may begin the name of the extension; its length where it does not."""
    start = max(0, len(data) - _LONGEST)
    end = data[start:].lower()
    if b"\\" not in end and b"\0" not in end:  # the usual case, a tenth of the time
        return len(data) - next((size for size in range(len(_MARKER), 0, -1) if end.endswith(_MARKER[:size])), 0)
    places = [start + place for place, byte in enumerate(data[start:]) if byte]  # UTF-16 and UTF-32 have zeros between
    found = list(_CHARACTER.finditer(bytes(data[place] for place in places)))[-len(_MARKER) :]
    cut = places[found.pop().start()] if found and found[-1][2] else len(data)
    spelt = b"".join(bytes.fromhex(one[1].decode()) if one[1] else one[0] for one in found)
    for number, one in enumerate(found):
        if _MARKER.startswith(spelt[number:].lower()):
            return places[one.start()]
    return cut


def decoded_once(body: bytes) -> Any:
    """The decoded body for both `strip` and capture; None where only one of them, or neither, will decode it."""
    if not may_hold_extension(body) or may_have_too_many_values(body):
        return None
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return None


def strip(body: bytes, keep_task: KeepTask, payload: Any = None) -> bytes:
    """`body` (JSON of an A2A response) without the extension; the same object where nothing is removed.

    `keep_task` returns whether the client asked for the extension in an earlier request about this task (its id), so
    that the task's calls stay; None: no task's calls stay. `payload` is the decoded body, where the caller has it. A
    body that is not JSON, or has too many values to be parsed, is returned as it is. Raises UnreadableError where such
    a body names the extension, unless it consists of several JSON objects.
    """
    if payload is None and not may_hold_extension(body):
        return body
    try:
        stripped = _stripped(body, keep_task, None, payload)
    except UnreadableError:
        splitter = JsonSplitter(len(body))
        parts = splitter.feed(body)
        if splitter.size or len(parts) == 1:
            raise
        return b"".join(strip(part.raw, keep_task) if part.is_object else _checked(part.raw) for part in parts)
    return body if stripped is None else stripped


def _checked(text: bytes) -> bytes:
    """`text`, which is no JSON. Raises UnreadableError where it names the extension."""
    if names_extension(text):
        raise UnreadableError("it names the extension, and is not JSON")
    return text


def strip_event(data: bytes, keep_task: KeepTask, withheld: set[str], payload: Any = None) -> bytes | None:
    """As `strip`, for one event of a stream; None for an event that exists for its tool calls alone.

    `withheld` holds the ids of the artifacts of this stream that the client has not received, and is updated: the
    first event of such an artifact that passes begins the artifact.
    """
    if not withheld and not may_hold_extension(data):
        return data
    return _stripped(data, keep_task, withheld, payload)


def _stripped(body: bytes, keep_task: KeepTask, withheld: set[str] | None, payload: Any) -> bytes | None:
    if payload is not None and keep_task is None and not withheld:
        cut = cut_usual(body, payload)  # 30 us less than scanning an answer of 1.5 KB
        if cut is not None:
            return cut
    try:
        if has_too_many_values(body):
            raise ValueError("too many values to be read")
        codec = _codec(body)
        # JavaScript clients read on after invalid bytes.
        errors = "surrogateescape" if codec == "utf-8" else "surrogatepass"
        text = body.decode(codec, errors)
        scanner = ExtensionScanner(text, keep_task, withheld)
        scanner.scan()
    except (ValueError, StopIteration, IndexError):
        if names_extension(body):
            raise UnreadableError("it names the extension, and is not JSON or has too many values") from None
        return body
    if scanner.dropped:
        return None
    if not scanner.edits:
        return body
    kept: list[str] = []
    position = 0
    for start, end, replacement in sorted(scanner.edits):
        kept += (text[position:start], replacement)
        position = end
    kept.append(text[position:])
    return "".join(kept).encode(codec, errors)


def _codec(body: bytes) -> str:
    """The encoding of JSON text; a byte-order mark stays part of the text."""
    if body[:4].isascii() and 0 not in body[:4]:
        return "utf-8"
    named = next((codec for bom, codec in _BOMS if body.startswith(bom)), None)
    return named or json.detect_encoding(body).removesuffix("-sig")
