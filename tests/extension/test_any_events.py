"""Whatever an agent sends, in whatever order: a call that it names is a call of the turn, or the calls are unknown."""

from __future__ import annotations

import copy
from typing import Any

from a2a_tool_capture import METADATA_KEY, URI, TaskMerger
from a2a_tool_capture.models import calls_unknown_by
from a2a_tool_capture.spec import BASE_URI
from a2a_tool_capture.wire import received_event
from hypothesis import given
from hypothesis import strategies as st

Event = dict[str, Any]

STATES = ["SUBMITTED", "WORKING", "INPUT_REQUIRED", "AUTH_REQUIRED", "COMPLETED", "FAILED", "CANCELED", "LATER"]

names = st.sampled_from(["look_up", "refund", "mail"])
ids = st.sampled_from(["", "call_0", "call_1"])


def named(name: str, call_id: str, argument: int, result: str | None) -> Event:
    call: Event = {"id": call_id, "name": name, "arguments": {"n": argument}}
    return call if result is None else {**call, "result": result}


known = st.builds(named, names, ids, st.integers(0, 1), st.sampled_from([None, "ok"]))
malformed = st.builds(
    lambda name, form: [
        name,
        [name],
        {"tool": name},
        {"name": {"is": name}},
        {"name": name, "arguments": 3},
        {"name": name, "arguments": "[]"},
        {"function": {"name": name}},
    ][form],
    names,
    st.integers(0, 6),
)
entries = st.lists(known | malformed, max_size=3) | st.lists(known, max_size=2)
keys = st.sampled_from([METADATA_KEY] * 4 + [URI, f"{URI}/toolCalls", f"{BASE_URI}/v2/tool_calls", BASE_URI])
metadata = st.builds(
    lambda key, made, form: {key: [made, made, made, {"calls": made}, made[0] if made else None][form]},
    keys,
    entries,
    st.integers(0, 4),
)
texts = st.sampled_from(["", "x", "y"])


def part_of(text: str, held: Event, form: int) -> Event:
    return [{"text": text}, {"text": text}, {"text": text, "metadata": held}, {"data": held}][form]


parts = st.lists(st.builds(part_of, texts, metadata, st.integers(0, 3)), max_size=2)
messages = st.builds(
    lambda number, content, held, marked: {
        "messageId": f"m{number}",
        "role": "ROLE_AGENT",
        "parts": content,
        **({"metadata": held} if marked else {}),
    },
    st.integers(0, 2),
    parts,
    metadata,
    st.booleans(),
)
artifacts = st.builds(
    lambda artifact_id, content, held, has, lists: {
        "artifactId": artifact_id,
        "parts": content,
        **({"metadata": held} if has else {}),
        **({"extensions": [URI]} if lists else {}),
    },
    st.sampled_from("ab"),
    parts,
    metadata,
    st.integers(0, 3).map(bool),
    st.integers(0, 3).map(bool),
)
statuses = st.builds(
    lambda state, message: {"state": f"TASK_STATE_{state}", **({"message": message} if message else {})},
    st.sampled_from(STATES),
    st.none() | messages,
)
tasks = st.fixed_dictionaries(
    {"id": st.sampled_from(["t"] * 5 + ["u"]), "contextId": st.just("c"), "status": statuses},
    optional={
        "artifacts": st.lists(artifacts, max_size=2) | st.none() | st.just({}) | st.lists(metadata, max_size=1),
        "history": st.lists(messages, max_size=2),
        "timeline": st.lists(st.fixed_dictionaries({"message": messages}), max_size=2),
        "metadata": metadata,
        "generation": st.integers(0, 5),
    },
)
updates = st.fixed_dictionaries(
    {"taskId": st.sampled_from(["t"] * 5 + ["u"]), "artifact": artifacts},
    optional={"append": st.booleans(), "metadata": metadata, "generation": st.integers(0, 5)},
)
events: st.SearchStrategy[Any] = st.one_of(
    st.fixed_dictionaries({"artifactUpdate": updates}),
    st.fixed_dictionaries({"artifactUpdate": updates}),
    st.fixed_dictionaries({"task": tasks}),
    st.fixed_dictionaries({"task": tasks}),
    st.fixed_dictionaries(
        {
            "statusUpdate": st.fixed_dictionaries(
                {"taskId": st.just("t"), "status": statuses}, optional={"metadata": metadata}
            )
        }
    ),
    st.fixed_dictionaries({"message": messages}),
    st.fixed_dictionaries({"artifactUpdate": st.builds(lambda held: {"taskId": "t", "artifact": [held]}, artifacts)}),
    st.fixed_dictionaries({"artifactUpdate": st.lists(artifacts, max_size=1)}),
    st.fixed_dictionaries({"later": artifacts}),
)


readable_artifacts = st.builds(
    lambda artifact_id, text, made, has: {
        "artifactId": artifact_id,
        "parts": [{"text": text}],
        "extensions": [URI],
        **({"metadata": {METADATA_KEY: made}} if has else {}),
    },
    st.sampled_from("ab"),
    texts,
    st.lists(known, max_size=2),
    st.booleans(),
)
readable_events = st.builds(
    lambda kind, held, append, state, has: [
        {"artifactUpdate": {"taskId": "t", "artifact": (held or [{"artifactId": "a"}])[0], "append": append}},
        {"task": {"id": "t", "status": {"state": f"TASK_STATE_{state}"}, **({"artifacts": held} if has else {})}},
        {"statusUpdate": {"taskId": "t", "status": {"state": f"TASK_STATE_{state}"}}},
    ][kind],
    st.sampled_from([0, 0, 1, 2]),
    st.lists(readable_artifacts, max_size=2),
    st.booleans(),
    st.sampled_from(STATES),
    st.booleans(),
)
sequences = st.lists(readable_events, max_size=6) | st.lists(events, max_size=6)


def names_in(value: Any) -> set[str]:
    """The tools that anything in JSON names."""
    if isinstance(value, str):
        return {value} & {"look_up", "refund", "mail"}
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return set().union(*map(names_in, inner))


@given(sequences, sequences)
def test_a_call_that_anything_names_is_of_the_turn_or_the_calls_are_unknown(
    first: list[Event], then: list[Event]
) -> None:
    merger = TaskMerger()
    for number, turn in enumerate((first, then)):
        before = copy.deepcopy(merger.tool_calls)
        if number:
            merger.begin_turn()
        for event in turn:
            merger.feed(received_event(event, in_envelope=False, in_stream=True))
        told = {call.name for call in merger.turn_tool_calls} | {call.name for call in before}
        assert names_in(turn) <= told or calls_unknown_by(merger.findings) is not None
