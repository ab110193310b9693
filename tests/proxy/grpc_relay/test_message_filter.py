"""The filter of gRPC messages: the same result as the filter of JSON, and unknown fields are kept."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from a2a.types import Artifact, ListTasksResponse, Part, SendMessageResponse, StreamResponse, Task, a2a_pb2
from a2a_eval_proxy.grpc_relay.message_filter import MessageFilter
from a2a_eval_proxy.grpc_relay.messages import METHODS, as_json, decoded
from a2a_eval_proxy.protocol import extension_filter
from google.protobuf.json_format import MessageToDict, ParseDict
from hypothesis import given
from hypothesis import strategies as st

URI = "https://arksim.arklex.ai/a2a/tool-call-capture/v1"
KEY = f"{URI}/tool_calls"
KEPT = "kept"
"""The task whose calls the client may see."""

calls = st.sampled_from([[], [{"id": "1", "name": "search", "arguments": {"q": 1.5}}]])
metadatas = st.dictionaries(st.sampled_from([KEY, URI, f"{URI}/other", "mine", ""]), calls | st.just("x"), max_size=3)
extensions = st.lists(st.sampled_from([URI, "https://example.com/e", f"{URI}/x"]), max_size=3)
texts = st.sampled_from(["", "hi", URI])


def record(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """JSON objects with some of these fields; empty ones are left out, as ProtoJSON does."""
    return st.fixed_dictionaries({}, optional=fields).map(
        lambda found: {name: value for name, value in found.items() if value not in ("", [], False)}
    )


parts = st.one_of(
    st.fixed_dictionaries({"text": texts}, optional={"metadata": metadatas, "mediaType": texts.filter(bool)}),
    st.fixed_dictionaries({"data": calls}, optional={"metadata": metadatas}),
)
messages = record(
    messageId=st.just("m"),
    role=st.just("ROLE_AGENT"),
    parts=st.lists(parts, max_size=2),
    metadata=metadatas,
    extensions=extensions,
)
artifacts = record(
    artifactId=st.sampled_from("ab"),
    name=texts,
    parts=st.lists(parts, max_size=2),
    metadata=metadatas,
    extensions=extensions,
)
statuses = record(state=st.just("TASK_STATE_WORKING"), message=messages)
tasks = record(
    id=st.sampled_from([KEPT, "t"]),
    contextId=st.just("c"),
    status=statuses,
    artifacts=st.lists(artifacts, max_size=3),
    history=st.lists(messages, max_size=2),
    metadata=metadatas,
)
artifact_updates = record(
    taskId=st.sampled_from([KEPT, "t"]),
    contextId=st.just("c"),
    artifact=artifacts,
    append=st.booleans(),
    lastChunk=st.booleans(),
    metadata=metadatas,
)
status_updates = record(taskId=st.just("t"), status=statuses, metadata=metadatas)
events = st.one_of(
    st.fixed_dictionaries({"artifactUpdate": artifact_updates}),
    st.fixed_dictionaries({"statusUpdate": status_updates}),
    st.fixed_dictionaries({"task": tasks}),
    st.fixed_dictionaries({"message": messages}),
)


def keeps(task_id: str) -> bool:
    return task_id == KEPT


def filtered(filter_: MessageFilter, message: Any) -> Any:
    """The JSON of what a client gets; None for nothing."""
    shown = filter_.shown(message.SerializeToString())
    return None if shown is None else MessageToDict(decoded(type(message), shown))


@pytest.mark.parametrize(
    ("kind", "contents"),
    [
        (Task, tasks),
        (
            SendMessageResponse,
            st.one_of(st.fixed_dictionaries({"task": tasks}), st.fixed_dictionaries({"message": messages})),
        ),
        (ListTasksResponse, st.fixed_dictionaries({"tasks": st.lists(tasks, min_size=1, max_size=3)})),
    ],
)
@pytest.mark.parametrize("keep_task", [None, keeps])
def test_responses_are_as_over_http(kind, contents, keep_task):
    @given(contents)
    def check(content: Any) -> None:
        message = ParseDict(content, kind())
        expected = json.loads(extension_filter.strip(json.dumps(MessageToDict(message)).encode(), keep_task)[0] or b"")
        assert filtered(MessageFilter(kind, keep_task), message) == MessageToDict(ParseDict(expected, kind()))

    check()


@given(st.lists(events, max_size=4), st.sampled_from([None, keeps]))
def test_streams_are_as_over_http(stream, keep_task):
    filter_, withheld = MessageFilter(StreamResponse, keep_task), set()
    for content in stream:
        message = ParseDict(content, StreamResponse())
        body = json.dumps(MessageToDict(message)).encode()
        shown, _ = extension_filter.strip(body, keep_task, withheld=withheld)
        expected = None if shown is None else MessageToDict(ParseDict(json.loads(shown), StreamResponse()))
        assert filtered(filter_, message) == expected


def test_what_does_not_name_it_stays_the_same_object_though_an_artifact_was_withheld():
    filter_ = MessageFilter(StreamResponse, None)
    only_calls = {"artifactUpdate": {"artifact": {"artifactId": "a", "metadata": {KEY: [{"name": "x"}]}}}}
    assert filter_.shown(ParseDict(only_calls, StreamResponse()).SerializeToString()) is None
    update = StreamResponse(status_update={"task_id": "t"}).SerializeToString()
    assert filter_.shown(update) is update


def test_fields_that_the_proxy_does_not_know_are_kept():
    artifact = a2a_pb2.Artifact(artifact_id="a", parts=[a2a_pb2.Part(text="x")], extensions=[URI])
    artifact.MergeFromString(b"\xfa\x3f\x03new")  # field 1023
    task = a2a_pb2.Task(id="t", artifacts=[artifact])
    task.MergeFromString(b"\xfa\x3f\x03new")
    expected = a2a_pb2.Task(id="t", artifacts=[a2a_pb2.Artifact(artifact_id="a", parts=[a2a_pb2.Part(text="x")])])
    expected.artifacts[0].MergeFromString(b"\xfa\x3f\x03new")
    expected.MergeFromString(b"\xfa\x3f\x03new")
    assert MessageFilter(Task, None).shown(task.SerializeToString()) == expected.SerializeToString()


def test_what_is_of_another_task_is_not_kept():
    metadata = {KEY: [{"id": "1", "name": "search"}]}
    reply = {"messageId": "m", "parts": [{"text": "x"}], "metadata": metadata}
    task = {"id": KEPT, "metadata": metadata, "history": [reply, {**reply, "taskId": "other"}]}
    shown = filtered(MessageFilter(Task, keeps), ParseDict(task, Task()))
    assert ("metadata" in shown, [KEY in str(message) for message in shown["history"]]) == (True, [True, False])


def test_a_message_with_too_many_values_is_not_read():
    task = Task(id="t", metadata={"many": []})
    task.metadata.fields["many"].list_value.MergeFromString(b"\x0a\x02\x08\x00" * 120_000)  # null
    with pytest.raises(ValueError, match="too many values"):
        as_json(decoded(Task, task.SerializeToString()))
    with_room, without = Artifact(parts=[Part()] * 131_072), Artifact(parts=[Part()] * 131_073)
    most = Artifact(parts=[Part(text="xx")] * 50_000)
    for artifact, limit in ((with_room, without), (most, Artifact(artifact_id="a", parts=most.parts))):
        assert as_json(artifact)
        with pytest.raises(ValueError, match="too many values"):
            as_json(limit)
    as_json(Task(id="t" * 10_000_000))
    many = Artifact(parts=[Part(text="x")] * 150_000)
    shown = MessageFilter(Artifact, None).shown(Artifact(parts=many.parts, extensions=[URI]).SerializeToString())
    assert shown == many.SerializeToString(), "any number of parts passes"


@pytest.mark.parametrize(
    ("sent", "left"),
    [
        ({"metadata": {"deep": [{"x": {KEY: 1, "y": 2}}]}}, {"metadata": {"deep": [{"x": {"y": 2}}]}}),
        ({"parts": [{"data": {KEY: [1], "mine": 1}}]}, {"parts": [{"data": {"mine": 1}}]}),
        ({"parts": [{"data": [{"extensions": [URI, "x"]}]}]}, {"parts": [{"data": [{"extensions": ["x"]}]}]}),
        ({"metadata": {"n": [1.5, True, None, {}], KEY: 0}}, {"metadata": {"n": [1.5, True, None, {}]}}),
    ],
)  # fmt: skip
def test_it_is_found_at_any_depth(sent, left):
    as_relayed = METHODS["/lf.a2a.v1.A2AService/GetTask"].response_type  # with the fields of A2A 1.1
    for kind in (Task, as_relayed):
        message = ParseDict({"id": "t", "artifacts": [{"artifactId": "a", **sent}]}, kind())
        expected = {"id": "t", "artifacts": [{"artifactId": "a", **left}]}
        assert filtered(MessageFilter(kind, None), message) == expected


def test_numbers_that_json_lacks_stay():
    artifact = Artifact(artifact_id="a", metadata={KEY: [], "n": [math.nan, -math.inf]})
    shown = Artifact.FromString(MessageFilter(Artifact, None).shown(artifact.SerializeToString()))
    assert list(map(str, shown.metadata["n"])) == ["nan", "-inf"]


def test_what_another_field_has_replaced_goes_too():
    """Of a oneof, the last counts: the client decodes no more than the filter."""
    first = StreamResponse(task=Task(id="t", metadata={KEY: [1]})).SerializeToString()
    last = StreamResponse(message={"message_id": "m"}).SerializeToString()
    assert MessageFilter(StreamResponse, None).shown(first + last) == last


@pytest.mark.parametrize("junk", [b"\xff\xff", b"\x22\x7f", b"\x0b", b"\x0c", b"\x07", b"\x02\x00"])
def test_what_is_no_message_is_an_error_only_where_it_names_the_extension(junk):
    assert MessageFilter(Task, None).shown(junk) is junk
    with pytest.raises(ValueError, match=r"not a lf\.a2a\.v1\.Task"):
        MessageFilter(Task, None).shown(junk + URI.encode())


@pytest.mark.parametrize("odd", [b"\x30\x01", b"\x25abcd", b"\x2d\x01\x01\x01\x01"])
def test_a_field_of_another_wire_type_is_an_unknown_one(odd):
    """In an artifact that exists for its calls: parts as a number, a description and metadata as four bytes."""
    artifact = ParseDict({"artifactId": "a", "metadata": {KEY: [{"name": "x"}]}}, Artifact()).SerializeToString() + odd
    task = Task(id="t").SerializeToString() + b"\x22" + bytes([len(artifact)]) + artifact
    assert MessageFilter(Task, None).shown(task) == Task(id="t").SerializeToString()


def test_groups_are_fields_that_the_proxy_does_not_know():
    group = b"\xfb\x3f\x0a\x01x\x08\x96\x01\x13\x14\xfc\x3f"  # with another group in it
    task = Task(id="t", metadata={KEY: []}).SerializeToString()
    assert MessageFilter(Task, None).shown(group + task) == Task(id="t").SerializeToString() + group
