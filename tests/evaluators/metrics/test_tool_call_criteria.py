"""tool_call_order, tool_call_count and tool_call_output."""

from __future__ import annotations

import pytest
from a2a_tool_capture import ToolCall
from hypothesis import given
from hypothesis import strategies as st
from tool_call_evaluators import EvalCase, OptionError, Status, ToolCallArgs, get_evaluator
from tool_call_evaluators.metrics.tool_call_criteria import ToolCallCount, ToolCallOrder, ToolCallOutput


def made(names):
    return [{"name": name} for name in names]


@pytest.mark.parametrize(
    ("actual", "expected", "score", "strict", "lcs"),
    [
        ("", "", 1, 1, ""),
        ("a", "", 0, 0, ""),
        ("", "a", 0, 0, ""),
        ("abc", "abc", 1, 1, "abc"),
        ("axbyc", "abc", 1, 0, "abc"),  # further calls cost nothing unless strict
        ("ba", "ab", 1 / 2, 0, None),
        ("ac", "abc", 2 / 3, 0, "ac"),
        ("a", "aa", 1 / 2, 0, "a"),
        ("xyz", "abc", 0, 0, ""),
    ],
)
def test_order(actual, expected, score, strict, lcs):
    case = EvalCase(tool_calls=made(actual), tool_calls_order=list(expected))
    result = ToolCallOrder().evaluate(case)
    assert result.score == pytest.approx(score)
    assert ToolCallOrder(strict=True).evaluate(case).score == strict
    if lcs is not None:
        assert result.details["lcs"] == list(lcs)
    assert (result.details["actual"], result.details["expected"]) == (list(actual), list(expected))


@pytest.mark.parametrize(
    ("comparator", "satisfied_by"),
    [(">", {3}), (">=", {2, 3}), ("<", {0, 1}), ("<=", {0, 1, 2}), ("=", {2}), ("==", {2}), ("!=", {0, 1, 3})],
)
def test_comparators(comparator, satisfied_by):
    evaluator = ToolCallCount(tool_calls_count={"a": [comparator, 2]})
    for times in range(4):
        score = evaluator.evaluate(EvalCase(tool_calls=made("a" * times))).score
        assert score == float(times in satisfied_by)


def test_count_is_the_share_of_criteria_or_all_of_them():
    case = EvalCase(
        tool_calls=made("aab"), tool_calls_count={"a": ["=", 2], "b": [">", 1], "c": ["=", 0], "d": [">=", 1]}
    )
    result = ToolCallCount().evaluate(case)
    assert result.score == 0.5
    assert ToolCallCount(strict=True).evaluate(case).score == 0.0
    assert result.details["b"] == {"actual": 1, "comparator": ">", "expected": 1, "score": 0.0}
    assert result.reason == (
        "2 of 4 counts as expected: b was called 1 time, expected > 1; d was called 0 times, expected >= 1."
    )


OUTPUTS = [{"name": "a", "output": "one"}, {"name": "a", "output": "two"}]


def outputs(*results, expected, **options):
    case = EvalCase(tool_calls=[{"name": name, "result": result} for name, result in results])
    return ToolCallOutput(tool_outputs=expected, **options).evaluate(case)


@pytest.mark.parametrize(
    ("results", "expected", "score", "strict"),
    [
        ([], [], 1, 1),
        ([("a", "one")], [], 0, 0),
        ([], OUTPUTS, 0, 0),
        ([("a", "one"), ("a", "two")], OUTPUTS, 1, 1),
        ([("a", "two"), ("a", "one")], OUTPUTS, 1, 1),  # a mismatch is passed over
        ([("a", "one")], OUTPUTS, 1 / 2, 0),
        ([("a", "one")], [OUTPUTS[0], OUTPUTS[0]], 1 / 2, 0),  # each call serves once
        ([("b", "one")], [OUTPUTS[0]], 0, 0),
        ([("a", "one"), ("z", "x")], [OUTPUTS[0]], 1, 1),
    ],
)
def test_output(results, expected, score, strict):
    assert outputs(*results, expected=expected).score == score
    assert outputs(*results, expected=expected, strict=True).score == strict


