"""Finds the parts of a JSON response that belong to the extension, and what must be removed with them. Pure."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from a2a_tool_capture.extension_positions import (
    ENTRY_LISTS,
    EXTENSIONS,
    METADATA,
    exists_for_calls,
    holds_nothing,
    leads_on,
)
from a2a_tool_capture.spec import is_capture_uri

from .json_elements import SPACE, Edit, Element, after_space, cut, read_array, read_object, read_value

MARKER = "tool-call-capture"
"""Part of the extension's URI in every version."""

ESCAPE = "\\u00"
"""How a serializer may begin the escape of an ASCII character: text with it may spell the marker in another way."""

_USUAL = frozenset({"result", "task", "tasks", "artifactUpdate", "artifact_update", "artifact", "artifacts"})
"""Of `HOLDERS`, those that usually have calls inside: they are not decoded whole first."""
_NONE = sys.maxsize
_TASK_IDS = frozenset({"id", "taskId", "task_id"})
_MAX_DEPTH = 12
"""Of such objects inside each other; no response of A2A has more than seven."""

# Proto fields that a serializer prints as "" only when it prints defaults; such a body keeps an emptied list as [].
_DEFAULTS = frozenset({"name", "description", "filename", "mediaType"})
_AFTER = {"artifacts": ("history",), "extensions": ("referenceTaskIds",)}
"""Lists that follow an emptied one where defaults come last, if they are empty too."""


KeepTask = Callable[[str], bool] | None


class ExtensionScanner:
    """Descends into the few members that can hold the extension; C code reads all others."""

    def __init__(self, text: str, keep_task: KeepTask, withheld: set[str] | None) -> None:
        """`keep_task` and `withheld` are those of `extension_filter.strip_event`; `withheld` is None for no event."""
        self.text = text
        self.keep_task = keep_task
        self.withheld = withheld
        self.edits: list[Edit] = []
        self.dropped = False
        """Whether the document, an event, is removed as a whole."""
        self.in_error = False
        self._depth = 0
        self._names = (MARKER, ESCAPE) if ESCAPE in text else (MARKER,)
        self.next_name = 0
        """Where the text may name the extension next, from the last `find_name` on; `_NONE`: nowhere."""

    def scan(self) -> None:
        """Collect the edits of the whole document. Raises as the functions of `json_elements`."""
        text = self.text
        start = after_space(text, text.startswith("\ufeff"))
        end = self.object_or_array(start, self.edits)
        rest = text[end:]
        if rest and rest.strip(SPACE + "\0"):
            raise ValueError(f"something follows the document at {end}")

    def find_name(self, at: int) -> None:
        """Set `next_name` for the text from `at` on."""
        self.next_name = _NONE
        for name in self._names:
            found = self.text.find(name, at)
            if 0 <= found < self.next_name:
                self.next_name = found

    def object_or_array(self, at: int, edits: list[Edit]) -> int:
        """As `object`, also for an array of objects."""
        if self.text[at] == "[":
            return read_array(self.text, at, lambda item: (None, self.object(item, edits)))[1]
        return self.object(at, edits)

    def object(self, at: int, edits: list[Edit]) -> int:
        """Read a value that may hold the extension, and add what is removed from it to `edits`; returns its end.

        The task id of an object decides for everything inside the object.
        """
        text = self.text
        if text[at] != "{" or self._depth == _MAX_DEPTH:
            return read_value(text, at)[1]
        self._depth += 1
        holder = _Holder(self)
        members, end = read_object(text, at, holder.read)
        self._depth -= 1
        if holder.edits or holder.emptied or holder.update is not None:
            task_id = ""
            for _, value_end, key, value in members:
                if key in _TASK_IDS and text[value_end - 1] == '"':
                    task_id = value
            if not task_id or self.keep_task is None or not self.keep_task(task_id):
                holder.finish(members)
                target = self.edits if task_id else edits
                target += holder.edits
        return end


