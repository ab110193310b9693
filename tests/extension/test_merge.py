"""Merging the events of a task: chunks extend, a Task is authoritative, a call belongs to one turn."""

from __future__ import annotations

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
        st.sampled_from(["", "call_0", "call_1", "call_2"]),
        st.integers(0, 1),
    )
    return draw(st.lists(st.lists(made, max_size=4), min_size=1, max_size=4))


@given(
    numbered_calls(),
    st.sampled_from(["lists", "chunks", "announced", "cumulative", "artifacts"]),
    st.booleans(),
    st.booleans(),
)
def test_each_turn_has_the_calls_made_in_it(
    turns: list[list[dict[str, Any]]], told: str, begins_with_snapshot: bool, ends_with_snapshot: bool
) -> None:
    """In whatever way the task repeats itself, and though ids start again."""
    merger = ContinuedMerger()
    everything: list[dict[str, Any]] = []
    for number, calls in enumerate(turns):
        if number:
            merger.begin_turn()
        if number and begins_with_snapshot and told != "artifacts":
            merger.feed(task(artifact("a", *everything)))
        for item in calls:
            everything.append(item)
            if told == "announced" and item["id"]:
                merger.feed(chunk("a", {key: value for key, value in item.items() if key != "result"}))
            if told in ("chunks", "announced"):
                merger.feed(chunk("a", item))
            elif told == "cumulative":
                merger.feed(chunk("a", *everything))
            elif told == "artifacts":
                merger.feed(update(artifact(f"a{len(everything)}", item)))
        if told == "lists" or ends_with_snapshot:
            merger.feed(task(artifact("a", *everything)))
        assert [item.result for item in merger.turn_tool_calls] == [item["result"] for item in calls]
        assert "dropped_by_snapshot" not in codes(merger)


def test_the_requirement_to_list_the_uri_can_be_lifted() -> None:
    assert names(merged(update(artifact("a", call("one"), listed=False)), require_artifact_uri=False)) == ["one"]


# ── snapshots ───────────────────────────────────────────────────────────────────────────────────────────────


def without_artifacts(state: str) -> list[Event]:
    bare = task(state=state)["task"]
    return [{"task": bare}, {"task": {**bare, "artifacts": []}}, {"task": {**bare, "artifacts": None}}]


# ── response text ───────────────────────────────────────────────────────────────────────────────────────────


FLIGHTS = artifact("a", text="Two flights found.")

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


PAID_ARTIFACTS = [artifact(f"a{turn}", PAID) for turn in range(4)]
PAID_AGAIN = [
    event
    for turn, made in enumerate(PAID_ARTIFACTS)
    for event in (TURN, update(made), task(*PAID_ARTIFACTS[: turn + 1]))
]
"""The same call with the same id in each turn, streamed and then in the task."""


def test_a_view_that_takes_over_in_mid_turn_knows_what_was_earlier() -> None:
    first = merged(update(artifact("a", call("one"))))
    first.begin_turn()
    second = merged(task(artifact("a", call("one")), artifact("b", call("two"))))
    second.continue_turn_of(first)
    assert [item.name for item in second.turn_tool_calls] == ["two"]


# ── any input ───────────────────────────────────────────────────────────────────────────────────────────────


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


# ── against a model of the server ───────────────────────────────────────────────────────────────────────────


calls = st.builds(call, st.sampled_from("xy"), st.sampled_from(["", "1", "2"]), result=st.none() | st.just("r"))
updates = st.builds(
    lambda artifact_id, made, text, append: update(artifact(artifact_id, *made, text=text), append=append),
    st.sampled_from("ab"),
    st.lists(calls, max_size=3),
    st.text("uvw", max_size=2),
    st.booleans(),
)


@given(st.lists(updates, max_size=8), st.lists(updates, max_size=3))
def test_after_a_snapshot_only_the_snapshot_counts(fed: list[Event], shown: list[Event]) -> None:
    artifacts = {event["artifactUpdate"]["artifact"]["artifactId"]: event for event in shown}
    snapshot = task(*(event["artifactUpdate"]["artifact"] for event in artifacts.values()), state="COMPLETED")
    alone, merger = merged(snapshot), merged(*fed, snapshot)
    findings = list(merger.findings)
    for _ in range(2):
        assert merger.tool_calls == alone.tool_calls
        assert (merger.response_text, merger.state) == (alone.response_text, alone.state)
        assert merger.findings == findings
        merger.feed(snapshot)


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


