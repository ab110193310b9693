"""Takes the extension out of decoded JSON: what a client gets that did not ask for it. Pure.

The proxy does this with bodies, events and the Structs of gRPC messages, an agent with its own responses. Wherever the
extension is named, it goes: a member whose name is one of its keys, at any depth; its URI in a list of `extensions`;
`metadata` and `extensions` that held nothing else; artifacts, messages and parts that exist for their calls alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum, auto
from typing import Any

from .json_limits import WALKED
from .spec import BASE_URI, is_capture_uri

MARKER = b"tool-call-capture"
"""Part of the extension's URI in every version."""

EXTENSIONS = "extensions"
"""Member that lists URIs."""

METADATA = "metadata"
"""Member that maps names to values. Names of the extension begin with its URI (`spec.is_capture_uri`)."""

ENTRY_LISTS = frozenset({"artifacts", "history", "parts", "content"})
"""Members whose entries may exist only for their tool calls."""

PARTS = frozenset({"parts", "content"})
"""Those of them that are never left empty: a message must have parts."""

_LEFT_OUT = (METADATA, EXTENSIONS, *ENTRY_LISTS - PARTS)
"""Members that go when nothing is left in them."""

_LABELS = frozenset(
    {
        "artifactId",
        "artifact_id",
        "messageId",
        "message_id",
        "taskId",
        "task_id",
        "contextId",
        "context_id",
        "name",
        "description",
        "role",
        "kind",
        "type",
        "mediaType",
        "media_type",
        "mimeType",
    }
)
"""Members that identify an entry and are not content."""

_DEFAULTS = ("name", "description", "filename", "mediaType")
"""Members that are an empty text only where a serializer writes what is not set."""

_GONE: Any = object()
_LOOKED_AT = frozenset({dict, list, float})
"""Types of values in which something may be named, or which may be rounded."""
_TASK_IDS = ("id", "taskId", "task_id")
_UPDATES = ("artifactUpdate", "artifact_update")
_ESCAPE = b"\\u00"
"""How a serializer may begin the escape of an ASCII character."""
_SPELT = re.compile(b"".join(rb"(?:%c|\\u00%02x)" % (char, char) for char in MARKER), re.IGNORECASE)

KeepTask = Callable[[str], bool] | None
"""Whether a client asked for the extension in an earlier request about this task (its id), so that the task's calls
stay; None: no task's calls stay."""


def names_extension(data: bytes) -> bool:
    """Whether `data` names the extension anywhere, in any spelling or encoding of JSON."""
    if b"\0" in data:  # UTF-16 and UTF-32 have ASCII between zeros
        data = data.replace(b"\0", b"")
    return MARKER in data or (_ESCAPE in data and _SPELT.search(data) is not None)


def holds_nothing(entry: Any) -> bool:
    """Whether an artifact, message or part (JSON object) has no content: only empty parts and no other metadata."""
    if not isinstance(entry, dict):
        return False
    for key, value in entry.items():
        if (key == METADATA and isinstance(value, dict)) or (key == EXTENSIONS and isinstance(value, list)):
            empty = all(map(is_capture_uri, value))
        elif key in PARTS and isinstance(value, list):
            empty = all(map(holds_nothing, value))
        else:
            empty = key in _LABELS or value is None or value in ("", [], {})
        if not empty:
            return False
    return True


class Shown(Enum):
    """What becomes of an artifact update, without the extension."""

    WHOLE = auto()
    AS_FIRST = auto()
    """It is the first that the client gets of its artifact: it appends to nothing."""
    NOT = auto()


