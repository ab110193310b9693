"""Removes the extension from bodies for clients that did not ask for it. Pure.

Only a body or an event that names the extension, in any spelling, is decoded, and encoded again without it; all others
pass as they are. What is sent has equal values in the same order; of a member that is there twice, the last, which is
the one that was looked at. What is removed: `a2a_tool_capture.extension_filter`.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

import orjson
from a2a_tool_capture.extension_filter import MARKER, ExtensionFilter, KeepTask, names_extension
from a2a_tool_capture.json_limits import has_too_many_values

_LONGEST = len(MARKER) * 6 * 4
"""Bytes of the marker in its longest spelling: every character escaped, in UTF-32."""
_CHARACTER = re.compile(rb"\\u00([0-9a-f]{2})|(\\(?:u0{0,2}[0-9a-f]?)?\Z)|.", re.IGNORECASE | re.DOTALL)
"""A character of the marker in any spelling; at the end, an escape that may be cut."""


class UnreadableError(ValueError):
    """A body names the extension and cannot be read, so the extension cannot be removed."""


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
    places = [start + place for place, byte in enumerate(data[start:]) if byte]  # UTF-16 and UTF-32 have zeros between
    found = list(_CHARACTER.finditer(bytes(data[place] for place in places)))[-len(MARKER) :]
    cut = places[found.pop().start()] if found and found[-1][2] else len(data)
    spelt = b"".join(bytes.fromhex(one[1].decode()) if one[1] else one[0] for one in found)
    for number, one in enumerate(found):
        if MARKER.startswith(spelt[number:].lower()):
            return places[one.start()]
    return cut


def strip(
    body: bytes, keep_task: KeepTask, *, withheld: set[str] | None = None, exactly: bool = False
) -> tuple[bytes | None, Any]:
    """`body` (JSON of an A2A response) without the extension, the same object where it is not named; and what the body
    holds, as orjson reads it, None where it was not read so.

    `withheld`: of an event of a stream, the ids of the artifacts of this stream that the client has not received. It is
    updated: the first event of such an artifact that passes begins the artifact; an event that exists for its tool
    calls alone becomes None. `exactly`: it is read by `json`, as it has what orjson does not read, or rounds. Raises
    UnreadableError where a body names the extension, and is not JSON or has too many values; any other that cannot be
    read is returned as it is.
    """
    if not withheld and not names_extension(body):
        return body, None
    known = set(withheld or ())
    extension = ExtensionFilter(keep_task, known)
    try:
        if has_too_many_values(body):
            raise ValueError("it has too many values")
        payload = _exactly(body) if exactly else orjson.loads(body)
        shown = extension.value(payload) if withheld is None else extension.event(payload)
    except orjson.JSONDecodeError:
        return strip(body, keep_task, withheld=withheld, exactly=True)
    except (ValueError, RecursionError) as error:
        if names_extension(body):
            raise UnreadableError(f"it names the extension, and cannot be read: {error}") from None
        return body, None
    if extension.may_be_rounded and not exactly:
        return strip(body, keep_task, withheld=withheld, exactly=True)
    if withheld is not None:
        withheld.clear()
        withheld.update(known)
    if shown is None:
        written = None
    elif shown is payload and not names_extension(body):
        written = body
    elif exactly:
        written = json.dumps(shown, separators=(",", ":")).encode(json.detect_encoding(body))
    else:
        written = orjson.dumps(shown)
    return written, None if exactly else payload


def _exactly(body: bytes) -> Any:
    """JSON in any encoding, with numbers of any size, and with what lenient readers accept: control characters in
    texts, bytes that are not UTF-8, NaN. Raises ValueError, RecursionError."""
    text = body.decode(json.detect_encoding(body), "replace")
    return json.JSONDecoder(strict=False, parse_float=_double).decode(text)


def _double(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):  # `json` would not write it as a number again
        raise ValueError(f"{digits[:40]} is larger than a double")
    return number
