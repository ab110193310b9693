"""Custom metrics and gates of ArkSim through the commands: what runs, what fails the run, and how it is reported."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from agents.serving import ServerThread
from judges.fake_api import KEY, MODEL, FakeApi, Reply, fitting, says, served
from support.prefork import run
from support.provision import source_of
from tool_call_evaluators import EvalCase, Status, evaluate, get_evaluator, registry
from tool_call_evaluators.foreign import HeldTurn
from tool_call_evaluators.importers.arksim.simulation import SimulatedConversation, simulation_text
from tool_call_evaluators.plugins import load_plugin

METRICS = """
from pydantic import BaseModel
from arksim.evaluator import QualitativeMetric, QualResult, QuantitativeMetric, QuantResult, format_chat_history

class LabelSchema(BaseModel):
    label: str
    reason: str

class ProhibitedStatements(QualitativeMetric):
    def __init__(self, llm=None):
        super().__init__(name="prohibited_statements", llm=llm, scope="turn")

    def evaluate(self, score_input):
        found = self.llm.call(format_chat_history(score_input.current_turn), schema=LabelSchema)
        return QualResult(name=self.name, value=found.label, reason=found.reason)

class NeedsAssessment(QuantitativeMetric):
    def __init__(self):
        super().__init__(name="needs_assessment", score_range=(0, 5), scope="conversation")

    def score(self, score_input):
        asked = sum("?" in message.content for message in score_input.chat_history)
        return QuantResult(name=self.name, value=min(asked, 5), reason=f"{asked} questions")
"""
FINE, GUARANTEE, PROMISE = "It may fall. How long can you wait?", "Seven percent, guaranteed.", "You cannot lose."


def judged(request: dict[str, Any]) -> Reply:
    """A judge that dislikes guarantees and promises, in different words, and takes them for the same error."""
    schema = request["response_format"]["json_schema"]["schema"]
    answer = fitting(schema)
    if "error_1" in answer:
        return says({key: {"reason": "A promise.", "same_as": 1} for key in answer})
    seen = request["messages"][-1]["content"].split(" answer]\n")[-1]  # without earlier turns
    bad = next((text for text in (GUARANTEE, PROMISE) if text in seen), None)
    if "enum" in schema["properties"].get("label", {}):
        answer["label"] = "false information" if bad else "no failure"
    elif "label" in answer:
        answer["label"] = "violated" if bad else "clean"
    if "score" in answer:
        answer["score"] = 2 if bad else 5
    return says(answer | {"reason": f"It says {'sure' if bad == PROMISE else 'certain' if bad else 'nothing'}."})


class Workplace:
    """A folder with a file of metrics, a suite and conversations, and a judge."""

    def __init__(self, folder: Path, judge: FakeApi, url: str) -> None:
        self.folder, self.judge, self._url = folder, judge, url
        (folder / "custom_metrics.py").write_text(METRICS)

    def conversations(self, **answers: list[str]) -> None:
        simulated = [
            SimulatedConversation(
                name, name, [HeldTurn(f"What else? ({number})", text, ()) for number, text in enumerate(texts)]
            )
            for name, texts in answers.items()
        ]
        (self.folder / "simulation.json").write_text(simulation_text("s", "2026-01-01T00:00:00Z", simulated))

    def evaluate(self, file: str, **content: Any) -> subprocess.CompletedProcess[str]:
        (self.folder / file).write_text(yaml.safe_dump(content))
        options = ("--simulation-file-path", "simulation.json", "--report", "report", "--store", "turns.db")
        return run(
            *("evaluate", "--suite", file, *options, "--run", f"run-{len(self.judge.requests)}"),
            cwd=self.folder,
            A2A_EVAL_PROXY_JUDGE_API_KEY=KEY,
            A2A_EVAL_PROXY_JUDGE_MODEL=MODEL,
            A2A_EVAL_PROXY_JUDGE_BASE_URL=f"{self._url}/v1",
        )

    def report(self) -> dict[str, Any]:
        return dict(json.loads((self.folder / "report/report.json").read_text()))


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Workplace]:
    judge = FakeApi(judged)
    with ServerThread(judge.app) as server:
        yield Workplace(tmp_path, judge, server.url)


SUITE: dict[str, Any] = {
    "suite": "bank",
    "plugins": ["custom_metrics.py"],
    "evaluators": ["prohibited_statements", "needs_assessment"],
}


@pytest.mark.statement(84, 105, 109, 111, 112)
def test_a_forbidden_label_in_any_turn_fails_the_run(here: Workplace) -> None:
    here.conversations(careful=[FINE, FINE], rash=[FINE, GUARANTEE])
    gates = {"prohibited_statements": {"forbid": ["violated"]}, "needs_assessment": 0}
    failed = here.evaluate("suite.yaml", **SUITE, gates=gates)
    assert failed.returncode == 1, failed.stderr
    assert "rash, turn 2: prohibited_statements is 'violated': It says certain." in failed.stdout
    here.conversations(careful=[FINE, FINE])
    passed = here.evaluate("suite.yaml", **SUITE, gates=gates)
    assert passed.returncode == 0, passed.stdout


@pytest.mark.statement(68, 69)
def test_failures_in_different_words_are_one_error_to_the_judge(here: Workplace) -> None:
    here.conversations(careful=[FINE], rash=[GUARANTEE], bold=[PROMISE])
    here.evaluate("suite.yaml", suite="bank", evaluators=["agent_behavior_failure"])
    report = here.report()
    (error,) = report["unique_errors"]
    assert (error["label"], error["severity"]) == ("false information", "critical")
    assert [place["conversation"] for place in error["occurrences"]] == ["rash", "bold"]
    assert report["judge_usage"]["requests"] == len(here.judge.requests) == 4
    focused = {path.name for path in (here.folder / "report/focus").iterdir()}
    assert focused == {"all-failures.yaml", "error-01-false-information.yaml"}


@pytest.fixture
def _registry_as_it_was() -> Iterator[None]:
    before = dict(registry._registered)
    yield
    registry._registered.clear()
    registry._registered.update(before)


def answered(request: dict[str, Any]) -> Reply:
    """A value of the right type for each property of the schema."""
    values = {"number": 0.8, "integer": 4, "string": "clean", "array": ["said so"]}
    schema = request["response_format"]["json_schema"]["schema"]
    return says({name: values[inner["type"]] for name, inner in schema["properties"].items()})


@pytest.mark.statement(86, 98)
@pytest.mark.usefixtures("_registry_as_it_was")
@pytest.mark.parametrize(("example", "count"), [("bank-insurance", 7), ("customer-service", 4), ("e-commerce", 3)])
@pytest.mark.installs
async def test_the_metrics_of_arksims_examples_run_as_they_are(example: str, count: int) -> None:
    names = load_plugin(source_of("arksim") / f"examples/{example}/custom_metrics.py")
    assert len(names) == count
    turn = EvalCase(user_text="A fund, please.", response_text="Fund A.", user_goal="Invest.", knowledge="It may fall.")
    whole = EvalCase(turns=[turn], user_goal="Invest.", knowledge="It may fall.")
    with served(answered) as (judge, api):
        for name in names:
            evaluator = get_evaluator(name, judge=judge)
            (result,) = await evaluate(whole if evaluator.scope == "conversation" else turn, [evaluator])
            assert result.status in (Status.PASSED, Status.SCORED), result.reason
            assert (result.score, result.label) in ((4.0, None), (None, "clean"))
    assert len(api.requests) == count
