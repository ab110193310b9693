"""Questions of agents and the answers that their frameworks expect, by the table of `approvals`."""

from __future__ import annotations

from typing import Any

import pytest
from a2a_tool_capture import TaskMerger
from a2a_tool_capture.approvals import (
    MAX_KEPT_CHARS,
    MAX_WAITING,
    Answer,
    answer_in,
    kept_parts,
    message_words,
    waiting_calls,
)
from hypothesis import given
from hypothesis import strategies as st
from support.junk import json_values

ARGUMENTS = {"order": "A-1", "amount": 20}


def adk(mark: str) -> dict[str, Any]:
    original = {"id": "c1", "name": "refund", "args": {**ARGUMENTS, "amount": 20.0}}
    call = {"id": "q1", "name": "adk_request_confirmation", "args": {"originalFunctionCall": original}}
    return {"data": call, "metadata": {mark: "function_call"}}


DEFERRED = {"calls": [], "approvals": [{"tool_name": "refund", "args": ARGUMENTS, "tool_call_id": "c1"}]}
AS_TEXT = {"approvals": [{"tool_name": "refund", "args": '{"order": "A-1", "amount": 20}', "tool_call_id": "c1"}]}
PLAIN = {"tool": "refund", "arguments": ARGUMENTS, "id": "c1"}


def to_adk(**response: Any) -> dict[str, Any]:
    data = {"id": "q1", "name": "adk_request_confirmation", "response": response}
    return {"data": data, "metadata": {"adk_type": "function_response"}}


