"""Merging the events of a task: chunks extend, a Task is authoritative, a call belongs to one turn."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from typing import Any

import pytest
from a2a_tool_capture import METADATA_KEY, URI, ToolCall
from a2a_tool_capture import merge as merge_module
from a2a_tool_capture.merge import ContinuedMerger
from golden.recorded import events, expected_turn, recordings
from hypothesis import given
from hypothesis import strategies as st
from support.junk import almost_events
from support.merging import TURN, codes, merged, unknown_by

Event = dict[str, Any]


def call(name: str, call_id: str = "", **more: Any) -> dict[str, Any]:
    return {"id": call_id, "name": name, **more}


def artifact(artifact_id: str = "a", *calls: dict[str, Any], text: str = "", listed: bool = True) -> Event:
    out: Event = {"artifactId": artifact_id, "parts": [{"text": text}] if text else []}
    if calls:
        out["metadata"] = {METADATA_KEY: list(calls)}
    if listed:
        out["extensions"] = [URI]
    return out


def update(content: Event, *, append: bool | int = False) -> Event:
    return {"artifactUpdate": {"taskId": "t", "contextId": "c", "artifact": content, "append": append}}


def chunk(artifact_id: str, *calls: dict[str, Any], text: str = "", listed: bool = True) -> Event:
    return update(artifact(artifact_id, *calls, text=text, listed=listed), append=True)


def status(state: str, text: str = "") -> Event:
    message = {"message": {"parts": [{"text": text}]}} if text else {}
    return {"statusUpdate": {"taskId": "t", "contextId": "c", "status": {"state": f"TASK_STATE_{state}", **message}}}


def task(*artifacts: Event, state: str = "WORKING", text: str = "") -> Event:
    inner = {"id": "t", "contextId": "c", "status": status(state, text)["statusUpdate"]["status"]}
    return {"task": {**inner, "artifacts": list(artifacts)} if artifacts else inner}


def names(merger: ContinuedMerger) -> list[str]:
    return [item.name for item in merger.tool_calls]


# ── artifact updates ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("later", "unknown"),
    [
        (artifact("a", text="Hello big world"), "dropped_by_snapshot"),
        (artifact("a", call("pay", "1")), None),
        (artifact("a", call("pay", "1", result="paid"), call("mail", "2")), None),
        (artifact("a", call("mail", "2")), "dropped_by_snapshot"),
    ],
)
def test_a_call_that_a_replacing_chunk_lacks_leaves_the_calls_unknown(later: Event, unknown: str | None) -> None:
    merger = merged(update(artifact("a", call("pay", "1"), text="Hello ")), chunk("a", text="big "), update(later))
    assert unknown_by(merger) == unknown
    merger.feed(update(artifact("b", call("pay", "1"))))
    assert unknown_by(merger) is None, "another report has it again"


# ── ids used again ──────────────────────────────────────────────────────────────────────────────────────────

FIRST = call("refund", "call_0", arguments={"order": 1}, result="10")
SECOND = call("refund", "call_0", arguments={"order": 2}, result="900")
RETRIED = call("refund", "call_0", arguments={"order": 1}, result="11")
FAILED = call("refund", "call_0", arguments={"order": 2}, error="no such order")
BARE = [call("refund", "call_0", arguments={"order": number}) for number in (1, 2)]


def brief(calls: list[ToolCall]) -> list[tuple[Any, Any, Any]]:
    return [(item.arguments, item.result, item.error) for item in calls]


def of_wire(*calls: dict[str, Any]) -> list[tuple[Any, Any, Any]]:
    return [(item.get("arguments", {}), item.get("result"), item.get("error")) for item in calls]


AGAIN = call("refund", "call_0", arguments={"order": 2}, result="900")
PAIRS = [
    (FIRST, SECOND),
    (FIRST, RETRIED),
    (FAILED, AGAIN),
    (FIRST, FAILED),
    (FAILED, FIRST),
    (FIRST, BARE[1]),
    tuple(BARE),
]


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize(
    "told",
    [
        lambda one, two: [update(artifact("a", one, two))],
        lambda one, two: [update(artifact("a", one)), chunk("a", two)],
        lambda one, two: [update(artifact("a", one)), chunk("a", one, two)],
        lambda one, two: [update(artifact("a", one)), update(artifact("b", two))],
        lambda one, two: [task(artifact("a", one, two))],
        lambda one, two: [task(artifact("a", one), artifact("b", two))],
        lambda one, two: [update(artifact("a", one, two)), task(artifact("a", one, two))],
    ],
    ids=["list", "chunks", "cumulative", "artifacts", "task", "task of two artifacts", "stream and task"],
)
def test_an_id_that_is_used_again_is_of_a_second_call(pair: Any, told: Any) -> None:
    merger = merged(*told(*pair))
    assert brief(merger.tool_calls) == of_wire(*pair)
    assert codes(merger) == ["id_reused"]


@st.composite
def numbered_calls(draw: st.DrawFn) -> list[list[dict[str, Any]]]:
    """The calls of each turn, with ids as servers number them, or without; every call has a result of its own."""
    results = itertools.count()
    made = st.builds(
        lambda name, call_id, number: call(name, call_id, arguments={"n": number}, result=f"r{next(results)}"),
        st.sampled_from(["refund", "mail"]),
        st.sampled_from(["call_0", "call_1", "call_2"]),
        st.integers(0, 1),
    )
    return draw(st.lists(st.lists(made, max_size=4), min_size=1, max_size=4))


@given(numbered_calls(), st.sampled_from(["lists", "chunks", "announced", "artifacts"]), st.booleans())
def test_numbered_ids_lose_no_call(turns: list[list[dict[str, Any]]], told: str, snapshot: bool) -> None:
    merger = ContinuedMerger()
    everything: list[dict[str, Any]] = []
    for number, calls in enumerate(turns):
        if number:
            merger.begin_turn()
        before = len(everything)
        everything += calls
        for position, item in enumerate(calls, before):
            if told == "announced":
                merger.feed(chunk("a", {key: value for key, value in item.items() if key != "result"}))
            if told in ("chunks", "announced"):
                merger.feed(chunk("a", item))
            elif told == "artifacts":
                merger.feed(update(artifact(f"a{position}", item)))
        if told == "lists" or snapshot:
            merger.feed(task(artifact("a", *everything)))
        assert [item.result for item in merger.turn_tool_calls] == [item["result"] for item in calls]


def test_the_requirement_to_list_the_uri_can_be_lifted() -> None:
    merger = ContinuedMerger(require_artifact_uri=False)
    merger.feed(update(artifact("a", call("one"), listed=False)))
    assert names(merger) == ["one"]


# ── snapshots ───────────────────────────────────────────────────────────────────────────────────────────────


def without_artifacts(state: str) -> list[Event]:
    empty = task(state=state)
    empty["task"]["artifacts"] = []
    null = task(state=state)
    null["task"]["artifacts"] = None
    return [task(state=state), empty, null]


@pytest.mark.parametrize("state", ["COMPLETED", "FAILED", "CANCELED", "REJECTED"])
@pytest.mark.parametrize("form", range(3))
def test_a_final_task_without_artifacts_clears_too(state: str, form: int) -> None:
    merger = merged(update(artifact("a", call("one"), text="x")), without_artifacts(state)[form])
    assert names(merger) == []
    assert merger.response_text == ""
    assert unknown_by(merger) == "dropped_by_snapshot"


@pytest.mark.parametrize("state", ["SUBMITTED", "WORKING", "INPUT_REQUIRED", "AUTH_REQUIRED", "UNSPECIFIED", "WAITING"])
@pytest.mark.parametrize("form", range(3))
def test_a_task_that_is_not_final_and_has_no_artifacts_is_a_sign_of_life(state: str, form: int) -> None:
    heartbeat = without_artifacts(state)[form]
    merger = merged(
        heartbeat,
        update(artifact("a", call("one"), text="x")),
        heartbeat,
        update(artifact("b", call("two"), text="y")),
        heartbeat,
    )
    assert (names(merger), merger.response_text) == (["one", "two"], "x\ny")
    assert merger.state == f"TASK_STATE_{state}"
    assert (merger.findings, merger.snapshot_seen) == ([], False)


@pytest.mark.parametrize(
    ("fed", "seen"),
    [
        ([task(state="SUBMITTED")], False),
        ([task(artifact("a"))], True),
        ([update(artifact("a")), task()], False),
        ([update(artifact("a")), task(state="COMPLETED")], True),
        ([task(state="SUBMITTED"), update(artifact("a"))], False),
    ],
)
def test_whether_a_snapshot_was_seen(fed: list[Event], seen: bool) -> None:
    assert merged(*fed).snapshot_seen is seen


# ── identity and state ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "event",
    [
        task(),
        status("WORKING"),
        update(artifact("a")),
        {"message": {"messageId": "m", "taskId": "t", "contextId": "c"}},
    ],
)
def test_any_event_says_which_task_and_conversation(event: Event) -> None:
    merger = merged(event)
    assert (merger.task_id, merger.context_id) == ("t", "c")


# ── response text ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("state", ["INPUT_REQUIRED", "AUTH_REQUIRED", "FAILED", "REJECTED", "CANCELED", "COMPLETED"])
def test_the_message_of_a_status_that_interrupts_or_ends_is_part_of_the_answer(state: str) -> None:
    answer = artifact("a", text="Two flights found.")
    for said in (
        [update(answer), status("WORKING", "searching"), status(state, "Which one?")],
        [update(answer), status(state, "Which one?"), task(answer, state=state)],
        [task(answer, state=state, text="Which one?")],
    ):
        assert merged(*said).response_text == "Two flights found.\nWhich one?"
    assert merged(update(answer), status("WORKING", "searching"), status(state)).response_text == "Two flights found."


@pytest.mark.parametrize("text", ["x", "y", "x\ny"])
def test_a_status_message_that_repeats_an_artifact_is_there_once(text: str) -> None:
    made = [artifact("a", text="x"), artifact("b", text="y")]
    assert merged(task(*made, state="COMPLETED", text=text)).response_text == "x\ny"


@pytest.mark.parametrize("state", ["FAILED", "REJECTED", "CANCELED"])
def test_the_reason_of_a_failure_is_a_finding(state: str) -> None:
    merger = merged(update(artifact("a", text="partial")), status(state, "no backend"))
    (finding,) = merger.findings
    assert (finding.code, finding.message) == (f"task_{state.lower()}", "no backend")
    assert merged(update(artifact("a", text="partial")), status(state)).findings == []


HISTORY = [
    {"role": "ROLE_USER", "parts": [{"text": "Pay."}]},
    {"role": "ROLE_AGENT", "parts": [{"text": "Which order?"}]},
    {"role": "ROLE_USER", "parts": [{"text": "The first."}]},
]


def recalling(*later: Event, **more: Any) -> Event:
    """A final task with that history, and what follows it there."""
    return {"task": {**task(state="COMPLETED")["task"], "history": [*HISTORY, *later], **more}}


PAID_SAYS = {"role": "ROLE_AGENT", "parts": [{"text": "Paid."}]}
ONE_ASKED = [update(artifact("a", call("one"), text="first")), status("INPUT_REQUIRED")]
ONE_AGAIN = task(artifact("a", call("one"), text="first"))


# ── recorded traffic ────────────────────────────────────────────────────────────────────────────────────────


def as_golden(calls: list[ToolCall]) -> list[dict[str, Any]]:
    return [{"id": c.id, "name": c.name, "arguments": c.arguments, "result": c.result} for c in calls]


@pytest.mark.parametrize("kind", ["stream", "send"])
def test_recorded_traffic_says_the_same_in_every_variant(kind: str, subtests: pytest.Subtests) -> None:
    found = recordings(kind)
    assert len(found) == 4 * 7
    for name, scenario in found:
        with subtests.test(f"{name} {scenario}"):
            merger = merged(*events(name))
            expected = expected_turn(scenario)
            known = {"findings": [], **expected, **(expected.get("stored", {}) if kind == "send" else {})}
            assert as_golden(merger.tool_calls) == known["tool_calls"]
            assert (merger.response_text, merger.state) == (expected["response_text"], expected["state"])
            assert codes(merger) == known["findings"]


# ── turns ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("told", ["stream", "task", "task in reverse"])
@pytest.mark.parametrize("made", [PAID := call("pay", "call_0", arguments={"eur": 5}, result="paid"), BARE[0]])
def test_ids_that_start_again_in_each_turn_hide_nothing(made: dict[str, Any], told: str) -> None:
    merger = merged(update(artifact("a0", made)), status("INPUT_REQUIRED"))
    known = [artifact("a0", made)]
    for turn in range(1, 4):
        merger.begin_turn()
        new = artifact(f"a{turn}", made, call("mail", "call_1"))
        known = [*known, new] if told == "task" else [new, *known]
        merger.feed(update(new) if told == "stream" else task(*known))
        assert [item.name for item in merger.turn_tool_calls] == [made["name"], "mail"]
        merger.feed(update(artifact(f"b{turn}", made)))
        assert [item.name for item in merger.turn_tool_calls] == [made["name"], "mail"], "one call in two artifacts"
        assert "id_reused" in codes(merger)
        assert unknown_by(merger) is None
        merger.feed(task(*known)) if told != "stream" else None


def test_a_task_that_has_what_was_streamed_drops_nothing_though_ids_start_again() -> None:
    merger, known = merged(), []
    for turn in range(4):
        known.append(artifact(f"a{turn}", PAID))
        merger.feed(update(known[-1]))
        merger.feed(task(*known))
        assert [item.name for item in merger.turn_tool_calls] == ["pay"]
        assert unknown_by(merger) is None
        if turn == 3:
            merger.feed(task(*known[:-1]))
            assert unknown_by(merger) == "dropped_by_snapshot"
        merger.begin_turn()


def test_a_view_that_takes_over_in_mid_turn_knows_what_was_earlier() -> None:
    first = merged(update(artifact("a", call("one"))))
    first.begin_turn()
    second = merged(task(artifact("a", call("one")), artifact("b", call("two"))))
    second.continue_turn_of(first)
    assert [item.name for item in second.turn_tool_calls] == ["two"]


turns = st.lists(
    st.fixed_dictionaries(
        {
            "calls": st.lists(st.tuples(st.sampled_from("xy"), st.booleans()), max_size=3),
            "same_artifact": st.booleans(),
            "begins_with_snapshot": st.booleans(),
            "ends_with_snapshot": st.booleans(),
        }
    ),
    min_size=1,
    max_size=4,
)


@given(turns)
def test_calls_are_shared_out_over_the_turns(planned: list[dict[str, Any]]) -> None:
    """Each turn has exactly the calls the agent made in it, in whatever way a resumed task repeats itself."""
    numbers = itertools.count()
    merger = ContinuedMerger()
    stored: dict[str, list[dict[str, Any]]] = {}

    def snapshot() -> Event:
        return task(*(artifact(artifact_id, *calls) for artifact_id, calls in stored.items()))

    for turn_number, plan in enumerate(planned):
        if turn_number:
            merger.begin_turn()
        if plan["begins_with_snapshot"]:
            merger.feed(snapshot())
        made = [call(name, f"c{next(numbers)}" if with_id else "") for name, with_id in plan["calls"]]
        artifact_id = "a" if plan["same_artifact"] else f"a{turn_number}"
        if artifact_id in stored:
            merger.feed(chunk(artifact_id, *stored[artifact_id], *made))
        else:
            merger.feed(update(artifact(artifact_id, *made)))
        stored.setdefault(artifact_id, []).extend(made)
        if plan["ends_with_snapshot"]:
            merger.feed(snapshot())
        ours = sorted((item.name, item.id) for item in merger.turn_tool_calls)
        assert ours == sorted((item["name"], item["id"]) for item in made)
        assert "dropped_by_snapshot" not in codes(merger)


# ── any input ───────────────────────────────────────────────────────────────────────────────────────────────


@given(st.lists(almost_events, max_size=6), st.integers(0, 6))
def test_any_events_can_be_fed(fed: list[Any], turn_at: int) -> None:
    merger = ContinuedMerger()
    before = copy.deepcopy(fed)
    for number, event in enumerate(fed):
        if number == turn_at:
            merger.begin_turn()
        merger.feed(event)
        assert all(isinstance(item, ToolCall) for item in merger.tool_calls)
        assert len(merger.turn_tool_calls) <= len(merger.tool_calls)
        assert isinstance(merger.response_text, str)
        assert all(finding.code and finding.message for finding in merger.findings)
    assert repr(fed) == repr(before)


REPORT = {METADATA_KEY: [call("one"), call("two")]}
SPELLINGS = [REPORT, {METADATA_KEY: call("one")}, {URI: [call("one")]}, {f"{URI}/toolCalls": [call("one")]}]
SPELLINGS += [{key: [call("one")]} for key in (METADATA_KEY.upper(), METADATA_KEY.replace("https", "http"))]
MESSAGE = {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "hi"}]}


def misplaced(metadata: Any) -> list[tuple[str, Event]]:
    """The report everywhere but on an artifact, with the place that the finding names."""
    marked = {**MESSAGE, "metadata": metadata}
    marked_part = {**MESSAGE, "parts": [{"text": "hi"}, {"text": "", "metadata": metadata}]}
    done = {"state": "TASK_STATE_COMPLETED"}
    plain = update(artifact("a", text="x"))["artifactUpdate"]
    in_part = {**plain["artifact"], "parts": [{"text": "x", "metadata": metadata}]}
    in_data = {**plain["artifact"], "parts": [{"data": metadata}]}
    return [
        ("message", {"message": marked}),
        ("message.parts[1]", {"message": marked_part}),
        ("task", {"task": {"id": "t", "status": done, "metadata": metadata}}),
        ("task.status.message", {"task": {"id": "t", "status": {**done, "message": marked}}}),
        ("task.status", {"task": {"id": "t", "status": {**done, "metadata": metadata}}}),
        ("task.history[1]", {"task": {"id": "t", "status": done, "history": [MESSAGE, marked]}}),
        ("task.history[0].parts[1]", {"task": {"id": "t", "status": done, "history": [marked_part]}}),
        ("task.timeline[0].message", {"task": {"id": "t", "status": done, "timeline": [{"message": marked}]}}),
        ("task.artifacts[0].parts[0]", {"task": {"id": "t", "status": done, "artifacts": [in_part]}}),
        ("statusUpdate", {"statusUpdate": {"taskId": "t", "status": done, "metadata": metadata}}),
        ("statusUpdate.status.message", {"statusUpdate": {"taskId": "t", "status": {**done, "message": marked}}}),
        ("artifactUpdate", {"artifactUpdate": {**plain, "metadata": metadata}}),
        ("artifactUpdate.artifact", {"artifactUpdate": {**plain, "artifact": {**plain["artifact"], **metadata}}}),
        ("artifactUpdate.artifact.parts[0]", {"artifactUpdate": {**plain, "artifact": in_part}}),
        ("message", {"message": {**marked, "role": "ROLE_USER"}}),
        ("task.metadata.x", {"task": {"id": "t", "status": done, "metadata": {"x": metadata}}}),
        ("task.timeline[0].artifact", {"task": {"id": "t", "status": done, "timeline": [{"artifact": marked}]}}),
        ("task.subtasks[0].artifacts[0]", {"task": {"id": "t", "status": done, "subtasks": [{"artifacts": [marked]}]}}),
        ("metadata.x", {"artifactUpdate": {**plain, "artifact": {**plain["artifact"], "metadata": {"x": metadata}}}}),
        ("artifactUpdate.artifact.parts[0].data", {"artifactUpdate": {**plain, "artifact": in_data}}),
    ]


@pytest.mark.statement(325, 326)
@pytest.mark.parametrize("metadata", SPELLINGS)
@pytest.mark.parametrize("place", range(len(misplaced({}))))
def test_calls_that_are_not_on_an_artifact_are_ignored_and_reported(place: int, metadata: Any) -> None:
    where, event = misplaced(metadata)[place]
    merger = merged(event)
    assert merger.tool_calls == []
    assert unknown_by(merger) == "calls_not_on_artifact"
    assert where in merger.findings[0].message
    assert merged(misplaced({**REPORT, METADATA_KEY: []})[place][1]).findings == [], "which says that none was made"


@pytest.mark.parametrize(
    "metadata", [*SPELLINGS[2:], {"tool_calls": [call("one")]}, {f"{URI[:-1]}2/tool_calls": [1]}, [1]]
)
def test_a_report_under_another_key_leaves_the_calls_unknown(metadata: Any) -> None:
    told = {**artifact("a", text="x"), "metadata": metadata}
    for merger in (merged(update(told)), merged(task(told, state="COMPLETED"))):
        assert merger.tool_calls == []
        assert unknown_by(merger) in ("unknown_kind", "unknown_version")
        assert METADATA_KEY in merger.findings[0].message, "which says what to do"


@pytest.mark.parametrize("content", [{"tool_calls": [1]}, {"parts": [{"data": {"x": {"toolCalls": [call("one")]}}}]}])
def test_an_artifact_that_lists_the_extension_may_have_its_calls_elsewhere(content: Event) -> None:
    assert unknown_by(merged(update({**artifact("a"), "extensions": [URI], **content}))) == "calls_not_on_artifact"
    assert unknown_by(merged(update({**artifact("a"), "extensions": [], **content}))) is None
    assert unknown_by(merged(update({**artifact("a", call("one")), **content}))) is None


@pytest.mark.parametrize("metadata", [None, {}, [], {METADATA_KEY: []}, {URI: []}, {URI: None}, {"trace": "x"}])
def test_an_artifact_that_lists_the_extension_may_have_no_calls(metadata: Any) -> None:
    told = {**artifact("a", text="x"), "metadata": metadata}
    assert merged(update(told)).findings == []
    assert merged(update(artifact("a", text="x")), task(told)).findings == []


@pytest.mark.parametrize("event", [None, 1, "task", [], {}, {"other": {}}, {"task": 1}, {"artifactUpdate": {}}])
def test_junk_is_a_finding(event: Any) -> None:
    assert codes(merged(event)) == ["malformed_event"]


# ── against a model of the server ───────────────────────────────────────────────────────────────────────────


class StoredTask:
    """How a2a-sdk servers merge artifact updates into the task they store."""

    def __init__(self) -> None:
        self.artifacts: dict[str, Event] = {}

    def apply(self, event: Event) -> None:
        content = event["artifactUpdate"]["artifact"]
        known = self.artifacts.get(content["artifactId"])
        if event["artifactUpdate"]["append"] and known is not None:
            known["parts"] = known["parts"] + content["parts"]
            if "metadata" in content:  # per key, the last one wins; a later `extensions` is ignored
                known["metadata"] = {**known.get("metadata", {}), **content["metadata"]}
        else:
            self.artifacts[content["artifactId"]] = copy.deepcopy(content)

    def snapshot(self) -> Event:
        return task(*copy.deepcopy(list(self.artifacts.values())), state="COMPLETED")


calls = st.builds(call, st.sampled_from("xy"), st.sampled_from(["", "1", "2"]), result=st.none() | st.just("r"))
updates = st.builds(
    lambda artifact_id, made, text, append: update(artifact(artifact_id, *made, text=text), append=append),
    st.sampled_from("ab"),
    st.lists(calls, max_size=3),
    st.text("uvw", max_size=2),
    st.booleans(),
)


@given(st.lists(updates, max_size=8))
def test_after_a_snapshot_only_the_snapshot_counts(fed: list[Event]) -> None:
    server = StoredTask()
    merger = ContinuedMerger()
    for event in fed:
        server.apply(event)
        merger.feed(event)
    merger.feed(server.snapshot())
    alone, findings = merged(server.snapshot()), list(merger.findings)
    for _ in range(2):
        assert merger.tool_calls == alone.tool_calls
        assert (merger.response_text, merger.state) == (alone.response_text, alone.state)
        assert merger.findings == findings
        merger.feed(server.snapshot())


@given(st.lists(st.tuples(st.lists(calls, max_size=4), st.text("uvw", max_size=2), st.booleans()), max_size=4))
def test_a_snapshot_says_the_same_as_its_artifacts_streamed(contents: list[tuple[list[Event], str, bool]]) -> None:
    """A unary answer, one snapshot, gives what the incremental merge of its artifacts gives."""
    made = [
        artifact(str(number), *calls, text=text, listed=listed) for number, (calls, text, listed) in enumerate(contents)
    ]
    streamed = merged(*map(update, made), status("COMPLETED"))
    called_one_by_one = merged(
        *(update({**one, "metadata": {}, "parts": []}) for one in made),
        *(
            update({**one, "metadata": {METADATA_KEY: calls[:end]}, "parts": []}, append=True)
            for one, (calls, _, _) in zip(made, contents, strict=True)
            for end in range(1, len(calls) + 1)
        ),
        *(update({**one, "metadata": {}}, append=True) for one in made),
        status("COMPLETED"),
    )
    answer = merged(task(*made, state="COMPLETED"))
    for view in (streamed, called_one_by_one):
        assert view.tool_calls == answer.tool_calls
        assert (view.response_text, view.state) == (answer.response_text, answer.state)
    assert streamed.findings == answer.findings


# ── other tasks ─────────────────────────────────────────────────────────────────────────────────────────────


def of_task(task_id: str, *made: Event) -> list[Event]:
    content = artifact("x", *made, text="of another task")
    done = {"state": "TASK_STATE_COMPLETED", "message": {"parts": [{"text": "done"}]}}
    return [
        {"artifactUpdate": {"taskId": task_id, "contextId": "d", "artifact": content}},
        {"statusUpdate": {"taskId": task_id, "status": done, "metadata": content.get("metadata", {})}},
        {"task": {"id": task_id, "status": done, "artifacts": [content]}},
    ]


@pytest.mark.parametrize("number", range(3))
def test_an_event_of_another_task_is_none_of_this_one(number: int) -> None:
    own = [task(state="WORKING"), update(artifact("a", call("one"), text="x"))]
    other = merged(*own, of_task("u", call("two"))[number])
    assert (names(other), other.response_text, other.state) == (["one"], "x", "TASK_STATE_WORKING")
    assert (other.task_id, other.context_id) == ("t", "c")
    assert unknown_by(other) == "calls_not_on_artifact"
    assert "'u'" in other.findings[0].message
    assert unknown_by(merged(*own, of_task("u")[number])) is None, "it shows no call"


# ── limits ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_findings_are_counted_once_and_bounded() -> None:
    merger = merged(*[{}] * 10)
    assert codes(merger) == ["malformed_event"]
    for number in range(merge_module.MAX_FINDINGS + 50):
        merger.feed(chunk(f"unknown-{number}"))
    assert len(merger.findings) == merge_module.MAX_FINDINGS
    merger.feed({"artifactUpdate": {"artifact": {"artifactId": "a", "metadata": {METADATA_KEY: {}}}}})
    assert codes(merger)[-1] == "calls_not_a_list", "each code is kept once, for it may say that calls were not read"


@pytest.mark.parametrize("artifacts", [1, 3])
def test_calls_are_bounded(artifacts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge_module, "MAX_CALLS", 10)
    merger = ContinuedMerger()
    for number in range(artifacts):
        merger.feed(update(artifact(f"a{number}", *[call("one")] * 8)))
        merger.feed(chunk(f"a{number}", call("two"), *[call("one")] * 8))
    assert len(merger.tool_calls) == 10
    assert codes(merger) == ["too_many_calls"]
    merger.feed(update(artifact("a0", call("one"))))
    assert len(merger.tool_calls) < 10


@pytest.mark.parametrize("artifacts", [1, 3])
def test_text_is_bounded(artifacts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge_module, "MAX_TEXT_CHARS", 10)
    merger = ContinuedMerger()
    for number in range(artifacts):
        merger.feed(update(artifact(f"a{number}", text="12345678")))
        merger.feed(chunk(f"a{number}", text="12345678"))
    assert len(merger.response_text.replace("\n", "")) == 10
    assert codes(merger) == ["text_truncated"]
    merger.feed(update(artifact("a0", text="x")))
    assert merger.response_text.startswith("x")


def test_replacing_an_artifact_frees_its_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge_module, "MAX_TEXT_CHARS", 10)
    merger = merged(*[update(artifact("a", text="12345678"))] * 5)
    merger.feed(task(artifact("a", text="12345678")))
    assert merger.response_text == "12345678"
    assert merger.findings == []
    assert len(merged(status("WORKING", "x" * 50)).response_text) == 10
    assert len(merged({"message": {"parts": [{"text": "x" * 50}]}}).response_text) == 10


def test_many_calls_are_merged_in_linear_time() -> None:
    """Each chunk repeats all ids: looked up one by one this would be 200 million comparisons."""
    many = [call("one", str(number)) for number in range(10_000)]
    merger = merged(update(artifact("a", *many)), chunk("a", call("two"), *many))
    assert len(merger.tool_calls) == 10_000


# ── times ───────────────────────────────────────────────────────────────────────────────────────────────────

ANNOUNCED = call("search", "1", arguments={"q": "x"})
ENDED = {**ANNOUNCED, "result": "42"}
OTHER = {"name": "fetch", "arguments": {}, "error": "gone"}
BEGUN = update(artifact("a", ANNOUNCED))
ALL_ENDED = task(artifact("s0", ENDED, OTHER))


@pytest.mark.parametrize(
    ("later", "times"),
    [
        ([chunk("a", ENDED)], [(1, 2)]),  # the result alone
        ([chunk("a", ENDED, OTHER)], [(1, 2), (2, 2)]),  # all again
        ([update(artifact("a", ENDED, OTHER))], [(1, 2), (2, 2)]),  # in place of what was there
        ([chunk("b", ENDED)], [(1, 2)]),  # in another artifact
        ([task(artifact("s0", ANNOUNCED, OTHER)), ALL_ENDED], [(1, 3), (2, 2)]),
        ([task(artifact("s0", OTHER), artifact("s1", ENDED, OTHER))], [(2, 2), (1, 2), (2, 2)]),
        ([update(artifact("a", {**ENDED, "arguments": '{"q": "x"}'}))], [(1, 2)]),  # repaired
        ([chunk("a", ENDED), chunk("a", {**ENDED, "arguments": {"q": "y"}})], [(1, 2), (3, 3)]),  # the id is used again
    ],
)
def test_calls_have_the_time_at_which_they_were_first_seen(
    later: list[dict[str, Any]], times: list[tuple[int, int]]
) -> None:
    merger = ContinuedMerger()
    for now, event in enumerate([BEGUN, *later], start=1):
        merger.feed(event, float(now))
    assert [(call.first_seen_at, call.result_seen_at) for call in merger.tool_calls] == times


def test_a_stream_that_takes_over_keeps_the_times_of_the_one_before() -> None:
    first, second = ContinuedMerger(), ContinuedMerger()
    first.feed(BEGUN, 1.0)
    second.feed(task(artifact("s0", ANNOUNCED, OTHER)), 2.0)
    second.continue_turn_of(first)
    second.feed(ALL_ENDED, 3.0)
    assert [(call.first_seen_at, call.result_seen_at) for call in second.tool_calls] == [(1.0, 3.0), (2.0, 2.0)]


KNOWN: dict[str, Callable[[Any], Any]] = {
    "names": names,
    "turn_state": lambda merger: merger.turn_state,
    "codes": codes,
    "unknown_by": unknown_by,
    "text": lambda merger: merger.response_text,
    "findings": lambda merger: merger.findings,
    "state": lambda merger: merger.state,
    "snapshot_seen": lambda merger: merger.snapshot_seen,
    "calls": lambda merger: [(item.name, item.arguments, item.result) for item in merger.tool_calls],
    "results": lambda merger: [(item.name, item.result) for item in merger.tool_calls],
    "arguments": lambda merger: [item.arguments for item in merger.tool_calls],
    "turn_tool_calls": lambda merger: merger.turn_tool_calls,
    "turn_names": lambda merger: [item.name for item in merger.turn_tool_calls],
    "arguments and results": lambda merger: [(item.arguments, item.result) for item in merger.tool_calls],
    "all results": lambda merger: [item.result for item in merger.tool_calls],
    "text_findings": lambda merger: (merger.response_text, merger.findings),
    "ids": lambda merger: (merger.task_id, merger.state),
    "brief": lambda merger: brief(merger.tool_calls),
}
"""What is looked at, by name."""


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(
            [update(artifact("a", call("old"), text="old")), update(artifact("a", call("new"), text="new"))],
            {"names": ["new"], "text": "new", "unknown_by": "dropped_by_snapshot"},
            id="an update without append replaces the artifact",
        ),
        pytest.param(
            [update(artifact("a", call("one"))), chunk("a", call("two")), chunk("a", call("three"))],
            {"names": ["one", "two", "three"]},
            id="an update with append extends the artifact",
            marks=pytest.mark.statement(340),
        ),
        pytest.param(
            [update(artifact("a", call("one"))), update(artifact("a", call("two")), append=1)],
            {"names": ["two"]},
            id="append must be true itself",
        ),
        pytest.param(
            [
                update(artifact("a", call("pay", "1", arguments={"eur": 1}), call("mail", "2"))),
                chunk("a", call("pay", "1", result="paid")),
            ],
            {
                "calls": [
                    ("pay", {"eur": 1}, "paid"),
                    ("mail", {}, None),
                ]
            },
            id="a call with a known id replaces the earlier one in its place",
        ),
        pytest.param(
            [
                update(artifact("a", call("pay", "1", arguments={"eur": 1}, result="r"))),
                chunk("a", call("pay", "1", error="e")),
            ],
            {"brief": [({"eur": 1}, "r", "e")]},
            id="what is announced first keeps what the later report leaves out",
        ),
        pytest.param(
            [
                update(artifact("a", call("pay", "1", arguments={"eur": 1}))),
                chunk("a", call("pay", "1", arguments={"eur": 2}, result="paid")),
            ],
            {"arguments and results": [({"eur": 2}, "paid")], "codes": ["id_conflict"]},
            id="the end of a call wins over its announcement",
        ),
        *(
            pytest.param(
                [
                    update(artifact("a", call("pay", "1", **first))),
                    chunk("a", call("pay", "1", **second, result="paid")),
                ],
                {"arguments and results": [(known, "paid")]},
                id=f"{first} and then {second}",
            )
            for first, second, known in [
                ({"arguments": {"eur": 1}}, {"arguments_unknown": True}, {"eur": 1}),
                ({"arguments_unknown": True}, {"arguments": {"eur": 1}}, {"eur": 1}),
                ({"arguments_unknown": True}, {"arguments_unknown": True}, None),
                ({"arguments_unknown": True}, {}, None),
            ]
        ),
        *(
            pytest.param(
                [update(artifact("a", call("one", result="r"))), chunk("a", *later)],
                {"names": ["one", *(entry["name"] for entry in later)]},
                id=f"{later} does not begin with the earlier calls and adds to them",
            )
            for later in [
                [call("one", result="another")],  # the same call made twice gives two results
                [call("two"), call("one")],  # begins otherwise
                [call("one", arguments={"n": 1})],
            ]
        ),
        pytest.param(
            [
                update(artifact("a", call("one"))),
                update({**artifact("a", call("two")), "extensions": ["https://example.com/other/v1"]}, append=True),
            ],
            {"names": ["one", "two"]},
            id="listing something else later does not unlist the uri",
        ),
        pytest.param(
            [
                update(artifact("a", call("pay", "1"))),
                chunk("a", call("pay", "1", arguments={"to": "An"})),
                chunk("a", call("pay", "1", arguments={"to": "Anna", "eur": 1})),
            ],
            {"arguments": [{"to": "Anna", "eur": 1}], "codes": []},
            id="arguments that are still being written are of one call",
        ),
        pytest.param(
            [
                task(artifact("a", FIRST)),
                TURN,
                update(artifact("a", SECOND)),
                TURN,
                task(artifact("a", FIRST, SECOND), artifact("b", call("mail", "call_1"))),
            ],
            {"turn_names": ["mail"]},
            id="a call that a stream had left is not new when the task shows it again",
        ),
        pytest.param(
            [
                update(artifact("a", call("one"))),
                chunk("a", call("one"), call("two")),
                chunk("a", call("one"), call("two"), call("one")),
            ],
            {"names": ["one", "two", "one"]},
            id="a cumulative list replaces what it repeats",
        ),
        pytest.param(
            [update(artifact("a", call("one"))), chunk("a", call("one", result="r"), call("two"))],
            {"results": [("one", "r"), ("two", None)]},
            id="a cumulative list may fill in results",
        ),
        pytest.param(
            [update(artifact("a", call("one", arguments={"n": 1}))), chunk("a", call("one", arguments={"n": 1.0}))],
            {"names": ["one"]},
            id="numbers do not hide that a list is cumulative",
        ),
        pytest.param(
            [update(artifact("a", call("one"), call("two"))), chunk("a", call("one"))],
            {"names": ["one", "two", "one"]},
            id="a shorter list is not cumulative",
        ),
        pytest.param(
            [chunk("a", call("one"), text="hi")],
            {"names": ["one"], "codes": ["append_to_unknown_artifact"]},
            id="append to an unknown artifact is a new one with a finding",
        ),
        pytest.param(
            [update(artifact("a", call("one"))), chunk("a", call("two"), call("one"))],
            {
                "names": [
                    "one",
                    "two",
                    "one",
                ]
            },
            id="an empty id never joins calls",
        ),
        pytest.param(
            [
                update(artifact("a", call("pay", "1", arguments={"eur": 1}), call("mail", "2"))),
                update(artifact("b", call("pay", "1", result="paid"))),
            ],
            {
                "calls": [
                    ("pay", {"eur": 1}, "paid"),
                    ("mail", {}, None),
                ]
            },
            id="the same id in two artifacts is one call",
        ),
        pytest.param(
            [update(artifact("a", call("pay", "1"))), chunk("a", call("mail", "1"))],
            {"names": ["pay", "mail"], "codes": ["id_conflict"]},
            id="the same id with another name is another call with a finding",
        ),
        pytest.param(
            [update(artifact("a", text="x")), chunk("a", call("one"), listed=False)],
            {"names": ["one"], "findings": []},
            id="the uri stays listed for an artifact id",
        ),
        pytest.param(
            [update(artifact("a", listed=False)), chunk("a", text="x"), chunk("a", call("one"), listed=False)],
            {"names": ["one"]},
            id="the uri may come on a text chunk",
        ),
        pytest.param(
            [update(artifact("a", text="x")), update(artifact("b", call("one"), listed=False))],
            {"names": [], "codes": ["uri_not_listed"]},
            id="the uri listed by one artifact says nothing of another",
        ),
        # Servers drop `extensions` of late chunks when they store the task.
        pytest.param(
            [
                update(artifact("a", listed=False)),
                chunk("a", call("one")),
                task(artifact("a", call("one"), listed=False)),
            ],
            {"names": ["one"]},
            id="a listed uri holds for a snapshot too",
        ),
        pytest.param(
            [update(artifact("a", call("one"))), status("COMPLETED", "done")],
            {"names": ["one"], "state": "TASK_STATE_COMPLETED"},
            id="a status update never touches calls",
            marks=pytest.mark.statement(342),
        ),
        pytest.param(
            [update(artifact("a", call("one"), text="x")), task(artifact("b", call("two"), text="y"))],
            {"names": ["two"], "text": "y"},
            id="a task replaces what was streamed",
            marks=pytest.mark.statement(341),
        ),
        pytest.param(
            [update(artifact("a", call("one", "c-1"), call("two"))), task(artifact("a", call("two")))],
            {"names": ["two"], "codes": ["dropped_by_snapshot"]},
            id="a call that the snapshot lacks is dropped and named",
            marks=pytest.mark.statement(341),
        ),
        pytest.param(
            [
                update(artifact("a", call("one"))),
                chunk("a", call("two"), call("one")),
                task(artifact("a", call("one"), call("two"))),
            ],
            {"names": ["one", "two"], "codes": ["dropped_by_snapshot"]},
            id="a repeat that the snapshot lacks is dropped too",
        ),
        pytest.param(
            [
                update(artifact("a", call("one", "1", arguments={"n": 1}))),
                task(artifact("a", call("one", "1", arguments={"n": 1.0}, result="r"))),
            ],
            {"all results": ["r"], "findings": []},
            id="what a snapshot confirms is no finding",
            marks=pytest.mark.statement(332),
        ),
        pytest.param(
            [task(artifact("a", call("one"), text="x")), chunk("a", call("two"), text="y")],
            {"names": ["one", "two"], "text": "xy"},
            id="a stream goes on after a snapshot",
        ),
        pytest.param(
            [task(state="SUBMITTED"), update(artifact("a", call("one"))), status("COMPLETED")],
            {"names": ["one"], "snapshot_seen": False},
            id="without a snapshot what was accumulated stands",
            marks=pytest.mark.statement(340),
        ),
        pytest.param(
            [task(), {"statusUpdate": {"taskId": "", "status": {"state": "TASK_STATE_COMPLETED"}}}],
            {"state": "TASK_STATE_COMPLETED", "findings": []},
            id="an event that names no task is of this one",
        ),
        pytest.param(
            [status("WORKING"), task(state="FAILED")],
            {"state": "TASK_STATE_FAILED"},
            id="state is the last one heard of",
        ),
        pytest.param(
            [
                update(artifact("a", text="Hel")),
                update(artifact("b", text="Bye")),
                chunk("a", text="lo "),
                chunk("a", text="you"),
            ],
            {"text": "Hello you\nBye"},
            id="chunks of a sentence are not torn apart and artifacts are",
        ),
        pytest.param(
            [status("WORKING", "thinking"), status("COMPLETED")],
            {"text": "thinking"},
            id="text of a status is a last resort",
        ),
        pytest.param(
            [status("WORKING", "thinking"), status("FAILED", "no backend")],
            {"text": "no backend"},
            id="the last text of a status counts",
        ),
        pytest.param(
            [
                update(artifact("a", text="x")),
                status("AUTH_REQUIRED", "Log in."),
                status("WORKING"),
                status("COMPLETED"),
            ],
            {"text": "x"},
            id="a question that was answered is no part of the answer",
        ),
        pytest.param(
            [{"message": {"messageId": "m", "parts": [{"text": "hi"}]}}], {"text": "hi"}, id="text of a message"
        ),
        pytest.param(
            [status("WORKING", "s"), {"message": {"parts": [{"text": "m"}]}}],
            {"text": "s"},
            id="text of a status goes before that of a message",
        ),
        pytest.param(
            [update(artifact("a", text="one ")), chunk("a", text="two"), task(artifact("a", text="one two"))],
            {"text": "one two"},
            id="text is not doubled by a snapshot",
        ),
        pytest.param(
            [update(artifact("a", call("one"))), TURN, task(artifact("a", call("one")), artifact("b", call("one")))],
            {"turn_names": ["one"]},
            id="a call made again in a later turn counts there too",
        ),
        pytest.param(
            [
                update(artifact("a", call("pay", "1"))),
                status("INPUT_REQUIRED", "Sure?"),
                TURN,
                update(artifact("b", call("pay", "1", result="paid"))),
            ],
            {"turn_tool_calls": [], "all results": ["paid"]},
            id="the end of a call of an earlier turn is no call of this one",
        ),
        pytest.param(
            [chunk("a", call("one")), status("INPUT_REQUIRED", "Which order?"), TURN],
            {"text_findings": ("", [])},
            id="text and findings of an earlier turn stay there",
        ),
        pytest.param(
            [update(artifact("a", call("one"))), status("INPUT_REQUIRED"), TURN, of_task("u", call("two"))[2]],
            {"turn_names": ["two"], "ids": ("u", "TASK_STATE_COMPLETED")},
            id="a turn may be answered by another task than the one before",
        ),
        pytest.param(
            [{"artifactUpdate": {"taskId": "t"}}, task()], {"unknown_by": "malformed_event"}, id="a sign of life"
        ),
        pytest.param(
            [{"artifactUpdate": {"taskId": "t"}}, task(), task(artifact("a", text="x"))],
            {"unknown_by": None},
            id="what was not read is in a later task",
        ),
        pytest.param(
            [update(artifact("a", call("one"))), task(artifact("b", text="y"))],
            {"names": [], "unknown_by": "dropped_by_snapshot"},
            id="a task that is not final and has other artifacts",
        ),
        pytest.param(
            [update(artifact("a", call("one"))), task(artifact("b")), task(artifact("a", call("one")), artifact("b"))],
            {"names": ["one"], "unknown_by": None},
            id="a call that a later task has again",
        ),
        # What came before the user's latest message is no answer to it.
        pytest.param([recalling()], {"text": ""}, id="no answer in the history"),
        pytest.param([recalling(PAID_SAYS)], {"text": "Paid."}, id="an answer that only the history has"),
        pytest.param([status("WORKING", "Paying."), recalling(PAID_SAYS)], {"text": "Paid."}, id="history and status"),
        pytest.param(
            [recalling(PAID_SAYS, artifacts=[artifact("a", text="Receipt 7.")])],
            {"text": "Receipt 7."},
            id="an artifact goes before the history",
        ),
        pytest.param([*ONE_ASKED, TURN, ONE_AGAIN], {"turn_tool_calls": []}, id="a snapshot repeats earlier artifacts"),
        pytest.param(
            [*ONE_ASKED, TURN, ONE_AGAIN, update(artifact("b", call("two"), text="second"))],
            {"turn_names": ["two"], "names": ["one", "two"], "text": "second"},
            id="a call belongs to the turn in which it first appeared",
        ),
        pytest.param(
            [*ONE_ASKED, TURN, {"message": {"messageId": "m", "taskId": "t", "parts": []}}],
            {"state": "TASK_STATE_INPUT_REQUIRED", "turn_state": None},
            id="a turn has no state until it shows one",
        ),
        pytest.param(
            [*ONE_ASKED, TURN, status("WORKING")],
            {"state": "TASK_STATE_WORKING", "turn_state": "TASK_STATE_WORKING"},
            id="the state of a turn",
        ),
    ],
)
def test_what_is_known_of_a_task(given: list[Any], expected: dict[str, Any]) -> None:
    """Events, with the user's messages between them, and what the task then shows."""
    merger = merged(*given)
    assert {name: KNOWN[name](merger) for name in expected} == expected
