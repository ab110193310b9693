"""Histories repeat; every call the model asked for is there once."""

from __future__ import annotations

from typing import Any

from a2a_tool_capture.spans.messages import transcripts
from a2a_tool_capture.spans.model import Span
from a2a_tool_capture.spans.observations import Lineage
from a2a_tool_capture.spans.tool_calls import RequestedCalls
from golden.spans.building import OTHER_TRACE, an_llm_span, answers, asks, user

PARIS = {"city": "Paris"}


def read(*spans: Span) -> list[tuple[str, str, Any, str | None]]:
    found = RequestedCalls(Lineage(spans).related).of(transcripts(spans, []))
    return [(call.call_id, call.name, call.arguments, call.answer) for call in found]


def test_the_history_of_later_model_calls_adds_nothing_but_answers() -> None:
    first, second = asks(("call_1", "w", PARIS), ("call_2", "f", {})), asks(("call_3", "w", PARIS))
    results = [answers("call_1", "Sunny"), answers("call_2", {"n": 1})]

    assert read(
        an_llm_span(1, [user()], [first]),
        an_llm_span(2, [user(), first, *results], [second], at=1),
        an_llm_span(3, [user(), first, *results, second, answers("call_3", "Rain")], [], at=2),
    ) == [("call_1", "w", PARIS, "Sunny"), ("call_2", "f", {}, '{"n": 1}'), ("call_3", "w", PARIS, "Rain")]


def test_an_earlier_turn_is_not_this_one() -> None:
    history = [user("first"), asks(("call_1", "w", PARIS)), answers("call_1", "Sunny"), user("second")]

    assert read(an_llm_span(1, history, [asks(("call_2", "w", PARIS))])) == [("call_2", "w", PARIS, None)]


def test_without_ids_repeats_are_counted_by_outputs() -> None:
    call = asks(("", "w", PARIS))

    assert (
        read(
            an_llm_span(1, [user()], [call]),
            an_llm_span(2, [user(), call], [call], at=1),
            an_llm_span(3, [user(), call, call], [], at=2),
        )
        == [("", "w", PARIS, None)] * 2
    )


def test_without_ids_or_outputs_repeats_are_counted_by_the_longest_history() -> None:
    call = asks(("", "w", PARIS))

    assert len(read(an_llm_span(1, [user(), call]), an_llm_span(2, [user(), call, call], at=1))) == 2


def test_an_agents_span_repeats_what_its_model_calls_gave() -> None:
    call = asks(("", "w", PARIS))

    assert len(
        read(
            an_llm_span(1, [user()], [call, call], took=9),
            an_llm_span(2, [user()], [call], parent=1, at=1),
            an_llm_span(3, [user(), call], [call], parent=1, at=2),
        )
    ) == 2  # fmt: skip


def test_item_ids_are_replaced_by_the_call_ids_of_the_history() -> None:
    assert read(
        an_llm_span(1, [user()], [asks(("fc_1", "w", PARIS))]),
        an_llm_span(2, [user(), asks(("call_1", "w", PARIS)), answers("call_1", "Sunny")], [], at=1),
    ) == [("call_1", "w", PARIS, "Sunny")]


def test_an_answer_may_come_without_its_call() -> None:
    assert read(
        an_llm_span(1, [user()], [asks(("call_1", "w", PARIS))]), an_llm_span(2, [answers("call_1", "Sunny")], at=1)
    ) == [("call_1", "w", PARIS, "Sunny")]


def test_one_id_for_two_tools_is_two_calls() -> None:
    calls = read(
        an_llm_span(1, [user()], [asks(("call_1", "w", PARIS))]), an_llm_span(2, [], [asks(("call_1", "f", {}))])
    )

    assert [call[1] for call in calls] == ["w", "f"]


def test_model_calls_may_be_in_traces_of_their_own() -> None:
    call = asks(("call_1", "w", PARIS))

    assert len(read(an_llm_span(1, [user()], [call]), an_llm_span(2, [user(), call], [], trace=OTHER_TRACE, at=1))) == 1
