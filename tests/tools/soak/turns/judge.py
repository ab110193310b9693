"""Holds stored turns against what was executed for them. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from .plan import End, instruction_of

Call = tuple[int, int]
"""Number of the turn that made it, number of the call."""

STATES: Mapping[End, str | None] = {
    End.COMPLETED: "TASK_STATE_COMPLETED",
    End.ASKS: "TASK_STATE_INPUT_REQUIRED",
    End.FAILED: "TASK_STATE_FAILED",
    End.MESSAGE: None,
}


class Fault(StrEnum):
    LOST = "lost call"
    """In no stored turn."""
    DOUBLED = "doubled call"
    """In its own turn, and once more there or elsewhere."""
    MISPLACED = "call in the wrong turn"
    """In another turn, and not in its own."""
    INVENTED = "call never made"
    MISSING = "turn missing"
    TWICE = "turn doubled"
    OPEN = "turn left open"
    """Though its client was shown the end."""
    STATE = "wrong state"
    FOREIGN = "turn never sent"
    """A stored turn without a message of ours."""
    REFUSED = "client refused"
    """The client got an error in the place of an answer, or was not shown the end."""


DECLARES: Mapping[str, frozenset[Fault]] = {
    "incomplete": frozenset({Fault.LOST, Fault.STATE}),
    "calls_missed": frozenset({Fault.LOST, Fault.STATE}),
    "earlier_calls_unknown": frozenset({Fault.DOUBLED, Fault.MISPLACED}),
    "upstream_cut": frozenset({Fault.LOST, Fault.STATE}),
    "upstream_failed": frozenset({Fault.LOST, Fault.STATE}),
    "push_unsent": frozenset({Fault.LOST, Fault.STATE, Fault.REFUSED}),
    "push_timeout": frozenset({Fault.LOST, Fault.STATE, Fault.REFUSED}),
    "push_not_relayed": frozenset({Fault.LOST, Fault.STATE}),
}
"""What each of the documented findings on a turn says may be wrong with it."""


@dataclass(frozen=True)
class Truth:
    """A turn that was sent, and what the agent did about it."""

    number: int
    end: End
    calls: tuple[Call, ...]
    executed: bool = True
    """Whether the agent came to its end. One that never reached the agent may be stored or not."""
    refusal: str = ""
    """The error that its client got; "" where it was shown the end."""
    may_be_lost: bool = False
    """Whether the documents let it be lost: see `excuses`."""
    may_stay_open: bool = False
    """Whether the documents let its end be lost."""


@dataclass(frozen=True)
class Kill:
    """Of a proxy, between two moments."""

    since: float
    until: float
    proxy: int


WRITTEN_WITHIN_S = 0.5
"""How long what has ended may be in memory: some milliseconds, or longer while the store is slow."""

WRITTEN_AFTER_OTHERS_WITHIN_S = 1.5
"""As much for a turn that continues a task, and for those of its conversation that come later: they are stored up to a
second later."""


def excuses(
    began: float, sent: float, ended: float, proxy: int, kills: Iterable[Kill], *, follows: bool
) -> tuple[bool, bool]:
    """Whether a turn may be lost, and whether its end may. `follows`: it is not the first of its conversation.

    What storage.md lets a killed proxy lose are turns in progress, from `began` until the exchange of the message was
    `sent`, and what `ended` since the last write.
    """
    within = WRITTEN_AFTER_OTHERS_WITHIN_S if follows else WRITTEN_WITHIN_S

    def meets(kill: Kill, start: float, end: float) -> bool:
        return start <= kill.until and kill.since <= end + within

    kills = list(kills)
    return (
        any(kill.proxy == proxy and meets(kill, began, sent) for kill in kills),
        any(meets(kill, ended, ended) for kill in kills),
    )


@dataclass(frozen=True)
class Stored:
    """What the judge reads of a turn of /api/turns."""

    turn_id: str
    number: int | None
    """None for a turn whose text is no instruction."""
    status: str
    state: str | None
    calls: tuple[Call | None, ...]
    """None for a call that no agent of ours makes."""
    findings: tuple[str, ...] = ()

    @classmethod
    def of(cls, turn: Mapping[str, Any]) -> Stored:
        try:
            number = instruction_of(turn["user_text"])["turn"]
        except ValueError:
            number = None
        calls = tuple(_call(call) for call in turn["tool_calls"])
        codes = tuple(finding["code"] for finding in turn["findings"])
        return cls(turn["turn_id"], number, turn["status"], turn["state"], calls, codes)


def _call(call: Mapping[str, Any]) -> Call | None:
    match call["arguments"]:
        case {"turn": int() | float() as turn, "call": int() | float() as number}:
            return int(turn), int(number)
    return None


@dataclass(frozen=True)
class Charge:
    """One fault of one turn. `declared`: the finding that says so; "" where none does. `also`: turns that it makes
    wrong besides."""

    turn: int
    fault: Fault
    detail: str
    declared: str = ""
    also: tuple[int, ...] = ()


@dataclass
class Verdict:
    charges: list[Charge] = field(default_factory=list)
    excused: int = 0
    """Turns that the documents let be lost, whole or their end, and that were."""


def judge(truths: Sequence[Truth], stored: Iterable[Stored]) -> Verdict:
    """Every fault of the stored turns, charged to the turn that is stored wrongly.

    A finding of that turn, or of one that has its calls, may declare it.
    """
    verdict, sent = Verdict(), {truth.number for truth in truths}
    by_number: defaultdict[int, list[Stored]] = defaultdict(list)
    places: defaultdict[Call, list[int]] = defaultdict(list)
    for turn in stored:
        if turn.number not in sent:
            verdict.charges.append(Charge(-1, Fault.FOREIGN, f"{turn}"))
            continue
        by_number[turn.number].append(turn)
        for call in turn.calls:
            if call is not None:
                places[call].append(turn.number)
    for truth in truths:
        mine = by_number[truth.number]
        excused = _is_excused(truth, mine)
        verdict.excused += excused
        for charge in [*_of_turn(truth, mine), *_of_calls(truth, mine, places)]:
            if excused and charge.fault in _EXCUSED:
                continue
            witnesses = [turn for number in (charge.turn, *charge.also) for turn in by_number[number]]
            verdict.charges.append(replace(charge, declared=_declaration(charge.fault, witnesses)))
    return verdict


_EXCUSED = frozenset({Fault.MISSING, Fault.LOST, Fault.OPEN})


def _is_excused(truth: Truth, mine: Sequence[Stored]) -> bool:
    """Whether the turn is lost, or as it was before its end, and may be."""
    if not mine:
        return truth.may_be_lost
    return (truth.may_be_lost or truth.may_stay_open) and all(turn.status == "open" for turn in mine)


def _of_turn(truth: Truth, mine: Sequence[Stored]) -> Iterator[Charge]:
    number = truth.number
    if truth.refusal:
        yield Charge(number, Fault.REFUSED, truth.refusal)
    if not truth.executed:
        return
    if not mine:
        yield Charge(number, Fault.MISSING, f"no turn is stored; calls {_named(truth.calls)}")
    if len(mine) > 1:
        yield Charge(number, Fault.TWICE, ", ".join(turn.turn_id for turn in mine))
    for turn in mine:
        if turn.status == "open":
            yield Charge(number, Fault.OPEN, f"{turn.turn_id} is open in {turn.state}; it ended: {truth.end}")
        elif turn.state != STATES[truth.end]:
            yield Charge(number, Fault.STATE, f"{turn.turn_id} is in {turn.state}; it ended: {truth.end}")
        for call in turn.calls:
            if call is None or (call[0] == number and call not in truth.calls):
                yield Charge(number, Fault.INVENTED, f"{turn.turn_id} has {call}")


def _of_calls(truth: Truth, mine: Sequence[Stored], places: Mapping[Call, list[int]]) -> Iterator[Charge]:
    for call in truth.calls if truth.executed else ():
        where = Counter(places.get(call, ()))
        elsewhere = tuple(sorted(where.keys() - {truth.number}))
        named = _named([call])
        if not where:
            if mine:  # else the turn is missing as a whole
                yield Charge(truth.number, Fault.LOST, named)
        elif truth.number not in where:
            detail = f"{named} is in {', '.join(map(str, elsewhere))}"
            yield Charge(truth.number, Fault.MISPLACED, detail, also=elsewhere)
        else:
            if where[truth.number] > 1:
                yield Charge(truth.number, Fault.DOUBLED, f"{named} is there {where[truth.number]} times")
            for number in elsewhere:
                yield Charge(number, Fault.DOUBLED, f"{named} is there, too")


def _declaration(fault: Fault, witnesses: Iterable[Stored]) -> str:
    codes = (code for turn in witnesses for code in turn.findings)
    return next((code for code in codes if fault in DECLARES.get(code, ())), "")


def _named(calls: Iterable[Call]) -> str:
    return ", ".join(f"{turn}.{number}" for turn, number in calls) or "none"
