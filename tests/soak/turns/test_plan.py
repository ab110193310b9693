"""Whatever the seed, the plan is lawful, the same each time, and no conversation depends on the others."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from soak.turns.plan import (
    NUMBERS_PER_CONVERSATION,
    TURNS_AT_MOST,
    Binding,
    End,
    Ids,
    Manner,
    Turn,
    Webhook,
    conversation,
    conversations,
    instruction_of,
)

SEEDS = st.integers(0, 10**6)
NUMBERS = st.integers(0, 10**4)


@given(SEEDS, NUMBERS)
def test_a_task_is_continued_only_where_the_agent_asked(seed: int, number: int) -> None:
    turns = conversation(seed, number).turns
    assert not turns[0].continues
    for before, turn in itertools.pairwise(turns):
        assert before.end is End.ASKS or not turn.continues


@given(SEEDS, NUMBERS)
def test_each_client_has_a_way_to_see_the_end(seed: int, number: int) -> None:
    for turn in conversation(seed, number).turns:
        if turn.manner is Manner.NOTIFIED:
            assert turn.webhook
        if turn.webhook is Webhook.AFTERWARDS:
            assert turn.manner is not Manner.UNARY  # knows no task before the end
        if turn.end is End.MESSAGE:
            assert turn.manner in (Manner.UNARY, Manner.STREAM, Manner.POLL)
            assert not turn.continues
            assert not turn.webhook
            assert turn.call_count == 0
        assert turn.drop_after > 0
        assert len(turn.pauses) == max(1, len(turn.calls))
        assert 0 <= turn.call_count <= 3
        assert 0 <= turn.wait <= 3


@given(SEEDS, NUMBERS)
def test_a_conversation_is_the_same_alone(seed: int, number: int) -> None:
    assert conversation(seed, number % 20) == list(conversations(seed, 20 * TURNS_AT_MOST))[number % 20]


@given(SEEDS, st.integers(1, 300))
def test_there_are_as_many_turns_as_asked_for(seed: int, turns: int) -> None:
    planned = list(conversations(seed, turns))
    numbers = [turn.number for one in planned for turn in one.turns]
    assert turns <= len(numbers) < turns + TURNS_AT_MOST
    assert len(set(numbers)) == len(numbers)
    assert all(turn.number // NUMBERS_PER_CONVERSATION == one.number for one in planned for turn in one.turns)


@given(SEEDS, NUMBERS)
def test_the_agent_reads_what_it_is_to_do(seed: int, number: int) -> None:
    for turn in conversation(seed, number).turns:
        wish = instruction_of(turn.instruction())
        assert (wish["turn"], wish["end"], tuple(wish["calls"])) == (turn.number, turn.end, turn.calls)


@pytest.mark.parametrize("text", ["", "hi", "3", "{}", '{"turn": "3"}', "[1]"])
def test_other_texts_are_no_instructions(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        instruction_of(text)


def test_a_thousand_turns_have_every_kind_often() -> None:
    turns = [turn for one in conversations(1, 1000) for turn in one.turns]
    for options, chosen in (
        (Manner, [turn.manner for turn in turns]),
        (End, [turn.end for turn in turns]),
        (Webhook, [turn.webhook for turn in turns]),
        (Ids, [turn.message_ids for turn in turns]),
        (Ids, [turn.call_ids for turn in turns]),
        (Binding, [turn.send.binding for turn in turns]),
        ((0, 1, 2, 3), [turn.call_count for turn in turns]),
        ((True, False), [turn.continues for turn in turns]),
        ((True, False), [_changes_binding(before, turn) for before, turn in itertools.pairwise(turns)]),
    ):
        counted = Counter(chosen)
        assert all(counted[option] >= 30 for option in options), counted


def _changes_binding(before: Turn, turn: Turn) -> bool:
    return turn.continues and turn.send.binding is not before.send.binding
