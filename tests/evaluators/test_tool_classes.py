"""Tool classes: by name and pattern; the evaluators that ignore a class."""

from __future__ import annotations

import json
from fnmatch import fnmatchcase
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.turn_samples import call, turn
from tool_call_evaluators import (
    EvalCase,
    SuiteError,
    get_evaluator,
    parse_suite,
)
from tool_call_evaluators.outcomes.conversations import follow, run_verdict
from tool_call_evaluators.report import build_report, json_report
from tool_call_evaluators.tool_classes import named

CLASSES = {"reads": ("get_*", "*_list"), "writes": ("get_and_lock", "book")}


NAMES = st.lists(st.sampled_from(["a", "b", "a*", "*b", "?", "*", "ab"]), max_size=3)


@given(NAMES, NAMES, NAMES, st.text("ab", max_size=3))
def test_classes_partition_tools_and_patterns_are_fnmatch(names: Any, reads: Any, writes: Any, tool: str) -> None:
    def fits(patterns: list[str]) -> bool:
        return any(fnmatchcase(tool, pattern) for pattern in patterns)

    classes = {"reads": reads, "writes": writes}
    assert named(["writes"], classes)(tool) == fits(writes)
    assert named(["reads"], classes)(tool) == (fits(reads) and not fits(writes))
    assert named(names, classes)(tool) == fits(names)


EXPECTED = [{"name": "get_seat", "arguments": {"n": 1}}, {"name": "book", "arguments": {"n": 1}}]
READ, BOOK = {"name": "free_list"}, {"name": "book", "arguments": {"n": 1}}


@pytest.mark.parametrize(
    ("evaluator", "options"),
    [
        ("tool_trajectory", {"mode": "strict"}),
        ("tool_trajectory", {"mode": "within"}),
        ("tool_correctness", {}),
        ("tool_correctness", {"mode": "names_and_args"}),
        ("tool_correctness", {"mode": "names_and_order"}),
        ("tool_call_args", {"strict": True}),
        ("tool_call_order", {"strict": True}),
    ],
)
def test_reads_do_not_count_and_writes_must_match(evaluator: str, options: dict[str, Any]) -> None:
    def score(*calls: Any, ignored: tuple[str, ...] = ("reads",)) -> float | None:
        case = EvalCase(
            tool_calls=calls,
            expected_tool_calls=EXPECTED,
            tool_calls_order=["get_seat", "book"],
            tool_classes=CLASSES,
        )
        return get_evaluator(evaluator, ignored_tools=ignored, **options).evaluate(case).score

    assert score(BOOK) == score(READ, READ, BOOK) == score(BOOK, READ) == 1.0
    assert score(READ) in (0.0, 1.0 if options.get("mode") == "within" else 0.0)
    assert score(BOOK, {"name": "get_and_lock"}) != 1.0 or evaluator == "tool_call_args"  # which ignores further calls
    assert score(READ, READ, BOOK, ignored=()) != 1.0


def test_calls_are_named_by_their_place_among_all() -> None:
    case = EvalCase(
        tool_calls=[READ, {"name": "book", "arguments": {"n": 2}}, READ, READ, BOOK, BOOK],
        expected_tool_calls=[{"name": "get_seat"}, BOOK],
        tool_classes=CLASSES,
    )
    ignored = ["reads"]
    result = get_evaluator("tool_trajectory", mode="strict", ignored_tools=ignored).evaluate(case)
    assert "call 5 (book) is expected call 2 out of order; call 2 (book) was not expected" in result.reason
    assert [item["actual"] for item in result.details["extra"]] == [2, 5, 6]
    assert get_evaluator("tool_efficiency", ignored_tools=ignored).evaluate(case).details == {
        "repeats": [{"position": 6, "name": "book", "of": 5}],
        "loops": [{"name": "book", "from": 5, "to": 6}],
    }


def test_the_report_shows_calls_that_do_not_count_as_such() -> None:
    suite = parse_suite(
        "suite: x\ntool_classes: {reads: ['get_*']}\n"
        "evaluators: [forbidden_calls, {tool_trajectory: {ignored_tools: [reads], matcher: exact}}]\n"
        "cases: [{id: a, turns: [{user: hi, expect: {tool_calls: [{name: get_x}, {name: book}]}}]}]"
    )
    made = turn("1", "hi", [call("get_y"), call("book")], case="a")
    report = build_report("r", [made], run_verdict(suite, follow([made], suite)).to_dict(), suite=suite)
    (conversation,) = report.conversations
    changes = report.changes(conversation, conversation.turns[0]) or []
    assert sorted(change.kind for change in changes) == ["ignored", "ignored", "same"]
    assert report.differences(conversation, conversation.turns[0]) == []
    assert json.loads(json_report(report))["conversations"][0]["turns"][0]["call_changes"] == []


def test_a_class_in_a_suite_without_classes_is_skipped() -> None:
    case = EvalCase(tool_calls=[BOOK], expected_tool_calls=[])
    result = get_evaluator("tool_trajectory", ignored_tools=["reads"]).evaluate(case)
    assert (result.status, result.reason) == ("skipped", "reads is a class of tools, and the suite has no tool_classes")


@pytest.mark.parametrize(
    ("classes", "problem"),
    [
        ("{reads: [a], writes: [b, a]}", "tool_classes.writes: a is in reads and in writes"),
        ("{reads: [7]}", "expected a string"),
        ("{read: [a]}", "did you mean reads?"),
        ("[a]", "expected an object"),
    ],
)
def test_wrong_classes_are_refused(classes: str, problem: str) -> None:
    with pytest.raises(SuiteError) as error:
        parse_suite(f"suite: x\ntool_classes: {classes}\n")
    assert problem in str(error.value)
