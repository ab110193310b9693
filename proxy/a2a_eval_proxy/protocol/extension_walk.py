"""Finds what is of the extension in the text of an answer, and what goes with it. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from a2a_tool_capture import places
from a2a_tool_capture.spec import is_capture_uri

from .json_walk import SPACE, Edit, JsonText, Span, after_space, cut, scan_string

MARKER = "tool-call-capture"
"""Part of the extension's URI in every version."""

ESCAPE = "\\u00"
"""A serializer may spell ASCII so; then only the walk can tell."""

_DIRECT = frozenset({"result", "task", "tasks", "artifactUpdate", "artifact_update", "artifact", "artifacts"})
"""Of `places.HOLDERS`, those in which calls usually are. Others are looked into where they name the extension."""
_TASK_IDS = frozenset({"id", "taskId", "task_id"})
_MAX_DEPTH = 12
"""Of such objects inside each other; no answer of A2A has more than seven."""

# Proto fields that a serializer prints as "" only when it prints defaults; such a body keeps an emptied list as [].
_DEFAULTS = frozenset({"name", "description", "filename", "mediaType"})
_AFTER = {"artifacts": ("history",), "extensions": ("referenceTaskIds",)}
"""Lists that follow an emptied one where defaults come last, if they are empty too."""


class ExtensionWalk(JsonText):
    """Goes down the few paths where the extension can be; C code skips everything beside them."""

    def __init__(self, text: str, keep_task: Callable[[str], bool], withheld: set[str] | None) -> None:
        super().__init__(text)
        self.keep_task = keep_task
        self.withheld = withheld
        self.edits: list[Edit] = []
        self.dropped = False
        """Whether the document, an event, goes as a whole."""
        self._depth = 0
        self._in_error = False
        self._last_has_text = False
        """`_Holder.has_text` of the object that was walked last."""

    def document(self) -> None:
        start = after_space(self.text, self.text.startswith("\ufeff"))
        is_batch = self.text[start] == "["
        end = self.items(start, self._whole)[-1][1] if is_batch else self._whole(start)
        if self.text[end:].strip(SPACE + "\0"):
            raise ValueError(f"something follows the document at {end}")

    def _names_extension(self, start: int, end: int) -> bool:
        find = self.text.find
        return find(MARKER, start, end) >= 0 or find(ESCAPE, start, end) >= 0

    def _whole(self, at: int) -> int:
        """A value around which no task's id is told."""
        return self._object(at, self.edits)

    def _inside(self, at: int, edits: list[Edit]) -> int:
        """An object, or an array of such."""
        if self.text[at] == "[":
            return self.items(at, lambda item: self._object(item, edits))[-1][1]
        return self._object(at, edits)

    def _object(self, at: int, edits: list[Edit]) -> int:
        """A value that may carry the extension and hold others that do; what goes is added to `edits`.

        Where it has a task's id, that decides for all that is in it.
        """
        if self.text[at] != "{" or self._depth == _MAX_DEPTH:
            return self.skip(at)
        self._depth += 1
        holder = _Holder(self)
        spans = self.members(at, holder.visit)
        own = holder.finished(spans, set() if holder.update is None else self._decided(holder))
        if not holder.task_id:
            edits += own
        elif own and not self.keep_task(holder.task_id):
            self.edits += own
        self._depth -= 1
        self._last_has_text = holder.has_text
        return spans[-1][1]

    def _decided(self, holder: _Holder) -> set[int]:
        """Decide whether an artifact update is shown. Returns positions of members that go: of `append`, or none."""
        withheld = self.withheld
        if holder.update is None or withheld is None or (holder.task_id and self.keep_task(holder.task_id)):
            return set()
        artifact, exists_for_calls = holder.update
        artifact_id = _artifact_id(artifact)
        appends = "append" in holder.flags
        if artifact_id not in withheld:
            if exists_for_calls and not appends:
                withheld.add(artifact_id)
            # The last chunk tells the client that the artifact it has is complete.
            ends = not holder.flags.isdisjoint(("lastChunk", "last_chunk"))
            self.dropped = exists_for_calls and not (appends and ends)
        elif exists_for_calls or (appends and places.holds_nothing(artifact)):
            self.dropped = True
        else:
            withheld.discard(artifact_id)
            return {holder.keys.index("append")} if appends else set()
        return set()

    def _entries(self, key: str, at: int, edits: list[Edit]) -> tuple[list[Span], set[int], list[Any]]:
        """The list at `at`: its spans, which of its entries go as a whole, and those entries."""
        found: dict[int, tuple[Any, list[Edit]]] = {}
        number = -1

        def item(at: int) -> int:
            nonlocal number
            number += 1
            own: list[Edit] = []
            decided = len(self.edits)
            end = self._object(at, own)
            if (own or len(self.edits) > decided) and not self._last_has_text:
                entry = self.value(at)[0]
                if places.exists_for_calls(entry):
                    found[number] = (entry, own + self.edits[decided:])
                    del self.edits[decided:]
                    return end
            edits.extend(own)
            return end

        spans = self.items(at, item)
        if found and len(found) == len(spans) - 1 and key not in ("artifacts", "history"):
            # a message without parts would be none
            edits += [edit for _, own in found.values() for edit in own]
            found = {}
        if key == "artifacts" and self.withheld is not None:
            self.withheld.update(_artifact_id(entry) for entry, _ in found.values())
        return spans, set(found), [entry for entry, _ in found.values()]

    def _named(self, at: int) -> tuple[list[Span], set[int]]:
        """The members of the metadata at `at`, and which of them are ours."""
        ours: list[bool] = []

        def member(name: str, at: int) -> int:
            ours.append(is_capture_uri(name))
            return self.skip(at)

        return self.members(at, member), {i for i, found in enumerate(ours) if found}

    def _listed(self, at: int) -> tuple[list[Span], set[int]]:
        """The items of the extensions at `at`, and which of them are ours."""
        ours: list[bool] = []

        def item(at: int) -> int:
            value, end = self.value(at)
            ours.append(is_capture_uri(value))
            return end

        return self.items(at, item), {i for i, found in enumerate(ours) if found}


