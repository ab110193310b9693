"""Judged evaluators and a real, small model: the whole way there and back. Never what it says: it knows nothing."""

from __future__ import annotations

import pytest
from agents.serving import ServerThread
from judges import local_model
from tool_call_evaluators import EvalCase, Status, evaluate
from tool_call_evaluators.behavior_failures import AGENT_BEHAVIOR_LABELS
from tool_call_evaluators.judge import ChatJudge, JudgeSettings
from tool_call_evaluators.judged.behavior import AgentBehaviorFailure
from tool_call_evaluators.judged.quality import Helpfulness
from tool_call_evaluators.judged.tasks import TaskCompletion

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(local_model.missing()), reason=local_model.missing()),
    pytest.mark.timeout(600),
]

CASE = EvalCase(
    user_text="Where is my order ORD-1001?",
    response_text="Your order ORD-1001 was sent this morning and arrives tomorrow.",
    tool_calls=[{"name": "lookup_order", "arguments": {"order_id": "ORD-1001"}, "result": "sent 08:10, due tomorrow"}],
    tasks=["say where the order is", "say when it arrives"],
)


@pytest.fixture(scope="module")
def model():
    api = local_model.LocalModelApi()
    with ServerThread(api.app) as server:
        yield (
            api,
            JudgeSettings(
                base_url=f"{server.url}/v1",
                model=local_model.NAME,
                concurrency=1,
                timeout=300,
                retries=0,
                prices={"input": 1.0, "output": 2.0},
                extra_body={"max_tokens": 400},
            ),
        )


async def test_verdicts_of_every_shape(model):
    _, settings = model
    judge = ChatJudge(settings)
    evaluators = [Helpfulness(judge=judge), AgentBehaviorFailure(judge=judge), TaskCompletion(judge=judge)]
    grade, label, tasks = await evaluate(CASE, evaluators)
    for result in (grade, label, tasks):
        assert result.status in (Status.PASSED, Status.FAILED), result.reason
        assert result.details["judge"]["model"] == local_model.NAME
        assert result.details["judge"]["prompt_tokens"] > 100
        assert result.details["judge"]["cost"] > 0
    assert grade.score in (1, 2, 3, 4, 5)
    assert label.label in AGENT_BEHAVIOR_LABELS
    assert len(tasks.details["tasks"]) == 2