class ExtensionFilter:
    """Filters one JSON value. It is never changed: the result shares what stays."""

    def __init__(self, keep_task: KeepTask = None, withheld: set[str] | None = None) -> None:
        """`withheld`: of a stream, the ids of artifacts that the client has not received; it is updated."""
        self._keep_task = keep_task
        self._withheld = set[str]() if withheld is None else withheld
        self.calls = 0
        """How many lists of calls were taken out."""
        self.may_be_rounded = False
        """Whether there is a float so large that a decoder may have made it of an integer."""

    def value(self, value: Any, *, kept: bool = False, name: str = "") -> Any:
        """The value without the extension; the same object where it is not named. Raises ValueError if it nests too
        deeply to be read.

        `kept`: it belongs to a task whose calls stay. `name`: of the member that has it.
        """
        return self._shown(value, kept, name, WALKED) if type(value) in _LOOKED_AT else value

    def _shown(self, value: Any, kept: bool, name: str, depth: int) -> Any:
        """`value`, for a value of one of the types `_LOOKED_AT`, down to `depth` levels."""
        if type(value) is float:
            self.may_be_rounded = self.may_be_rounded or abs(value) >= 2**63
            return value
        if not depth:
            raise ValueError(f"it nests deeper than {WALKED} levels")
        if type(value) is list:
            return self._list(value, kept, name, depth - 1)
        if self._keep_task is not None:
            kept = self.keeps(value, kept=kept)
        shown: dict[str, Any] | None = None
        for key, item in value.items():
            kind, left = type(item), item
            if key.startswith(BASE_URI) and is_capture_uri(key):
                if kept:
                    continue
                self.calls += kind is list and bool(item)
                left = _GONE
            elif kind in _LOOKED_AT:
                left = self._shown(item, kept, key, depth - 1)
            if left is item:
                continue
            shown = dict(value) if shown is None else shown
            is_empty = left is _GONE or (not left and key in _LEFT_OUT)
            if is_empty and not (kind is list and left == [] and _prints_defaults(value, item)):
                del shown[key]
            else:
                shown[key] = left
        return value if shown is None else shown

    def _list(self, items: list[Any], kept: bool, name: str, below: int) -> list[Any]:
        shown: list[Any] = []
        own: list[Any] = []
        same = True
        for item in items:
            if name == EXTENSIONS and not kept and is_capture_uri(item):
                same = False
                continue
            before = self.calls
            left = self._shown(item, kept, "", below) if type(item) in _LOOKED_AT else item
            same = same and left is item
            if self.calls > before and name in ENTRY_LISTS and holds_nothing(left):
                own.append(left)
            else:
                shown.append(left)
        if not shown and name in PARTS:
            return own or items
        if name == "artifacts":
            self._withheld.update(map(artifact_id, own))
        return items if same else shown

    def keeps(self, value: dict[str, Any], *, kept: bool) -> bool:
        """Whether the calls in an object stay: the id of its task decides. An envelope's id is of no task."""
        if self._keep_task is None or "jsonrpc" in value:
            return False
        ids = (task_id for name in _TASK_IDS if (task_id := value.get(name)) and isinstance(task_id, str))
        task_id = next(ids, "")
        return self._keep_task(task_id) if task_id else kept

    def event(self, payload: Any) -> Any:
        """As `value`, for an event of a stream, or a notification; None for one that exists for its calls alone."""
        shown = self.value(payload)
        path = _path_of_update(payload)
        if path is None or self.keeps(update := _at(payload, path), kept=False):
            return shown
        artifact = _at(shown, path)["artifact"]
        is_empty = holds_nothing(artifact)
        outcome = shown_update(
            self._withheld,
            artifact_id(artifact),
            is_empty=is_empty,
            has_calls=is_empty and self.calls > 0 and _has_calls(update["artifact"]),
            appends=update.get("append") is True,
            ends=update.get("lastChunk") is True or update.get("last_chunk") is True,
        )
        if outcome is Shown.AS_FIRST:
            shown = inner = dict(shown)
            for name in path:
                inner[name] = inner = dict(inner[name])
            del inner["append"]
        return None if outcome is Shown.NOT else shown


def _prints_defaults(holder: dict[str, Any], items: list[Any]) -> bool:
    """Whether the serializer of `items`, a member of this holder, writes what is not set, too, as an agent does that
    answers one who never asked."""
    entries: list[Any] = [holder, *items]
    for entry in entries:  # which grow
        if isinstance(entry, dict):
            if "" in map(entry.get, _DEFAULTS):
                return True
            entries += parts if isinstance(parts := entry.get("parts"), list) else ()
    return False


def shown_update(
    withheld: set[str], artifact: str, *, is_empty: bool, has_calls: bool, appends: bool, ends: bool
) -> Shown:
    """What a client gets of a chunk of an artifact (its id), from which the extension was taken out.

    `withheld`: the ids of artifacts that it has not received; it is updated. `is_empty`: nothing is left of the chunk;
    `has_calls`: it had calls. `ends`: the chunk is the last one.
    """
    exists_for_calls = is_empty and has_calls
    if artifact not in withheld:
        if exists_for_calls and not appends:
            withheld.add(artifact)
        # The last chunk tells the client that its artifact is complete.
        return Shown.NOT if exists_for_calls and not (appends and ends) else Shown.WHOLE
    if exists_for_calls or (appends and is_empty):
        return Shown.NOT
    withheld.discard(artifact)
    return Shown.AS_FIRST if appends else Shown.WHOLE


def _path_of_update(payload: Any) -> list[str] | None:
    """The names that lead to the artifact update in an event; None where it has none."""
    path: list[str] = []
    value = payload
    for names in (("result",), _UPDATES):
        for name in names:
            if isinstance(value, dict) and isinstance(value.get(name), dict):
                path.append(name)
                value = value[name]
    return path if isinstance(value, dict) and isinstance(value.get("artifact"), dict) else None


def _at(value: Any, path: list[str]) -> Any:
    for name in path:
        value = value[name]
    return value


def _has_calls(artifact: Any) -> bool:
    search = ExtensionFilter()
    search.value(artifact)
    return search.calls > 0


def artifact_id(artifact: dict[str, Any]) -> str:
    return str(artifact.get("artifactId") or artifact.get("artifact_id") or "")
