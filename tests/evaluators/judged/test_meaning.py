"""`$same`: a judge decides whether what an agent wrote means what is expected."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import replace

import pytest
from support.turn_samples import turn
from tool_call_evaluators import EvalCase, Status, evaluate, evaluate_sync, get_evaluator, parse_suite, with_judge
from tool_call_evaluators.judge import JudgeNotConfiguredError, JudgeUnreachableError, PreparedJudge
from tool_call_evaluators.judge.budget import JudgeBudget, spending
from tool_call_evaluators.judge.question import Usage
from tool_call_evaluators.judged.base import judge_usage
from tool_call_evaluators.outcomes.accepting import acceptance

LOST = {"$same": "The parcel is lost"}
WANTED = [{"name": "refund", "arguments": {"order": 7, "reason": LOST}}]


def refunds(*reasons, order=7):
    return [{"name": "refund", "arguments": {"order": order, "reason": reason}} for reason in reasons]


def says(*verdicts):
    return {f"pair_{number}": {"reason": "so", "verdict": given} for number, given in enumerate(verdicts, 1)}


async def result_of(name, case, *answers, **options):
    judge = PreparedJudge(answers)
    (result,) = await evaluate(case, with_judge([get_evaluator(name, **options)], judge))
    return result, judge.questions


@pytest.mark.parametrize("same", [True, False])
@pytest.mark.parametrize(
    ("name", "options", "expected", "passes_if"),
    [
        ("tool_trajectory", {}, {"expected_tool_calls": WANTED}, True),
        ("tool_correctness", {"mode": "names_and_args"}, {"expected_tool_calls": WANTED}, True),
        ("tool_call_args", {}, {"expected_tool_calls": WANTED}, True),
        ("tool_call_args", {"argument_score": "similarity"}, {"expected_tool_calls": WANTED}, True),
        ("forbidden_calls", {}, {"forbidden_calls": WANTED}, False),
        ("forbidden_calls", {"forbidden_calls": WANTED}, {}, False),
        ("approval", {}, {"expected_approval": {"tool": "refund", "arguments": {"reason": LOST}}}, True),
        ("state_of_world", {}, {"expected_world": {"equals": LOST}}, True),
        ("exact_match", {}, {"expected_response": LOST}, True),
        ("exact_match", {"expected": {"$one_of": ["7", LOST]}}, {}, True),
    ],
)
async def test_the_judge_decides_wherever_values_are_compared(name, options, expected, passes_if, same):
    (call,), said = refunds("It never arrived"), "It never arrived"
    case = EvalCase(tool_calls=[call], approvals=[call], response_text=said, world={"seen": said}, **expected)
    result, (question,) = await result_of(name, case, says(same), **options)
    assert result.passed is (same is passes_if), result.reason
    assert json.loads(question.data["pairs of texts"]) == {
        "pair_1": {"expected": "The parcel is lost", "actual": "It never arrived"}
    }
    assert result.details["same"] == [
        {"expected": "The parcel is lost", "actual": "It never arrived", "same": same, "reason": "so"}
    ]
    told = result.details["judge"]
    assert (told["prompt"], told["requests"], len(told["key"])) == ("same_meaning@1", 1, 16)
    json.dumps(result.to_dict())


async def test_equal_texts_cost_nothing():
    case = EvalCase(tool_calls=refunds("The parcel is lost"), expected_tool_calls=WANTED)
    result, questions = await result_of("tool_trajectory", case)
    assert (result.score, questions, "judge" in result.details) == (1.0, [], False)


EITHER = {"expected_response": {"$one_of": [LOST, {"$same": "It is broken"}]}, "response_text": "It does not work"}


async def test_all_pairs_of_a_result_are_one_question_and_one_that_matters_only_then_is_another():
    several = EvalCase(tool_calls=refunds("Gone", "Too big", "Gone"), expected_tool_calls=WANTED * 2)
    result, (question,) = await result_of("tool_trajectory", several, says(True, False), mode="recall")
    assert (result.score, len(question.data["pairs of texts"].splitlines())) == (1.0, 2)
    result, questions = await result_of("exact_match", EvalCase(**EITHER), says(False), says(True))
    assert (result.score, len(questions), judge_usage([result]).requests) == (1.0, 2, 2)


UNREACHABLE = JudgeUnreachableError("no server there").costing(Usage(1))
MANY = "ValueError: $same: there are 101 pairs of texts to compare, of which 100 may be"


@pytest.mark.parametrize(
    ("name", "fields", "answers", "reason", "requests"),
    [
        ("tool_trajectory", {}, [UNREACHABLE], "JudgeUnreachableError: no server there", 1),
        ("exact_match", EITHER, [says(False), UNREACHABLE], "JudgeUnreachableError: no server there", 2),
        ("tool_trajectory", {"tool_calls": refunds(*map(str, range(101)))}, [], MANY, None),
    ],
)
async def test_without_an_answer_there_is_no_score(name, fields, answers, reason, requests):
    case = EvalCase(**{"tool_calls": refunds("Gone"), "expected_tool_calls": WANTED, **fields})
    result, _ = await result_of(name, case, *answers)
    assert (result.status, result.reason) == (Status.ERRORED, reason)
    assert result.details.get("judge", {}).get("requests") == requests


def test_without_a_judge_that_is_awaited_the_result_is_errored():
    right = {"evaluator": "tool_error", "score": 1.0, "passed": True}
    case = EvalCase(tool_calls=refunds("Gone"), expected_tool_calls=WANTED, turns=[{"results": [right]}])
    ratio = get_evaluator("turn_success_ratio", metrics=["tool_error"], trajectory={})
    for result in evaluate_sync(case, [get_evaluator("tool_trajectory"), ratio]):
        assert (result.status, "$same needs a judge" in result.reason) == (Status.ERRORED, True)


async def test_a_spent_budget_skips_and_unknown_calls_are_not_judged():
    case = EvalCase(tool_calls=refunds("Gone"), expected_tool_calls=WANTED)
    with spending(JudgeBudget(0, 60, "0/min", "x")):
        (result,) = await evaluate(case, with_judge([get_evaluator("tool_trajectory")], lambda prompt: "{}"))
    unseen, questions = await result_of("tool_trajectory", replace(case, calls_unseen="no source"))
    assert (result.label, unseen.label, questions) == ("over_budget", "calls_unseen", [])


SUITE = """
suite: x
evaluators: [tool_trajectory, tool_error]
cases:
  - id: a
    turns:
      - user: hi
        expect: {tool_calls: [{name: refund, arguments: {reason: %s}}]}
