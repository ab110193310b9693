"""ArkSim's files and metrics through the commands, and the files these write through ArkSim's own package."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from a2a_tool_capture import ToolCall
from agents.serving import ServerThread
from judges.fake_api import KEY, MODEL, FakeApi, Reply, fitting, says
from support.prefork import run
from support.provision import python_environment, source_of
from tool_call_evaluators.foreign import HeldTurn
from tool_call_evaluators.importers.arksim.simulation import SimulatedConversation, simulation_text

pytestmark = [
    pytest.mark.installs,
    pytest.mark.about("evaluators/tool_call_evaluators/importers/arksim", "evaluators/tool_call_evaluators/judged"),
]

READER = Path(__file__).parents[1] / "clients/arksim_files.py"
EXAMPLE = Path(__file__).parents[2] / "evaluators/fixtures/arksim/customer-service"
GOOD, BAD, WORSE = "It is shipped.", "It is lost, the moon took it.", "It is lost, and so is your money."
REASONS = {BAD: "the moon takes nothing", WORSE: "money does not get lost"}


def judged(request: dict[str, Any]) -> Reply:
    """A judge that finds two answers false, for reasons in different words that are the same error to it, and all
    others excellent."""
    if "response_format" not in request:
        return user(request)
    schema = request["response_format"]["json_schema"]["schema"]
    answer = fitting(schema)
    if "error_1" in answer:
        return says({key: {"reason": "Things get lost.", "same_as": 1} for key in answer})
    seen = request["messages"][-1]["content"]
    reason = next((why for text, why in REASONS.items() if text in seen), None)
    verdict = {"score": 2 if reason else 5, "label": "false information" if reason else "no failure"}
    verdict["reason"] = reason or "as it should be"
    answer |= {name: value for name, value in verdict.items() if name in answer}
    assert all(answer[name] in inner.get("enum", [answer[name]]) for name, inner in schema["properties"].items())
    return says(answer)


def user(request: dict[str, Any]) -> Reply:
    """A simulated user with one question, who is content with any answer to it."""
    return says("Where is my order?" if len(request["messages"]) < 3 else "###STOP###")


@dataclass
class Workplace:
    """A folder with ArkSim's files, and a judge."""

    folder: Path
    url: str

    def configure(self, **keys: Any) -> Path:
        path = self.folder / "config.yaml"
        path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), **keys}))
        return path

    def simulate(self, *conversations: SimulatedConversation) -> None:
        path = self.folder / "results/simulation/simulation.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(simulation_text("sim-1", "2026-11-22T10:00:00Z", conversations))

    def evaluate(self, *options: str | Path) -> subprocess.CompletedProcess[str]:
        return self.command("evaluate", "--suite", "config.yaml", *options)

    def command(self, *arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
        settings = {
            "A2A_EVAL_PROXY_JUDGE_API_KEY": KEY,
            "A2A_EVAL_PROXY_JUDGE_MODEL": MODEL,
            "A2A_EVAL_PROXY_JUDGE_BASE_URL": f"{self.url}/v1",
        }
        return run(*arguments, "--store", "turns.db", cwd=self.folder, **{**settings, **environment})

    def evaluation(self, results: str = "results/evaluation") -> dict[str, Any]:
        return dict(json.loads((self.folder / results / "evaluation.json").read_text()))

    def read_by_arksim(
        self, results: str = "results/evaluation", simulation: str = "results/simulation/simulation.json"
    ) -> dict[str, Any]:
        command = [python_environment("arksim"), "-P", READER, self.folder / simulation, self.folder / results]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return dict(json.loads(done.stdout))


@contextmanager
def workplace(folder: Path) -> Iterator[Workplace]:
    for name in ("scenarios.json", "custom_metrics.py"):
        (folder / name).write_bytes((EXAMPLE / name).read_bytes())
    config = yaml.safe_load((EXAMPLE / "config_evaluate.yaml").read_text())
    for custom in ("custom_metrics_file_paths", "qualitative_failure_labels"):
        del config[custom]
    (folder / "config.yaml").write_text(yaml.safe_dump(config | {"numeric_thresholds": {"overall_score": 0.6}}))
    with ServerThread(FakeApi(judged).app) as server:
        yield Workplace(folder, server.url)


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Workplace]:
    with workplace(tmp_path) as here:
        yield here


