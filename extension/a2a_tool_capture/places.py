"""Where in an answer the extension may sit, and what exists for it alone: the list that filters and checks share.

Tool calls belong into the metadata of artifacts. Agents also put them, wrongly, on whatever else has metadata; the
proxy, `check` and the request handlers of this package look at all of it. Member names are those of ProtoJSON, of the
proto fields (servers may print either) and of A2A 0.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .spec import is_capture_uri

METADATA = "metadata"
"""Member that maps names to values. Those of the extension begin with its URI (`spec.is_capture_uri`)."""

EXTENSIONS = "extensions"
"""Member that lists URIs."""

HOLDERS = frozenset(
    {
        "result",
        "error",
        "task",
        "tasks",
        "artifact",
        "artifacts",
        "artifactUpdate",
        "artifact_update",
        "statusUpdate",
        "status_update",
        "status",
        "message",
        "history",
        "parts",
        "content",
    }
)
"""Members whose value is an object, or a list of objects, with `METADATA` or `EXTENSIONS`, or with such inside."""

ERROR_HOLDERS = frozenset({"data", "details"})
"""The same inside of `error` only (JSON-RPC, google.rpc.Status): elsewhere `data` is content."""

ENTRY_LISTS = frozenset({"artifacts", "history", "parts", "content"})
"""Members whose entries may exist for their tool calls alone; see `exists_for_calls`."""

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
"""Members that say what an entry is, and nothing that its reader wants."""

_PARTS = frozenset({"parts", "content"})


def leads_on(key: str, *, in_error: bool) -> bool:
    """Whether the member `key` may hold something of the extension; `in_error` says that it is part of an `error`."""
    return key in HOLDERS or (in_error and key in ERROR_HOLDERS)


def holds_nothing(entry: Any) -> bool:
    """Whether an artifact, message or part (JSON object) has no content: no part but empty ones, no other metadata."""
    if not isinstance(entry, Mapping):
        return False
    for key, value in entry.items():
        if (key == METADATA and isinstance(value, Mapping)) or (key == EXTENSIONS and isinstance(value, list)):
            empty = all(map(is_capture_uri, value))
        elif key in _PARTS and isinstance(value, list):
            empty = all(map(holds_nothing, value))
        else:
            empty = key in _LABELS or value is None or value in ("", [], {})
        if not empty:
            return False
    return True


def carries_calls(entry: Any) -> bool:
    """Whether the metadata of an artifact, message or part (JSON object), or of a part in it, lists tool calls."""
    if not isinstance(entry, Mapping):
        return False
    metadata = entry.get(METADATA)
    if isinstance(metadata, Mapping) and any(
        is_capture_uri(name) and isinstance(value, list) and value for name, value in metadata.items()
    ):
        return True
    lists = (entry.get(key) for key in _PARTS)
    return any(carries_calls(part) for parts in lists if isinstance(parts, list) for part in parts)


def exists_for_calls(entry: Any) -> bool:
    """Whether an artifact, message or part carries tool calls and nothing else.

    An agent that nobody asks for tool calls would not send it.
    """
    return holds_nothing(entry) and carries_calls(entry)
