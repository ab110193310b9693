"""The dialects of A2A brought to one shape."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from a2a_tool_capture.wire import EVENT_KEYS, normalize_event, normalize_state, parts_text
from hypothesis import given
from support.junk import almost_events

TEXT = [{"text": "hi"}]


@pytest.mark.parametrize(
    "payload",
    [
        {"task": {"id": "t", "status": {"state": "TASK_STATE_WORKING"}}},
        {"statusUpdate": {"taskId": "t", "status": {"state": "TASK_STATE_COMPLETED"}}},
        {"artifactUpdate": {"taskId": "t", "artifact": {"artifactId": "a"}, "append": True}},
        {"message": {"messageId": "m", "role": "ROLE_AGENT", "parts": TEXT}},
    ],
)
def test_what_is_in_1_0_shape_is_not_even_copied(payload: dict[str, Any]) -> None:
    assert normalize_event(payload) is payload


@pytest.mark.parametrize(
    ("payload", "event"),
    [
        (  # 1.0: GetTask and CancelTask answer with a bare Task
            {"id": "t", "status": {"state": "TASK_STATE_WORKING"}},
            {"task": {"id": "t", "status": {"state": "TASK_STATE_WORKING"}}},
        ),
        (  # 0.3 JSON-RPC: flat, with `kind`
            {"kind": "task", "id": "t", "status": {"state": "input-required"}, "artifacts": [{"artifactId": "a"}]},
            {"task": {"id": "t", "status": {"state": "TASK_STATE_INPUT_REQUIRED"}, "artifacts": [{"artifactId": "a"}]}},
        ),
        (
            {"kind": "status-update", "taskId": "t", "final": True, "status": {"state": "canceled"}},
            {"statusUpdate": {"taskId": "t", "status": {"state": "TASK_STATE_CANCELED"}}},
        ),
        (
            {"kind": "artifact-update", "taskId": "t", "artifact": {"artifactId": "a", "parts": TEXT}, "append": True},
            {"artifactUpdate": {"taskId": "t", "artifact": {"artifactId": "a", "parts": TEXT}, "append": True}},
        ),
        (
            {"kind": "message", "messageId": "m", "role": "agent", "parts": TEXT},
            {"message": {"messageId": "m", "role": "ROLE_AGENT", "parts": TEXT}},
        ),
        (  # 0.3 HTTP+JSON: nested, parts of messages under `content`
            {"message": {"messageId": "m", "role": "ROLE_AGENT", "content": TEXT}},
            {"message": {"messageId": "m", "role": "ROLE_AGENT", "parts": TEXT}},
        ),
        (
            {"statusUpdate": {"taskId": "t", "status": {"state": "TASK_STATE_FAILED", "message": {"content": TEXT}}}},
            {"statusUpdate": {"taskId": "t", "status": {"state": "TASK_STATE_FAILED", "message": {"parts": TEXT}}}},
        ),
        (  # its proto spells the state with two Ls
            {"id": "t", "status": {"state": "TASK_STATE_CANCELLED"}},
            {"task": {"id": "t", "status": {"state": "TASK_STATE_CANCELED"}}},
        ),
        (  # ProtoJSON readers accept the proto's own field names
            {"artifact_update": {"task_id": "t", "artifact": {"artifact_id": "a"}, "last_chunk": True}},
            {"artifactUpdate": {"taskId": "t", "artifact": {"artifactId": "a"}, "lastChunk": True}},
        ),
        (
            {"task": {"id": "t", "context_id": "c", "artifacts": [{"artifact_id": "a"}, 1]}},
            {"task": {"id": "t", "contextId": "c", "artifacts": [{"artifactId": "a"}, 1]}},
        ),
        ({"message_id": "m", "parts": TEXT}, {"message": {"messageId": "m", "parts": TEXT}}),
    ],
)
def test_the_other_dialects(payload: dict[str, Any], event: dict[str, Any]) -> None:
    before = copy.deepcopy(payload)
    assert normalize_event(payload) == event
    assert payload == before


def test_names_of_our_own_are_not_read_from_the_wire() -> None:
    payload = {"task": {"id": "t"}, "\0unread": {"code": "x"}, "\0asked": 5, "more": 1}
    assert normalize_event(payload) == {"task": {"id": "t"}, "more": 1}


@pytest.mark.parametrize(
    "payload",
    [None, 1, "task", [], {}, {"kind": "task-list"}, {"task": None}, {"message": "hi"}, {"id": "t"}, {"status": {}}],
)
def test_what_is_no_event(payload: Any) -> None:
    assert normalize_event(payload) is None


@pytest.mark.parametrize(
    ("state", "normal"),
    [
        ("TASK_STATE_WORKING", "TASK_STATE_WORKING"),
        ("working", "TASK_STATE_WORKING"),
        ("auth-required", "TASK_STATE_AUTH_REQUIRED"),
        ("canceled", "TASK_STATE_CANCELED"),
        ("TASK_STATE_CANCELLED", "TASK_STATE_CANCELED"),
        ("", None),
        (None, None),
        (3, None),
        (["working"], None),
    ],
)
def test_states(state: Any, normal: str | None) -> None:
    assert normalize_state(state) == normal


@pytest.mark.parametrize(
    ("holder", "text"),
    [
        ({"parts": [{"text": "one "}, {"data": {}}, {"kind": "text", "text": "two"}]}, "one two"),
        ({"content": TEXT}, "hi"),
        ({"parts": []}, ""),
        ({"parts": [{"text": 1}]}, ""),
        ({"parts": [{"text": 1}, "x", {"text": "y"}]}, "y"),
        ({"parts": "hi"}, ""),
        ("hi", ""),
        (None, ""),
    ],
)
def test_text_of_parts(holder: Any, text: str) -> None:
    assert parts_text(holder) == text


@given(almost_events)
def test_any_json_is_normalised_or_refused(payload: Any) -> None:
    event = normalize_event(payload)
    assert event is None or any(isinstance(event.get(key), dict) for key in EVENT_KEYS)


@given(almost_events)
def test_normalising_twice_changes_nothing(payload: Any) -> None:
    event = normalize_event(payload)
    assert event is None or normalize_event(event) == event
