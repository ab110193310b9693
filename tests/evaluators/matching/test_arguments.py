"""Arguments: modes, options, placeholders, differences."""

from __future__ import annotations

import re
import sys
from contextlib import nullcontext

import pytest
from a2a_tool_capture import ToolCall
from hypothesis import given
from hypothesis import strategies as st
from tool_call_evaluators import ArgumentMatcher, EvalCase, OptionError, get_evaluator
from tool_call_evaluators.matching import patterns
from tool_call_evaluators.matching.arguments import as_matcher, call_differences, call_matches
from tool_call_evaluators.matching.match_table import match_table
from tool_call_evaluators.matching.pairing import items
from tool_call_evaluators.matching.placeholders import (
    PlaceholderError,
    by_meaning,
    check_placeholders,
    contains_placeholder,
    decided_in,
    equal_values,
    is_placeholder,
)
from tool_call_evaluators.model import ExpectedCall

# keys without `$`, so that nothing generated is a placeholder by chance
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-2, 2) | st.text("aB ", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
arguments = st.dictionaries(st.sampled_from("abc"), json_values, max_size=3)
MODES = ["exact", "subset", "superset", "ignore"]
modes = st.sampled_from(MODES)
matchers = st.builds(
    ArgumentMatcher, mode=modes, deep=st.booleans(), trim=st.booleans(), case_insensitive=st.booleans()
)


def floats(value):
    """What protobuf makes of JSON: every number a float."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if isinstance(value, dict):
        return {key: floats(item) for key, item in value.items()}
    if isinstance(value, list):
        return [floats(item) for item in value]
    return float(value)


PAIR, NESTED = {"a": 1, "b": 2}, {"filter": {"a": 1}}
IN_A_LIST, MORE_IN_A_LIST = {"list": [{"a": 1}]}, {"list": [{"a": 1, "b": 2}]}
MORE_NESTED = {"filter": {"a": 1, "b": 2}, "page": 1}
EVERY_TEXT = {"trim": True, "case_insensitive": True}


@pytest.mark.statement(217, 218, 220, 221, 222, 223, 224)
@pytest.mark.parametrize(
    ("options", "expected", "actual", "matches"),
    [
        *(({"mode": mode}, PAIR, {"b": 2, "a": 1}, True) for mode in MODES),
        *(({"mode": mode}, PAIR, {**PAIR, "c": 3}, mode in ("subset", "ignore")) for mode in MODES),
        *(({"mode": mode}, PAIR, {"a": 1}, mode in ("superset", "ignore")) for mode in MODES),
        *(({"mode": mode}, PAIR, {"a": 1, "b": 3}, mode == "ignore") for mode in MODES),
        *(({"mode": mode}, {}, None, mode == "ignore") for mode in MODES),
        # objects in arguments compare exactly unless `deep`
        ({"mode": "subset"}, {"filter": {"a": 1.0}}, {**NESTED, "page": 1}, True),
        ({"mode": "subset"}, NESTED, MORE_NESTED, False),
        ({"mode": "subset"}, IN_A_LIST, MORE_IN_A_LIST, False),
        ({"mode": "subset", "deep": True}, NESTED, MORE_NESTED, True),
        ({"mode": "superset", "deep": True}, MORE_NESTED, NESTED, True),
        ({"mode": "subset", "deep": True}, IN_A_LIST, MORE_IN_A_LIST, True),
        ({"mode": "subset", "deep": True}, {"list": [1]}, {"list": [1, 2]}, False),
        # options of texts concern values at every depth, and never keys
        ({"trim": True}, {"a": ["x"]}, {"a": [" x\n"]}, True),
        ({"case_insensitive": True}, {"a": {"b": "Straße"}}, {"a": {"b": "STRASSE"}}, True),
        ({"trim": True}, {"a": "X"}, {"a": "x"}, False),
        ({"case_insensitive": True}, {"a": "x"}, {"a": " x"}, False),
        (EVERY_TEXT, {"a": 1}, {"A": 1}, False),
        (EVERY_TEXT, {"a": 1}, {" a": 1}, False),
        ({}, {"k": {"$regex": "abc"}}, {"k": " ABC "}, False),
        (EVERY_TEXT, {"k": {"$regex": "abc"}}, {"k": " ABC "}, True),
        ({"case_insensitive": True}, {"k": {"$regex": r"é\w\W"}}, {"k": "ÉS-"}, True),
        ({"case_insensitive": True}, {"k": {"$regex": r"\W"}}, {"k": "k"}, False),
        (EVERY_TEXT, {"k": {"$literal": "abc"}}, {"k": " ABC "}, True),
        (EVERY_TEXT, {"k": {"$one_of": ["x", {"$regex": "a.c"}]}}, {"k": " ABC "}, True),
        # expected arguments of null or any are not compared
        *(({}, anything, actual, True) for anything in (None, {"$any": True}) for actual in ({"a": 1}, None)),
    ],
)
def test_what_matches_in_a_mode_and_with_options(options, expected, actual, matches):
    matcher = ArgumentMatcher(**options)
    assert matcher(expected, actual) is matches
    assert match_table([ExpectedCall("f", expected)], [ToolCall("f", actual)], matcher) == [matches]
    differences = matcher.differences(expected, actual)
    assert (differences == []) is matches
    assert {re.split(r"[.[]", item.path)[0] for item in differences} <= {"", *(expected or ()), *(actual or ())}


@pytest.mark.statement(33, 34, 35, 39, 215, 216, 219)
@pytest.mark.parametrize(
    ("expected", "actual", "equal"),
    [
        (1, 1.0, True),
        (0, -0.0, True),
        (True, True, True),
        (True, 1, False),
        (1, True, False),
        (False, 0, False),
        (True, "true", False),
        ("1", 1, False),
        ("a", "A", False),
        ("a", " a", False),
        (None, None, True),
        (None, "", False),
        (None, 0, False),
        (None, False, False),
        ([1, 2], [1.0, 2.0], True),
        ([1, 2], [2, 1], False),
        ([1], [1, 1], False),
        ((1, 2), [1, 2], True),
        ({"x": 1}, {"x": 1.0}, True),
        ({"x": 1}, {"X": 1}, False),
        (0.5, -0.5, False),
        ({}, [], False),
        ([], None, False),
        (2**53 + 1, 2.0**53, True),
        (0.1, 0.1, True),
        (float("nan"), float("nan"), True),
    ],
)
def test_values_compare_as_json(expected, actual, equal):
    assert equal_values(expected, actual) is equal
    assert ArgumentMatcher()({"k": expected}, {"k": actual}) is equal
    assert ArgumentMatcher()({"k": [expected]}, {"k": [actual]}) is equal


LARGE = [2**53 + 1, 1234567890123456789, 10**23, -(10**23)]


@pytest.mark.parametrize("mode", ["exact", "subset", "superset"])
@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("whole", LARGE)
def test_large_whole_numbers_match_the_doubles_that_protobuf_makes_of_them(whole, mode, deep):
    matcher = ArgumentMatcher(mode=mode, deep=deep)
    for nested in ({"id": whole}, {"id": [whole, {"b": whole}]}, {"id": {"a": whole, "b": "x"}}):
        for expected, actual in ((nested, floats(nested)), (floats(nested), nested)):
            assert matcher(expected, actual)
            assert match_table([ExpectedCall("f", expected)], [ToolCall("f", actual)], matcher) == [1]
    assert not matcher({"id": whole}, {"id": whole + 1})
    assert match_table([ExpectedCall("f", {"id": whole})], [ToolCall("f", {"id": whole + 1})], matcher) == [0]
    assert not matcher({"id": whole}, {"id": float(whole) * 2})


@pytest.mark.statement(186, 225)
def test_a_matcher_under_the_names_of_the_reference():
    assert ArgumentMatcher.of("IGNORE") == ArgumentMatcher(mode="ignore")
    assert ArgumentMatcher.tolerant() == ArgumentMatcher()
    with pytest.raises(OptionError, match="mode must be one of exact, subset, superset, ignore; got 'ANY'"):
        ArgumentMatcher.of("ANY")


PER_TOOL = ArgumentMatcher(
    per_tool={"search": "ignore", "pay": {"mode": "subset", "trim": True}, "log": lambda e, a: "x" in a}
)


@pytest.mark.statement(185)
@pytest.mark.parametrize(
    ("expected", "call", "matches"),
    [
        (ExpectedCall("search", {"a": 1}), ToolCall("search", {"b": 2}), True),
        (ExpectedCall("pay", {"a": "1"}), ToolCall("pay", {"a": " 1", "b": 2}), True),
        (ExpectedCall("log", {}), ToolCall("log", {"x": 1}), True),
        (ExpectedCall("log", {"x": 1}), ToolCall("log", {}), False),
        (ExpectedCall("other", {"a": 1}), ToolCall("other", {"b": 2}), False),
        (ExpectedCall("search", {}), ToolCall("Search", {}), False),
    ],
)
def test_per_tool_override(expected, call, matches):
    assert call_matches(expected, call, PER_TOOL) is matches


@pytest.mark.statement(226)
def test_a_plain_function_will_do_and_never_sees_unknown_arguments():
    def same_keys(expected, actual):
        return expected.keys() == actual.keys()

    assert as_matcher(same_keys) is same_keys
    assert call_matches(ExpectedCall("a", {"x": 1}), ToolCall("a", {"x": 2}), same_keys)
    assert not call_matches(ExpectedCall("a", {"x": 1}), ToolCall("a", None), same_keys)
    assert call_matches(ExpectedCall("a", None), ToolCall("a", None), same_keys)
    assert call_differences(ExpectedCall("a", {"x": 1}), ToolCall("a", {"x": 2}), same_keys) == []
    (difference,) = call_differences(ExpectedCall("a", {"x": 1}), ToolCall("a", {"y": 2}), same_keys)
    assert difference.to_dict() == {
        "path": "",
        "problem": "different",
        "expected": {"x": 1},
        "actual": {"y": 2},
    }


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ("exat", "mode must be one of exact, subset, superset, ignore; got 'exat' \\(did you mean exact"),
        ({"mod": "exact"}, "unknown option 'mod' \\(did you mean mode"),
        ({"trim": "yes"}, "trim must be true or false; got 'yes'"),
        ({"per_tool": {"a": {"mode": 3}}}, "mode must be one of"),
        (3, "must be a mode, a mapping of options or a function; got 3"),
    ],
)
def test_a_wrong_matcher_is_refused(value, complaint):
    with pytest.raises(OptionError, match=complaint):
        as_matcher(value)


@pytest.mark.statement(219)
def test_differences_are_the_smallest_places():
    expected = {"order": {"items": [{"qty": 1}, {"qty": 2}]}, "note": "x", "odd key": 1}
    actual = {"order": {"items": [{"qty": 1}, {"qty": 3}, {}]}, "new": None, "odd key": 2}
    differences = ArgumentMatcher().differences(expected, actual)
    assert [(item.path, item.problem) for item in differences] == [
        ("order.items[1].qty", "different"),
        ("order.items[2]", "unexpected"),
        ("note", "missing"),
        ('["odd key"]', "different"),
        ("new", "unexpected"),
    ]
    assert [str(item) for item in differences[:3]] == [
        "order.items[1].qty: expected 2, got 3",
        "order.items[2] was not expected (got {})",
        'note is missing (expected "x")',
    ]
    assert str(ArgumentMatcher().differences({"a": 1}, None)[0]).startswith("arguments are unknown")


@given(matchers, arguments)
def test_every_value_matches_itself_and_what_protobuf_makes_of_it(matcher, value):
    assert matcher(value, value)
    assert matcher(value, floats(value))
    assert matcher(floats(value), value)


@pytest.mark.parametrize("mode", ["exact", "subset", "superset"])
@pytest.mark.parametrize(
    ("wanted", "matches"),
    [({"sku": "A"}, True), ({"sku": "A", "qty": 3}, True), ({"sku": "A", "qty": 4}, False), ({"sku": "B"}, False)],
)
def test_a_tools_default_may_be_expected_or_not(mode, wanted, matches):
    call = ToolCall("order", {"sku": "A", "qty": 3}, default_arguments=("qty",))
    expected, matcher = ExpectedCall("order", wanted), ArgumentMatcher(mode=mode)
    assert call_matches(expected, call, matcher) is matches
    assert match_table([expected], [call], matcher) == [matches]
    assert (call_differences(expected, call, matcher) == []) is matches


placeholders = st.sampled_from(
    [
        {"$any": True},
        {"$type": ["integer", "object"]},
        {"$regex": "a?"},
        {"$approx": 1, "tolerance": 1},
        {"$literal": {"a": 1}},
        {"$one_of": [1, "a", {"$type": "null"}]},
        {"$optional": {"$type": "integer"}},
        {"a": {"$any": True}},
    ]
)
values_with_placeholders = json_values | placeholders | st.lists(placeholders, max_size=2)
expectations = (
    st.none()
    | placeholders.filter(lambda value: "$optional" not in value)
    | arguments
    | st.dictionaries(st.sampled_from("abc"), values_with_placeholders, max_size=3)
)


@given(
    matchers | st.just(lambda expected, actual: expected.keys() == actual.keys()),
    st.lists(st.builds(ExpectedCall, st.sampled_from("fg"), expectations), max_size=4),
    st.lists(
        st.builds(
            ToolCall,
            st.sampled_from("fg"),
            arguments | st.none(),
            default_arguments=st.sampled_from([(), ("a",), ("b", "c")]),
        ),
        max_size=4,
    ),
)
def test_the_table_says_what_comparing_one_by_one_says(matcher, expected, actual):
    assert [list(items(row)) for row in match_table(expected, actual, matcher)] == [
        [index for index, call in enumerate(actual) if call_matches(wanted, call, matcher)] for wanted in expected
    ]


ORDER = '{"status": "sent", "items": 2, "paid": true}'


@pytest.mark.parametrize("part", ["result", "error"])
@pytest.mark.parametrize(
    ("wanted", "text", "accepted"),
    [
        ("sent", "sent", True),
        ("sent", "lost", False),
        ("7", "7", True),
        (7, "7.0", True),
        (1, "true", False),
        (True, "1", False),
        (False, "false", True),
        ({"status": "sent", "items": 2.0, "paid": True}, ORDER, True),
        ({"status": "sent", "items": 2, "paid": 1}, ORDER, False),
        ({"status": "sent"}, ORDER, False),
        ({"status": {"$regex": "s.*"}, "items": {"$approx": 2}, "paid": {"$any": True}}, ORDER, True),
        ({"$type": "object"}, ORDER, True),
        ({"$type": "object"}, "sent", False),
        ({"$type": "string"}, "sent", True),
        ({"$one_of": ["sent", "7"]}, "7", True),
        ({"$one_of": [{"status": "sent"}, 7]}, "7", True),
        ({"$one_of": ["sent", "lost"]}, "kept", False),
        ({"$regex": "[0-9]+"}, "12", True),
        ({"$any": True}, "", True),
        ({"$any": True}, None, False),
        ({"$literal": "sent"}, "sent", True),
        ({"$literal": None}, "null", True),
        ("sent", None, False),
        (None, "lost", True),
        (None, None, True),
    ],
)
def test_expected_results_and_errors_are_compared(part, wanted, text, accepted):
    case = EvalCase(
        tool_calls=[ToolCall("f", {"id": 1}, **{part: text})],
        expected_tool_calls=[{"name": "f", "arguments": {"id": 1}, part: wanted}],
    )
    for name, options in (
        ("tool_trajectory", {}),
        ("tool_trajectory", {"mode": "within", "matcher": "ignore"}),
        ("tool_correctness", {"mode": "names_and_args", "matcher": {"per_tool": {"f": lambda *_: True}}}),
        ("tool_call_args", {}),
    ):
        assert get_evaluator(name, **options).evaluate(case).score == accepted, (name, options)
    assert get_evaluator("tool_correctness", mode="names_and_order").evaluate(case).score == 1.0
    similar = get_evaluator("tool_call_args", argument_score="similarity").evaluate(case)
    assert similar.score == (1.0 if accepted else 0.5)


@pytest.mark.parametrize(
    ("matcher", "accepted"),
    [("exact", False), ("subset", True), ({"mode": "subset", "case_insensitive": True}, True), ("superset", False)],
)
def test_the_options_of_the_arguments_apply_to_results(matcher, accepted):
    wanted = ExpectedCall("f", {}, result={"status": "sent"})
    assert call_matches(wanted, ToolCall("f", {}, result=ORDER), as_matcher(matcher)) == accepted
    shouted = ToolCall("f", {}, result='{"status": "SENT"}')
    assert call_matches(wanted, shouted, as_matcher(matcher)) == isinstance(matcher, dict)


@pytest.mark.parametrize(
    ("call", "succeeded"),
    [
        ({"result": "ok"}, True),
        ({"result": '{"isError": true}'}, False),
        ({"error": "no seat"}, False),
        ({"result": ""}, False),
        ({}, None),
    ],
)
def test_only_calls_that_succeeded_or_failed_are_as_expected(call, succeeded):
    made = ToolCall("f", {}, **call)
    assert call_matches(ExpectedCall("f", {}), made, ArgumentMatcher())
    for wanted in (True, False):
        expected = ExpectedCall("f", {}, succeeded=wanted)
        assert call_matches(expected, made, ArgumentMatcher()) is (succeeded is wanted)
        case = EvalCase(tool_calls=[made], expected_tool_calls=[expected.to_dict()])
        for name in ("tool_trajectory", "tool_call_args"):
            assert get_evaluator(name).evaluate(case).passed is (succeeded is wanted)


def test_the_reason_names_what_succeeded_or_failed():
    case = EvalCase(
        tool_calls=[ToolCall("f", error="no seat"), ToolCall("g", result="ok"), ToolCall("h")],
        expected_tool_calls=[{"name": name, "succeeded": name != "g"} for name in "fgh"],
    )
    reason = get_evaluator("tool_trajectory").evaluate(case).reason
    for said in ('to succeed, error "no seat"', "to fail, it succeeded", "it succeeded is not known: no result"):
        assert said in reason


def test_the_reason_names_the_result_that_differs():
    case = EvalCase(
        tool_calls=[ToolCall("f", result=ORDER), ToolCall("g"), ToolCall("h", error="no seat")],
        expected_tool_calls=[
            {"name": "f", "result": {"status": "lost", "items": 2, "paid": True}},
            {"name": "g", "result": "done"},
            {"name": "h", "error": {"$regex": "time.*"}},
        ],
    )
    result = get_evaluator("tool_trajectory").evaluate(case)
    assert result.reason == (
        "in_order: 0 of 3 expected calls matched, 3 calls made: "
        'call 1 (f) differs from expected call 1: its result at status: expected "lost", got "sent"; '
        'call 2 (g) differs from expected call 2: its result is not known: none was reported (expected "done"); '
        'call 3 (h) differs from expected call 3: its error: expected /time.*/, got "no seat".'
    )
    (difference,) = result.details["near_misses"][0]["differences"]
    assert difference == {
        "path": "status",
        "problem": "different",
        "expected": "lost",
        "actual": "sent",
        "part": "result",
    }


BFCL = ArgumentMatcher(case_insensitive=True, ignored_characters=" ,./-_*^", typed_lists=True)
WORDS = st.text("aB ,.-^ß1", max_size=5)


def as_the_leaderboard(value: str) -> str:
    return "".join(character for character in value if character not in " ,./-_*^").casefold()


@given(WORDS, WORDS)
def test_strings_compare_as_those_of_the_leaderboard(expected: str, actual: str) -> None:
    same = as_the_leaderboard(expected) == as_the_leaderboard(actual)
    assert BFCL({"x": expected}, {"x": actual}) == same
    assert BFCL({"x": [{"y": expected}]}, {"x": [{"y": actual}]}) == same


SCALARS = st.one_of(st.integers(-2, 2), st.sampled_from([0.0, 1.0, 1.5]), st.booleans(), st.none(), WORDS)


@given(st.lists(SCALARS, min_size=1, max_size=4), SCALARS)
def test_one_of_accepts_what_one_of_its_values_accepts(values: list[object], actual: object) -> None:
    for matcher in (ArgumentMatcher(), BFCL):
        any_matches = any(matcher({"x": value}, {"x": actual}) for value in values)
        assert matcher({"x": {"$one_of": values}}, {"x": actual}) == any_matches
        assert matcher({"x": {"$optional": {"$one_of": values}}}, {"x": actual}) == any_matches
        assert matcher({"x": {"$optional": {"$one_of": values}}}, {})
        assert not matcher({"x": {"$one_of": values}}, {})


@given(st.lists(st.integers(0, 2) | st.sampled_from([0.0, 1.0]), max_size=3), st.lists(st.integers(0, 2), max_size=3))
def test_in_typed_lists_numbers_have_types(expected: list[float], actual: list[int]) -> None:
    same = [(type(one), one) for one in expected] == [(type(one), one) for one in actual]
    assert BFCL({"x": expected}, {"x": actual}) == same
    assert ArgumentMatcher()({"x": expected}, {"x": actual}) == (expected == actual)


def matches(expected, actual, **options):
    return ArgumentMatcher(**options)({"k": expected}, {"k": actual})


@pytest.mark.parametrize(
    ("expected", "accepted", "refused"),
    [
        ({"$any": True}, [None, 0, "", [], {"a": 1}], []),
        ({"$type": "string"}, ["", "x"], [None, 1, [], {}]),
        ({"$type": "number"}, [1, 1.5, -2], [True, "1", None]),
        ({"$type": "integer"}, [1, 1.0, 10**30], [1.5, True, float("inf"), "1"]),
        ({"$type": "boolean"}, [True, False], [0, 1, "true"]),
        ({"$type": "object"}, [{}, {"a": 1}], [[], None]),
        ({"$type": "array"}, [[], [1], (1,)], [{}, "x"]),
        ({"$type": "null"}, [None], [0, "", False]),
        ({"$type": ["string", "null"]}, ["x", None], [1]),
        ({"$regex": "ORD-[0-9]+"}, ["ORD-1"], ["ORD-", "xORD-1", "ORD-1x", 1, None]),
        ({"$regex": r"\d\w[\d-]"}, ["1a-", "1_2"], ["１a-", "1ü-", "1a２"]),
        ({"$regex": r"[\d\D][\W_]\D"}, ["１ü２", "1-x"], ["1kx", "1-2"]),
        ({"$regex": r"[]\d]\s\\d"}, ["]\u00a0\\d", "1 \\d"], ["1 1"]),
        ({"$regex": "a.*"}, ["a" * 10_000], ["a" * 10_001, "a\nb"]),
        ({"$approx": 3.0, "tolerance": 0.1}, [3, 3.1, 2.9, 3.05], [3.11, 2.8, "3", True, None]),
        ({"$approx": 10, "tolerance": 0}, [10, 10.0], [10.001]),
        ({"$approx": 0.3}, [0.1 + 0.2, 0.3000001], [0.31]),
        ({"$literal": {"$any": True}}, [{"$any": True}], [1, {"$any": False}]),
        ({"$literal": 1}, [1, 1.0], [True, 2]),
        ({"$one_of": ["EUR", "USD"]}, ["EUR", "USD"], ["eur", "", None, ["EUR", "USD"]]),
        ({"$one_of": [1, {"$type": "null"}, {"a": {"$any": True}}]}, [1.0, None, {"a": []}], [True, 2, {}, {"b": 1}]),
        ({"$one_of": [{"$literal": {"$any": True}}]}, [{"$any": True}], [1]),
        ({"$date": "2026-05-01"}, ["2026-05-01", "May 1, 2026", 1777593600], ["2026-05-02", "soon", None, True]),
        ({"$date": "05/01/2026", "dayfirst": False}, ["2026-05-01", "05/01/2026"], ["2026-01-05"]),
        ({"$date": "2026-05-01T14:00Z", "zone": "Europe/Berlin"}, ["2026-05-01T16:00"], ["2026-05-01T14:00"]),
        ({"$json": {"qty": {"$any": True}}}, ['{"qty": 2}', ' {"qty":null} '], ['{"qty": 2, "a": 1}', "{", {"qty": 2}]),
        ({"$json": {"$json": [1]}}, ['"[1.0]"'], ["[1]", '"1"', None, "[" * 100_000, "[" * 900 + "]" * 900]),
        ({"$same": "It is lost"}, ["It is lost"], [None, 3, "", " "]),
        ({"$one_of": [{"$date": "2026-05-01"}, {"$json": 1}]}, ["1 May 2026", "1"], ["2", 1]),
        ({"$optional": "EUR"}, ["EUR"], ["USD", None]),
        ({"$optional": {"$type": "string"}}, ["EUR"], [1]),
    ],
)
def test_what_a_placeholder_stands_for(expected, accepted, refused):
    for value in accepted:
        assert matches(expected, value), value
        assert matches([expected], [value]), value
        assert matches({"deeper": expected}, {"deeper": value}), value
    for value in refused:
        assert not matches(expected, value), value


@pytest.mark.parametrize("mode", ["exact", "subset", "superset"])
def test_an_optional_entry_may_be_missing_and_else_is_as_expected(mode):
    expected = {"id": 1, "deeper": {"unit": {"$optional": {"$one_of": ["kg", "g"]}}}}
    matcher = ArgumentMatcher(mode=mode)
    assert matcher(expected, {"id": 1, "deeper": {}})
    assert matcher(expected, {"id": 1, "deeper": {"unit": "g"}})
    assert not matcher(expected, {"id": 1, "deeper": {"unit": "lb"}})
    assert [str(each) for each in matcher.differences(expected, {"id": 1, "deeper": {"unit": "lb"}})] == [
        'deeper.unit: expected "kg" or "g" or nothing, got "lb"'
    ]
    assert matcher({"unit": {"$optional": "kg"}}, {"other": 1}) is (mode == "subset")


@pytest.mark.parametrize("expected", [{"$optional": 1}, [{"$optional": 1}], {"a": {"$json": {"$optional": 1}}}])
def test_what_is_no_entry_of_an_object_is_not_optional(expected):
    with pytest.raises(PlaceholderError, match="stands for an entry of an object"):
        check_placeholders(expected)


@pytest.mark.parametrize(
    "ordinary",
    [{}, {"$gt": 5}, {"$regex": "a", "$options": "i"}, {"$any": True, "b": 1}, {"tolerance": 1}, ["$any"], "$any"],
)
def test_what_only_looks_like_a_placeholder_is_an_ordinary_value(ordinary):
    assert not is_placeholder(ordinary)
    assert not contains_placeholder(ordinary)
    assert matches(ordinary, ordinary)
    assert not matches(ordinary, "something else")


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"$any": False}, "\\$any takes true, got False"),
        ({"$type": "strng"}, "\\$type takes one or a list of string, .*; got 'strng'"),
        ({"$type": []}, "\\$type takes"),
        ({"$type": 3}, "\\$type takes"),
        ({"$regex": "("}, "does not compile"),
        ({"$regex": 3}, "takes a pattern"),
        ({"$regex": "a" * 1_001}, "at most 1000 characters"),
        ({"$approx": "3"}, "\\$approx takes a number, got '3'"),
        ({"$approx": True}, "\\$approx takes a number"),
        ({"$approx": 3, "tolerance": -1}, "tolerance takes a number of at least 0, got -1"),
        ({"$approx": 3, "tolerance": float("nan")}, "tolerance takes"),
        ({"$one_of": []}, r"\$one_of takes a list of values, got \[\]"),
        ({"$one_of": "EUR"}, r"\$one_of takes a list of values, got 'EUR'"),
        ({"$one_of": [{"$regex": "("}]}, "does not compile"),
        ({"$date": "05/01/2026"}, "needs dayfirst: true or false"),
        ({"$same": " "}, "takes a text of at most 10,000 characters"),
        ({"$same": 3}, "takes a text"),
    ],
)
def test_a_placeholder_that_cannot_mean_anything_is_an_error(wrong, complaint):
    with pytest.raises(PlaceholderError, match=complaint):
        check_placeholders({"deep": [{"down": wrong}]})
    with pytest.raises(PlaceholderError, match=complaint):
        matches(wrong, "x")


@pytest.mark.parametrize(
    ("expected", "actual", "complaint"),
    [
        ({"$date": "2026-05-01"}, "05/01/2026", "cannot tell whether '05/01/2026' is 2026-05-01: it is ambiguous"),
        ({"$json": {}}, "1" * 1_000_001, "cannot compare more than 1,000,000 characters"),
        ({"$same": "no"}, "n" * 10_001, "cannot compare a text of 10,001 characters"),
        ({"$same": "no"}, "never", 'needs a judge, which decides whether a text means "no"'),
    ],
)
def test_what_cannot_be_told_is_an_error_but_where_it_is_only_shown(expected, actual, complaint):
    with pytest.raises(PlaceholderError, match=complaint):
        matches(expected, actual)
    with by_meaning({}):
        assert not matches(expected, actual)
    with by_meaning(decided_in([{}, {"same": [{"expected": "no", "actual": "never", "same": True}]}])):
        assert matches(expected, actual) is (actual == "never")


@pytest.mark.parametrize(
    ("placeholder", "wrong", "kept"),
    [
        ("EUR", "EUR", "USD"),
        ({"$one_of": ["EUR", "GBP"]}, "GBP", "USD"),
        ({"$regex": "E.*"}, "EUR", "USD"),
        ({"$approx": 3}, 3.0, 4),
        ({"$type": "null"}, None, "USD"),
        ({"$date": "2026-05-01"}, "1 May 2026", "2 May 2026"),
        ({"$json": {"a": 1}}, '{"a": 1}', '{"a": 2}'),
        ({"$literal": {"$any": True}}, {"$any": True}, 1),
        ({"$same": "no"}, "no", 3),
    ],
)
def test_one_value_of_one_argument_may_be_forbidden(placeholder, wrong, kept):
    rule = [{"name": "refund", "arguments": {"of": placeholder}}]
    evaluator = get_evaluator("forbidden_calls", forbidden_calls=rule)
    for value, score in ((wrong, 0.0), (kept, 1.0)):
        made = {"name": "refund", "arguments": {"order": 7, "of": value, "note": "of wrong"}}
        assert evaluator.evaluate(EvalCase(tool_calls=[made])).score == score


SUM = "select id, sum(x) as total from orders where y = 1 and z > 2 group by id"


@pytest.mark.parametrize(
    ("placeholder", "actual", "same"),
    [
        ({"$sql": SUM}, "SELECT id, SUM(x) total\nFROM Orders -- all\nWHERE 2 < z AND y = 1\nGROUP BY id;", True),
        ({"$sql": SUM}, SUM.replace("total", "sum"), False),
        ({"$sql": SUM}, SUM.replace("and", "or"), False),
        ({"$sql": SUM}, f"{SUM}; delete from orders", False),
        ({"$sql": SUM}, "select (", False),
        ({"$sql": SUM}, "", False),
        ({"$sql": SUM}, None, False),
        ({"$sql": 'select "a" from t', "dialect": "postgres"}, "SELECT A FROM t", True),
        ({"$sql": 'select "A" from t', "dialect": "postgres"}, "SELECT A FROM t", False),
        ({"$sql": "select ("}, None, r"takes one statement that can be parsed, got 'select \('"),
        ({"$sql": "select 1; select 2"}, None, "takes one statement"),
        ({"$sql": 3}, None, "takes a statement, and the name of a dialect; got 3 and None"),
        ({"$sql": "select 1", "dialect": "klingon"}, None, "Unknown dialect 'klingon'"),
        ({"$sql": "select 1"}, f"select {'1,' * 2_000} 1", "cannot compare a statement of more than 4,000 characters"),
        ({"$sql": "select 1"}, "select " + "(" * 1_900 + "1" + ")" * 1_900, "nested so deeply"),
    ],
)
def test_an_sql_statement_is_compared_by_what_it_says(placeholder, actual, same):
    pytest.importorskip("sqlglot")
    with nullcontext() if isinstance(same, bool) else pytest.raises(PlaceholderError, match=same):
        assert matches(placeholder, actual) is same


def test_without_the_parser_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "sqlglot", None)
    with pytest.raises(PlaceholderError, match=r"\$sql needs a parser: pip install 'a2a-eval-proxy\[sql\]'"):
        check_placeholders({"$sql": "select 41"})


def test_a_pattern_that_would_take_for_ever_is_an_error(monkeypatch):
    monkeypatch.setattr(patterns, "MAX_MATCH_S", 0.1)
    endless = {"$regex": "(a|aa)+$"}
    check_placeholders(endless)
    assert matches(endless, "aaa")
    with pytest.raises(PlaceholderError, match=r"took more than 0.1 s on a text of 101 characters"):
        matches(endless, "a" * 100 + "!")