class _Holder:
    """What is removed inside of one object, collected while its members are read, then from the object itself."""

    __slots__ = ("_removed_entries", "_scanner", "edits", "emptied", "update")

    def __init__(self, scanner: ExtensionScanner) -> None:
        self._scanner = scanner
        self.edits: list[Edit] = []
        self.emptied: dict[int, int] = {}
        """Ends and starts of the objects and arrays that are left with no element."""
        self.update: tuple[Any, bool] | None = None
        """The artifact of an artifact update, and whether it exists for its calls alone."""
        self._removed_entries: dict[int, list[Any]] = {}
        """The entries that are removed whole, by the end of their list."""

    def read(self, key: str, at: int) -> tuple[Any, int]:
        """Read the object or array at `at`, the value of the member `key`; None for one read member by member."""
        scanner = self._scanner
        text = scanner.text
        if scanner.next_name < at:
            scanner.find_name(at)
        value = None
        if key not in _USUAL or not (scanner.next_name < _NONE or scanner.withheld):
            value, end = read_value(text, at)
            if scanner.next_name >= end:
                return value, end
        opening = text[at]
        if (key == METADATA and opening == "{") or (key == EXTENSIONS and opening == "["):
            self._own_elements(at, value, end)
            return value, end
        if key == "result":
            return value, scanner.object(at, scanner.edits)
        if key == "artifact" and opening == "{":
            return value, self._artifact(at)
        if key in ENTRY_LISTS and opening == "[":
            return value, self._entries(key, at)
        if leads_on(key, in_error=scanner.in_error):
            within, scanner.in_error = scanner.in_error, scanner.in_error or key == "error"
            end = scanner.object_or_array(at, self.edits)
            scanner.in_error = within
            return value, end
        return read_value(text, at)

    def _own_elements(self, at: int, value: Any, end: int) -> None:
        """Remove the extension's members from the metadata at `at`, or its items from the extensions."""
        if value and all(map(is_capture_uri, value)):
            self.emptied[end] = at
            return
        text = self._scanner.text
        is_object = text[at] == "{"
        if is_object:
            elements, _ = read_object(text, at, lambda _, at: read_value(text, at))
        else:
            elements, _ = read_array(text, at, lambda at: read_value(text, at))
        own = {number for number, element in enumerate(elements) if is_capture_uri(element[2 if is_object else 3])}
        if own and len(own) == len(elements):
            self.emptied[end] = at
        else:
            self.edits += cut(elements, own)

    def _artifact(self, at: int) -> int:
        """Read the artifact of an artifact update."""
        scanner = self._scanner
        own: list[Edit] = []
        end = scanner.object(at, own)
        if own or scanner.withheld:
            artifact = read_value(scanner.text, at)[0]
            self.update = artifact, bool(own) and exists_for_calls(artifact)
        self.edits += own
        return end

    def _entries(self, key: str, at: int) -> int:
        """Read the list at `at`, and remove the entries that exist for their calls alone."""
        scanner = self._scanner
        removed: dict[int, tuple[Any, list[Edit]]] = {}
        """Each such entry and the edits inside the entry, by its start."""

        def read_entry(at: int) -> tuple[None, int]:
            own: list[Edit] = []
            decided = len(scanner.edits)
            end = scanner.object(at, own)
            if own or len(scanner.edits) > decided:
                entry = read_value(scanner.text, at)[0]
                if exists_for_calls(entry):
                    removed[at] = entry, own + scanner.edits[decided:]
                    del scanner.edits[decided:]
                    return None, end
            self.edits += own
            return None, end

        items, end = read_array(scanner.text, at, read_entry)
        if not removed:
            return end
        entries = [entry for entry, _ in removed.values()]
        if len(removed) < len(items):
            self.edits += cut(items, {number for number, item in enumerate(items) if item[0] in removed})
        elif key in ("artifacts", "history"):
            self.emptied[end] = at
        else:  # a message must have parts
            self.edits += [edit for _, own in removed.values() for edit in own]
            return end
        if key == "artifacts" and scanner.withheld is not None:
            scanner.withheld.update(map(_artifact_id, entries))
        self._removed_entries[end] = entries
        return end

    def finish(self, members: list[Element]) -> None:
        """Add to `edits` what is removed from the object itself, whose members these are, and what replaces it."""
        removed = set() if self.update is None else self._update_removals(members)
        if self.emptied:
            defaults = self._default_positions(members)
            kept = []
            for position, (_, end, key, _) in enumerate(members):
                if end in self.emptied:
                    if defaults and key != METADATA:
                        kept.append(position)
                    else:
                        removed.add(position)
            for position in kept:
                self._keep_empty(position, members, removed, defaults)
        if removed:
            self.edits += cut(members, removed)

    def _update_removals(self, members: list[Element]) -> set[int]:
        """Decide whether an artifact update is shown. Returns positions of members that are removed: of `append`."""
        scanner = self._scanner
        withheld = scanner.withheld
        if self.update is None or withheld is None:
            return set()
        artifact, exists_for_calls = self.update
        artifact_id = _artifact_id(artifact)
        flags = {key for _, _, key, value in members if value is True}
        appends = "append" in flags
        if artifact_id not in withheld:
            if exists_for_calls and not appends:
                withheld.add(artifact_id)
            # The last chunk tells the client that its artifact is complete.
            ends = not flags.isdisjoint(("lastChunk", "last_chunk"))
            scanner.dropped = exists_for_calls and not (appends and ends)
        elif exists_for_calls or (appends and holds_nothing(artifact)):
            scanner.dropped = True
        else:
            withheld.discard(artifact_id)
            return {[key for _, _, key, _ in members].index("append")} if appends else set()
        return set()

    def _default_positions(self, members: list[Element]) -> list[int]:
        """The positions of members that only a serializer prints that prints defaults."""
        if '""' not in self._scanner.text[members[0][0] : members[-1][1]]:
            return []
        return [
            position
            for position, (_, end, key, value) in enumerate(members)
            if (key in _DEFAULTS and value == "")
            or (key == "parts" and isinstance(value, list) and any(map(_prints_defaults, value)))
            or any(map(_prints_defaults, self._removed_entries.get(end, ())))
        ]

    def _keep_empty(self, position: int, members: list[Element], removed: set[int], defaults: list[int]) -> None:
        """Keep the list at `position` as an empty one: where it stands, or behind the members that are left.

        Some serializers print defaults in the order of the fields, others after the fields that are set.
        """
        start, end, key, _ = members[position]
        entries = [entry for entries in self._removed_entries.values() for entry in entries]
        if max(defaults) > position or any(map(_prints_defaults_last, entries)):
            after = _AFTER.get(key, ())
            left = [
                place
                for place, (_, _, name, value) in enumerate(members)
                if place not in removed and not (name in after and value in ([], {}))
            ]
            if left[-1] > position:
                text = self._scanner.text
                name = text[start : text.index("[", text.index(":", start + len(key)), end)]
                gap = text[members[0][1] : members[1][0]]
                removed.add(position)
                self.edits.append((members[left[-1]][1], members[left[-1]][1], f"{gap}{name}[]"))
                return
        self.edits.append((self.emptied[end] + 1, end - 1, ""))


def _artifact_id(artifact: Any) -> str:
    if not isinstance(artifact, dict):  # nested too deeply to be read
        return ""
    return str(artifact.get("artifactId") or artifact.get("artifact_id") or "")


def _prints_defaults(entry: Any) -> bool:
    if not isinstance(entry, dict):
        return False
    return any(entry.get(key) == "" for key in _DEFAULTS) or any(map(_prints_defaults, entry.get("parts") or ()))


def _prints_defaults_last(entry: dict[str, Any]) -> bool:
    keys = list(entry)
    defaults = [place for place, key in enumerate(keys) if key in _DEFAULTS and entry[key] == ""]
    return METADATA in keys and bool(defaults) and max(defaults) > keys.index(METADATA)
