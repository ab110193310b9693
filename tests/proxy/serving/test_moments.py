"""When what is observed of tasks is written, folded, tried again and deleted."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from a2a_eval_proxy.serving import agent_capture, task_log
from a2a_eval_proxy.store.observations import Observed
from a2a_tool_capture import Finding, Severity
from proxy.serving.moments import CLOCK, START, TIME, Proxy, quickly

LATE = Finding("late", "It comes late.", Severity.INFO, "capture")
GRAVE = Finding("calls_missed", "It comes late.", Severity.WARNING, "capture")
MIB = 2**20


@pytest.fixture(autouse=True)
def moments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_log, "CLOCK", CLOCK)
    monkeypatch.setattr(agent_capture, "CLOCK", CLOCK)


@pytest.mark.parametrize(
    ("shared", "end", "folded", "deleted"),
    [(False, "COMPLETED", 1.02, 62.0), (False, "INPUT_REQUIRED", 1.02, 3602.0), (True, "COMPLETED", 1.1, 62.0)],
)
@quickly
async def test_a_task_is_written_at_once_and_folded_and_deleted_later(
    shared: bool, end: str, folded: float, deleted: float
) -> None:
    proxy = Proxy(shared=shared)
    await asyncio.sleep(1.0)
    entry = proxy.sent("one")
    await asyncio.sleep(0.001)
    proxy.shown(entry, "WORKING")
    await asyncio.sleep(0.999)
    proxy.shown(entry, end)
    proxy.ended(entry)
    await asyncio.sleep(0.5)
    assert proxy.done("written") == [(1.0, "written", 1.0), (1.005, "written", 1.001), (2.0, "written", 2.0)]
    assert proxy.done("turns", "open", "take", "kept until") == [
        (folded, "turns", 200),
        (folded, "open", "one"),
        (folded + 1.0, "turns", 200),
        (folded + 1.0, "take", "one", end),
        (folded + 1.0, "kept until", deleted),
    ]
    proxy.shown(proxy.capture.book.follow(), end, live=False)
    await proxy.capture.settled()
    assert (proxy.done("again"), proxy.observed()) == ([], ["sent", "event", "event", "ended", "event"])
    proxy.shown(proxy.sent("two", ""), "WORKING")
    assert proxy.capture.behind == (end != "COMPLETED"), "the id of a task that is over may be used again"


@pytest.mark.parametrize(("shared", "first", "missed"), [(False, 0.02, 0.0), (True, 0.1, 8.0)])
@quickly
async def test_a_proxy_gives_signs_of_life_and_looks_for_what_is_silent(
    shared: bool, first: float, missed: float
) -> None:
    proxy = Proxy(shared=shared)
    proxy.sent("one")
    await asyncio.sleep(7.0)
    alive = [round(first + 2.005 * number, 3) for number in range(4)]
    assert proxy.done("alive") == [(at, "alive", at) for at in alive]
    assert proxy.done("others missed since") == [(at, "others missed since", round(at - missed, 3)) for at in alive]
    assert proxy.done("silent since") == [
        (first, "silent since", first),
        (alive[2], "silent since", round(alive[2] - 8.0, 3)),
    ]
    assert proxy.done("deleted until") == [(at, "deleted until", at) for at in (first, alive[2])]


@quickly
async def test_while_the_store_is_away_it_is_tried_each_second_and_turns_wait_for_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    proxy = Proxy()
    entry = proxy.sent("one")
    await asyncio.sleep(1.0)
    proxy.kept.away_until = 3.5
    proxy.shown(entry, "COMPLETED")
    await asyncio.sleep(1.5)
    assert proxy.capture.behind == 1
    for turn_id, conversation in (("two", "c"), ("three", "another")):
        own = proxy.sent(turn_id, "", conversation)
        proxy.shown(own, "COMPLETED", turn_id, conversation=conversation)
        proxy.ended(own)
    await asyncio.sleep(2.0)
    assert proxy.capture.behind == 0
    assert [line[0] for line in proxy.done("written")] == [0.0, 1.0, 2.0, 2.5, 3.0, 4.0]
    assert proxy.done("take") == [
        (2.5, "take", "three", "COMPLETED"),
        (3.5, "take", "two", "COMPLETED"),
        (4.02, "take", "one", "COMPLETED"),
    ]
    assert caplog.messages == ["the store could not be asked about tasks 1 time(s)"]


@quickly
async def test_a_fold_that_fails_is_made_again_after_a_second(caplog: pytest.LogCaptureFixture) -> None:
    proxy = Proxy()
    await asyncio.sleep(1.0)
    proxy.sent("one")
    await asyncio.sleep(0.01)
    proxy.kept.away_until = 2.0
    await asyncio.sleep(2.0)
    assert proxy.done("read", "open") == [(1.02, "read"), (2.02, "read"), (2.02, "open", "one")]


@quickly
async def test_a_turn_that_waits_for_earlier_ones_is_passed_on_once_where_its_task_goes_on() -> None:
    proxy = Proxy()
    proxy.shown(proxy.sent("first"), "WORKING")
    own = proxy.sent("second", "")
    proxy.shown(own, "COMPLETED", "u")
    proxy.ended(own)
    assert proxy.done("take") == []
    proxy.sent("third", "u")
    await asyncio.sleep(1.0)
    assert proxy.done("take") == [(0.0, "take", "second", "COMPLETED")]
    assert [turn.turn_id for turn in proxy.capture.open_turns] == ["first", "third"]


@quickly
async def test_live_reports_are_of_ten_turns_each_and_50_ms_apart() -> None:
    proxy = Proxy()
    proxy.capture.report_changes(True)
    for number in range(10):
        await asyncio.sleep(0.001)
        proxy.shown(proxy.sent(f"{number}", ""), "WORKING", f"own {number}")
    for number in range(10, 13):
        await asyncio.sleep(0.001)
        logged = proxy.sent(f"{number}", f"more {number}")
    await asyncio.sleep(1.0)
    told = [(0.001, "0"), *((0.051, f"{n}") for n in range(1, 11)), *((0.101, f"{n}") for n in (11, 12))]
    assert proxy.done("changed") == [(at, "changed", turn_id) for at, turn_id in told]
    assert [turn.turn_id for turn in proxy.capture.latest_open(4)] == ["12", "11", "10", "9"]
    assert [turn.turn_id for turn in proxy.capture.latest_open(4, "12")] == ["12"]
    proxy.shown(logged, "WORKING", "more 12")
    await asyncio.sleep(0.03)
    assert proxy.done("changed")[13:] == [(1.033, "changed", "12")]
    entry = proxy.sent("last", "")
    proxy.shown(entry, "COMPLETED", "last")
    proxy.ended(entry)
    assert proxy.done("changed")[14:] == [(1.043, "changed", "last")]
    proxy.capture.report_changes(False)
    await proxy.capture.close(1.0)
    assert len(proxy.done("changed")) == 15


@pytest.mark.parametrize(
    ("keeps_open", "of_tasks"),
    [
        (True, [("open", "three"), ("open", "one")]),
        (False, [("take", "three", None, "incomplete"), ("take", "one", "WORKING", "incomplete")]),
    ],
)
@pytest.mark.parametrize(("shared", "last"), [(False, (1.0, "alive", 1.0)), (True, (1.0, "others forgotten"))])
@quickly
async def test_a_proxy_that_stops_leaves_open_turns_or_closes_them(
    keeps_open: bool, of_tasks: list[Any], shared: bool, last: Any
) -> None:
    proxy = Proxy(keeps_open=keeps_open, shared=shared)
    proxy.shown(proxy.sent("one", ""), "WORKING", "t")
    proxy.sent("two", "")
    proxy.sent("three", "u")
    await asyncio.sleep(1.0)
    await proxy.capture.close(5.0)
    done = proxy.done("open", "take")
    assert [line[1:] for line in done] == [*of_tasks, ("take", "two", None, "incomplete")]
    assert proxy.done("alive", "others forgotten")[-1] == last
    assert proxy.capture.number_answered == 0


@pytest.mark.parametrize("stops", [True, False])
@quickly
async def test_a_turn_of_a_proxy_that_is_gone_is_closed_by_another(stops: bool) -> None:
    """What a killed proxy had begun is folded as it is, as soon as it is missed."""
    gone = Proxy(shared=True)
    gone.shown(gone.sent("one"), "WORKING")
    await asyncio.sleep(1.0)
    if stops:
        await gone.capture.close(5.0)
    gone.kept.away_until = float("inf")
    proxy = Proxy(gone, shared=True, turn_timeout=20.0)
    proxy.shown(poll := proxy.capture.book.follow(), "WORKING", live=False)
    proxy.ended(poll)
    await asyncio.sleep(60.0)
    assert [line[0] for line in proxy.done("read")] == ([1.1, 21.001] if stops else [1.1, 9.12, 21.001])
    why = ["incomplete"] if stops else ["process_ended", "incomplete"]
    assert proxy.done("take") == [(21.001, "take", "one", "WORKING", *why)]


@pytest.mark.parametrize(("found", "read"), [(True, [0.02 + second for second in range(31)]), (False, [0.02, 30.02])])
@quickly
async def test_what_is_found_or_shown_of_an_unknown_task_waits_30_s_for_its_turn(
    found: bool, read: list[float]
) -> None:
    proxy = Proxy()
    if found:
        proxy.capture.book.report("t", LATE, TIME.now)
    else:
        proxy.shown(proxy.capture.book.follow(), "COMPLETED", live=False)
    await asyncio.sleep(65.0)
    assert [line[0] for line in proxy.done("read")] == read
    assert [line[2] for line in proxy.done("kept until")] == [60.0]
    assert proxy.observed() == []


@pytest.mark.parametrize(("finding", "verdict"), [(GRAVE, [("verdict", "run", "incomplete")]), (LATE, [])])
@quickly
async def test_a_finding_comes_after_its_turn(finding: Finding, verdict: list[Any]) -> None:
    """A verdict stands no longer where the calls are not known any more."""
    proxy = Proxy(scores=True)
    entry = proxy.sent("one")
    proxy.shown(entry, "COMPLETED")
    proxy.ended(entry)
    await proxy.capture.settled()
    proxy.capture.book.report("t", finding, TIME.now)
    await proxy.capture.settled()
    assert [line[1:] for line in proxy.done("ended", "again", "verdict")] == [
        ("ended", "one"),
        ("again", "one", "COMPLETED", finding.code),
        *verdict,
    ]


@quickly
async def test_a_finding_waits_until_a_turn_of_which_no_observations_are_left_is_scored() -> None:
    proxy = Proxy(scores=True)
    entry = proxy.sent("one")
    proxy.shown(entry, "COMPLETED")
    proxy.ended(entry)
    await asyncio.sleep(70.0)
    assert proxy.observed() == []
    proxy.capture.book.report("t", LATE, TIME.now)
    await asyncio.sleep(1.5)
    proxy.kept.turns["one"]["status"] = "done"
    await asyncio.sleep(1.0)
    assert [line[0] for line in proxy.done("read")] == [0.02, 70.02, 71.02, 72.02]
    assert proxy.done("revise", "verdict", "kept until")[1:] == [
        (72.02, "revise", "one", "late"),
        (72.02, "verdict", "run", "incomplete"),
        (72.02, "kept until", 130.0),
    ]


@quickly
async def test_what_cannot_be_read_of_an_unknown_task_is_not_read_again_and_goes_in_time(
    caplog: pytest.LogCaptureFixture,
) -> None:
    proxy = Proxy()
    await proxy.kept.observations(proxy.agent.key).add([Observed("a key", TIME.now, "[torn")])
    proxy.sent("one")
    await asyncio.sleep(65.0)
    assert proxy.done("kept until") == [(0.025, "kept until", 60.025)]
    assert proxy.observed() == ["sent"]
    assert "a key" in caplog.text


@quickly
async def test_a_silent_turn_is_open_as_long_as_notifications_may_come() -> None:
    async def awaits(task_id: str) -> bool:
        return TIME.now < START + 200.0

    proxy = Proxy(awaits=awaits, turn_timeout=100.0)
    proxy.shown(proxy.sent("one"), "WORKING")
    await asyncio.sleep(300.0)
    assert [line[0] for line in proxy.done("read")] == [0.02 + 25.0 * number for number in range(9)]
    assert proxy.done("take") == [(200.02, "take", "one", "WORKING", "incomplete")]


@quickly
async def test_what_is_captured_is_settled_when_answered_turns_are_closed() -> None:
    proxy = Proxy()
    logged, own = proxy.sent("one"), proxy.sent("two", "")
    proxy.shown(logged, "COMPLETED")
    await asyncio.sleep(1.0)
    proxy.shown(own, "COMPLETED", "o")
    assert proxy.capture.number_answered == 2
    settled = asyncio.create_task(proxy.capture.settled())
    await asyncio.sleep(0.5)
    proxy.ended(own)
    await settled
    assert proxy.done("take") == [(1.5, "take", "two", "COMPLETED"), (2.001, "take", "one", "COMPLETED")]
    assert proxy.capture.number_answered == 0
    assert "no_capture" in str(proxy.kept.turns["one"]["findings"])


@pytest.mark.parametrize(
    ("sizes", "parts", "kept"),
    [
        ([16 * MIB - 1, 1, 1, 1], 1, 2),
        ([17 * MIB, 0, 1], 1, 2),
        ([20, 1, 1], 10**9, 1),
    ],
)
@quickly
async def test_what_is_left_out_of_a_large_task_makes_its_calls_unknown_once(
    sizes: list[int], parts: int, kept: int
) -> None:
    proxy = Proxy(parts=parts)
    entry = proxy.sent("one")
    for size in sizes:
        proxy.shown(entry, "WORKING", size=size)
    proxy.shown(entry, "COMPLETED", size=0)
    proxy.ended(entry)
    await asyncio.sleep(1.0)
    assert proxy.observed() == ["sent", *["event"] * kept, "finding", "event", "ended"]
    assert proxy.done("take") == [(0.02, "take", "one", "COMPLETED", "calls_missed")]


@quickly
async def test_open_turns_for_which_there_is_no_room_are_closed_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    proxy = Proxy(parts=10**9)
    for turn_id, task in (("one", "o"), ("two", "")):
        proxy.shown(proxy.sent(turn_id, ""), "WORKING", task, size=10)
    await asyncio.sleep(0.01)
    assert proxy.done("take") == [(0.0, "take", "two", "WORKING", "incomplete")]
    assert proxy.metrics.turns_evicted == 1
    proxy.shown(proxy.sent("three", ""), "WORKING", "", size=10)
    await proxy.capture.close(1.0)
    assert caplog.messages == ["open turns take too much memory: 1 turn(s) were closed as incomplete"] * 2


@quickly
async def test_what_is_not_in_turns_when_a_proxy_stops_is_said(caplog: pytest.LogCaptureFixture) -> None:
    proxy = Proxy()
    proxy.kept.away_until = 100.0
    proxy.sent("one")
    await asyncio.sleep(2.5)
    await proxy.capture.close(1.0)
    assert caplog.messages == [
        "the store could not be asked about tasks 1 time(s)",
        "what was observed last of tasks is not in their turns: the database is away",
        "the store could not be asked about tasks 3 time(s)",
    ]


@pytest.mark.parametrize("steps", range(8))
@quickly
async def test_a_proxy_that_stops_at_the_moment_of_a_write_does_nothing_more(steps: int) -> None:
    """Whatever step of the loop that is."""
    proxy = Proxy()
    await asyncio.sleep(1.0)
    proxy.sent("one")
    for _ in range(steps):
        await asyncio.sleep(0)
    await proxy.capture.close(1.0)
    await asyncio.sleep(10.0)
    assert {line[0] for line in proxy.kept.lines} == {1.0}
