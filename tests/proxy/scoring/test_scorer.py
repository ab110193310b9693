"""From a turn to its results: the case it belongs to, and evaluators that may fail."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest
from a2a_eval_proxy.scoring.case_book import CaseBook
from a2a_eval_proxy.scoring.scorer import Scorer, at_once
from a2a_eval_proxy.turn import Turn
from a2a_tool_capture import Finding, ToolCall
from a2a_tool_capture.models import Severity
from agents.serving import ServerThread
from hypothesis import given
from hypothesis import strategies as st
from judges.fake_api import KEY, MODEL, FakeApi, says
from support.junk import json_objects
from support.registered import registered
from tool_call_evaluators.evaluator import AsyncEvaluator, Measurement, SyncEvaluator
from tool_call_evaluators.judge import MemoryJudgeCache
from tool_call_evaluators.model import EvalCase
from tool_call_evaluators.suite import parse_suite

SUITE = """
suite: orders
evaluators: [tool_trajectory, tool_error]
tools: [{name: search}]
cases:
  - id: status
    turns:
      - {user: Where is it?, expect: {tool_calls: [{name: search}]}}
      - {user: Thanks, expect: {tool_calls: []}}
"""


def scorer_of(text: str) -> Scorer:
    suite = parse_suite(text)
    return Scorer(CaseBook(suite), suite)


def turn(*calls: str, case_id: str | None = None, user_text: str = "Where is it?") -> Turn:
    made = [ToolCall(name, result="done") for name in calls]
    it = Turn("t", "r", "a", "JSONRPC", "1.0", 0.0, case_id=case_id, user_text=user_text, tool_calls=made)
    it.shown_by = "extension"
    return it


async def statuses(scorer: Scorer, scored: Turn, earlier: int = 0) -> dict[str, str]:
    """`earlier`: how many turns of its case were before it."""
    before = [{**turn(case_id=scored.case_id).to_dict(), "evaluations": []}] * earlier
    results = await scorer.score(scored, before)
    return {result["evaluator"]: result["status"] for result in results}


@pytest.mark.parametrize(
    ("text", "calls", "case_id", "earlier", "outcome"),
    [
        ("Where is it?", ["search"], "status", 0, "passed"),
        ("Where is it?", ["pay"], "status", 0, "failed"),
        ("Thanks", ["search"], "status", 1, "failed"),
        ("Off script", ["search"], "status", 0, "passed"),
        ("Off script", ["search"], "status", 1, "failed"),
        ("And now?", ["search"], "status", 7, "skipped"),
        ("Where is it?", ["search"], None, 0, "skipped"),
        ("Where is it?", ["search"], "nobody", 0, "skipped"),
    ],
)
async def test_a_turn_is_held_against_the_expectations_of_its_place(
    text: str, calls: list[str], case_id: str | None, earlier: int, outcome: str
) -> None:
    found = await statuses(scorer_of(SUITE), turn(*calls, case_id=case_id, user_text=text), earlier)
    assert found == {"tool_trajectory": outcome, "tool_error": "passed"}


def test_a_conversation_has_its_history_beside_its_turns() -> None:
    said = [replace(turn("pay", user_text="Hello"), given=True), turn("search"), turn(user_text="Thanks")]
    turns = [
        {**replace(one, case_id="status", status="done", ended_at=1.0).to_dict(), "evaluations": []} for one in said
    ]
    case = scorer_of(SUITE).whole_case(turns)
    assert isinstance(case, EvalCase)
    assert [one.user_text for one in case.history] == ["Hello"]
    assert [call.name for call in case.tool_calls] == ["search"]


async def test_an_answer_that_did_not_come_is_not_scored_as_an_empty_one() -> None:
    whole = "{contains: {scope: conversation, id: whole, search_text: Here}}"
    scorer = scorer_of(SUITE.replace("[tool_trajectory", f"[contains, {whole}, tool_trajectory"))
    lost = turn(case_id="status")
    lost.findings.append(Finding("agent_unreachable", "connection refused", Severity.ERROR))
    assert await statuses(scorer, lost) == {
        "contains": "skipped",
        "tool_trajectory": "skipped",
        "tool_error": "skipped",
        "turn_succeeded": "failed",
    }
    first = turn("search", case_id="status")
    both = [
        {**one.to_dict(), "turn_id": str(index), "status": "done", "evaluations": []}
        for index, one in enumerate((first, replace(lost, user_text="Thanks")))
    ]
    for one in both:
        one["conversation_id"] = "c"
    (result,) = await scorer.score_conversation(both) or ()
    assert (result["status"], "could not be reached" in result["reason"]) == ("skipped", True)


async def test_where_the_turns_before_it_cannot_be_read_nothing_passes() -> None:
    results = await scorer_of(SUITE).score(turn("search", case_id="status"), None)
    assert {result["status"] for result in results} == {"errored"}


async def test_without_a_suite_what_needs_no_expectation_is_scored() -> None:
    scorer = Scorer(CaseBook(None), None)
    assert await statuses(scorer, turn("search")) == {"tool_error": "passed"}
    assert scorer.evaluators(None).is_cheap
    assert not scorer.evaluators(None).reads_earlier
    assert scorer_of(SUITE).evaluators("status").reads_earlier


EXPECTED = """
suite: s
evaluators: [tool_trajectory, tool_error, {forbidden_calls: {forbidden_calls: [{name: pay}]}}]
cases:
  - {id: fails, turns: [{user: Where is it?, expect: {state: failed}}]}
  - {id: calls, turns: [{user: Where is it?, expect: {state: failed, tool_calls: []}}]}