# ── limits ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_findings_are_counted_once_and_bounded() -> None:
    merger = merged(*[{}] * 10, *(chunk(f"unknown-{number}") for number in range(merge_module.MAX_FINDINGS + 50)))
    assert codes(merger) == ["malformed_event", *["append_to_unknown_artifact"] * (merge_module.MAX_FINDINGS - 1)]
    merger.feed({"artifactUpdate": {"artifact": {"artifactId": "a", "metadata": {METADATA_KEY: {}}}}})
    assert codes(merger)[-1] == "calls_not_a_list", "each code is kept once, for it may say that calls were not read"


@pytest.mark.parametrize("artifacts", [1, 3])
def test_calls_and_text_are_bounded(artifacts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge_module, "MAX_CALLS", 10)
    monkeypatch.setattr(merge_module, "MAX_TEXT_CHARS", 10)
    merger = ContinuedMerger()
    for number in range(artifacts):
        merger.feed(update(artifact(f"a{number}", *[call("one")] * 8, text="12345678")))
        merger.feed(chunk(f"a{number}", call("two"), *[call("one")] * 8, text="12345678"))
    assert (len(merger.tool_calls), len(merger.response_text.replace("\n", ""))) == (10, 10)
    assert sorted(codes(merger)) == ["text_truncated", "too_many_calls"]
    merger.feed(update(artifact("a0", call("one"), text="x")))
    assert len(merger.tool_calls) < 10
    assert merger.response_text.startswith("x")


def test_replacing_an_artifact_frees_its_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge_module, "MAX_TEXT_CHARS", 10)
    merger = merged(*[update(artifact("a", text="12345678"))] * 5)
    merger.feed(task(artifact("a", text="12345678")))
    assert merger.response_text == "12345678"
    assert merger.findings == []
    assert len(merged(status("WORKING", "x" * 50)).response_text) == 10
    assert len(merged({"message": {"parts": [{"text": "x" * 50}]}}).response_text) == 10


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


ELSEWHERE: list[Event] = [{"tool_calls": [1]}, {"parts": [{"data": {"x": {"toolCalls": [call("one")]}}}]}]
"""What an artifact may have beside the report of the extension."""
OWN = [task(state="WORKING"), update(artifact("a", call("one"), text="x"))]
JUNK: list[Any] = [None, 1, "task", [], {"other": {}}, {"task": 1}, {"artifactUpdate": {}}]
WITHOUT_CALLS: list[Any] = [None, {}, [], {METADATA_KEY: []}, {URI: []}, {URI: None}, {"trace": "x"}]