TABLE: list[tuple[str, dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    (
        "google-adk",
        adk("adk_type"),
        to_adk(confirmed=True),
        to_adk(confirmed=False, payload={"reason": "too much"}),
    ),
    (
        "kagent",
        adk("kagent_type"),
        {"data": {"decision_type": "approve"}},
        {"data": {"decision_type": "reject", "rejection_reason": "too much"}},
    ),
    (
        "Pydantic AI",
        {"data": {"result": DEFERRED}, "metadata": {"json_schema": {}}},
        {"data": {"approvals": {"c1": True}}},
        {"data": {"approvals": {"c1": {"kind": "tool-denied", "message": "too much"}}}},
    ),
    (
        "Pydantic AI, arguments as text",
        {"data": AS_TEXT},
        {"data": {"approvals": {"c1": True}}},
        {"data": {"approvals": {"c1": {"kind": "tool-denied", "message": "too much"}}}},
    ),
    (
        "others",
        {"data": PLAIN},
        {"data": {"approved": True, "id": "c1"}},
        {"data": {"approved": False, "reason": "too much", "id": "c1"}},
    ),
    (
        "HTTP+JSON of 0.3",
        {"kind": "data", "data": {"data": {"name": "refund", "args": ARGUMENTS}}},
        {"data": {"approved": True}},
        {"data": {"approved": False, "reason": "too much"}},
    ),
]


@pytest.mark.parametrize(
    ("question", "approval", "rejection"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE]
)
def test_a_question_is_read_and_answered(
    question: dict[str, Any], approval: dict[str, Any], rejection: dict[str, Any]
) -> None:
    waiting = waiting_calls({"parts": [{"text": "May I?"}, question]}, interrupts=True)
    assert [(call.name, call.arguments) for call in waiting] == [("refund", ARGUMENTS)]
    for answer, part in ((Answer("approve"), approval), (Answer("reject", "too much"), rejection)):
        assert answer.parts(waiting) == [part]
        assert answer_in([part]) == answer
        assert message_words({"parts": [part]}) == answer.words
    chosen = Answer("choose", 2).parts(waiting)
    if "decision_type" not in approval["data"] and "approvals" not in approval["data"]:
        assert answer_in(chosen) == Answer("choose", 2)


def test_one_of_several_is_approved_and_a_question_in_words_is_answered_in_words() -> None:
    waiting = waiting_calls({"parts": [{"data": PLAIN}, {"data": PLAIN | {"tool": "ship"}}]}, interrupts=True)
    assert len(Answer("reject").parts(waiting)) == 2
    assert Answer("approve", "ship").parts(waiting) == [{"data": {"approved": True, "id": "c1"}}]
    assert Answer("approve", "delete").parts(waiting) == Answer("approve").parts([]) == [{"text": "approve"}]
    assert Answer("reject", "too much").parts([]) == [{"text": "reject: too much"}]
    assert Answer("choose", "the blue one").parts([]) == [{"text": "the blue one"}]


def test_an_answer_of_which_it_is_unknown_for_which_calls_it_is_is_refused() -> None:
    waiting = [{"name": "ship", "id": "c1"}, {"name": "ship", "id": "c2"}]
    yes, no = {"data": {"approved": True, "id": "c1"}}, {"data": {"approved": False, "id": "c2"}}
    assert answer_in([yes, yes], waiting) == answer_in([yes], waiting[:1]) == Answer("approve")
    assert answer_in([{"data": {"approved": True}}], waiting) == Answer("approve")
    for parts in ([yes], [yes, no], [{"data": {"approvals": {"c1": True}}}]):
        with pytest.raises(ValueError, match="not answered alike"):
            answer_in(parts, waiting)


def test_what_asks_for_nothing_is_no_question() -> None:
    credential = {
        "data": {"id": "q1", "name": "adk_request_credential", "args": {}},
        "metadata": adk("adk_type")["metadata"],
    }
    for part in ({"data": {"name": "Bob"}}, {"data": {"tool": ""}}, credential, {"text": "refund"}, {"data": [1]}):
        assert waiting_calls({"parts": [part]}, interrupts=True) == []
    assert waiting_calls({"parts": [{"data": PLAIN}]}, interrupts=False) == []
    assert len(waiting_calls({"parts": [{"data": PLAIN}] * (MAX_WAITING + 1)}, interrupts=True)) == MAX_WAITING


def test_what_waits_is_that_of_the_turn() -> None:
    """Pydantic AI's own server completes the task that asks; the artifact of an earlier turn asks for nothing."""

    def task(state: str, *artifacts: dict[str, Any], **status: Any) -> dict[str, Any]:
        return {"task": {"id": "t", "status": {"state": state, **status}, "artifacts": list(artifacts)}}

    asks = {"artifactId": "a", "parts": [{"data": {"result": DEFERRED}}]}
    merger = TaskMerger()
    merger.begin_turn()
    merger.feed(task("TASK_STATE_COMPLETED", asks))
    assert [call.name for call in merger.waiting_calls] == ["refund"]
    merger.begin_turn()
    merger.feed(task("TASK_STATE_INPUT_REQUIRED", asks, message={"parts": [{"data": PLAIN | {"tool": "ship"}}]}))
    assert [call.name for call in merger.waiting_calls] == ["ship"]
    merger.feed({"statusUpdate": {"taskId": "t", "status": {"state": "TASK_STATE_WORKING"}}})
    assert merger.waiting_calls == []


def test_parts_are_kept_where_a_message_is_more_than_a_text() -> None:
    assert kept_parts({"parts": [{"kind": "text", "text": "hi"}]}) is None
    assert kept_parts({"parts": []}) is None
    old = {"kind": "file", "file": {"name": "a.txt", "mimeType": "text/plain", "bytes": "aGk="}}
    file = {"filename": "a.txt", "mediaType": "text/plain", "raw": "aGk="}
    assert kept_parts({"content": [old, {"data": {"n": 2.0}}]}) == [file, {"data": {"n": 2}}]
    assert message_words({"parts": [old, {"data": {"n": 2.0}}]}) == 'a.txt\n{"n": 2}'
    assert message_words({"parts": [{"text": "Look: "}, old]}) == "Look: "
    assert kept_parts({"parts": [{"raw": "a" * MAX_KEPT_CHARS}]}) == []


KEYS = ("name", "args", "tool", "arguments", "approvals", "response", "decision_type", "approved", "result", "data")
LIKE_DATA = st.dictionaries(st.sampled_from(KEYS), json_values)
LIKE_PARTS = st.lists(st.fixed_dictionaries({}, optional={"data": LIKE_DATA | json_values, "metadata": json_values}))


@given(LIKE_PARTS | json_values)
def test_junk_is_read(parts: Any) -> None:
    waiting_calls({"parts": parts}, interrupts=True)
    message_words({"parts": parts})
