"""Tokens that an agent states in its answers: in the turn, for `budget`, and through a store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from a2a.types import Artifact, Part, Task, TaskState, TaskStatus
from google.protobuf.json_format import MessageToDict
from support.proxied import proxied
from tool_call_evaluators.resources import resources_in

SUITE = """\
suite: orders
prices: {gpt-4o: {input: 2, output: 4}}
evaluators:
  - budget: {max_total_tokens: 400, max_seconds: 60, max_first_event_seconds: 60}
  - budget: {id: costs, max_cost: 0.0001}
  - budget: {id: whole, scope: conversation, max_input_tokens: 500}
cases:
  - {id: one, turns: [{user: hi}]}
  - {id: two, turns: [{user: ho}]}
"""
STATED = {
    "promptTokenCount": 300,
    "candidatesTokenCount": 50,
    "totalTokenCount": 350,
    "modelVersion": "gpt-4o-2024-11-20",
}


def answer(name: str, **metadata: Any) -> dict[str, Any]:
    task = Task(
        id=f"task {name}",
        context_id=name,
        status=TaskStatus(state=TaskState.TASK_STATE_COMPLETED),
        artifacts=[Artifact(artifact_id="a", parts=[Part(text="done")])],
    )
    task.metadata.update(metadata)
    return {"task": MessageToDict(task)}


async def test_a_turn_has_the_tokens_that_its_agent_states(tmp_path: Path) -> None:
    suite = tmp_path / "suite.yaml"
    suite.write_text(SUITE)
    async with proxied(tmp_path, suite=str(suite)) as it:
        await it.answers(answer("one", kagent_usage_total=STATED), "hi", a2a_eval_case="one")
        await it.answers(answer("two"), "ho", a2a_eval_case="two")
        await it.flushed()
        one, two = sorted(await it.turns(), key=lambda turn: turn["case_id"])
        assert "usage" not in two
        assert [result["status"] for result in two["evaluations"]] == ["skipped", "skipped"], "unknown, never passed"
        tokens = {"input_tokens": 300, "output_tokens": 50, "total_tokens": 350}
        assert one["usage"] == {**tokens, "models": {STATED["modelVersion"]: tokens}, "source": "kagent_usage_total"}
        assert [result["status"] for result in one["evaluations"]] == ["passed", "failed"]
        assert one["evaluations"][1]["details"]["max_cost"]["actual"] == (300 * 2 + 50 * 4) / 1e6
        statuses = [
            {
                result["evaluator"]: result["status"]
                for result in (await it.get(f"/api/conversations/{name}"))["evaluations"]
            }
            for name in ("one", "two")
        ]
        assert statuses == [{"whole": "passed"}, {"whole": "skipped"}]
        assert resources_in(one)["seconds"] >= resources_in(one)["first_event_seconds"] >= 0
