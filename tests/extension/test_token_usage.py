"""Tokens that agents on google-adk and kagent state on the wire: the sum of a task, or each call of a model."""

from __future__ import annotations

from typing import Any

import pytest
from a2a.types import Artifact, Message, Part, Role, Task, TaskArtifactUpdateEvent, TaskState, TaskStatus
from a2a.types import TaskStatusUpdateEvent as StatusUpdate
from a2a_tool_capture.merge import ContinuedMerger
from a2a_tool_capture.token_usage import MAX_STATEMENTS
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.struct_pb2 import Struct
from hypothesis import example, given
from hypothesis import strategies as st
from support.junk import almost_events
from support.merging import TURN, merged

STATES = {
    "working": TaskState.TASK_STATE_WORKING,
    "asks": TaskState.TASK_STATE_INPUT_REQUIRED,
    "completed": TaskState.TASK_STATE_COMPLETED,
    "failed": TaskState.TASK_STATE_FAILED,
}


def struct(metadata: dict[str, Any] | None) -> Struct:
    return ParseDict(metadata or {}, Struct())


def status(state: str = "working", metadata: Any = None, message: Any = None, message_id: str = "m") -> dict[str, Any]:
    said = Message(message_id=message_id, role=Role.ROLE_AGENT, metadata=struct(message), parts=[Part(text="…")])
    task_status = TaskStatus(state=STATES[state], message=said if message is not None else None)
    update = StatusUpdate(task_id="t", context_id="c", status=task_status, metadata=struct(metadata))
    return {"statusUpdate": MessageToDict(update)}


def chunk(artifact_id: str, metadata: Any, *, append: bool = False, part: Any = None) -> dict[str, Any]:
    artifact = Artifact(
        artifact_id=artifact_id, parts=[Part(text="…", metadata=struct(part))], metadata=struct(metadata)
    )
    return {"artifactUpdate": MessageToDict(TaskArtifactUpdateEvent(task_id="t", artifact=artifact, append=append))}


def task(metadata: Any = None, *artifacts: tuple[str, Any], history: tuple[Any, ...] = ()) -> dict[str, Any]:
    whole = Task(
        id="t",
        context_id="c",
        status=TaskStatus(state=STATES["completed"]),
        metadata=struct(metadata),
        artifacts=[Artifact(artifact_id=name, metadata=struct(own), parts=[Part(text="x")]) for name, own in artifacts],
        history=[Message(message_id="h", role=Role.ROLE_AGENT, metadata=struct(own)) for own in history],
    )
    return {"task": MessageToDict(whole)}


def tokens(read: int, wrote: int, **more: Any) -> dict[str, Any]:
    return {"promptTokenCount": read, "candidatesTokenCount": wrote, "totalTokenCount": read + wrote, **more}


def total(read: int, wrote: int, **more: Any) -> dict[str, Any]:
    return {"kagent_usage_total": tokens(read, wrote, modelVersion="gpt-4o-2024-11-20", **more)}


def adk(read: int, wrote: int, event: str = "", **more: Any) -> dict[str, Any]:
    return {"adk_usage_metadata": tokens(read, wrote), **({"adk_event_id": event} if event else {}), **more}


def usage(*events: dict[str, Any]) -> Any:
    return merged(*events).usage


def amounts(found: Any) -> tuple[int, int, int, str] | None:
    return found and (found["input_tokens"], found["output_tokens"], found["total_tokens"], found["source"])


