"""Where the extension may appear in a response, shared by filters and checks.

Tool calls belong in the metadata of artifacts. Some agents wrongly put them on other objects with metadata; the proxy,
`check` and the request handlers of this package inspect all of these. Member names are those of ProtoJSON, of the
proto fields (servers may print either) and of A2A 0.3.
"""

from __future__ import annotations

from typing import Any

from .spec import is_capture_uri

METADATA = "metadata"
"""Member that maps names to values. Names of the extension begin with its URI (`spec.is_capture_uri`)."""

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
        "timeline",
        "parts",
        "content",
    }
)
"""Members whose value is, contains or lists objects with `METADATA` or `EXTENSIONS`."""

ERROR_HOLDERS = frozenset({"data", "details"})
"""Further such members inside `error` (JSON-RPC, google.rpc.Status); elsewhere `data` is content."""

ENTRY_LISTS = frozenset({"artifacts", "history", "parts", "content"})
"""Members whose entries may exist only for their tool calls; see `exists_for_calls`."""

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

_PARTS = frozenset({"parts", "content"})


def leads_on(key: str, *, in_error: bool) -> bool:
    """Whether the member `key` may contain the extension; `in_error`: it is inside an `error`."""
    return key in HOLDERS or (in_error and key in ERROR_HOLDERS)


def holds_nothing(entry: Any) -> bool:
    """Whether an artifact, message or part (JSON object) has no content: only empty parts and no other metadata."""
    if not isinstance(entry, dict):
        return False
    for key, value in entry.items():
        if (key == METADATA and isinstance(value, dict)) or (key == EXTENSIONS and isinstance(value, list)):
            empty = all(map(is_capture_uri, value))
        elif key in _PARTS and isinstance(value, list):
            empty = all(map(holds_nothing, value))
        else:
            empty = key in _LABELS or value is None or value in ("", [], {})
        if not empty:
            return False
    return True


def carries_calls(entry: Any) -> bool:
    """Whether the metadata of an artifact, message or part (JSON object), or of its parts, lists tool calls."""
    if not isinstance(entry, dict):
        return False
    metadata = entry.get(METADATA)
    if isinstance(metadata, dict) and any(
        is_capture_uri(name) and isinstance(value, list) and value for name, value in metadata.items()
    ):
        return True
    lists = (entry.get(key) for key in _PARTS)
    return any(carries_calls(part) for parts in lists if isinstance(parts, list) for part in parts)


def exists_for_calls(entry: Any) -> bool:
    """Whether an artifact, message or part carries only tool calls, and would not be sent without the extension."""
    return holds_nothing(entry) and carries_calls(entry)
