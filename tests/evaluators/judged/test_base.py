"""What all judged evaluators share: how a judge gets to them, votes, costs, and what happens without an answer."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judges.fake_api import KEY, MODEL, fit, fitting, served
from tool_call_evaluators import (
    EvalCase,
    JudgedEvaluator,
    Status,
    evaluate,
    evaluator_class,
    evaluator_names,
    get_evaluator,
    parse_suite,
    with_judge,
)
from tool_call_evaluators.judge import (
    ChatJudge,
    JudgeAnswerError,
    JudgeSettings,
    JudgeUnreachableError,
    MemoryJudgeCache,
    PreparedJudge,
    Prompt,
    Usage,
)
from tool_call_evaluators.judged.base import calls_text, judge_usage, numbered, turn_data, turns_text, whole_data
from tool_call_evaluators.judged.quality import Helpfulness, LlmJudgeOutput
from tool_call_evaluators.judged.tool_wording import ToolNameReliability
from tool_call_evaluators.metrics.tool_error import ToolError

TURN = EvalCase(
    user_text="Where is order 7?",
    response_text="It was sent today.",
    tool_calls=[{"name": "lookup_order", "arguments": {"order_id": "7"}, "result": "sent"}],
    expected_response="Sent.",
    expected_behavior="Looks the order up.",
    knowledge="Orders are sent within two days.",
    tasks=["find the order"],
    constraints=["be brief"],
    tools=[{"name": "lookup_order", "description": "Finds an order."}],
    user_goal="Know where the order is.",
)
CONVERSATION = EvalCase(turns=[TURN], user_goal="Know where the order is.")
JUDGED = [name for name in evaluator_names() if issubclass(evaluator_class(name), JudgedEvaluator)]


def case_of(name):
    return CONVERSATION if evaluator_class(name).scope == "conversation" else TURN


def grade(score, reason="so"):
    return {"reason": reason, "score": score}


@pytest.mark.parametrize("name", JUDGED)
async def test_every_question_is_one_the_real_api_would_take(name):
    with served(fit) as (judge, api):
        (result,) = await evaluate(case_of(name), [get_evaluator(name, judge=judge)])
    assert result.score is not None, result.reason
    assert len(api.requests) == 1
    told = result.details["judge"]
    assert (told["model"], told["votes"], told["requests"], told["spread"]) == (f"{MODEL}-2026", 1, 1, 0)
    assert told["prompt"] == f"{name}@{evaluator_class(name).version}"
    json.dumps(result.to_dict())


@pytest.mark.parametrize("name", JUDGED)
@pytest.mark.parametrize("error", [JudgeUnreachableError("no server there"), JudgeAnswerError("gibberish")])
async def test_no_answer_is_an_error_with_its_reason_and_the_others_go_on(name, error):
    results = await evaluate(case_of(name), [get_evaluator(name, judge=PreparedJudge([error])), ToolError()])
    assert (results[0].status, results[0].score) == (Status.ERRORED, None)
    assert results[0].reason == f"{type(error).__name__}: {error}"
    assert results[1].status is not Status.ERRORED


@pytest.mark.statement(241)
@pytest.mark.parametrize("name", JUDGED)
async def test_without_its_inputs_no_judge_is_asked(name):
    judge = PreparedJudge([])
    (result,) = await evaluate(EvalCase(), [get_evaluator(name, judge=judge)])
    assert (result.status, judge.questions) == (Status.SKIPPED, [])


@pytest.mark.parametrize("name", JUDGED)
async def test_one_missing_vote_is_no_verdict(name):
    class Tired:
        async def ask(self, question):
            if question.vote == 2:
                raise JudgeAnswerError("enough")
            return await PreparedJudge([fitting(question.schema)]).ask(question)

    (result,) = await evaluate(case_of(name), [get_evaluator(name, judge=Tired(), votes=3)])
    assert (result.status, result.reason) == (Status.ERRORED, "JudgeAnswerError: enough")


@given(st.lists(st.integers(1, 5), min_size=1, max_size=7))
async def test_the_score_is_the_median_and_the_spread_is_told(grades):
    judge = PreparedJudge([grade(score, f"grade {score}") for score in grades])
    result = await Helpfulness(judge=judge, votes=len(grades)).evaluate(TURN)
    assert min(grades) <= result.score <= max(grades)
    assert result.details["votes"] == grades
    assert result.details["judge"]["spread"] == max(grades) - min(grades)
    told = int(result.reason.removeprefix("grade "))
    assert abs(told - result.score) == min(abs(score - result.score) for score in grades)
    assert sorted(question.vote for question in judge.questions) == list(range(len(grades)))


# ── how a judge gets there ──────────────────────────────────────────────────────────────────────────────────────


async def test_a_judge_is_given_to_all_that_have_none():
    own, given = PreparedJudge([grade(1)]), PreparedJudge([grade(5)])
    kept, bound, plain = with_judge([Helpfulness(judge=own), Helpfulness(id="h"), ToolError()], given)
    assert [(await one.evaluate(TURN)).score for one in (kept, bound)] == [1, 5]
    assert (bound.metric, plain) == ("h", ToolError())


def test_without_a_model_nothing_changes():
    evaluators = [Helpfulness(), ToolNameReliability()]
    assert with_judge(evaluators, environ={"OPENAI_API_KEY": "sk-1"}) == evaluators


def test_settings_environment_and_own_settings():
    environ = {"A2A_EVAL_PROXY_JUDGE_BASE_URL": "http://127.0.0.1:9/v1"}
    evaluators = [
        Helpfulness(),
        Helpfulness(judge={"model": "own", "votes": 2}),
        Helpfulness(votes=5),
        Helpfulness(judge={}),
        ToolNameReliability(),
    ]
    bound = with_judge(evaluators, JudgeSettings(model="suite", votes=3), environ=environ)
    assert all(isinstance(evaluator.judge, ChatJudge) for evaluator in bound)
    assert [evaluator.judge.settings.model for evaluator in bound] == ["suite", "own", "suite", "suite", "suite"]
    assert [evaluator.votes for evaluator in bound] == [3, 2, 5, 3, 3]
    assert {evaluator.judge.settings.url for evaluator in bound} == {"http://127.0.0.1:9/v1"}
    assert bound[0].judge is bound[2].judge, "equal settings share a judge, and so its limit"


async def test_a_suite_with_a_judge_from_file_to_score(monkeypatch):
    monkeypatch.setenv("A2A_EVAL_PROXY_JUDGE_API_KEY", KEY)
    cache = MemoryJudgeCache()
    with served(fit) as (judge, api):
        suite = parse_suite(
            f"""
