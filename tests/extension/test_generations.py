"""Generations of A2A 1.1: what is missing between the updates of a task, and in which order they belong."""

from __future__ import annotations

from typing import Any

import pytest
from a2a_tool_capture import METADATA_KEY, URI, Severity, TaskMerger
from a2a_tool_capture.generations import Generations
from a2a_tool_capture.merge import ContinuedMerger
from a2a_tool_capture.wire import generation_of
from hypothesis import given
from hypothesis import strategies as st
from support.merging import merged

NUMBERS = st.sets(st.integers(1, 40), min_size=1)


def numbers(gaps: list[tuple[int, int]]) -> set[int]:
    return {number for first, last in gaps for number in range(first, last + 1)}


@given(NUMBERS, st.randoms(use_true_random=False))
def test_exactly_what_did_not_come_is_missing_in_whatever_order_the_rest_came(came: set[int], order: Any) -> None:
    first, *others = sorted(came)
    order.shuffle(others)
    seen = Generations()
    for number in (first, *others):
        seen.saw_update(number)
    assert seen.latest == max(came)
    assert numbers(seen.missing) == {*range(first, max(came))} - came
    assert {number for number in range(1, 50) if seen.has(number)} == came | {*range(1, first)}


@given(NUMBERS, st.integers(1, 45))
def test_a_task_shows_what_is_missing_up_to_its_own_generation(came: set[int], shown: int) -> None:
    seen = Generations()
    for number in sorted(came):
        seen.saw_update(number)
    before = list(seen.missing)
    seen.saw_task(shown)
    assert seen.latest == max(*came, shown)
    assert seen.missing == [gap for gap in before if gap[1] > shown]
    assert seen.shown == [gap for gap in before if gap[1] <= shown]


@given(NUMBERS, st.data())
def test_numbers_that_do_not_rise_mean_nothing(came: set[int], data: Any) -> None:
    seen = Generations()
    for number in sorted(came):
        seen.saw_update(number)
    seen.saw_update(data.draw(st.sampled_from([0, *sorted(came)])))
    assert (seen.latest, seen.missing) == (0, [])
    seen.saw_update(99)
    seen.saw_task(200)
    seen.saw_update(300)
    assert (seen.latest, seen.missing) == (0, [])


def test_the_message_of_the_user_is_a_change_without_an_event() -> None:
    seen = Generations()
    seen.saw_task(1)
    seen.saw_update(3)
    assert seen.missing == []
    seen.saw_update(5)
    assert seen.missing == [(4, 4)]
    seen.begin_turn()
    seen.saw_update(7)
    assert seen.missing == []
    assert seen.awaits(6)  # it may have been an update all the same
    seen.saw_update(6)
    assert (seen.latest, seen.has(6)) == (7, True)
    seen.begin_turn()
    seen.saw_update(10)
    assert seen.missing == [(8, 9)]


@pytest.mark.parametrize(
    ("value", "generation"),
    [(3, 3), ("3", 3), (3.0, 3), ("9007199254740993", 9007199254740993)]
    + [(odd, 0) for odd in (None, 0, "0", -1, "-1", True, 1.5, "x", "", "¹", [], {}, 2**63, "9" * 5000)],
)
def test_a_generation_is_a_number_or_its_decimal_digits(value: Any, generation: int) -> None:
    assert generation_of({"generation": value}) == generation


# ── merging ─────────────────────────────────────────────────────────────────────────────────────────────────


def chunk(generation: int, text: str, *names: str, append: bool = True) -> dict[str, Any]:
    metadata = {"metadata": {METADATA_KEY: [{"name": name, "id": name} for name in names]}} if names else {}
    content = {"artifactId": "a", "parts": [{"text": text}], "extensions": [URI], **metadata}
    return {"artifactUpdate": {"taskId": "t", "artifact": content, "append": append, "generation": str(generation)}}


def status(generation: int, state: str) -> dict[str, Any]:
    return {"statusUpdate": {"taskId": "t", "status": {"state": f"TASK_STATE_{state}"}, "generation": generation}}


def task(generation: int, *names: str, state: str = "WORKING") -> dict[str, Any]:
    artifacts = [chunk(1, "", *names)["artifactUpdate"]["artifact"]]
    inner = {"id": "t", "status": {"state": f"TASK_STATE_{state}"}, "artifacts": artifacts}
    return {"task": {**inner, "generation": generation}}