"""


@pytest.mark.parametrize(
    ("case_id", "state", "trajectory", "forbidden", "succeeded"),
    [
        ("fails", "FAILED", "ended_as_expected", "calls_unseen", "passed"),
        ("calls", "FAILED", "calls_unseen", "calls_unseen", "passed"),
        ("fails", "COMPLETED", None, "unproven", "failed"),
        (None, "FAILED", "calls_unseen", "calls_unseen", "failed"),
    ],
)
async def test_a_turn_that_fails_as_its_case_expects(
    case_id: str | None, state: str, trajectory: str | None, forbidden: str | None, succeeded: str
) -> None:
    """Calls of which nothing is expected may be lost with the answer."""
    one = turn(case_id=case_id)
    one.state, one.shown_by = f"TASK_STATE_{state}", "extension" if state == "COMPLETED" else ""
    results = {found["evaluator"]: found for found in await scorer_of(EXPECTED).score(one)}
    assert results["turn_succeeded"]["status"] == succeeded
    assert [results[name]["label"] for name in ("tool_trajectory", "forbidden_calls")] == [trajectory, forbidden]


def test_what_the_evaluators_get_to_see() -> None:
    seen = scorer_of(SUITE).eval_case(turn("search", case_id="status", user_text="Where's it?"))
    assert [call.name for call in seen.tool_calls] == ["search"]
    assert [call.name for call in seen.expected_tool_calls or ()] == ["search"]
    assert [tool.name for tool in seen.tools or ()] == ["search"]
    assert seen.user_text == "Where's it?"


@dataclass(frozen=True, kw_only=True)
class Broken(SyncEvaluator):
    name: ClassVar[str] = "broken_for_this_test"

    def measure(self, case: EvalCase) -> Measurement:
        raise KeyError("no such thing")


@dataclass(frozen=True, kw_only=True)
class Patient(AsyncEvaluator):
    name: ClassVar[str] = "patient_for_this_test"

    async def measure(self, case: EvalCase) -> Measurement:
        await asyncio.sleep(0)
        return Measurement(1.0, "thought about it")


@pytest.mark.parametrize(("evaluator", "status"), [(Broken, "errored"), (Patient, "passed")])
async def test_evaluators_of_others_may_raise_or_wait_and_the_others_go_on(evaluator: Any, status: str) -> None:
    with registered(evaluator):
        scorer = scorer_of(f"suite: own\nevaluators: [{evaluator.name}, tool_error]")
    assert not scorer.evaluators(None).is_cheap
    assert not scorer.evaluators(None).is_quick
    assert scorer.evaluators(None).reads_earlier
    own, other = await scorer.score(turn("search"))
    assert (own["status"], other["status"]) == (status, "passed")
    assert ("KeyError" in own["reason"]) == (status == "errored")


def test_evaluators_of_conversations_are_not_for_turns() -> None:
    scorer = scorer_of("suite: x\nevaluators: [tool_error, turn_success_ratio]\ncases: []")
    assert [result["evaluator"] for result in at_once(scorer.score(turn()))] == ["tool_error"]


ALL_SWIFT = """
suite: all
evaluators: [tool_trajectory, tool_error, tool_call_args, tool_call_validity]
tools: [{name: search, parameters: {type: object, properties: {q: {type: string}}}}]
cases:
  - {id: status, turns: [{user: Where?, expect: {tool_calls: [{name: search, arguments: {q: x}}]}}]}
