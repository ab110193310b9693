"""Histories repeat; every call the model asked for is there once."""

from __future__ import annotations

from typing import Any

import pytest
from a2a_tool_capture.spans.messages import transcripts
from a2a_tool_capture.spans.model import Span
from a2a_tool_capture.spans.observations import Lineage
from a2a_tool_capture.spans.tool_calls import RequestedCalls
from golden.spans.building import OTHER_TRACE, an_llm_span, answers, asks, user

PARIS = {"city": "Paris"}


def read(*spans: Span) -> list[tuple[str, str, Any, str | None]]:
    found = RequestedCalls(Lineage(spans).related).of(transcripts(spans, []))
    return [(call.call_id, call.name, call.arguments, call.answer) for call in found]


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


def test_one_id_for_two_tools_is_two_calls() -> None:
    calls = read(
        an_llm_span(1, [user()], [asks(("call_1", "w", PARIS))]), an_llm_span(2, [], [asks(("call_1", "f", {}))])
    )

    assert [call[1] for call in calls] == ["w", "f"]


def test_model_calls_may_be_in_traces_of_their_own() -> None:
    call = asks(("call_1", "w", PARIS))

    assert len(read(an_llm_span(1, [user()], [call]), an_llm_span(2, [user(), call], [], trace=OTHER_TRACE, at=1))) == 1


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(
            [
                an_llm_span(1, [user()], [asks(("call_1", "w", PARIS), ("call_2", "f", {}))]),
                an_llm_span(
                    2,
                    [
                        user(),
                        asks(("call_1", "w", PARIS), ("call_2", "f", {})),
                        *[answers("call_1", "Sunny"), answers("call_2", {"n": 1})],
                    ],
                    [asks(("call_3", "w", PARIS))],
                    at=1,
                ),
                an_llm_span(
                    3,
                    [
                        user(),
                        asks(("call_1", "w", PARIS), ("call_2", "f", {})),
                        *[answers("call_1", "Sunny"), answers("call_2", {"n": 1})],
                        asks(("call_3", "w", PARIS)),
                        answers("call_3", "Rain"),
                    ],
                    [],
                    at=2,
                ),
            ],
            [("call_1", "w", PARIS, "Sunny"), ("call_2", "f", {}, '{"n": 1}'), ("call_3", "w", PARIS, "Rain")],
            id="the history of later model calls adds nothing but answers",
        ),
        pytest.param(
            [
                an_llm_span(
                    1,
                    [user("first"), asks(("call_1", "w", PARIS)), answers("call_1", "Sunny"), user("second")],
                    [asks(("call_2", "w", PARIS))],
                )
            ],
            [("call_2", "w", PARIS, None)],
            id="an earlier turn is not this one",
        ),
        pytest.param(
            [
                an_llm_span(1, [user()], [asks(("", "w", PARIS))]),
                an_llm_span(2, [user(), asks(("", "w", PARIS))], [asks(("", "w", PARIS))], at=1),
                an_llm_span(3, [user(), asks(("", "w", PARIS)), asks(("", "w", PARIS))], [], at=2),
            ],
            [("", "w", PARIS, None)] * 2,
            id="without ids repeats are counted by outputs",
        ),
        pytest.param(
            [
                an_llm_span(1, [user()], [asks(("fc_1", "w", PARIS))]),
                an_llm_span(2, [user(), asks(("call_1", "w", PARIS)), answers("call_1", "Sunny")], [], at=1),
            ],
            [("call_1", "w", PARIS, "Sunny")],
            id="item ids are replaced by the call ids of the history",
        ),
        pytest.param(
            [
                an_llm_span(1, [user()], [asks(("call_1", "w", PARIS))]),
                an_llm_span(2, [answers("call_1", "Sunny")], at=1),
            ],
            [("call_1", "w", PARIS, "Sunny")],
            id="an answer may come without its call",
        ),
    ],
)
def test_what_the_model_asked_for(given: list[Any], expected: Any) -> None:
    """Spans of model calls, and the calls in their messages."""
    assert read(*given) == expected