CALLS = tuple(ToolCall(name, result="done") for name in ("send_verification_code", "verify_customer", "get_order"))


def conversation(name: str, scenario: str, *answers: str) -> SimulatedConversation:
    turns = [HeldTurn(f"Where is it? ({name})", text, CALLS) for text in answers]
    return SimulatedConversation(name, scenario, turns)


GOOD_ONE = conversation("c-good", "order_status_check", GOOD, GOOD)
BAD_ONE = conversation("c-bad", "order_status_check", *[GOOD] * 4, BAD)
WORSE_ONE = conversation("c-worse", "auth_check_order", WORSE)


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workplace]:
    """Where these were evaluated."""
    with workplace(tmp_path_factory.mktemp("evaluated")) as here:
        here.simulate(GOOD_ONE, BAD_ONE, WORSE_ONE)
        here.configure(numeric_thresholds={"overall_score": 0.6, "goal_completion": 0.2})
        done = here.evaluate()
        assert done.returncode == 1, done.stderr
        assert "auth_check_order: overall_agent_score: mean 0.06 is below 0.60" in done.stdout
        yield here


@pytest.mark.statement(49, 50, 68, 69, 70, 72, 105, 115, 116, 117, 118, 120, 122, 123, 124, 125, 126)
@pytest.mark.statement(127, 128, 129, 130, 131, 132, 133, 134, 136, 137)
def test_a_simulation_is_evaluated_into_files_that_arksim_reads(evaluated: Workplace) -> None:
    found = evaluated.read_by_arksim()
    evaluation = found["evaluation"]
    assert evaluation == evaluated.evaluation()
    assert found["simulation_id"] == evaluation["simulation_id"] == "sim-1"
    assert found["simulation"][0] == ["order_status_check", ["Where is it? (c-good)", GOOD] * 2]
    assert (found["above"], found["below"], found["labels"]) == (True, False, False)
    good, bad, _ = conversations = evaluation["conversations"]
    shown = ("conversation_id", "evaluation_status", "turn_success_ratio")
    assert [tuple(item[key] for key in shown) for item in conversations] == [
        ("c-good", "Done", 1.0),
        ("c-bad", "Partial Failure", 0.8),
        ("c-worse", "Failed", 0.0),
    ]
    assert (good["goal_completion_score"], good["goal_completion_reason"]) == (1.0, "as it should be")
    assert [item["overall_agent_score"] for item in (good, bad)] == [1.0, pytest.approx(0.75 * 0.8 + 0.25 * 0.25)]
    (error,) = evaluation["unique_errors"]
    first, *_, last = bad["turn_scores"]
    assert (first["turn_id"], first["unique_error_ids"]) == (0, [])
    assert (last["turn_id"], last["turn_score"], last["unique_error_ids"]) == (4, 2.0, [error["unique_error_id"]])
    assert [(score["name"], score["value"]) for score in last["scores"]] == [("helpfulness", 2.0)]
    failure = (last["turn_behavior_failure"], last["turn_behavior_failure_reason"])
    assert failure == ("false information", "the moon takes nothing")
    assert error == {
        "unique_error_id": error["unique_error_id"],
        "behavior_failure_category": "false information",
        "unique_error_description": "the moon takes nothing",
        "severity": "critical",
        "occurrences": [
            {"conversation_id": "c-bad", "turn_id": 4},
            {"conversation_id": "c-worse", "turn_id": 0},
        ],
    }
    both = ["auth_check_order", "order_status_check"]
    assert evaluation["error_scenario_mappings"] == [
        {
            "error_index": 1,
            "unique_error_id": error["unique_error_id"],
            "error_description": "the moon takes nothing",
            "severity": "critical",
            "scenario_ids": both,
        }
    ]
    assert found["focus"] == {"all_failures.json": both, "error_1.json": both}
    written = evaluated.folder / "results/evaluation"
    originals = json.loads((evaluated.folder / "scenarios.json").read_text())["scenarios"]
    for item in json.loads((written / "focus/error_1.json").read_text())["scenarios"]:
        assert item in originals
    assert (written / "final_report.html").read_text().startswith("<!doctype html>")


