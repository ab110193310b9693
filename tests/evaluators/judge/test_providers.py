"""Judges at other providers, each a stand-in over loopback that demands and refuses what the provider does."""

from __future__ import annotations

import json
import logging

import pytest
from agents.serving import ServerThread
from judges.fake_api import KEY, MODEL, Reply, fails, says
from judges.providers import (
    AZURE_BASE,
    AZURE_QUERY,
    AzureApi,
    StrictApi,
)
from tool_call_evaluators import EvalCase
from tool_call_evaluators.judge import (
    ChatJudge,
    JudgeSettings,
    JudgeUnreachableError,
    Question,
)
from tool_call_evaluators.judge.question import load_prompt
from tool_call_evaluators.judged.base import grade_schema, judge_usage
from tool_call_evaluators.judged.quality import Helpfulness

QUESTION = Question(load_prompt("helpfulness"), {"user message": "hi", "answer": "hello"}, grade_schema(1, 5))
GOOD = {"reason": "It greets.", "score": 4}
CASE = EvalCase(user_text="hi", response_text="hello")
PRICES = {"input": 3.0, "output": 10.0}
ONE_ANSWER = 100 * 3e-6 + 20 * 10e-6


@pytest.mark.parametrize("end", ["", "/chat/completions"])
async def test_azure_gets_its_version_and_key(end):
    api = AzureApi(says(GOOD))
    with ServerThread(api.app) as server:
        url = f"{server.url}{AZURE_BASE}{end}?{AZURE_QUERY}"
        judge = ChatJudge(JudgeSettings(base_url=url, model="gpt-4o", api_key_header="api-key"), KEY)
        assert (await judge.ask(QUESTION)).value == GOOD
        wrong = ChatJudge(JudgeSettings(base_url=url, model="gpt-4o"), KEY)
        with pytest.raises(JudgeUnreachableError, match="HTTP 401: Access denied"):
            await wrong.ask(QUESTION)


async def test_further_headers_are_sent_with_variables_of_the_environment(monkeypatch, caplog):
    monkeypatch.setenv("GATEWAY_TOKEN", "tok-4711")
    seen = []

    class Gateway(AzureApi):
        def _complaint(self, scope, body):
            seen.append({name.decode(): value.decode() for name, value in scope["headers"]})
            return None if len(seen) == 1 else fails(403, "token tok-4711 is not allowed")

    with ServerThread(Gateway(says(GOOD)).app) as server:
        headers = {"X-Gateway-Token": "Bearer ${GATEWAY_TOKEN}", "X-Team": "evals"}
        judge = ChatJudge(JudgeSettings(base_url=server.url, model=MODEL, headers=headers))
        await judge.ask(QUESTION)
        with pytest.raises(JudgeUnreachableError, match=r"token \*\*\* is not allowed"):
            await judge.ask(QUESTION)
    assert (seen[0]["x-gateway-token"], seen[0]["x-team"]) == ("Bearer tok-4711", "evals")
    assert "authorization" not in seen[0]
    assert "4711" not in f"{judge!r} {judge.settings!r} {judge.settings.identity} {caplog.text}"


TEMPERATURE = "Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) is supported."
FORMAT = "This response_format type is unavailable now"


@pytest.mark.parametrize("named", [True, False], ids=["param", "words"])
@pytest.mark.parametrize(
    "refused",
    [
        {"temperature": TEMPERATURE},
        {"response_format": FORMAT},
        {"temperature": TEMPERATURE, "response_format": FORMAT},
    ],
)
async def test_a_refused_parameter_is_left_out_once_and_for_all_with_a_note(refused, named, caplog):
    caplog.set_level(logging.WARNING)
    api = StrictApi(says(f"<think>4 or 5? Four.</think>\n```json\n{json.dumps(GOOD)}\n```"), refused=refused,
                    named=named)  # fmt: skip
    with ServerThread(api.app) as server:
        judge = ChatJudge(JudgeSettings(base_url=server.url, model=MODEL, prices=PRICES), KEY)
        first = await Helpfulness(judge=judge, votes=1).evaluate(CASE)
        attempts = api.attempts
        second = await Helpfulness(judge=judge, votes=1).evaluate(CASE)
    assert (first.score, second.score) == (4.0, 4.0)
    assert attempts == 1 + len(refused)
    assert api.attempts == attempts + 1
    for result in (first, second):
        assert result.details["judge"]["notes"] == [f"the server refuses {name}, which is left out" for name in refused]
        assert judge_usage([result]).requests == 1  # refused requests are not billed
        assert judge_usage([result]).cost == pytest.approx(ONE_ANSWER)
    assert len(caplog.records) == len(refused)
    assert "requests no longer contain" in caplog.text


@pytest.mark.parametrize(
    "refusal",
    [
        fails(400, "Unsupported value: 'messages'"),
        fails(400, "Blocked: 'what is the temperature in Paris?'"),
        fails(403, "temperature is not supported"),
    ],
)
async def test_another_refusal_is_final(refusal):
    api = AzureApi(refusal)
    api._complaint = lambda scope, body: None
    with ServerThread(api.app) as server:
        judge = ChatJudge(JudgeSettings(base_url=server.url, model=MODEL), KEY)
        with pytest.raises(JudgeUnreachableError, match=f"HTTP {refusal.status}") as caught:
            await judge.ask(QUESTION)
    assert (api.attempts, caught.value.usage.requests) == (1, 0)


async def test_a_parameter_that_stays_refused_is_not_left_out_twice():
    message = "Unsupported value: 'temperature'"
    api = AzureApi(fails(400, message))
    api._complaint = lambda scope, body: None
    with ServerThread(api.app) as server:
        judge = ChatJudge(JudgeSettings(base_url=server.url, model=MODEL), KEY)
        with pytest.raises(JudgeUnreachableError, match=message):
            await judge.ask(QUESTION)
    assert api.attempts == 2


@pytest.mark.parametrize("lost", [Reply(cut=True), Reply(hang=True)], ids=["cut", "timeout"])
async def test_requests_without_an_answer_may_be_paid_for_and_are_counted(lost):
    api = AzureApi(lost, says(GOOD))
    api._complaint = lambda scope, body: None
    with ServerThread(api.app) as server:
        settings = JudgeSettings(base_url=server.url, model=MODEL, prices=PRICES, timeout=2, retries=1)
        usage = (await ChatJudge(settings, KEY).ask(QUESTION)).usage
    assert (usage.requests, usage.unanswered, usage.prompt_tokens) == (2, 1, 100)
    assert usage.cost == pytest.approx(ONE_ANSWER)