"""


@pytest.mark.parametrize(
    ("value", "needs"),
    [("{$same: lost}", True), ("{a: [{$json: {$same: x}}]}", True), ("{$literal: {$same: x}}", False), ("x", False)],
)
def test_a_suite_that_needs_a_judge_for_it_says_so_before_a_run(value, needs):
    said = pytest.raises(JudgeNotConfiguredError, match="a judge is needed for tool_trajectory: ")
    with said if needs else nullcontext():
        parse_suite(SUITE % value).check_judges({})


def test_what_the_judge_accepted_stays_expected_when_a_run_is_accepted():
    suite = parse_suite(SUITE % "{$same: lost}, order: 7")
    document = {
        "cases": [{"turns": [{"expect": {"tool_calls": [suite.cases[0].turns[0].expect.tool_calls[0].to_dict()]}}]}]
    }
    same = [{"expected": "lost", "actual": "gone", "same": True, "reason": "so"}]
    failed = {
        "evaluator": "tool_trajectory",
        "score": 0.0,
        "passed": False,
        "threshold": 1.0,
        "details": {"same": same},
    }
    made = {"name": "refund", "arguments": {"reason": "gone", "order": 8}, "id": "", "result": "done", "error": None}
    seen = turn("t", "hi", [made], [failed], case="a")
    (proposal,) = acceptance(suite, document, [seen]).proposals
    assert proposal.value[0]["arguments"] == {"reason": {"$same": "lost"}, "order": 8}