@pytest.mark.parametrize(
    ("result", "output", "equal"),
    [
        ("one", "one", True),
        ("one", "One", False),
        ('{"content": "one", "more": 1}', "one", True),
        ('{"content": {"n": 1.0}}', '{"n": 1}', True),
        ('{"b": 2, "a": 1}', '{"a": 1.0, "b": 2}', True),  # without content, by canonical JSON
        ('{"b": 2, "a": 1}', {"a": 1, "b": 2}, True),
        ('{"content": "one"}', '{"content": "one"}', True),
        ("[1, 2]", "[1,2]", False),  # only objects are read as JSON
        ("1.0", "1", False),
        (None, "", True),
        (None, "one", False),
    ],
)
def test_when_outputs_are_equal(result, output, equal):
    assert outputs(("a", result), expected=[{"name": "a", "output": output}]).score == float(equal)


def test_output_details_show_each_call_tried():
    result = outputs(("a", "x"), ("a", "one"), expected=[OUTPUTS[0], {"name": "b", "output": "z"}])
    assert result.details == {
        "a_0": {"expected": "one", "actual": "x", "score": 0.0},
        "a_1": {"expected": "one", "actual": "one", "score": 1.0},
    }
    assert result.reason == '1 of 2 expected outputs returned: no b returned "z".'


CRITERIA = [
    ("tool_call_order", "tool_calls_order", ["a"], ["b"]),
    ("tool_call_count", "tool_calls_count", {"a": ["=", 1]}, {"a": ["=", 0]}),
    ("tool_call_output", "tool_outputs", [{"name": "a", "output": ""}], [{"name": "a", "output": "x"}]),
]


@pytest.mark.parametrize(("name", "field", "right", "wrong"), CRITERIA)
def test_criteria_of_the_case_come_before_those_of_the_options(name, field, right, wrong):
    case = EvalCase(tool_calls=made("a"), **{field: right})
    assert get_evaluator(name, **{field: wrong}).evaluate(case).score == 1.0


@pytest.mark.parametrize(("name", "field", "_right", "_wrong"), CRITERIA)
def test_without_criteria_they_are_skipped(name, field, _right, _wrong):
    result = get_evaluator(name).evaluate(EvalCase(tool_calls=made("a")))
    assert result.status is Status.SKIPPED
    assert result.reason == f"not given: {field}, in the case or as an option"


@pytest.mark.parametrize(
    ("name", "options", "complaint"),
    [
        ("tool_call_order", {"tool_calls_order": "a"}, "tool_calls_order must be a list of strings or null"),
        ("tool_call_order", {"tool_calls_order": [1]}, r"option tool_calls_order\[0\]: expected a string, got 1"),
        ("tool_call_count", {"tool_calls_count": {"a": ["=>", 1]}}, "unknown '=>'"),
        ("tool_call_count", {"tool_calls_count": {"a": ["=", "1"]}}, 'expected a number, got "1"'),
        ("tool_call_output", {"tool_outputs": [{"name": "a"}]}, "output is missing"),
    ],
)
def test_wrong_criteria_are_refused(name, options, complaint):
    with pytest.raises(OptionError, match=complaint) as caught:
        get_evaluator(name, **options)
    assert caught.value.option in options


@pytest.mark.parametrize(
    ("made", "score", "reason"),
    [
        (["look", "look"], 1.0, "2 of 2 counts as expected."),
        ([], 0.5, "1 of 2 counts as expected: look was called 0 times, expected >= 1."),
        (
            ["look", "drop", "buy", "drop"],
            0.5,
            "1 of 2 counts as expected: other tools (buy, drop) were called 3 times, expected = 0.",
        ),
    ],
)
def test_only_the_named_tools_may_be_called(made, score, reason):
    criteria = {"look": [">=", 1], "*": ["=", 0]}
    result = get_evaluator("tool_call_count").evaluate(
        EvalCase(tool_calls=[{"name": name} for name in made], tool_calls_count=criteria)
    )
    assert (result.score, result.reason) == (score, reason)