@pytest.mark.parametrize(
    "events",
    [
        [status("completed", total(300, 50))],
        [status("asks", total(100, 20)), status("completed", total(300, 50))],  # the latest, never the sum
        [status("working", adk(300, 50)), status("completed", total(300, 50))],
        [status("completed", total(300, 50)), task(total(300, 50))],
        [task(total(300, 50))],
        [status("failed", total(300, 50))],
        [status("completed", message=total(300, 50))],
    ],
)
def test_the_sum_of_a_task_is_its_latest(events: list[dict[str, Any]]) -> None:
    found = usage(*events)
    assert amounts(found) == (300, 50, 350, "kagent_usage_total")
    assert found["models"] == {"gpt-4o-2024-11-20": {"input_tokens": 300, "output_tokens": 50, "total_tokens": 350}}
    assert "at_least" not in found


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        # one call of a model, stated by every chunk of its stream
        ([status(metadata=adk(10, 1, adk_partial=True)), status(metadata=adk(10, 3))], (10, 3)),
        ([chunk("a", adk(10, 1, "e1")), chunk("a", adk(10, 3, "e2"), append=True)], (10, 3)),
        ([chunk("a", {}, part={**adk(10, 3), "kagent_adk_partial": True}), chunk("a", {}, part=adk(10, 4))], (10, 4)),
        # two calls
        ([status(metadata=adk(10, 3, "e1")), status(metadata=adk(15, 4, "e2"))], (25, 7)),
        ([status(metadata=adk(10, 3)), status(metadata=adk(15, 4))], (25, 7)),
        ([chunk("a", adk(10, 3, "e1")), chunk("b", adk(15, 4, "e2"))], (25, 7)),
        ([status(message=adk(10, 3, "e1")), chunk("b", adk(15, 4, "e2"))], (25, 7)),
        ([task({}, ("a", adk(10, 3, "e1")), ("b", adk(15, 4, "e2")))], (25, 7)),
        ([task({}, ("b", adk(15, 4)), history=(adk(10, 3),))], (25, 7)),
        # one call that is stated in several places
        ([status(metadata=adk(10, 3, "e1"), message=adk(10, 3, "e1")), chunk("a", adk(10, 3, "e1"))], (10, 3)),
        ([status(metadata=adk(10, 3)), task(adk(10, 3), history=(adk(10, 3),))], (10, 3)),
        ([chunk("a", adk(10, 3, "e1")), task({}, ("a", adk(10, 3, "e1")))], (10, 3)),
        # two calls with equal numbers are two where their ids say so
        ([status(metadata=adk(10, 3, "e1")), status(metadata=adk(10, 3, "e2"))], (20, 6)),
        ([task(adk(10, 3))], (10, 3)),
    ],
)
def test_calls_of_models_add_up_each_once(events: list[dict[str, Any]], expected: tuple[int, int]) -> None:
    assert amounts(usage(*events)) == (*expected, sum(expected), "adk_usage_metadata")


def test_the_metadata_of_a_task_has_only_the_last_call_of_a_model() -> None:
    called = {"task": task(adk(10, 3), ("a", {}))["task"]}
    called["task"]["artifacts"][0] |= {
        "extensions": ["https://arksim.arklex.ai/a2a/tool-call-capture/v1"],
        "metadata": {"https://arksim.arklex.ai/a2a/tool-call-capture/v1/tool_calls": [{"name": "look"}]},
    }
    assert usage(called)["at_least"] is True, "a tool was called, so that a model was called before, too"
    assert "at_least" not in usage(task(adk(10, 3)))


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        ({"promptTokenCount": 975, "candidatesTokenCount": 11, "totalTokenCount": 1076}, (975, 101, 1076)),
        ({"promptTokenCount": 9, "candidatesTokenCount": 1, "thoughtsTokenCount": 2, "totalTokenCount": 12},
         (9, 3, 12)),
        ({"promptTokenCount": 9, "candidatesTokenCount": 3, "thoughtsTokenCount": 2}, (9, 5, 14)),
        ({"promptTokenCount": 9, "toolUsePromptTokenCount": 1, "candidatesTokenCount": 3, "totalTokenCount": 13},
         (10, 3, 13)),
        ({"totalTokenCount": 13}, (None, None, 13)),
        ({"promptTokenCount": 9.0}, (9, None, None)),
        ({"promptTokenCount": -1, "candidatesTokenCount": True, "totalTokenCount": "13"}, None),
        ({"promptTokenCount": float("nan"), "totalTokenCount": 1.5}, None),
        ({"promptTokenCount": 1e300, "totalTokenCount": 1e300}, None),
        ({}, None),
        (7, None),
    ],
)  # fmt: skip
@pytest.mark.parametrize("key", ["kagent_usage_total", "adk_usage_metadata", "kagent_usage_metadata"])
def test_numbers_in_the_form_of_gemini(key: str, stated: Any, expected: Any) -> None:
    found = usage({"statusUpdate": {"status": {"state": "TASK_STATE_COMPLETED"}, "metadata": {key: stated}}})
    names = ("input_tokens", "output_tokens", "total_tokens")
    assert (found and tuple(found.get(name) for name in names)) == expected
    assert not found or found["source"] == key