@pytest.mark.statement(78, 79, 84, 109, 111, 112, 141)
def test_a_forbidden_label_of_a_custom_metric_fails_the_run(here: Workplace) -> None:
    """In any turn. Results may go elsewhere, and without a page."""
    here.simulate(GOOD_ONE, BAD_ONE)
    here.configure(
        output_dir="./mine",
        generate_html_report=False,
        custom_metrics_file_paths=["./custom_metrics.py"],
        qualitative_failure_labels={"unauthorized_action": ["violated"]},
        numeric_thresholds=None,
    )
    for options in ((), ("--output_dir", here.folder / "again")):
        done = here.evaluate(*options)
        assert done.returncode == 1, done.stderr
        assert "turn 5: unauthorized_action is 'violated': by the word moon" in done.stdout
    for folder in ("mine", "again"):
        assert here.evaluation(folder)["unique_errors"]
        assert (here.folder / folder / "focus/error_1.json").exists()
        assert list((here.folder / folder).glob("*.html")) == []
    assert here.evaluation("mine")["evaluation_id"] != here.evaluation("again")["evaluation_id"]


def measured(found: dict[str, Any]) -> set[str]:
    """The metrics of a conversation and its first turn."""
    turn = found["turn_scores"][0]
    results = (turn["scores"], turn["qual_scores"], found["convo_scores"], found["convo_qual_scores"])
    return {item["name"] for part in results for item in part}


CUSTOM = {
    *("clarity", "advice_boundary", "prohibited_statements", "needs_assessment", "product_suitability"),
    *("disclosure_completeness", "escalation_behavior"),
}
"""Metrics of ArkSim's example `bank-insurance` beside those that all have."""


# ── run ─────────────────────────────────────────────────────────────────────────────────────────────────────────

AGENT = """
from arksim.config import AgentConfig
from arksim.simulation_engine import AgentResponse, ToolCall
from arksim.simulation_engine.agent.base import BaseAgent

class Shop(BaseAgent):
    def __init__(self, agent_config: AgentConfig) -> None:
        super().__init__(agent_config)

    async def get_chat_id(self) -> str:
        return "chat"

    async def execute(self, user_query: str, **kwargs: object) -> AgentResponse:
        names = ("send_verification_code", "verify_customer", "get_order")
        calls = [ToolCall(id=name, name=name, arguments={"order": "ORD-1001"}, result="ok") for name in names]
        return AgentResponse(content=ANSWER, tool_calls=calls)
"""


def with_agent(here: Workplace, answer: str, **keys: Any) -> None:
    """A configuration of `simulate-evaluate` for two scenarios, whose agent always answers `answer`."""
    (here.folder / "my_agent.py").write_text(f"ANSWER = {answer!r}\n{AGENT}")
    scenarios = json.loads((here.folder / "scenarios.json").read_text())
    chosen = [
        item for item in scenarios["scenarios"] if item["scenario_id"] in ("order_status_check", "auth_check_order")
    ]
    (here.folder / "scenarios.json").write_text(json.dumps({**scenarios, "scenarios": chosen}))
    custom = {"module_path": "./my_agent.py"}
    here.configure(
        agent_config={"agent_type": "custom", "agent_name": "shop", "custom_config": custom},
        output_file_path="./results/simulation/simulation.json",
        num_conversations_per_scenario=2,
        max_turns=3,
        num_workers=2,
        **keys,
    )


