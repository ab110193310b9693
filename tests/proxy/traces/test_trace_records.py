"""What traces say of conversation and task, and when an agent is done."""

from __future__ import annotations

from typing import Any

import pytest
from a2a_eval_proxy.traces.trace_records import Key, keys_named, root_ended
from a2a_tool_capture.spans.model import KIND_SERVER, Span
from golden.spans.building import OTHER_TRACE, TRACE, a_span
from golden.spans.fixtures import fixtures

REMOTE = "00f067aa0ba902b7"


def conversations(keys: set[Key]) -> set[str]:
    return {value for name, value in keys if name == "conversation_id"}


def test_recordings_tell_their_conversation() -> None:
    told = {one.name: one.expected.get("conversation_attributes", {}).values() for one in fixtures()}
    read = {one.name: conversations(keys_named(one.spans)) for one in fixtures()}

    assert any(told.values())
    assert not [name for name, ids in told.items() if not set().union(*ids) <= read[name]]


def test_any_span_of_a_trace_speaks_for_it() -> None:
    spans = [
        a_span(1, {"gen_ai.operation.name": "execute_tool"}, parent=2),
        a_span(2, {"gen_ai.conversation.id": "ctx-1", "a2a.task.id": "task-1"}),
    ]

    assert keys_named(spans) == {("conversation_id", "ctx-1"), ("task_id", "task-1")}


def test_several_ids_are_kept_and_the_resource_is_heard() -> None:
    resource = {"session.id": "a"}
    spans = [
        Span(TRACE, "1" * 16, attributes={"gen_ai.conversation.id": "b"}, resource=resource),
        Span(TRACE, "2" * 16, attributes={"a2a.context.id": "a", "session.id": 7}, resource=resource),
    ]

    assert conversations(keys_named(spans)) == {"7", "a", "b"}


@pytest.mark.parametrize("value", ["", "  ", None, True, ["a"], "<not specified>", 1.5])
def test_what_is_no_id_is_none(value: Any) -> None:
    assert keys_named([a_span(1, {"session.id": value})]) == set()


@pytest.mark.parametrize(
    ("spans", "ended"),
    [
        pytest.param([], False, id="nothing"),
        pytest.param([a_span(1)], True, id="a root"),
        pytest.param([a_span(1, parent=2, remote=False)], False, id="a child whose parent is late"),
        pytest.param([a_span(1, parent=REMOTE, remote=True)], True, id="below the client"),
        pytest.param(
            [a_span(1, parent=2, remote=True), a_span(2, parent=3, remote=False)], False, id="a service below"
        ),
        pytest.param([a_span(1, parent=REMOTE, kind=KIND_SERVER)], True, id="a server, unknown whether remote"),
        pytest.param([a_span(1, parent=REMOTE)], False, id="unknown whether remote"),
        pytest.param([a_span(1), a_span(2, parent=3, remote=False, trace=OTHER_TRACE)], False, id="one trace of two"),
        pytest.param([a_span(1), a_span(2, trace=OTHER_TRACE)], True, id="two traces"),
        pytest.param([a_span(1), a_span(3, parent=2, remote=False)], False, id="a root that its children outlast"),
        pytest.param([a_span(1), a_span(3, parent=2, remote=True)], True, id="a service below, its caller elsewhere"),
    ],
)
def test_the_outermost_span_is_recognised(spans: list[Span], ended: bool) -> None:
    assert root_ended(spans) is ended


def test_with_the_parent_that_was_sent_only_its_child_is_outermost() -> None:
    agent = a_span(1, parent=REMOTE, remote=True)
    sub_agent = a_span(2, parent=3, remote=True, kind=KIND_SERVER)

    assert root_ended([sub_agent], [REMOTE]) is False
    assert root_ended([sub_agent, agent], [REMOTE]) is True
    assert root_ended([a_span(4)], [REMOTE]) is True