def test_only_calls_that_succeeded_are_counted_and_ordered():
    calls = [{"name": "pay", "error": "timeout"}, {"name": "pay", "result": "ok"}, {"name": "mail", "result": "ok"}]
    case = EvalCase(tool_calls=calls, tool_calls_count={"pay": ["=", 1]}, tool_calls_order=["pay", "mail"])
    for name, options in (("tool_call_count", {}), ("tool_call_order", {"strict": True})):
        assert get_evaluator(name, **options).evaluate(case).score == 0.0
        assert get_evaluator(name, only_succeeded=True, **options).evaluate(case).score == 1.0


def evaluate(actual, expected, **options):
    case = EvalCase(
        tool_calls=[{"name": name, "arguments": arguments} for name, arguments in actual],
        expected_tool_calls=[{"name": name, "arguments": arguments} for name, arguments in expected],
    )
    return ToolCallArgs(**options).evaluate(case)


@pytest.mark.parametrize(
    ("actual", "expected", "score", "strict"),
    [
        ([], [], 1, 1),
        ([("a", {})], [], 0, 0),
        ([], [("a", {})], 0, 0),
        ([("a", {"x": 1})], [("a", {"x": 1.0})], 1, 1),
        ([("a", {"x": 1})], [("a", {"x": 1}), ("b", {})], 1 / 2, 0),
        ([("b", {}), ("a", {})], [("a", {}), ("b", {})], 1, 1),  # order across names is free
        ([("a", {}), ("z", {})], [("a", {})], 1, 1),  # extra calls do not count
        ([("a", {"x": 2}), ("a", {"x": 1})], [("a", {"x": 1})], 1, 1),  # a mismatch is passed over
        ([("a", {"x": 1})], [("a", {"x": 1}), ("a", {"x": 1})], 1 / 2, 0),  # each call serves once
        ([(" a", {})], [("a", {})], 0, 0),  # names match exactly
        ([("a", {"x": True})], [("a", {"x": 1})], 0, 0),
        ([("a", {"x": 1, "y": 2})], [("a", {"x": 1})], 0, 0),
    ],
)
def test_scores(actual, expected, score, strict):
    assert evaluate(actual, expected).score == score
    assert evaluate(actual, expected, strict=True).score == strict


@pytest.mark.parametrize(
    ("actual", "expected", "score"),
    [
        ([("a", {"x": 1, "y": 2})], [("a", {"x": 1})], 1),
        ([("a", {"x": 1})], [("a", {"x": 1, "y": 2})], 0),
        # in the documented order, even where another would do better
        ([("a", {"x": 1, "y": 1}), ("a", {"x": 1})], [("a", {"x": 1}), ("a", {"x": 1, "y": 1})], 0.5),
    ],
)
def test_subset(actual, expected, score):
    assert evaluate(actual, expected, subset=True).score == score


def test_the_details_show_each_pair_tried():
    result = evaluate(
        [("update_user", {"id": 1}), ("update_user", {"id": 2}), ("log", {})],
        [("update_user", {"id": 2}), ("log", {"level": 1})],
    )
    assert {key: result.details[key] for key in ("update_user_0", "update_user_1", "log_0")} == {
        "update_user_0": {"expected": {"id": 2}, "actual": {"id": 1}, "score": 0.0},
        "update_user_1": {"expected": {"id": 2}, "actual": {"id": 2}, "score": 1.0},
        "log_0": {"expected": {"level": 1}, "actual": {}, "score": 0.0},
    }
    assert result.details["matched"] == [{"name": "update_user", "expected": 1, "actual": 2}]
    assert result.reason == (
        "1 of 2 expected calls made with the expected arguments: "
        "call 3 (log) differs from expected call 2: level is missing (expected 1)."
    )


calls = st.lists(st.builds(ToolCall, st.sampled_from("ab"), st.sampled_from([{}, {"n": 1}, {"n": 2}])), max_size=5)


@given(calls, calls, calls, st.booleans())
def test_properties(actual, expected, more, subset):
    def score(made, **options):
        case = EvalCase(tool_calls=made, expected_tool_calls=expected)
        return ToolCallArgs(subset=subset, **options).evaluate(case).score

    assert 0.0 <= score(actual) <= 1.0
    assert score(actual, strict=True) == float(score(actual) == 1.0)
    assert score(expected) == 1.0
    if expected:
        assert score(actual + more) >= score(actual)