class _Holder:
    """One object on the way: its members as they are visited, and then what of them goes."""

    __slots__ = (
        "_defaults",
        "_defaults_last",
        "_edits",
        "_empty_lists",
        "_inner",
        "_walk",
        "flags",
        "has_text",
        "keys",
        "task_id",
        "update",
    )

    def __init__(self, walk: ExtensionWalk) -> None:
        self._walk = walk
        self.keys: list[str] = []
        self.task_id = ""
        self.flags: set[str] = set()
        """Members that are true."""
        self.has_text = False
        """Whether a part holds text, so that this object does not exist for its calls alone."""
        self.update: tuple[Any, bool] | None = None
        """The artifact of an artifact update, and whether it exists for its calls alone."""
        self._edits: list[Edit] = []
        self._inner: dict[int, tuple[list[Span], set[int]]] = {}
        self._defaults: list[int] = []
        """Positions of members that only a serializer prints that prints defaults."""
        self._defaults_last = False
        """The same was seen in an entry that goes, after what is set there."""
        self._empty_lists: list[int] = []

    def visit(self, key: str, at: int) -> int:
        walk = self._walk
        position = len(self.keys)
        self.keys.append(key)
        opening = walk.text[at]
        if opening == '"':
            value, end = scan_string(walk.text, at + 1, False)
            if key in _TASK_IDS:
                self.task_id = value
            elif not value and key in _DEFAULTS:
                self._defaults.append(position)
            return end
        if opening not in "{[":
            value, end = walk.value(at)
            if value is True:
                self.flags.add(key)
            return end
        if opening == "{" and key == places.METADATA:
            found = self._inner[position] = walk._named(at)
            return found[0][-1][1]
        if opening == "[" and key == places.EXTENSIONS:
            found = self._inner[position] = walk._listed(at)
            return found[0][-1][1]
        if key in places.HOLDERS or (walk._in_error and key in places.ERROR_HOLDERS):
            return self._lead_on(key, at, position)
        value, end = walk.value(at)
        if not value:
            self._empty_lists.append(position)
        return end

    def _lead_on(self, key: str, at: int, position: int) -> int:
        walk = self._walk
        if key == "result":
            return walk._whole(at)
        if key not in _DIRECT:
            value, end = walk.value(at)
            if not value:
                self._empty_lists.append(position)
            elif key == "parts" and isinstance(value, list):
                for part in value:
                    if isinstance(part, dict):
                        self.has_text = self.has_text or bool(part.get("text"))
                        if "" in part.values() and _prints_defaults(part):
                            self._defaults.append(position)
            if not walk._names_extension(at, end):
                return end
        if key == "artifact" and walk.text[at] == "{":
            return self._artifact(at)
        if key in places.ENTRY_LISTS and walk.text[at] == "[":
            spans, gone, entries = walk._entries(key, at, self._edits)
            self._inner[position] = spans, gone
            self._defaults_last = self._defaults_last or any(map(_prints_defaults_last, entries))
            if any(map(_prints_defaults, entries)):
                self._defaults.append(position)
            return spans[-1][1]
        within, walk._in_error = walk._in_error, walk._in_error or key == "error"
        end = walk._inside(at, self._edits)
        walk._in_error = within
        return end

    def _artifact(self, at: int) -> int:
        own: list[Edit] = []
        end = self._walk._object(at, own)
        if (own and not self._walk._last_has_text) or self._walk.withheld:
            artifact = self._walk.value(at)[0]
            self.update = artifact, bool(own) and places.exists_for_calls(artifact)
        self._edits += own
        return end

    def finished(self, spans: list[Span], also: set[int]) -> list[Edit]:
        """What goes of this object, whose members are `spans`, and what comes in its place; the members `also` go."""
        out = self._edits
        if not self._inner and not also:
            return out
        emptied = also
        kept_empty = []
        for position, (inner_spans, gone) in self._inner.items():
            if gone and len(gone) < len(inner_spans) - 1:
                out += cut(inner_spans, gone)
            elif gone and (self.keys[position] == places.METADATA or not self._defaults):
                emptied.add(position)
            elif gone:
                kept_empty.append(position)
        for position in kept_empty:
            place = self._place_at_the_end(position, emptied)
            if place is None:
                opening = self._walk.text.rindex("[", 0, self._inner[position][0][0][0])
                out.append((opening + 1, self._inner[position][0][-1][1] - 1, ""))
            else:
                emptied.add(position)
                out.append(self._moved(position, place, spans))
        return out + cut(spans, emptied)

    def _place_at_the_end(self, position: int, gone: set[int]) -> int | None:
        """The member after which the list at `position` comes once it is empty; None where it stays.

        Some serializers print defaults in their fields' order, others after what is set.
        """
        if not self._defaults_last and max(self._defaults) <= position:
            return None
        after = _AFTER.get(self.keys[position], ())
        left = [
            place
            for place, key in enumerate(self.keys)
            if place not in gone and not (key in after and place in self._empty_lists)
        ]
        return left[-1] if left[-1] > position else None

    def _moved(self, position: int, place: int, spans: list[Span]) -> Edit:
        text = self._walk.text
        start, end = spans[position]
        name = text[start : text.index("[", text.index(":", start + len(self.keys[position])), end)]
        gap = text[spans[0][1] : spans[1][0]]
        return spans[place][1], spans[place][1], f"{gap}{name}[]"


def _artifact_id(artifact: Any) -> str:
    return str(artifact.get("artifactId") or artifact.get("artifact_id") or "")


def _prints_defaults(entry: Any) -> bool:
    if not isinstance(entry, dict):
        return False
    return any(entry.get(key) == "" for key in _DEFAULTS) or any(map(_prints_defaults, entry.get("parts") or ()))


def _prints_defaults_last(entry: dict[str, Any]) -> bool:
    keys = list(entry)
    defaults = [place for place, key in enumerate(keys) if key in _DEFAULTS and entry[key] == ""]
    return places.METADATA in keys and bool(defaults) and max(defaults) > keys.index(places.METADATA)
