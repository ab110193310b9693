"""ArkSim's files through the commands, and the files they write through ArkSim's own package."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
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

pytestmark = pytest.mark.installs

READER = Path(__file__).parents[1] / "clients/arksim_files.py"
EXAMPLE = Path(__file__).parents[2] / "evaluators/fixtures/arksim/customer-service"
GOOD, BAD = "It is shipped.", "It is lost, the moon took it."


def judged(request: dict[str, Any]) -> Reply:
    """A judge that finds the answer BAD false, and all others excellent."""
    if "response_format" not in request:
        return user(request)
    schema = request["response_format"]["json_schema"]["schema"]
    seen = request["messages"][-1]["content"]
    is_bad = BAD in seen
    answer = fitting(schema)
    for name, inner in schema["properties"].items():
        if name == "score":
            answer[name] = 2 if is_bad else 5
        elif name == "label":
            answer[name] = "false information" if is_bad else "no failure"
        elif name == "reason":
            answer[name] = "the moon takes nothing" if is_bad else "as it should be"
        assert "enum" not in inner or answer[name] in inner["enum"]
    return says(answer)


def user(request: dict[str, Any]) -> Reply:
    """A simulated user with one question, who is content with any answer to it."""
    return says("Where is my order?" if len(request["messages"]) < 3 else "###STOP###")


@dataclass
class Workplace:
    """A folder with ArkSim's files, and a judge."""

    folder: Path
    judge: FakeApi
    url: str

    def configure(self, **keys: Any) -> Path:
        path = self.folder / "config.yaml"
        path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), **keys}))
        return path

    def simulate(self, *conversations: SimulatedConversation) -> None:
        path = self.folder / "results/simulation/simulation.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(simulation_text("sim-1", "2026-11-22T10:00:00Z", conversations))

    def command(
        self, *arguments: str | Path, store: str = "turns.db", **environment: str
    ) -> subprocess.CompletedProcess[str]:
        settings = {
            "A2A_EVAL_PROXY_JUDGE_API_KEY": KEY,
            "A2A_EVAL_PROXY_JUDGE_MODEL": MODEL,
            "A2A_EVAL_PROXY_JUDGE_BASE_URL": f"{self.url}/v1",
        }
        return run(*arguments, "--store", store, cwd=self.folder, **{**settings, **environment})

    def evaluation(self, results: str = "results/evaluation") -> dict[str, Any]:
        return dict(json.loads((self.folder / results / "evaluation.json").read_text()))

    def read_by_arksim(
        self, results: str = "results/evaluation", simulation: str = "results/simulation/simulation.json"
    ) -> dict[str, Any]:
        command = [python_environment("arksim"), "-P", READER, self.folder / simulation, self.folder / results]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return dict(json.loads(done.stdout))


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Workplace]:
    for name in ("scenarios.json", "custom_metrics.py"):
        (tmp_path / name).write_bytes((EXAMPLE / name).read_bytes())
    config = yaml.safe_load((EXAMPLE / "config_evaluate.yaml").read_text())
    for custom in ("custom_metrics_file_paths", "qualitative_failure_labels"):
        del config[custom]
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config | {"numeric_thresholds": {"overall_score": 0.6}}))
    judge = FakeApi(judged)
    with ServerThread(judge.app) as server:
        yield Workplace(tmp_path, judge, server.url)


CALLS = tuple(ToolCall(name, result="done") for name in ("send_verification_code", "verify_customer", "get_order"))


def conversation(name: str, scenario: str, *answers: str) -> SimulatedConversation:
    turns = [HeldTurn(f"Where is it? ({name})", text, CALLS) for text in answers]
    return SimulatedConversation(name, scenario, turns)


GOOD_ONE = conversation("c-good", "order_status_check", GOOD, GOOD)
BAD_ONE = conversation("c-bad", "order_status_check", *[GOOD] * 4, BAD)
WORSE_ONE = conversation("c-worse", "auth_check_order", BAD)


