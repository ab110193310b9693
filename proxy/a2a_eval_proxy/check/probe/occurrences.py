"""Finds every occurrence of the extension in a JSON value of an answer. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

from a2a_tool_capture import METADATA_KEY, URI, extension_places
from a2a_tool_capture.spec import is_capture_uri


class Kind(Enum):
    CALLS = "tool calls of version 1 on an artifact"
    LISTED = "a URI of the extension in an artifact's `extensions`"
    OTHER_KEY = "another metadata key of the extension on an artifact"
    LISTED_ELSEWHERE = "a URI of the extension in `extensions` of an object that is not an artifact"
    MISPLACED = "a metadata key of the extension outside an artifact's metadata"
    HEADER = "a URI of the extension in a response header"


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One occurrence of the extension. `name` is the URI or metadata key, `value` the value that holds it."""

    kind: Kind
    where: str
    name: str
    value: Any
    artifact: dict[str, Any] | None = None
    """The artifact that carries it."""

    @property
    def entries(self) -> list[Any]:
        """The entries of a call list on an artifact; [] for any other occurrence."""
        return self.value if self.kind is Kind.CALLS and isinstance(self.value, list) else []

    @property
    def of_v1(self) -> bool:
        return self.name == URI or self.name.startswith(f"{URI}/")


def occurrences_in(root: Any, where: str) -> Iterator[Occurrence]:
    """Yields every occurrence in a JSON value. Never raises.

    Walks depth first, without recursion. `extension_places` defines the roles; keys of the extension count everywhere.

    `owner` is the artifact that holds the current metadata or extensions.
    """
    stack: list[tuple[Any, str, str, Any]] = [(root, where, "", None)]
    while stack:
        value, path, role, owner = stack.pop()
        children: list[tuple[Any, str, str, Any]] = []
        if isinstance(value, dict):
            for key, item in value.items():
                shown = f"[{key!r}]" if is_capture_uri(key) else f".{key}" if path[-1:] not in ("", " ") else key
                if is_capture_uri(key):
                    yield Occurrence(_kind(key, role, owner), path + shown, key, item, owner)
                    continue
                inner = _role(key, role)
                if inner == extension_places.EXTENSIONS and value.get("role") in ("user", "ROLE_USER"):
                    inner = _CONTENT  # the client's message, echoed
                children.append((item, path + shown, inner, value if role == "artifact" else None))
        elif isinstance(value, list):
            if role == extension_places.EXTENSIONS:
                listed = [uri for uri in value if is_capture_uri(uri)]
                kind = Kind.LISTED_ELSEWHERE if owner is None else Kind.LISTED
                yield from (Occurrence(kind, path, uri, value, owner) for uri in listed)
            inner = "artifact" if role == "artifacts" else role
            children += [(item, f"{path}[{i}]", inner, None) for i, item in enumerate(value)]
        stack += reversed(children)


_CONTENT = "content"
"""The role of values that the protocol does not define."""


def _role(key: str, parent: str) -> str:
    if parent in (_CONTENT, extension_places.METADATA, extension_places.EXTENSIONS):
        return _CONTENT
    if key in (extension_places.METADATA, extension_places.EXTENSIONS, "artifacts", "artifact", "error"):
        return key
    if key == "data" and parent != "error":
        return _CONTENT
    return "error" if parent == "error" and extension_places.leads_on(key, in_error=True) else ""


def _kind(key: str, role: str, artifact: object) -> Kind:
    if role != extension_places.METADATA or artifact is None:
        return Kind.MISPLACED
    return Kind.CALLS if key == METADATA_KEY else Kind.OTHER_KEY
