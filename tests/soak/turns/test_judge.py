"""The judge finds each class of fault where it is planted, and nothing elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from soak.turns.judge import STATES, Charge, Fault, Kill, Stored, Truth, excuses, judge
from soak.turns.plan import End, conversations

ENDS = {1: End.ASKS, 2: End.COMPLETED, 3: End.MESSAGE, 4: End.FAILED}
TRUTHS = [Truth(n, "unary", end, () if n == 3 else ((n, 0), (n, 1))) for n, end in ENDS.items()]

Content = dict[int, Stored]
"""Stored turns by number."""


def right() -> Content:
    """What a right store has of these turns."""
    return {one.number: Stored(f"id-{one.number}", one.number, "done", STATES[one.end], one.calls) for one in TRUTHS}


def changed(number: int, content: Content, **what: object) -> Stored:
    return replace(content[number], **what)  # type: ignore[arg-type]


PLANTED: dict[str, tuple[Callable[[Content], list[Stored]], dict[tuple[int, Fault], int]]] = {
    "a lost call": (lambda c: [changed(2, c, calls=((2, 1),))], {(2, Fault.LOST): 1}),
    "all calls lost": (lambda c: [changed(2, c, calls=())], {(2, Fault.LOST): 2}),
    "a call twice in its turn": (lambda c: [changed(2, c, calls=((2, 0), (2, 1), (2, 0)))], {(2, Fault.DOUBLED): 1}),
    "calls again in the next turn": (
        lambda c: [changed(2, c, calls=((1, 0), (1, 1), (2, 0), (2, 1)))],
        {(2, Fault.DOUBLED): 2},
    ),
    "a call in the turn before": (
        lambda c: [changed(1, c, calls=((1, 0), (1, 1), (2, 0))), changed(2, c, calls=((2, 1),))],
        {(2, Fault.MISPLACED): 1},
    ),
    "a missing turn": (lambda c: [replace(c[2], number=None)], {(2, Fault.MISSING): 1, (-1, Fault.FOREIGN): 1}),
    "a turn stored twice": (
        lambda c: [c[2], changed(2, c, turn_id="again", calls=())],
        {(2, Fault.TWICE): 1},
    ),
    "a turn stored twice with its calls": (
        lambda c: [c[2], changed(2, c, turn_id="again")],
        {(2, Fault.TWICE): 1, (2, Fault.DOUBLED): 2},
    ),
    "an open turn": (lambda c: [changed(1, c, status="open", state="TASK_STATE_WORKING")], {(1, Fault.OPEN): 1}),
    "the state of the next turn": (lambda c: [changed(1, c, state="TASK_STATE_COMPLETED")], {(1, Fault.STATE): 1}),
    "a state without a task": (lambda c: [changed(3, c, state="TASK_STATE_WORKING")], {(3, Fault.STATE): 1}),
    "no state": (lambda c: [changed(4, c, state=None)], {(4, Fault.STATE): 1}),
    "a call that no agent made": (lambda c: [changed(2, c, calls=(*c[2].calls, None))], {(2, Fault.INVENTED): 1}),
    "a call of its own that it never made": (
        lambda c: [changed(2, c, calls=(*c[2].calls, (2, 7)))],
        {(2, Fault.INVENTED): 1},
    ),
    "a turn that no client sent": (lambda c: [c[2], Stored("x", 77, "done", None, ())], {(-1, Fault.FOREIGN): 1}),
}


def counted(charges: list[Charge]) -> dict[tuple[int, Fault], int]:
    return {(one.turn, one.fault): sum((o.turn, o.fault) == (one.turn, one.fault) for o in charges) for one in charges}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_found_and_nothing_else(name: str) -> None:
    plant, expected = PLANTED[name]
    planted = plant(right())
    content = [turn for turn in right().values() if turn.number not in {one.number or 2 for one in planted}]
    verdict = judge(TRUTHS, [*content, *planted])
    assert counted(verdict.charges) == expected
    assert not any(charge.declared for charge in verdict.charges)


def test_the_right_turns_have_nothing_wrong() -> None:
    verdict = judge(TRUTHS, right().values())
    assert verdict.charges == []
    assert verdict.wrong() == set()
    assert verdict.per_thousand() == 0


@given(st.integers(0, 1000), st.randoms(use_true_random=False), st.data())
def test_any_plan_that_is_stored_right_is_right_and_any_lost_call_is_found(
    seed: int, dice: object, data: st.DataObject
) -> None:
    turns = [turn for one in conversations(seed, 20) for turn in one.turns]
    truths = [
        Truth(turn.number, turn.kind, turn.end, tuple((turn.number, call) for call in range(turn.call_count)))
        for turn in turns
    ]
    stored = [Stored(f"{one.number}", one.number, "done", STATES[one.end], one.calls) for one in truths]
    dice.shuffle(stored)  # type: ignore[attr-defined]
    assert judge(truths, stored).charges == []
    made = [call for one in truths for call in one.calls]
    if made:
        lost = data.draw(st.sampled_from(made))
        without = [replace(one, calls=tuple(call for call in one.calls if call != lost)) for one in stored]
        (charge,) = judge(truths, without).charges
        assert (charge.turn, charge.fault) == (lost[0], Fault.LOST)


def test_a_call_in_another_turn_makes_both_wrong() -> None:
    content = right()
    content[1] = changed(1, content, calls=((1, 0), (1, 1), (2, 0)))
    content[2] = changed(2, content, calls=((2, 1),))
    assert judge(TRUTHS, content.values()).wrong() == {1, 2}


def test_a_declared_fault_is_counted_apart() -> None:
    content = right()
    content[2] = changed(2, content, calls=(), findings=("incomplete",))
    verdict = judge(TRUTHS, content.values())
    assert [charge.declared for charge in verdict.charges] == ["incomplete", "incomplete"]
    assert verdict.wrong() == set()
    assert verdict.wrong(declared=True) == {2}
    assert verdict.per_thousand() == 0


def test_a_finding_declares_only_what_its_documents_say() -> None:
    content = right()
    content[2] = changed(2, content, calls=((1, 0), (2, 0), (2, 1)), findings=("incomplete",))
    assert judge(TRUTHS, content.values()).wrong() == {2}
    content[2] = changed(2, content, findings=("earlier_calls_unknown",))
    assert judge(TRUTHS, content.values()).wrong() == set()


def test_a_fault_that_no_finding_declares_stays_one_beside_others_that_are() -> None:
    content = right()
    content[2] = changed(2, content, status="open", calls=(), findings=("incomplete",))
    verdict = judge(TRUTHS, content.values())
    assert verdict.wrong() == {2}
    assert verdict.wrong(declared=True) == set()


def test_findings_of_right_turns_are_remarks() -> None:
    content = right()
    content[2] = changed(2, content, findings=("client_gone",))
    assert judge(TRUTHS, content.values()).remarks == {"client_gone": 1}


def test_a_turn_that_never_reached_the_agent_need_not_be_stored() -> None:
    truths = [*TRUTHS[:3], replace(TRUTHS[3], executed=False, calls=(), refusal="connection refused")]
    content = [turn for turn in right().values() if turn.number != 4]
    assert [charge.fault for charge in judge(truths, content).charges] == [Fault.REFUSED]


KILL = Kill(10.0, 10.1, 0)


@pytest.mark.parametrize(
    ("began", "sent", "ended", "excused"),
    [
        (9.0, 9.4, 9.4, (False, False)),
        (9.0, 9.8, 9.8, (True, True)),
        (9.0, 9.1, 9.8, (False, True)),
        (9.0, 10.0, 14.0, (True, False)),
        (9.0, 9.4, 14.0, (False, False)),
        (10.2, 10.3, 10.4, (False, False)),
    ],
)
def test_a_kill_explains_what_was_in_progress_and_what_was_not_written(
    began: float, sent: float, ended: float, excused: tuple[bool, bool]
) -> None:
    assert excuses(began, sent, ended, 0, [KILL], follows=False) == excused
    assert excuses(began, sent, ended, 0, [], follows=False) == (False, False)
    assert not excuses(began, sent, ended, 1, [KILL], follows=False)[0]


def test_a_turn_that_follows_others_may_be_written_later() -> None:
    assert excuses(8.0, 9.0, 9.0, 0, [KILL], follows=True) == (True, True)
    assert excuses(8.0, 8.4, 8.4, 0, [KILL], follows=True) == (False, False)


def test_a_turn_that_a_kill_may_lose_is_excused_if_it_is_lost() -> None:
    truths = [*TRUTHS[:3], replace(TRUTHS[3], may_be_lost=True)]
    verdict = judge(truths, [turn for turn in right().values() if turn.number != 4])
    assert (verdict.charges, verdict.excused) == ([], 1)
    content = right()
    content[4] = changed(4, content, calls=())
    assert [charge.fault for charge in judge(truths, content.values()).charges] == [Fault.LOST, Fault.LOST]


def test_an_end_that_a_kill_may_lose_is_excused_if_the_turn_is_open() -> None:
    truths = [*TRUTHS[:3], replace(TRUTHS[3], may_stay_open=True)]
    content = right()
    content[4] = changed(4, content, status="open", state="TASK_STATE_WORKING", calls=())
    verdict = judge(truths, content.values())
    assert (verdict.charges, verdict.excused) == ([], 1)
    del content[4]
    assert [charge.fault for charge in judge(truths, content.values()).charges] == [Fault.MISSING]


def test_a_turn_of_the_api_is_read() -> None:
    turn = {
        "turn_id": "a",
        "user_text": '{"turn": 31}',
        "status": "done",
        "state": None,
        "tool_calls": [{"arguments": {"turn": 31.0, "call": 0}}, {"arguments": {"q": 1}}, {"arguments": None}],
        "findings": [{"code": "client_gone"}],
    }
    assert Stored.of(turn) == Stored("a", 31, "done", None, ((31, 0), None, None), ("client_gone",))
    assert Stored.of({**turn, "user_text": "hi"}).number is None