@pytest.mark.statement(49, 70, 72, 115, 120, 122, 123, 124, 125, 126)
def test_conversations_of_a_simulation_are_evaluated(here: Workplace) -> None:
    here.simulate(GOOD_ONE, BAD_ONE, WORSE_ONE)
    here.configure(numeric_thresholds={"overall_score": 0.6, "goal_completion": 0.2})
    done = here.command("evaluate", "--suite", "config.yaml")
    assert done.returncode == 1, done.stderr
    assert "auth_check_order: overall_agent_score: mean 0.06 is below 0.60" in done.stdout

    evaluation = here.evaluation()
    assert (evaluation["schema_version"], evaluation["simulation_id"]) == ("v1.1", "sim-1")
    good, bad, worse = evaluation["conversations"]
    assert [item["conversation_id"] for item in (good, bad, worse)] == ["c-good", "c-bad", "c-worse"]
    statuses = [item["evaluation_status"] for item in (good, bad, worse)]
    assert statuses == ["Done", "Partial Failure", "Failed"]
    assert [item["turn_success_ratio"] for item in (good, bad, worse)] == [1.0, 0.8, 0.0]
    assert (good["goal_completion_score"], good["goal_completion_reason"]) == (1.0, "as it should be")
    assert [item["overall_agent_score"] for item in (good, bad)] == [1.0, pytest.approx(0.75 * 0.8 + 0.25 * 0.25)]
    first, *_, last = bad["turn_scores"]
    assert (first["turn_id"], first["unique_error_ids"]) == (0, [])
    assert (last["turn_id"], last["turn_score"]) == (4, 2.0)
    assert [(score["name"], score["value"]) for score in last["scores"]] == [("helpfulness", 2.0)]
    assert (last["turn_behavior_failure"], last["turn_behavior_failure_reason"]) == (
        "false information",
        "the moon takes nothing",
    )
    (error,) = evaluation["unique_errors"]
    assert last["unique_error_ids"] == [error["unique_error_id"]]


@pytest.mark.statement(127, 128, 129, 130, 131, 132, 133, 134, 136, 137)
def test_errors_lead_to_their_scenarios(here: Workplace) -> None:
    here.simulate(GOOD_ONE, BAD_ONE, WORSE_ONE)
    here.command("evaluate", "--suite", "config.yaml")
    evaluation = here.evaluation()
    (error,) = evaluation["unique_errors"]
    assert {key: error[key] for key in error if key != "unique_error_id"} == {
        "behavior_failure_category": "false information",
        "unique_error_description": "the moon takes nothing",
        "severity": "critical",
        "occurrences": [
            {"conversation_id": "c-bad", "turn_id": 4},
            {"conversation_id": "c-worse", "turn_id": 0},
        ],
    }
    assert evaluation["error_scenario_mappings"] == [
        {
            "error_index": 1,
            "unique_error_id": error["unique_error_id"],
            "error_description": "the moon takes nothing",
            "severity": "critical",
            "scenario_ids": ["auth_check_order", "order_status_check"],
        }
    ]
    originals = json.loads((here.folder / "scenarios.json").read_text())["scenarios"]
    chosen = [item for item in originals if item["scenario_id"] in ("auth_check_order", "order_status_check")]
    focus = json.loads((here.folder / "results/evaluation/focus/error_1.json").read_text())
    assert focus == {"schema_version": "v1", "scenarios": sorted(chosen, key=lambda item: item["scenario_id"])}
    assert json.loads((here.folder / "results/evaluation/focus/all_failures.json").read_text()) == focus


@pytest.mark.statement(50, 116, 117, 118)
def test_arksim_reads_the_files(here: Workplace) -> None:
    here.simulate(GOOD_ONE, BAD_ONE)
    here.command("evaluate", "--suite", "config.yaml")
    found = here.read_by_arksim()
    assert found["simulation_id"] == found["evaluation"]["simulation_id"] == "sim-1"
    assert found["simulation"][0] == ["order_status_check", ["Where is it? (c-good)", GOOD] * 2]
    assert found["evaluation"] == here.evaluation()
    assert found["focus"] == {"all_failures.json": ["order_status_check"], "error_1.json": ["order_status_check"]}
    assert (found["above"], found["below"], found["labels"]) == (True, False, False)
    assert (here.folder / "results/evaluation/final_report.html").read_text().startswith("<!doctype html>")


