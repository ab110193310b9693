"""tool_trajectory: the table of modes, row by row, and what holds for all of them."""

from __future__ import annotations

import pytest
from a2a_tool_capture import ToolCall
from hypothesis import given
from hypothesis import strategies as st
from tool_call_evaluators import EvalCase, OptionError, ToolTrajectory, get_evaluator
from tool_call_evaluators.metrics.tool_correctness import ToolCorrectness

MODES = ["strict", "in_order", "any_order", "superset", "subset", "precision", "recall", "within"]


def calls(names):
    """`"aB"` is a call of a and one of B; a digit after it is its argument: `"a1"`."""
    out = []
    for letter in names:
        if letter.isdigit():
            out[-1] = ToolCall(out[-1].name, {"n": int(letter)})
        else:
            out.append(ToolCall(letter, {}))
    return out


def score(mode, actual, expected, **options):
    case = EvalCase(tool_calls=calls(actual), expected_tool_calls=calls(expected))
    return ToolTrajectory(mode=mode, **options).evaluate(case).score


@pytest.mark.statement(174, 175, 176, 177, 178, 179, 180)
@pytest.mark.parametrize(
    ("actual", "expected", "scores"),
    [
        #               strict in_o any_o sup sub prec rec within
        ("", "", [1, 1, 1, 1, 1, 1, 1, 1]),
        ("a", "", [0, 0, 0, 1, 0, 0, 0, 0]),
        ("", "a", [0, 0, 0, 0, 1, 0, 0, 1]),
        ("ab", "ab", [1, 1, 1, 1, 1, 1, 1, 1]),
        ("ba", "ab", [0, 1 / 2, 1, 1, 1, 1, 1, 1]),
        ("abc", "ab", [0, 2 / 3, 2 / 3, 1, 0, 2 / 3, 1, 0]),
        ("a", "ab", [0, 1 / 2, 1 / 2, 0, 1, 1, 1 / 2, 1]),
        ("aa", "a", [0, 1 / 2, 1 / 2, 1, 0, 1 / 2, 1, 1]),
        ("a", "aa", [0, 1 / 2, 1 / 2, 0, 1, 1, 1 / 2, 1]),
        ("xy", "ab", [0, 0, 0, 0, 0, 0, 0, 0]),
        ("a1", "a2", [0, 0, 0, 0, 0, 0, 0, 0]),
        ("a1b", "a2b", [0, 1 / 2, 1 / 2, 0, 0, 1 / 2, 1 / 2, 0]),
        ("abcd", "acbd", [0, 3 / 4, 1, 1, 1, 1, 1, 1]),
        ("xab", "ab", [0, 2 / 3, 2 / 3, 1, 0, 2 / 3, 1, 0]),
    ],
)
def test_the_table_of_modes(actual, expected, scores):
    assert [score(mode, actual, expected) for mode in MODES] == pytest.approx(scores)


@pytest.mark.statement(182)
def test_matching_is_optimal_where_greedy_is_not():
    # the expectation that takes anything must leave the only call that fits the second one
    expected = [{"name": "f", "arguments": {"n": {"$any": True}}}, {"name": "f", "arguments": {"n": 1}}]
    actual = [{"name": "f", "arguments": {"n": 1}}, {"name": "f", "arguments": {"n": 2}}]
    case = EvalCase(tool_calls=actual, expected_tool_calls=expected)
    assert ToolTrajectory(mode="any_order").evaluate(case).score == 1.0
    assert ToolTrajectory(mode="in_order").evaluate(case).score == 0.5


def test_the_matcher_is_an_option_in_every_form():
    for matcher in ("ignore", {"mode": "ignore"}, lambda expected, actual: True):
        assert score("strict", "a1", "a2", matcher=matcher) == 1.0
    assert get_evaluator("tool_trajectory", matcher="subset").matcher.mode == "subset"
    with pytest.raises(OptionError, match=r"option matcher must be .* one of exact, subset, superset, ignore"):
        ToolTrajectory(matcher="same")