"""


@given(
    st.lists(
        st.tuples(st.sampled_from(["search", "pay", ""]), st.none() | json_objects, st.none() | st.text(max_size=5)),
        max_size=4,
    ),
    st.sampled_from([None, "status"]),
)
def test_whatever_an_agent_did_can_be_scored(made: list[Any], case_id: str | None) -> None:
    calls = [ToolCall(name, arguments, result=result) for name, arguments, result in made]
    scored = turn(case_id=case_id)
    scored.tool_calls = calls
    results = at_once(scorer_of(ALL_SWIFT).score(scored))
    assert len(results) == 4
    assert all(result["status"] != "errored" or result["reason"] for result in results)


@pytest.mark.parametrize(("repetitions", "asked"), [(1, 1), (3, 3)])
async def test_each_repetition_is_judged_by_itself_and_again_for_nothing(
    monkeypatch: pytest.MonkeyPatch, repetitions: int, asked: int
) -> None:
    monkeypatch.setenv("A2A_EVAL_PROXY_JUDGE_API_KEY", KEY)
    api = FakeApi(
        says({"reason": "a", "score": 1}), says({"reason": "b", "score": 3}), says({"reason": "c", "score": 5})
    )
    with ServerThread(api.app) as server:
        suite = parse_suite(f"""
suite: judged
evaluators: [helpfulness]
judge: {{model: {MODEL}, base_url: "{server.url}/v1"}}
cases: [{{id: status, repeat: {repetitions}, turns: [{{user: Where is it?}}]}}]
""")
        scorer = Scorer(CaseBook(suite), suite, MemoryJudgeCache())
        for _ in range(2):
            scores = []
            for number in range(3):
                said = turn(case_id="status")
                said.conversation_id, said.response_text = f"conversation-{number}", "Here."
                scores += [result["score"] for result in await scorer.score(said)]
            assert scores == ([1, 3, 5] if repetitions > 1 else [1, 1, 1])
    assert len(api.requests) == asked


@pytest.mark.parametrize(
    ("evaluator", "arguments", "quick"),
    [
        ("tool_trajectory", "{q: x}", True),
        ("tool_trajectory", '{q: {$optional: {$regex: "(a+)+b"}}}', False),
        ("{tool_error: {error_detector: fail}}", "{}", False),
        ("tool_call_validity", "{}", False),
    ],
)
def test_what_matches_regular_expressions_is_not_quick(evaluator: str, arguments: str, quick: bool) -> None:
    case = f"{{id: a, turns: [{{user: x, expect: {{tool_calls: [{{name: search, arguments: {arguments}}}]}}}}]}}"
    scorer = scorer_of(f"suite: s\ntools: [{{name: search}}]\nevaluators: [{evaluator}]\ncases: [{case}]")
    assert scorer.evaluators("a").is_quick is quick