@pytest.mark.statement(119, 135)
def test_a_good_simulation_has_no_errors_and_no_focus_files(here: Workplace) -> None:
    here.simulate(GOOD_ONE)
    done = here.command("evaluate", "--suite", "config.yaml")
    assert done.returncode == 0, done.stdout
    evaluation = here.evaluation()
    assert (evaluation["unique_errors"], evaluation["error_scenario_mappings"]) == ([], [])
    assert list((here.folder / "results/evaluation/focus").glob("*.json")) == []


@pytest.mark.statement(78, 79, 141)
def test_results_may_go_elsewhere_and_without_a_page(here: Workplace) -> None:
    here.simulate(BAD_ONE)
    here.configure(output_dir="./mine", generate_html_report=False)
    here.command("evaluate", "--suite", "config.yaml")
    here.command("evaluate", "--suite", "config.yaml", "--output_dir", here.folder / "again")
    for folder in ("mine", "again"):
        assert here.evaluation(folder)["unique_errors"]
        assert (here.folder / folder / "focus/error_1.json").exists()
        assert list((here.folder / folder).glob("*.html")) == []
    assert here.evaluation("mine")["evaluation_id"] != here.evaluation("again")["evaluation_id"]


@pytest.mark.parametrize(
    "example",
    [
        *("bank-insurance/config.yaml", "bank-insurance/config_evaluate.yaml", "customer-service/config_traced.yaml"),
        *("e-commerce/config_a2a.yaml", "openclaw/config.yaml", "integrations/rasa/config.yaml"),
    ],
)
def test_arksims_own_examples_are_evaluated(example: str, here: Workplace) -> None:
    """With its custom metrics; what they find does not matter."""
    path = source_of("arksim") / "examples" / example
    scenario = json.loads((path.parent / "scenarios.json").read_text())["scenarios"][0]
    here.simulate(conversation("c", scenario["scenario_id"], GOOD))
    simulation = here.folder / "results/simulation/simulation.json"
    results = ("--output_dir", here.folder / "results/evaluation")
    done = here.command("evaluate", "--suite", path, "--simulation_file_path", simulation, *results)
    assert done.returncode in (0, 1), done.stderr
    (only,) = here.read_by_arksim()["evaluation"]["conversations"]
    measured = {item["name"] for turn in only["turn_scores"] for item in turn["scores"]}
    assert measured >= {"helpfulness"}


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


@pytest.mark.statement(49, 50, 106)
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
    assert found["focus"] == {}

    again = here.command(
        "evaluate", "--suite", here.configure(simulation_file_path="results/simulation/simulation.json")
    )
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
        assert {"clarity"} <= {item["name"] for item in conversation_found["turn_scores"][0]["scores"]}


@pytest.mark.statement(106, 137, 138, 139, 140, 141)
@pytest.mark.parametrize("name", ["error_1", "all_failures"])
def test_focus_files_are_run_again(here: Workplace, name: str) -> None:
    with_agent(here, BAD)
    assert here.command("run", "config.yaml").returncode == 1
    before = here.evaluation()
    assert before["error_scenario_mappings"][0]["scenario_ids"] == ["auth_check_order", "order_status_check"]
    one = json.loads((here.folder / f"results/evaluation/focus/{name}.json").read_text())
    one["scenarios"] = one["scenarios"][:1]
    (here.folder / "one.json").write_text(json.dumps(one))

    file = "one.json" if name == "error_1" else f"results/evaluation/focus/{name}.json"
    again = here.command("run", "config.yaml", "--scenario_file_path", file, "--output_dir", "again")
    assert again.returncode == 1, again.stderr
    assert here.evaluation() == before
    evaluation = here.evaluation("again")
    assert len(evaluation["conversations"]) == (2 if name == "error_1" else 4)
    assert evaluation["error_scenario_mappings"]
    assert (here.folder / "again/final_report.html").exists()
    assert (here.folder / "again/focus/error_1.json").exists()