def test_the_details_name_pairs_and_leftovers_by_position():
    case = EvalCase(
        tool_calls=[
            {"name": "search", "arguments": {"q": "x"}},
            {"name": "pay", "arguments": {"amount": 12, "to": {"iban": "A"}}},
            {"name": "log", "arguments": {}},
        ],
        expected_tool_calls=[
            {"name": "pay", "arguments": {"amount": 12, "to": {"iban": "B"}}},
            {"name": "search", "arguments": {"q": "x"}},
            {"name": "mail", "arguments": {}},
        ],
    )
    result = ToolTrajectory(mode="any_order").evaluate(case)
    assert result.details == {
        "mode": "any_order",
        "matched": [{"name": "search", "expected": 2, "actual": 1}],
        "missing": [{"name": "pay", "expected": 1}, {"name": "mail", "expected": 3}],
        "extra": [{"name": "pay", "actual": 2}, {"name": "log", "actual": 3}],
        "near_misses": [
            {
                "name": "pay",
                "expected": 1,
                "actual": 2,
                "differences": [{"path": "to.iban", "problem": "different", "expected": "B", "actual": "A"}],
            }
        ],
    }
    assert result.reason == (
        "any_order: 1 of 3 expected calls matched, 3 calls made: "
        'call 2 (pay) differs from expected call 1: to.iban: expected "B", got "A"; '
        "expected call 3 (mail) is missing; call 3 (log) was not expected."
    )


@pytest.mark.parametrize(
    ("mode", "made", "expected", "reason"),
    [
        (
            "superset", "ac", "ab",
            "superset: 1 of 2 expected calls matched, 2 calls made (all or nothing): expected call 2 (b) is missing.",
        ),
        ("recall", "ac", "ab", "recall: 1 of 2 expected calls matched, 2 calls made: expected call 2 (b) is missing."),
        ("subset", "ac", "ab", "1 of 2 calls matched, 2 expected (all or nothing): call 2 (c) was not expected."),
        ("precision", "ac", "ab", "precision: 1 of 2 calls matched, 2 expected: call 2 (c) was not expected."),
        ("within", "ac", "ab", "1 of 2 calls matched, 2 expected (all or nothing): call 2 (c) was not expected."),
        (
            "in_order", "ba", "ab",
            "in_order: 1 of 2 expected calls matched, 2 calls made: call 2 (a) is expected call 1 out of order.",
        ),
        ("in_order", "abcdefgh", "", "call 3 (c) was not expected; and 5 more."),
    ],
)  # fmt: skip
def test_the_reason_tells_only_what_the_mode_minds_and_stays_short(mode, made, expected, reason):
    case = EvalCase(tool_calls=calls(made), expected_tool_calls=calls(expected))
    assert ToolTrajectory(mode=mode).evaluate(case).reason.endswith(reason)


def test_explaining_stops_where_it_would_cost_more_than_scoring():
    case = EvalCase(tool_calls=calls("a1" * 50), expected_tool_calls=calls("a2" * 50))
    details = ToolTrajectory().evaluate(case).details
    assert (len(details["missing"]), len(details["near_misses"])) == (50, 20)


def test_within_lets_one_expectation_serve_several_calls():
    case = EvalCase(tool_calls=calls("aab"), expected_tool_calls=calls("bac"))
    details = ToolTrajectory(mode="within").evaluate(case).details
    assert [(pair["expected"], pair["actual"]) for pair in details["matched"]] == [(2, 1), (2, 2), (1, 3)]


trajectories = st.lists(st.builds(ToolCall, st.sampled_from("abc"), st.sampled_from([{}, {"n": 1}])), max_size=6)


def scored(mode, actual, expected):
    return ToolTrajectory(mode=mode).evaluate(EvalCase(tool_calls=actual, expected_tool_calls=expected)).score


@given(st.sampled_from(MODES), trajectories)
def test_every_trajectory_is_as_itself_expects(mode, actual):
    assert scored(mode, actual, actual) == 1.0


