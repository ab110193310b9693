"""What `assert_tool_calls` accepts, and what it says where it does not."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from a2a_eval_proxy.testing import assert_tool_calls
from hypothesis import given
from hypothesis import strategies as st
from support.turn_samples import call, finding, turn
from tool_call_evaluators import EvalCase, ToolTrajectory
from tool_call_evaluators.metrics.tool_trajectory import TrajectoryMode

LOOKUP = call("lookup", order_id="A-1")
REFUND = call("refund", order_id="A-1", amount=14.5)
MAIL = call("mail", to="ada@example.com")
FINDING = {"code": "uri_not_listed", "severity": "warning", "message": "2 calls\nwere ignored", "where": "artifact a"}


def expected(*calls: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"name": call["name"], "arguments": call["arguments"]} for call in calls]


def failure(*args: Any, **options: Any) -> list[str]:
    """The lines of the error."""
    with pytest.raises(AssertionError) as caught:
        assert_tool_calls(*args, **options)
    return str(caught.value).splitlines()


def test_the_calls_of_several_turns_follow_one_another() -> None:
    turns = (turn(name, calls=[made]) for name, made in (("a", LOOKUP), ("b", REFUND)))
    assert_tool_calls(turns, expected(LOOKUP, REFUND))


def test_everything_that_differs_is_on_a_line() -> None:
    made = call("refund", order_id="A-1", amount=29, note="x")
    assert failure(turn("t", calls=[LOOKUP, made, MAIL]), [*expected(LOOKUP, REFUND), {"name": "close"}]) == [
        'refund(amount=29, note="x", order_id="A-1"): amount: expected 14.5, got 29 (in_order)',
        "",
        '  lookup(order_id="A-1")',
        '~ refund(amount=29, note="x", order_id="A-1")',
        "    amount: expected 14.5, got 29",
        '    note was not expected (got "x")',
        "- close()   (not made)",
        '+ mail(to="ada@example.com")   (not expected)',
    ]


def test_an_expected_result_is_compared() -> None:
    made = turn("t", calls=[{**LOOKUP, "result": "sent"}])
    assert_tool_calls(made, [{**expected(LOOKUP)[0], "result": {"$regex": "se.t"}}])
    assert failure(made, [{**expected(LOOKUP)[0], "result": "lost"}])[2:] == [
        '~ lookup(order_id="A-1")',
        '    its result: expected "lost", got "sent"',
    ]


def test_what_the_turn_knows_of_missing_calls_is_told() -> None:
    told = failure(turn("t", findings=[FINDING] * 12), expected(LOOKUP))
    assert told[0].startswith("the tool calls are unknown: ")
    assert told[4:7] == ["", "findings:", "  uri_not_listed: 2 calls were ignored"]
    assert told[-1] == "  … and 2 more"


LOST = "they may be lost, because the turn failed"


def test_calls_that_are_unknown_are_never_as_expected() -> None:
    unseen = turn("t", findings=[finding("no_capture", message="the card declares no extension")])
    lost = turn("t", state=None, findings=[finding("upstream_cut", "error", message="the stream broke off")])
    for broken, why in (
        (unseen, "the tool calls are unknown: the card declares no extension"),
        (lost, f"the tool calls are unknown: {LOST}: upstream_cut: the stream broke off"),
    ):
        assert failure(broken, [])[0] == why
        assert failure([turn("u", calls=[MAIL]), broken], expected(MAIL), mode="subset")[0] == why
        assert failure(broken, expected(LOOKUP))[:3] == [why, "", '- lookup(order_id="A-1")   (not made)']
    assert failure({**lost, "tool_calls": [MAIL]}, expected(MAIL))[0].startswith(f"the tool calls are unknown: {LOST}")
    assert LOST in failure(turn("t", state="TASK_STATE_FAILED"), [])[0]
    assert_tool_calls(turn("t", state="TASK_STATE_REJECTED"), [])


def test_arguments_that_a_trace_does_not_have_are_unknown() -> None:
    made = turn("t", calls=[{**LOOKUP, "arguments": None, "source": "otel_trace"}])
    assert_tool_calls(made, [{"name": "lookup", "arguments": None}])
    assert failure(made, expected(LOOKUP))[0] == "the arguments of call 1 (lookup): not seen"


@pytest.mark.parametrize(
    ("turns", "wanted", "options", "problem"),
    [
        ("turn", [], {}, "expected a turn, as a2a_proxy.send"),
        ([turn("t"), 3], [], {}, "expected a turn.*got 3"),
        ([], [], {}, "there is no turn; did the traffic go through the proxy"),
        (turn("t"), "lookup", {}, r"expected a list of calls, \[.*, got 'lookup'"),
        (turn("t"), {"name": "lookup"}, {}, "expected a list of calls"),
        (turn("t"), ["lookup"], {}, r'write {"name": \'lookup\', "arguments": None} in place of \'lookup\''),
        (turn("t"), [{"arguments": {}}], {}, r".*expected_tool_calls\[0\]: name is missing"),
        (turn("t"), [LOOKUP | {"id": "1"}], {}, r".*\[0\]\.id: unknown key; accepted are name, arguments"),
        (turn("t"), [], {"mode": "ordered"}, ".*mode must be"),
        (turn("t"), [], {"arguments": "sub"}, ".*arguments: option mode must be"),
    ],
)
def test_wrong_use_is_one_sentence(turns: Any, wanted: Any, options: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=f"^assert_tool_calls: {problem}") as caught:
        assert_tool_calls(turns, wanted, **options)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


calls = st.lists(st.builds(lambda name, x: call(name, x=x), st.sampled_from("ab"), st.integers(0, 1)), max_size=5)


@given(calls, calls, st.sampled_from(get_args(TrajectoryMode)))
def test_it_agrees_with_the_evaluator_and_marks_what_is_wrong(
    made: list[dict[str, Any]], wanted: list[dict[str, Any]], mode: TrajectoryMode
) -> None:
    case = EvalCase(tool_calls=made, expected_tool_calls=expected(*wanted))
    if ToolTrajectory(mode=mode).measure(case).score == 1.0:
        assert_tool_calls(turn("t", calls=made), expected(*wanted), mode=mode)
    else:
        told = failure(turn("t", calls=made), expected(*wanted), mode=mode)
        assert any(line[0] in "-+~>" for line in told[2:])