FIRST_TURN = [chunk("a", adk(10, 3, "e1")), status("asks", total(100, 20)), TURN]
BOTH = task({}, ("a", adk(10, 3, "e1")), ("b", adk(15, 4, "e2")))


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([], None),
        ([status("completed", total(300, 50))], (200, 30, 230, "kagent_usage_total")),
        ([task(total(100, 20))], None),  # the Task is as it was
        ([status("completed", total(60, 10))], (60, 10, 70, "kagent_usage_total")),
        ([chunk("b", adk(15, 4, "e2")), BOTH], (15, 4, 19, "adk_usage_metadata")),
        ([chunk("a", adk(15, 4, "e2"))], (15, 4, 19, "adk_usage_metadata")),
    ],
)
def test_each_turn_of_a_task_has_its_own(events: list[dict[str, Any]], expected: Any) -> None:
    assert amounts(usage(*FIRST_TURN, *events)) == expected


def test_a_call_of_a_model_that_only_the_task_shows_was_missed() -> None:
    found = usage(status(metadata=adk(10, 3, "e1")), task(adk(15, 4, "e3")))
    assert (amounts(found), found["at_least"]) == ((25, 7, 32, "adk_usage_metadata"), True), "there may be others"
    assert "at_least" not in usage(status(metadata=adk(10, 3, "e1")), task(adk(10, 3, "e1")))


def test_what_earlier_turns_stated_elsewhere_is_not_taken_for_this_turn() -> None:
    merger = ContinuedMerger()
    merger.know_earlier([], ["an earlier answer"])
    merger.begin_turn()
    merger.feed(status("completed", total(300, 50)))
    assert merger.usage is None, "the share of this turn is not known"
    merger.feed(task(adk(9, 9), ("a", adk(10, 3, "e1"))))
    assert merger.usage is None
    merger.feed(chunk("b", adk(15, 4, "e2")))
    assert amounts(merger.usage) == (15, 4, 19, "adk_usage_metadata")
    merger.begin_turn()
    merger.feed(status("completed", total(400, 60)))
    assert amounts(merger.usage) == (100, 10, 110, "kagent_usage_total")


def test_statements_are_bounded() -> None:
    found = usage(*(status(metadata=adk(1, 1, f"e{number}")) for number in range(MAX_STATEMENTS + 5)))
    assert found["total_tokens"] == 2 * MAX_STATEMENTS
    assert found["at_least"] is True


CALLS = st.lists(st.tuples(st.integers(0, 999), st.integers(0, 999)), min_size=1, max_size=5)


@given(CALLS, st.data())
def test_repeats_never_change_the_tokens(calls: list[tuple[int, int]], data: Any) -> None:
    events = [status(metadata=adk(*call, f"e{number}")) for number, call in enumerate(calls)]
    again = data.draw(st.lists(st.sampled_from(events), max_size=5))
    found = usage(*events, *again)
    assert (found["input_tokens"], found["output_tokens"]) == tuple(map(sum, zip(*calls, strict=True)))
    assert usage(*events) == found


@given(st.lists(almost_events, max_size=4))
@example([{"task": {"metadata": {"kagent_usage_total": {"totalTokenCount": 10**400}}}}])
def test_junk_raises_nothing(events: list[Any]) -> None:
    usage(*events)
