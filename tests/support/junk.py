"""Hypothesis strategies for JSON-shaped junk: right at first sight, wrong in the next place.

Random bytes are too weak a fuzz for parsers of JSON protocols: they stop at the first brace. What breaks readers is
JSON that has the right keys with values of the wrong type, so the keys here are those the readers look for.
"""

from __future__ import annotations

from typing import Any

from a2a_tool_capture import METADATA_KEY, URI
from hypothesis import strategies as st

KEYS = [
    "id", "name", "arguments", "result", "error", "source", "task", "message", "artifactUpdate", "statusUpdate",
    "artifact", "artifacts", "artifactId", "append", "lastChunk", "metadata", "extensions", "parts", "content", "text",
    "status", "state", "kind", "taskId", "contextId", "messageId", "role", "history", "tasks", "method", "params",
    "jsonrpc", "code", "data", "includeArtifacts", "task_id", "artifact_update", METADATA_KEY,
]  # fmt: skip

WORDS = [
    "", "a", "é☃", "completed", "input-required", "TASK_STATE_COMPLETED", "TASK_STATE_WORKING", "task", "message",
    "status-update", "artifact-update", "t1", "c1", "lookup", '{"a": 1}', "SendMessage", "message/stream", "GetTask",
    "ListTasks", "2.0", "\ud800", URI,
]  # fmt: skip

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from([0, 1, 1.0, -0.0, 2**63, 2**64 + 1, 10**30])
    | st.sampled_from(WORDS)
    | st.text(max_size=6)
)


def _containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    keys = st.sampled_from(KEYS) | st.text(max_size=3)
    return st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=5)


json_values: st.SearchStrategy[Any] = st.recursive(scalars, _containers, max_leaves=20)
"""Any JSON value; numbers include those that JSON allows and floats do not hold, texts lone surrogates."""

json_objects: st.SearchStrategy[dict[str, Any]] = st.dictionaries(
    st.sampled_from(KEYS) | st.text(max_size=3), json_values, max_size=6
)

plain_json: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
"""JSON without NaN and infinities: equal values are equal texts and back."""


def optional(fields: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    """Objects with any of these fields, each of its own kind or, sometimes, junk."""
    return st.fixed_dictionaries({}, optional={key: kind | json_values for key, kind in fields.items()})


_states = st.sampled_from(["TASK_STATE_WORKING", "TASK_STATE_COMPLETED", "TASK_STATE_INPUT_REQUIRED", "completed"])
_calls = st.lists(
    optional({"id": st.sampled_from(["", "1", "2"]), "name": st.sampled_from(["a", "b"]), "arguments": json_objects}),
    max_size=3,
)
_parts = st.lists(optional({"text": st.text(max_size=3)}), max_size=2)
_messages = optional({"messageId": st.just("m"), "taskId": st.just("t1"), "contextId": st.just("c"), "parts": _parts})
_artifacts = optional(
    {
        "artifactId": st.sampled_from(["a", "b"]),
        "parts": _parts,
        "metadata": st.fixed_dictionaries({METADATA_KEY: _calls | json_values}),
        "extensions": st.just([URI]),
    }
)
_statuses = optional({"state": _states, "message": _messages})
_tasks = optional(
    {"id": st.just("t1"), "contextId": st.just("c"), "status": _statuses, "artifacts": st.lists(_artifacts, max_size=2)}
)

almost_events: st.SearchStrategy[Any] = (
    st.fixed_dictionaries({"task": _tasks | json_values})
    | st.fixed_dictionaries({"message": _messages | json_values})
    | st.fixed_dictionaries({"statusUpdate": optional({"taskId": st.just("t1"), "status": _statuses}) | json_values})
    | st.fixed_dictionaries(
        {
            "artifactUpdate": optional({"taskId": st.just("t1"), "artifact": _artifacts, "append": st.booleans()})
            | json_values
        }
    )
    | _tasks
    | json_values
)
"""A2A events that may be wrong in any place."""