KNOWN: dict[str, Callable[[Any], Any]] = {
    "names": names,
    "turn_state": lambda merger: merger.turn_state,
    "codes": codes,
    "unknown_by": unknown_by,
    "other task named": lambda merger: "'u'" in merger.findings[0].message,
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
    "task and context": lambda merger: (merger.task_id, merger.context_id),
    "codes and messages": lambda merger: [(finding.code, finding.message) for finding in merger.findings],
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
        *(
            pytest.param(
                [update(artifact("a", call("pay", "1"), text="Hello ")), chunk("a", text="big "), update(later), *more],
                {"unknown_by": unknown},
                id=f"{later} in place of a chunk with a call, and then {more}",
            )
            for later, lost in [
                (artifact("a", text="Hello big world"), "dropped_by_snapshot"),
                (artifact("a", call("pay", "1")), None),
                (artifact("a", call("pay", "1", result="paid"), call("mail", "2")), None),
                (artifact("a", call("mail", "2")), "dropped_by_snapshot"),
            ]
            for more, unknown in [([], lost), ([update(artifact("b", call("pay", "1")))], None)]
        ),
        *(
            pytest.param(
                [update(artifact("a", call("one"), text="x")), nothing],
                {"names": [], "text": "", "unknown_by": "dropped_by_snapshot"},
                id=f"a task that ends without artifacts clears, too: {nothing}",
            )
            for state in ("COMPLETED", "FAILED", "CANCELED", "REJECTED")
            for nothing in without_artifacts(state)
        ),
        *(
            pytest.param(
                [
                    heartbeat,
                    update(artifact("a", call("one"), text="x")),
                    heartbeat,
                    update(artifact("b", call("two"), text="y")),
                    heartbeat,
                ],
                {
                    "names": ["one", "two"],
                    "text": "x\ny",
                    "state": f"TASK_STATE_{state}",
                    "findings": [],
                    "snapshot_seen": False,
                },
                id=f"a task that is not final and has no artifacts is a sign of life: {heartbeat}",
            )
            for state in ("SUBMITTED", "WORKING", "INPUT_REQUIRED", "AUTH_REQUIRED", "UNSPECIFIED", "WAITING")
            for heartbeat in without_artifacts(state)
        ),
        *(
            pytest.param(fed, {"snapshot_seen": seen}, id=f"{fed} is a snapshot: {seen}")
            for fed, seen in [
                ([task(state="SUBMITTED")], False),
                ([task(artifact("a"))], True),
                ([update(artifact("a")), task()], False),
                ([update(artifact("a")), task(state="COMPLETED")], True),
                ([task(state="SUBMITTED"), update(artifact("a"))], False),
            ]
        ),
        *(
            pytest.param([event], {"task and context": ("t", "c")}, id=f"{event} says of which task it is")
            for event in (
                task(),
                status("WORKING"),
                update(artifact("a")),
                {"message": {"messageId": "m", "taskId": "t", "contextId": "c"}},
            )
        ),
        *(
            pytest.param(said, {"text": f"Two flights found.{more}"}, id=f"text of {said}")
            for state in ("INPUT_REQUIRED", "AUTH_REQUIRED", "FAILED", "REJECTED", "CANCELED", "COMPLETED")
            for said, more in [
                ([update(FLIGHTS), status("WORKING", "searching"), status(state, "Which one?")], "\nWhich one?"),
                ([update(FLIGHTS), status(state, "Which one?"), task(FLIGHTS, state=state)], "\nWhich one?"),
                ([task(FLIGHTS, state=state, text="Which one?")], "\nWhich one?"),
                ([update(FLIGHTS), status("WORKING", "searching"), status(state)], ""),
            ]
        ),
        *(
            pytest.param(
                [task(artifact("a", text="x"), artifact("b", text="y"), state="COMPLETED", text=text)],
                {"text": "x\ny"},
                id=f"a status message {text!r} that repeats an artifact is there once",
            )
            for text in ("x", "y", "x\ny")
        ),
        *(
            pytest.param(
                [update(artifact("a", text="partial")), status(state, reason)],
                {"codes and messages": found},
                id=f"{state} because of {reason!r}",
            )
            for state in ("FAILED", "REJECTED", "CANCELED")
            for reason, found in [("no backend", [(f"task_{state.lower()}", "no backend")]), ("", [])]
        ),
        pytest.param(PAID_AGAIN, {"turn_names": ["pay"], "unknown_by": None}, id="paid in each turn"),
        pytest.param(
            [*PAID_AGAIN, task(*PAID_ARTIFACTS[:-1])],
            {"turn_names": [], "unknown_by": "dropped_by_snapshot"},
            id="paid in each turn, and the last one is gone",
        ),
        *(pytest.param([event], {"codes": ["malformed_event"]}, id=f"junk: {event}") for event in JUNK),
        *(
            pytest.param([update({**told, **content})], {"unknown_by": unknown}, id=f"{told} with {content}")
            for content in ELSEWHERE
            for told, unknown in [
                (artifact("a"), "calls_not_on_artifact"),
                ({**artifact("a"), "extensions": []}, None),
                (artifact("a", call("one")), None),
            ]
        ),
        *(
            pytest.param(
                [*OWN, other],
                {
                    "names": ["one"],
                    "text": "x",
                    "state": "TASK_STATE_WORKING",
                    "task and context": ("t", "c"),
                    "unknown_by": "calls_not_on_artifact",
                    "other task named": True,
                },
                id=f"an event of another task: {other}",
            )
            for other in of_task("u", call("two"))
        ),
        *(
            pytest.param([*OWN, other], {"unknown_by": None}, id=f"an event of another task without a call: {other}")
            for other in of_task("u")
        ),
        *(
            pytest.param(given, {"findings": []}, id=f"metadata {metadata} of an artifact that lists the extension")
            for metadata in WITHOUT_CALLS
            for told in [{**artifact("a", text="x"), "metadata": metadata}]
            for given in ([update(told)], [update(artifact("a", text="x")), task(told)])
        ),
    ],
)
def test_what_is_known_of_a_task(given: list[Any], expected: dict[str, Any]) -> None:
    """Events, with the user's messages between them, and what the task then shows."""
    merger = merged(*given)
    assert {name: KNOWN[name](merger) for name in expected} == expected