suite: s
judge: {{base_url: {judge.settings.base_url}, model: {MODEL}, votes: 2, prices: {{input: 1, output: 2}}}}
evaluators:
  - helpfulness
  - relevance: {{votes: 1, judge: {{timeout: 5}}}}
  - tool_name_reliability
  - tool_error
"""
        )
        first = await evaluate(TURN, suite.build_evaluators(judge_cache=cache))
        asked = len(api.requests)
        second = await evaluate(TURN, suite.build_evaluators(judge_cache=cache))
        assert len(api.requests) == asked == 5
    assert [result.score for result in first] == [result.score for result in second]
    assert judge_usage(first).requests == 5
    assert judge_usage(second) == Usage()
    assert second[0].details["judge"]["cached"] == 2
    assert first[2].details["tools"][0]["checks"]["clarity"] is True


def test_the_key_of_a_judge_is_that_of_what_it_is_asked_and_how():
    def key(option=None, **options):
        return Helpfulness(
            judge={"model": "m", "base_url": "http://127.0.0.1:1/v1", **(option or {})}, **options
        ).judge_key

    same = key()
    assert same == key(id="other", threshold=5.0) == key({"prices": {"input": 1, "output": 2}, "retries": 0})
    changed = [
        key({"model": "n"}), key({"temperature": 1.0}), key({"base_url": "http://127.0.0.1:2/v1"}), key(votes=3),
        key({"extra_body": {"seed": 1}}), key({"response_format": "text"}), key({"headers": {"X-Route": "b"}}),
        key({"base_url": "http://127.0.0.1:1/v1?api-version=1"}),
        LlmJudgeOutput(judge={"model": "m"}, criteria="polite").judge_key,
        LlmJudgeOutput(judge={"model": "m"}, criteria="short").judge_key,
    ]  # fmt: skip
    assert len({same, *changed}) == len(changed) + 1


def test_the_key_is_the_same_with_and_without_a_cache_and_changes_with_the_prompt(monkeypatch):
    settings = JudgeSettings(model="m")
    (cached,) = with_judge([Helpfulness()], settings, cache=MemoryJudgeCache(), environ={})
    (bare,) = with_judge([Helpfulness()], settings, environ={})
    assert cached.judge_key == bare.judge_key
    monkeypatch.setattr(Helpfulness, "prompt", Prompt("helpfulness", "1", "another text"))
    (reworded,) = with_judge([Helpfulness()], settings, environ={})
    assert reworded.judge_key != bare.judge_key


nasty = st.text(alphabet=st.characters(exclude_categories=["Cs"]) | st.sampled_from('\n\r\u2028"{}'))


@given(st.lists(nasty, min_size=1, max_size=4))
def test_each_call_turn_and_text_is_one_line_of_json(texts):
    calls = [{"name": "t", "arguments": {text: text}, "result": text, "error": text} for text in texts]
    turns = EvalCase(turns=[{"user_text": text, "response_text": text, "tool_calls": calls} for text in texts]).turns
    for written in (calls_text(EvalCase(tool_calls=calls).tool_calls), turns_text(turns), numbered("task", texts)):
        lines = written.split("\n")
        assert len(lines) == len(texts)
        assert all(isinstance(json.loads(line), dict) for line in lines)


def test_a_turn_in_the_order_it_happened():
    case = EvalCase(user_text="u", response_text="", tool_calls=[{"name": "a"}], history=[{"user_text": "before"}])
    assert list(turn_data(case)) == ["earlier turns", "user message", "tool calls", "answer"]
    assert turn_data(EvalCase()) == {}
    assert list(whole_data(EvalCase(turns=[case]))) == ["conversation"]
    assert list(whole_data(EvalCase(user_text="u"))) == ["user message"]
