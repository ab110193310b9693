"""Expected values that stand for many."""

from __future__ import annotations

import pytest
from tool_call_evaluators import ArgumentMatcher
from tool_call_evaluators.matching import patterns
from tool_call_evaluators.matching.placeholders import (
    PlaceholderError,
    check_placeholders,
    contains_placeholder,
    is_placeholder,
)


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


@pytest.mark.parametrize("expected", [{"$optional": 1}, [{"$optional": 1}], {"a": {"$one_of": [{"$optional": 1}]}}])
def test_what_is_no_entry_of_an_object_is_not_optional(expected):
    with pytest.raises(PlaceholderError, match="stands for an entry of an object"):
        check_placeholders(expected)


def test_text_options_apply():
    assert not matches({"$regex": "abc"}, " ABC ")
    assert matches({"$regex": "abc"}, " ABC ", trim=True, case_insensitive=True)
    assert matches({"$regex": r"é\w\W"}, "ÉS-", case_insensitive=True)
    assert not matches({"$regex": r"\W"}, "k", case_insensitive=True)
    assert matches({"$literal": "abc"}, " ABC ", trim=True, case_insensitive=True)
    assert matches({"$one_of": ["x", {"$regex": "a.c"}]}, " ABC ", trim=True, case_insensitive=True)


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
    ],
)
def test_a_placeholder_that_cannot_mean_anything_is_an_error(wrong, complaint):
    with pytest.raises(PlaceholderError, match=complaint):
        check_placeholders({"deep": [{"down": wrong}]})
    with pytest.raises(PlaceholderError, match=complaint):
        matches(wrong, "x")


def test_a_pattern_that_would_take_for_ever_is_an_error(monkeypatch):
    monkeypatch.setattr(patterns, "MAX_MATCH_S", 0.1)
    endless = {"$regex": "(a|aa)+$"}
    check_placeholders(endless)
    assert matches(endless, "aaa")
    with pytest.raises(PlaceholderError, match=r"took more than 0.1 s on a text of 101 characters"):
        matches(endless, "a" * 100 + "!")