@given(trajectories, trajectories)
def test_modes_agree_with_each_other(actual, expected):
    by_mode = {mode: scored(mode, actual, expected) for mode in MODES}
    assert by_mode["strict"] <= by_mode["in_order"] <= by_mode["any_order"]
    assert by_mode["any_order"] <= min(by_mode["precision"], by_mode["recall"])
    assert by_mode["subset"] <= by_mode["within"]
    assert (by_mode["any_order"] == 1.0) is (by_mode["superset"] == by_mode["subset"] == 1.0)


def test_calls_that_do_not_count():
    made = [
        {"name": "get_order", "arguments": {}, "result": "{}"},
        {"name": "refund", "arguments": {"amount": 20}, "error": "too much"},
        {"name": "refund", "arguments": {"amount": 10}, "result": "done"},
    ]
    case = EvalCase(
        tool_calls=made, expected_tool_calls=[{"name": "get_user"}, {"name": "refund", "arguments": {"amount": 10}}]
    )
    assert ToolTrajectory(mode="strict").evaluate(case).score == 0
    assert ToolTrajectory(mode="strict", ignored_tools=["get_*"]).evaluate(case).score == 0
    result = ToolTrajectory(mode="strict", ignored_tools=["get_*"], only_succeeded=True).evaluate(case)
    assert (result.score, result.reason) == (1.0, "strict: 1 of 1 expected call matched, 1 call made.")
    assert ToolTrajectory(ignored_tools=["refund"], mode="superset").evaluate(case).score == 0


KINDS = ["names_only", "names_and_order", "names_and_args"]


def evaluate(mode, actual, expected, **options):
    case = EvalCase(
        tool_calls=[{"name": name, "arguments": {"n": n}} for name, n in actual],
        expected_tool_calls=[{"name": name, "arguments": {"n": n}} for name, n in expected],
    )
    return ToolCorrectness(mode=mode, **options).evaluate(case)


A1, A2, B1, C1 = ("a", 1), ("a", 2), ("b", 1), ("c", 1)


@pytest.mark.statement(170, 171, 172, 173)
@pytest.mark.parametrize(
    ("actual", "expected", "scores"),
    [
        #                                names  order  args
        ([], [], [1, 1, 1]),
        ([A1], [], [0, 0, 0]),
        ([], [A1], [0, 0, 0]),
        ([A1, B1], [A1, B1], [1, 1, 1]),
        ([B1, A1], [A1, B1], [1, 1 / 2, 1]),
        ([A2, B1], [A1, B1], [1, 1, 1 / 2]),
        ([A1, A1], [A1], [1, 1 / 2, 2 / 3]),
        ([A1, C1], [A1, B1], [1 / 2, 1 / 2, 1 / 2]),
        ([A1, B1, C1], [A1], [1 / 2, 1 / 3, 1 / 2]),
        ([C1], [A1], [0, 0, 0]),
        ([("a", 1.0)], [A1], [1, 1, 1]),
    ],
)
def test_scores(actual, expected, scores):
    assert [evaluate(mode, actual, expected).score for mode in KINDS] == pytest.approx(scores)


def test_order_does_not_look_at_arguments_and_args_uses_the_matcher():
    result = ToolCorrectness().evaluate(EvalCase(tool_calls=calls("ac"), expected_tool_calls=calls("ab")))
    assert result.details == {"mode": "names_only", "correct": ["a"], "redundant": ["c"], "missing": ["b"]}
    assert evaluate("names_and_order", [A1], [A2], matcher="exact").score == 1.0
    assert evaluate("names_and_args", [A1], [A2], matcher="ignore").score == 1.0
    assert evaluate("names_and_args", [A1], [A2]).reason == (
        "names_and_args: F1 = 0/2, 0 of 1 expected call matched, 1 call made: "
        "call 1 (a) differs from expected call 1: n: expected 2, got 1."
    )