@pytest.mark.statement(49, 50, 106, 119, 135)
def test_scenarios_are_simulated_and_evaluated(here: Workplace) -> None:
    with_agent(here, GOOD)
    done = here.command("run", "config.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    found = here.read_by_arksim()
    assert found["simulation"] == [
        [scenario, ["Where is my order?", GOOD]]
        for scenario in ("order_status_check", "auth_check_order")
        for _ in range(2)
    ]
    assert found["calls"] == ["send_verification_code", "verify_customer", "get_order"] * 4
    assert found["evaluation"]["simulation_id"] == found["simulation_id"]
    assert [item["evaluation_status"] for item in found["evaluation"]["conversations"]] == ["Done"] * 4
    assert (found["focus"], found["evaluation"]["error_scenario_mappings"]) == ({}, [])

    here.configure(simulation_file_path="results/simulation/simulation.json")
    again = here.evaluate()
    assert again.returncode == 0, again.stdout
    assert here.read_by_arksim()["evaluation"]["simulation_id"] == found["simulation_id"]


def test_the_project_that_arksim_creates_passes_unchanged(here: Workplace) -> None:
    """Its scenarios have no knowledge, so that faithfulness is never measured; it sets no limits."""
    folder = here.folder / "project"
    shutil.copytree(source_of("arksim") / "arksim/templates", folder)
    done = here.command("run", "project/config.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    found = here.read_by_arksim("project/results", "project/simulation.json")
    scenarios = json.loads((folder / "scenarios.json").read_text())["scenarios"]
    assert len(found["evaluation"]["conversations"]) == 3 * len(scenarios)


@pytest.mark.statement(86, 98)
def test_an_example_of_arksim_is_simulated_and_evaluated(here: Workplace) -> None:
    """Whole, but for the place of the agent, which the model of the judge is here."""
    shutil.copytree(source_of("arksim") / "examples/bank-insurance", here.folder / "example")
    agent = ("--agent", f"openai:{here.url}/v1", "--agent-model", MODEL)
    done = here.command("run", "example/config_chat_completions.yaml", *agent, AGENT_API_KEY=KEY)
    assert done.returncode in (0, 1), done.stderr
    found = here.read_by_arksim("example/results/evaluation", "example/results/simulation/simulation.json")
    scenarios = json.loads((here.folder / "example/scenarios.json").read_text())["scenarios"]
    assert [scenario for scenario, _ in found["simulation"]] == [item["scenario_id"] for item in scenarios]
    assert len(found["evaluation"]["conversations"]) == len(scenarios) == 5
    for conversation_found in found["evaluation"]["conversations"]:
        assert conversation_found["evaluation_status"] != "Evaluation Failed"
        assert measured(conversation_found) >= CUSTOM


@pytest.mark.statement(106, 137, 138, 139, 140, 141)
def test_focus_files_are_run_again(here: Workplace) -> None:
    with_agent(here, BAD)
    assert here.command("run", "config.yaml").returncode == 1
    before = here.evaluation()
    assert before["error_scenario_mappings"][0]["scenario_ids"] == ["auth_check_order", "order_status_check"]
    one = json.loads((here.folder / "results/evaluation/focus/error_1.json").read_text())
    (here.folder / "one.json").write_text(json.dumps(one | {"scenarios": one["scenarios"][:1]}))
    for file, count in (("one.json", 2), ("results/evaluation/focus/all_failures.json", 4)):
        again = here.command("run", "config.yaml", "--scenario_file_path", file, "--output_dir", "again")
        assert again.returncode == 1, again.stderr
        assert here.evaluation() == before
        evaluation = here.evaluation("again")
        assert len(evaluation["conversations"]) == count
        assert evaluation["error_scenario_mappings"]
        assert (here.folder / "again/final_report.html").exists()
        assert (here.folder / "again/focus/error_1.json").exists()
