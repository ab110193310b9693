"""Tokens and cost of a turn: from the spans of model calls, counted once, kept with the turn, shown in the report."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from a2a_eval_proxy.privacy.redactor import without_content
from a2a_eval_proxy.traces.merge import TraceEvidence, spans_of, usage_of
from a2a_eval_proxy.turn import Turn
from a2a_tool_capture.spans.model import STATUS_ERROR, Span
from golden.spans.fixtures import fixtures
from support.turn_samples import turn


def span(name: str, parent: str = "", **attributes: Any) -> Span:
    return Span("t", name, parent, attributes={key.replace("__", "."): value for key, value in attributes.items()})


def chat(name: str, parent: str = "", tokens: Any = 100) -> Span:
    return span(name, parent, gen_ai__usage__input_tokens=tokens, gen_ai__usage__output_tokens=20)


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        ([], None),
        ([span("tool", gen_ai__tool__name="f")], None),
        ([chat("a"), chat("b"), chat("b")], {"input_tokens": 200, "output_tokens": 40}),
        # the agent's span repeats the sum of its calls, and a second library sees the same call
        ([chat("agent", "", 200), chat("a", "agent"), span("between", "agent"), chat("b", "between"), chat("c", "b")],
         {"input_tokens": 200, "output_tokens": 40}),
        ([span("a", llm__token_count__prompt=7, llm__cost__total=0.5)], {"input_tokens": 7, "cost": 0.5}),
        ([chat("agent", "", 5), span("a", "agent", operation__cost=0.25)],
         {"input_tokens": 5, "output_tokens": 20, "cost": 0.25}),
        ([chat("a", "b"), chat("b", "a")], None),  # each is above the other: none is known to count
        ([chat("a", tokens=value) for value in ("100", True, -1, float("nan"), None)], {"output_tokens": 20}),
    ],
)  # fmt: skip
def test_a_model_call_counts_once(spans: list[Span], expected: dict[str, Any] | None) -> None:
    assert usage_of(spans) == expected
    assert usage_of(reversed(spans)) == expected or len({item.key for item in spans}) < len(spans)


@pytest.mark.parametrize(
    ("name", "tokens"),
    [
        ("anthropic--openllmetry", (25, 35)),  # the SDK has spans of its own, next to those of the library
        ("anthropic--openinference", (25, 35)),  # ... and below them
        ("smolagents--openinference", (25, 35)),
        ("vercel-ai--native", (25, 35)),
        ("pydantic-ai--format1", (375, 218)),  # the agent's span has the sum
        ("crewai--openllmetry", None),
    ],
)
def test_recorded_instrumentations_count_each_call_once(name: str, tokens: tuple[int, int] | None) -> None:
    (recorded,) = (fixture for fixture in fixtures() if fixture.name == name)
    stated = usage_of(recorded.spans)
    usage = stated and {name: value for name, value in stated.items() if name != "models"}
    assert usage == (tokens and dict(zip(("input_tokens", "output_tokens"), tokens, strict=True)))


def test_a_turn_keeps_it_whatever_content_is_removed() -> None:
    merged = TraceEvidence(spans=[chat("a")]).added_to(Turn.from_dict(turn("a")))
    assert merged.usage == {"input_tokens": 100, "output_tokens": 20, "source": "spans"}
    assert Turn.from_dict(merged.to_dict()) == merged
    assert without_content(merged).usage == merged.usage
    assert TraceEvidence(spans=[span("later")]).added_to(merged).usage == merged.usage
    untraced = Turn.from_dict(turn("a"))
    assert "usage" not in untraced.to_dict()
    assert TraceEvidence().added_to(untraced) is untraced


def test_spans_are_told_in_the_order_of_their_start() -> None:
    first, second = (replace(chat(name), start_ns=start, end_ns=10**9) for name, start in (("a", 1), ("b", 2 * 10**9)))
    second = replace(second, status_code=STATUS_ERROR, parent_is_remote=True, attributes={})
    told = {"parent_span_id": "", "started_at": "1970-01-01T00:00:00.000000Z", "failed": False, "name": ""}
    assert spans_of([second, first, span("without a time")]) == [
        {**told, "span_id": "a", "ended_at": "1970-01-01T00:00:01.000000Z", "input_tokens": 100, "output_tokens": 20},
        {
            **told,
            "span_id": "b",
            **dict.fromkeys(("started_at", "ended_at"), "1970-01-01T00:00:02.000000Z"),
            "failed": True,
            "enters": True,
        },
    ]


def test_tokens_are_kept_by_model() -> None:
    def named(name: str, model: str, **more: Any) -> Span:
        span = chat(name, **more)
        return replace(span, attributes={**span.attributes, "gen_ai.request.model": model})

    spans = [named("a", "gpt-4o"), named("b", "gpt-5"), named("c", "gpt-4o"), chat("d")]
    merged = TraceEvidence(spans=spans).added_to(Turn.from_dict(turn("a")))
    assert merged.usage is not None
    assert merged.usage["models"] == {
        "gpt-4o": {"input_tokens": 200, "output_tokens": 40},
        "gpt-5": {"input_tokens": 100, "output_tokens": 20},
    }


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        ([], (7, None, "kagent_usage_total")),
        ([chat("a")], (100, None, "spans")),  # never added
        ([span("a", gen_ai__usage__input_tokens=5)], (5, None, "spans")),
        ([span("a", operation__cost=0.5)], (7, 0.5, "kagent_usage_total")),
    ],
)
def test_of_two_sources_of_tokens_one_is_used(spans: list[Span], expected: Any) -> None:
    stated = {"input_tokens": 7, "output_tokens": 1, "total_tokens": 8, "source": "kagent_usage_total"}
    merged = TraceEvidence(spans=spans).added_to(Turn.from_dict(turn("a", usage=stated)))
    usage = merged.usage or {}
    assert (usage["input_tokens"], usage.get("cost"), usage["source"]) == expected
