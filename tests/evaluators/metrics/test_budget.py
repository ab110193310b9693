"""budget: limits of time, calls, tokens and cost; prices."""

from __future__ import annotations

from typing import Any

import pytest
from tool_call_evaluators import EvalCase, OptionError, SuiteError, evaluate_sync, parse_suite
from tool_call_evaluators.metrics.budget import Budget
from tool_call_evaluators.resources import PRICES, Price, cost_of, price_of

TOKENS = {"input_tokens": 1000, "output_tokens": 200, "total_tokens": 1200, "source": "spans"}
MODELS = {"gpt-4o": {"input_tokens": 1000, "output_tokens": 200}}


def evaluate(resources: Any, **limits: Any) -> Any:
    return Budget(**limits).evaluate(EvalCase(tool_calls=[{"name": "a"}] * 2, resources=resources))


@pytest.mark.parametrize(
    ("limits", "resources", "score"),
    [
        ({"max_seconds": 2}, {"seconds": 2.0}, 1),
        ({"max_seconds": 2}, {"seconds": 2.001}, 0),
        ({"max_first_event_seconds": 0.5}, {"first_event_seconds": 0.4}, 1),
        ({"max_calls": 2}, None, 1),
        ({"max_calls": 1}, None, 0),
        ({"max_calls": 0}, None, 0),
        ({"max_input_tokens": 999, "max_output_tokens": 200}, TOKENS, 0.5),
        ({"max_total_tokens": 1200}, TOKENS, 1),
        ({"max_cost": 0.0045}, {**TOKENS, "models": MODELS}, 1),
        ({"max_cost": 0.0044}, {**TOKENS, "models": MODELS}, 0),
        ({"max_cost": 0.5}, {"cost": 0.6}, 0),
        ({"max_cost": 0.5}, {**TOKENS, "models": MODELS, "cost": 0.4}, 1),  # what is stated goes before prices
        # unknown: skipped
        ({"max_seconds": 2}, None, None),
        ({"max_first_event_seconds": 2}, {"seconds": 1}, None),
        ({"max_total_tokens": 9}, {"seconds": 1}, None),
        ({"max_total_tokens": 9}, {"input_tokens": 1}, None),
        ({"max_cost": 9}, TOKENS, None),
        ({"max_cost": 9}, {**TOKENS, "models": {"mystery": MODELS["gpt-4o"]}}, None),
        ({"max_cost": 9}, {**TOKENS, "models": {"gpt-4o": {"input_tokens": 1000}}}, None),
        ({"max_calls": 2, "max_total_tokens": 9}, None, None),
        ({"max_calls": 1, "max_total_tokens": 9}, None, 0),  # what is known exceeds its limit
        ({"max_total_tokens": 1300}, {**TOKENS, "at_least": True}, None),
        ({"max_total_tokens": 1100}, {**TOKENS, "at_least": True}, 0),
        ({"max_cost": 1}, {**TOKENS, "models": MODELS, "at_least": True}, None),
    ],
)
def test_limits(limits: dict[str, Any], resources: Any, score: float | None) -> None:
    result = evaluate(resources, **limits)
    assert result.score == score
    assert result.status == {None: "skipped", 1: "passed"}.get(score, "failed")
    assert result.reason


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), -1, "7", True, None])
@pytest.mark.parametrize("name", ["seconds", "total_tokens", "cost"])
def test_what_is_no_amount_meets_no_limit(name: str, wrong: Any) -> None:
    assert evaluate({name: wrong}, **{f"max_{name}": 5}).status == "skipped"


def test_a_conversation_is_the_sum_of_its_turns() -> None:
    turns = [{"resources": {**TOKENS, "seconds": 1.0, "first_event_seconds": 0.5}}, {"resources": {"seconds": 2.0}}]
    whole = EvalCase(turns=turns, tool_calls=[{"name": "a"}] * 3)
    details = (
        Budget(max_seconds=2.5, max_calls=3, max_first_event_seconds=1, max_total_tokens=1000).evaluate(whole).details
    )
    assert details["max_seconds"] == {"limit": 2.5, "actual": 3.0}
    assert details["max_calls"]["actual"] == 3
    assert details["max_total_tokens"] == {"limit": 1000, "actual": 1200}, "one turn alone exceeds it"
    assert "unknown" in details["max_first_event_seconds"]
    assert Budget(max_total_tokens=5000).evaluate(whole).status == "skipped"
    assert Budget(max_seconds=1).evaluate(EvalCase(turns=[])).status == "skipped"


def test_the_sources_of_tokens_are_named() -> None:
    result = evaluate(TOKENS, max_total_tokens=5000)
    assert (result.details["source"], result.reason) == ("spans", "1 of 1 limit met (tokens 1,200).")
    assert "source" not in evaluate({**TOKENS, "seconds": 1}, max_seconds=3).details


@pytest.mark.parametrize(
    "limits", [{}, {"max_cost": -1}, {"max_cost": float("nan")}, {"max_seconds": float("inf")}, {"max_calls": 1.5}]
)
def test_wrong_limits_are_refused(limits: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match="budget"):
        Budget(**limits)


@pytest.mark.parametrize(
    ("model", "price"),
    [
        ("gpt-4o", PRICES["gpt-4o"]),
        ("openai/gpt-4o-2024-08-06", PRICES["gpt-4o"]),
        ("gpt-4o-mini-2024-07-18", PRICES["gpt-4o-mini"]),
        ("models/gemini-2.5-flash", PRICES["gemini-2.5-flash"]),
        ("claude-haiku-4-5-20251001", PRICES["claude-haiku-4-5"]),
        ("gpt-4o-audio", None),
        ("", None),
    ],
)
def test_prices_of_models(model: str, price: Price | None) -> None:
    assert price_of(model, PRICES) == price


def test_a_name_goes_before_a_pattern_and_a_free_model_has_a_price() -> None:
    prices = {"gpt-*": Price(1, 1), "gpt-4*": Price(2, 2), "gpt-4o": Price(0, 0)}
    assert price_of("gpt-4o-2024-08-06", prices) == Price(0, 0)
    assert price_of("gpt-4.1", prices) == Price(1, 1)
    assert cost_of({**TOKENS, "models": MODELS}, prices) == 0


SUITE = "suite: x\nprices: PRICES\nevaluators: [{budget: {max_cost: 0.01}}]\ncases: [{id: a, turns: [{user: hi}]}]"


def test_the_prices_of_a_suite_replace_the_table() -> None:
    suite = parse_suite(SUITE.replace("PRICES", "{gpt-4o: {input: 10, output: 0}}"))

    def result(**resources: Any) -> Any:
        case = suite.cases[0].eval_case(0, resources={**TOKENS, **resources})
        return evaluate_sync(case, suite.build_evaluators())[0]

    assert result(models=MODELS).details["max_cost"]["actual"] == pytest.approx(0.01)
    assert result(models={"gpt-5": MODELS["gpt-4o"]}).status == "skipped"


@pytest.mark.parametrize(
    "wrong",
    ["{a: 1}", "{a: {input: 1}}", "{a: {input: -1, output: 1}}", "{a: {input: .nan, output: 1}}", "nowhere.yaml", "[]"],
)
def test_wrong_prices_are_refused(wrong: str) -> None:
    with pytest.raises(SuiteError, match=r"prices|number that JSON cannot hold"):
        parse_suite(SUITE.replace("PRICES", wrong))