def found(merger: TaskMerger) -> list[tuple[str, Severity]]:
    return [(finding.code, finding.severity) for finding in merger.findings]


@given(st.lists(st.text("abc", min_size=1, max_size=3), min_size=1, max_size=8), st.randoms(use_true_random=False))
def test_updates_that_overtook_each_other_are_put_in_order(texts: list[str], order: Any) -> None:
    """The order in which the notifications of a webhook arrive is not defined."""
    later = [chunk(number, text) for number, text in enumerate(texts, 3)]
    later += [status(len(texts) + 3, "WORKING"), status(len(texts) + 4, "COMPLETED")]
    order.shuffle(later)
    merger = merged(status(1, "SUBMITTED"), chunk(2, "<", append=False), *later)
    assert merger.response_text == "<" + "".join(texts)
    assert merger.state == "TASK_STATE_COMPLETED"
    assert found(merger) == []


def test_a_jump_is_a_finding_until_a_task_shows_what_is_missing() -> None:
    merger = merged(status(1, "WORKING"), chunk(2, "a", "one", append=False), chunk(5, "b", "four"))
    assert found(merger) == [("missed_events", Severity.WARNING)]
    assert "from generation 2 to 5; in this turn, 2 change(s)" in merger.findings[0].message
    merger.feed(task(3, "one", "two"))
    assert found(merger)[-1] == ("missed_events", Severity.WARNING)
    merger.feed(task(6, "one", "two", "four"))
    assert found(merger)[-1] == ("missed_events", Severity.INFO)
    merger.begin_turn()
    assert found(merger) == []


def test_a_change_that_replaces_what_cannot_be_told_apart_any_more_stays_missing() -> None:
    merger = merged(status(1, "WORKING"), chunk(2, "old", append=False), chunk(4, "b"), chunk(3, "new", append=False))
    assert merger.response_text == "oldb"
    assert found(merger) == [("missed_events", Severity.WARNING)]


# ── the timeline ────────────────────────────────────────────────────────────────────────────────────────────


def says(text: str, role: str = "ROLE_AGENT") -> dict[str, Any]:
    return {"role": role, "parts": [{"text": text}]}


def reported(text: str, generation: int) -> dict[str, Any]:
    return {"status": {"state": "TASK_STATE_WORKING", "message": says(text)}, "generation": generation}


QUESTION = {"message": says("Where is it?", "ROLE_USER"), "generation": "2"}


@pytest.mark.parametrize(
    ("timeline", "answer"),
    [
        ([QUESTION, reported("Looking", 3), reported("In Kiel", 5)], "In Kiel"),
        ([QUESTION, reported("In Kiel", 3), {"status": {"state": "TASK_STATE_COMPLETED"}}], "In Kiel"),
        ([QUESTION, {"message": says("In Kiel")}, {"elicitation": {"id": "1"}, "generation": 4}], "In Kiel"),
        ([reported("Which order?", 1), QUESTION], ""),
        ([QUESTION, "junk", None, {"status": "junk", "message": []}], ""),
        ("junk", ""),
    ],
)
def test_an_answer_may_be_in_the_timeline_alone(timeline: Any, answer: str) -> None:
    inner = {"id": "t", "status": {"state": "TASK_STATE_COMPLETED"}, "timeline": timeline}
    assert merged({"task": inner}).response_text == answer


def test_what_earlier_responses_said_is_no_answer_and_what_shows_the_past_is_skipped() -> None:
    merger = ContinuedMerger()
    merger.know_earlier([], ["one\ntwo"])
    merger.begin_turn()
    artifacts = [{"artifactId": text, "parts": [{"text": text}]} for text in ("one", "two", "three")]
    merger.feed({"task": {"id": "t", "generation": 3, "artifacts": artifacts}})
    assert merger.response_text == "three"
    past, new = status(4, "WORKING"), status(6, "WORKING")
    assert not merger.has_seen(past)
    merger.skip(past)
    merger.feed(status(5, "COMPLETED"))
    assert [merger.has_seen(event) for event in (past, new)] == [True, False]
    assert found(merger) == []
