"""ArkSim's files, read and written: scenarios, configurations, conversations of a simulation, results."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from a2a_tool_capture import ToolCall
from hypothesis import example, given
from hypothesis import strategies as st
from support.turn_samples import result, turn
from tool_call_evaluators import EvalCase, EvalResult, Status, SuiteError, evaluate_sync, parse_suite
from tool_call_evaluators.foreign import HeldTurn
from tool_call_evaluators.gates import Gate, RunGates
from tool_call_evaluators.importers import import_suite, import_text
from tool_call_evaluators.importers.arksim import (
    Evaluation,
    check_numeric_thresholds,
    check_qualitative_failure_labels,
)
from tool_call_evaluators.importers.arksim.config import CONFIG_KEYS
from tool_call_evaluators.importers.arksim.results import ArksimResults
from tool_call_evaluators.importers.arksim.run_files import ArksimFiles
from tool_call_evaluators.importers.arksim.simulation import (
    Scenarios,
    SimulatedConversation,
    cases_by_scenario,
    load_simulation,
    read_simulation,
    simulation_text,
)
from tool_call_evaluators.model import ExpectedCall
from tool_call_evaluators.outcomes.conversations import follow, run_verdict
from tool_call_evaluators.report import build_report
from tool_call_evaluators.suite import EvaluatorSpec, Expectation, Simulation, Suite
from tool_call_evaluators.suite.writing import suite_text

FIXTURES = Path(__file__).parents[1] / "fixtures"
EXAMPLE = FIXTURES / "arksim/customer-service"


@pytest.fixture(autouse=True)
def _plugins_as_they_were() -> Iterator[None]:
    modules = set(sys.modules)
    yield
    for name in set(sys.modules) - modules:
        if name.startswith("a2a_eval_plugin:"):
            del sys.modules[name]


# ── scenarios ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.statement(71)
def test_a_scenario_is_a_case_with_a_simulated_user() -> None:
    imported = import_suite(FIXTURES / "arksim-scenarios.json")
    assert (imported.suite.name, imported.format) == ("arksim-scenarios", "arksim")
    assert imported.notes == ("arguments of expected calls without arg_match_mode: ArkSim ignores them, too",)
    kettle, talk, browse = imported.suite.cases
    assert (kettle.id, kettle.turns) == ("return_kettle", ())
    assert kettle.simulate == Simulation(
        goal="Send the kettle of order ORD-1001 back.",
        profile="You are patient.",
        knowledge=("Returns are free for 30 days.", "The label comes by mail."),
        context="A shop's assistant.",
    )
    assert kettle.eval_case(0).knowledge == "Returns are free for 30 days.\n\nThe label comes by mail."
    assert kettle.expect.tool_calls == (
        ExpectedCall("lookup_order", {"order_id": "ORD-1001"}),
        ExpectedCall("send_label", {"order_id": "ORD-1001"}),
        ExpectedCall("log", None),
    )
    assert kettle.evaluators == (
        EvaluatorSpec("tool_error"),
        EvaluatorSpec(
            "tool_trajectory", {"mode": "superset", "matcher": {"per_tool": {"send_label": "subset"}}}, "conversation"
        ),
    )
    assert (talk.expect, talk.evaluators) == (Expectation(), None)
    assert browse.evaluators is not None
    assert browse.evaluators[1].options == {"mode": "within"}
    assert parse_suite(suite_text(imported.suite)) == imported.suite


def test_unknown_keys_of_scenarios_are_named() -> None:
    scenario = {"scenario_id": "s", "goal": "g", "mood": "bad", "user_id": "u", "origin": {}}
    expected = [{"name": "a", "count": 2}, {"name": "b", "arguments": {"x": 1}}, {"name": "c", "arguments": {}}]
    expected.append({"name": "d", "arguments": {"x": 1}, "arg_match_mode": "ignore"})
    scenario["assertions"] = [{"type": "prices", "expected": []}, {"type": "tool_calls", "expected": expected, "n": 1}]
    imported = import_text(json.dumps({"scenarios": [scenario, scenario]}))
    assert imported.notes == (
        "key mood of a scenario is unknown (2 times)",
        "assertions of type prices are unknown and were not imported (2 times)",
        "key n of an assertion is unknown (2 times)",
        "key count of an expected call is unknown (2 times)",
        "arguments of expected calls without arg_match_mode: ArkSim ignores them, too (2 times)",
    )
    assert [case.id for case in imported.suite.cases] == ["s", "s-2"]


def call(name: str, **arguments: Any) -> ToolCall:
    return ToolCall(name, arguments)


# (mode, expected, made, whether arksim 0.3.8 lets it pass)
ASSERTIONS: list[tuple[str | None, list[dict[str, Any]], list[ToolCall], bool]] = [
    ("strict", [{"name": "a"}], [call("a", x=1)], True),
    ("strict", [{"name": "a"}, {"name": "b"}], [call("b"), call("a")], False),
    ("unordered", [{"name": "a"}, {"name": "b"}], [call("b"), call("a")], True),
    ("unordered", [{"name": "a"}], [call("a"), call("a")], False),
    (None, [{"name": "a"}], [call("a"), call("b")], False),
    ("contains", [{"name": "a"}], [call("b"), call("a")], True),
    ("contains", [{"name": "a"}, {"name": "a"}], [call("a")], False),
    ("within", [{"name": "a"}], [call("a"), call("a")], True),
    ("within", [{"name": "a"}], [], True),
    ("within", [{"name": "a"}], [call("b")], False),
    ("strict", [{"name": "a"}], [], False),
    ("strict", [{"name": "a", "arguments": {"x": 1}, "arg_match_mode": "exact"}], [call("a", x=1.0)], True),
    ("strict", [{"name": "a", "arguments": {"x": 1}, "arg_match_mode": "exact"}], [call("a", x=1, y=2)], False),
    ("strict", [{"name": "a", "arguments": {"x": 1}, "arg_match_mode": "partial"}], [call("a", x=1, y=2)], True),
    ("strict", [{"name": "a", "arguments": {"x": 1}, "arg_match_mode": "partial"}], [call("a", x=2)], False),
    ("strict", [{"name": "a", "arguments": {"x": {"$any": True}}, "arg_match_mode": "exact"}], [call("a", x=2)], False),
]


@pytest.mark.parametrize(("mode", "expected", "made", "passes"), ASSERTIONS)
def test_assertions_pass_what_they_passed(
    mode: str | None, expected: list[dict[str, Any]], made: list[ToolCall], passes: bool
) -> None:
    assertion = {"type": "tool_calls", "expected": expected} | ({"match_mode": mode} if mode else {})
    scenario = {"scenario_id": "s", "goal": "g", "assertions": [assertion]}
    suite = import_text(json.dumps({"scenarios": [scenario]})).suite
    (case,) = suite.cases
    (trajectory,) = suite.build_evaluators("conversation", case)
    (result,) = evaluate_sync(case.conversation_case([EvalCase(tool_calls=made)]), [trajectory])
    assert (result.status is Status.PASSED) == passes


# ── configurations ──────────────────────────────────────────────────────────────────────────────────────────────


def configured(folder: Path, **keys: Any) -> Any:
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump({"metrics_to_run": ["relevance"], **keys}))
    return import_suite(path)


@pytest.mark.statement(72, 78)
def test_a_configuration_of_arksims_example() -> None:
    imported = import_suite(EXAMPLE / "config_evaluate.yaml")
    suite, run = imported.suite, imported.run_files
    assert run is not None
    assert (imported.format, suite.name, len(suite.cases)) == ("arksim", "config_evaluate", 7)
    assert (run.conversations, run.folder) == (
        EXAMPLE / "results/simulation/simulation.json",
        EXAMPLE / "results/evaluation",
    )
    assert run.page == "final_report.html"
    assert (suite.judge.model, suite.judge.concurrency, suite.agent.concurrency) == ("gpt-4.1-mini", 50, 50)
    assert suite.gates["goal_completion"] == Gate(conversation_mean=0.6)
    assert suite.gates["unauthorized_action"] == Gate(forbid=("violated",))
    assert suite.run_gates == RunGates(pass_rate=0.0)
    status = suite.cases[0]
    assert (status.id, status.conversations) == ("order_status_check", 5)
    *others, ratio, overall = suite.evaluators
    assert status.evaluators == (
        *others,
        EvaluatorSpec(ratio.name, {"trajectory": {"mode": "superset"}}),
        overall,
        EvaluatorSpec("tool_trajectory", {"mode": "superset"}, "conversation"),
    )


def test_an_a2a_agent_of_a_configuration() -> None:
    imported = import_suite(EXAMPLE / "config_a2a.yaml")
    assert imported.run_files is not None
    assert imported.suite.agent.url == "http://localhost:9998"
    assert imported.suite.cases[0].conversations == 1
    assert imported.suite.cases[0].simulate is not None
    assert imported.suite.cases[0].simulate.max_turns == 5
    assert imported.run_files.output(None) == EXAMPLE / "results/simulation/simulation_a2a.json"


def python_agent(module: str, class_name: str | None = None) -> dict[str, Any]:
    custom = {"module_path": module, "class_name": class_name}
    return {"agent_type": "custom", "agent_name": "x", "custom_config": custom}


BODY = {"model": "m", "messages": [{"role": "system", "content": "Be brief."}], "enable_metadata": True}
API = {"endpoint": "${API}/chat/completions", "headers": {"api-key": "${KEY}"}, "body": BODY}


@pytest.mark.statement(317, 318)
@pytest.mark.parametrize(
    ("config", "url", "headers", "body"),
    [
        (python_agent("./orders.py"), "python:FOLDER/orders.py", {}, {}),
        (python_agent("./orders.py", "Orders"), "python:FOLDER/orders.py:Orders", {}, {}),
        (python_agent("package.orders"), "python:package.orders", {}, {}),
        (python_agent("package.orders", "Orders"), "python:package.orders:Orders", {}, {}),
        (
            {"agent_type": "chat_completions", "api_config": API},
            "openai:${API}/chat/completions",
            {"api-key": "${KEY}"},
            BODY,
        ),
    ],
)
def test_other_agents_of_a_configuration(
    tmp_path: Path, config: dict[str, Any], url: str, headers: dict[str, str], body: dict[str, Any]
) -> None:
    imported = configured(tmp_path, agent_config=config, trace_receiver={"enabled": True, "wait_timeout": 5})
    agent = imported.suite.agent
    assert (agent.url, agent.headers, agent.body) == (url.replace("FOLDER", str(tmp_path)), headers, body)
    receivers = [note for note in imported.notes if note.startswith("trace_receiver")]
    assert len(receivers) == len(imported.notes) == ("custom_config" not in config), "Python agents need no receiver"


def test_a_python_agent_elsewhere_must_be_allowed(tmp_path: Path) -> None:
    custom = {"module_path": "../orders.py"}
    config = {"metrics_to_run": [], "agent_config": {"agent_type": "custom", "custom_config": custom}}
    (tmp_path / "config.yaml").write_text(json.dumps(config), "utf-8")
    with pytest.raises(SuiteError, match=r"module_path: .*orders.py is outside the suite's directory.*--allow-plugins"):
        import_suite(tmp_path / "config.yaml")
    agent = import_suite(tmp_path / "config.yaml", allow_plugins=True).suite.agent
    assert agent.url == f"python:{tmp_path / '../orders.py'}"


METRICS = """
from arksim.evaluator import QualitativeMetric, QualResult, QuantitativeMetric, QuantResult

class Length(QuantitativeMetric):
    def __init__(self, llm=None):
        super().__init__(name="length_of_answer", score_range=(0, 5), llm=llm)

    def score(self, given):
        return QuantResult(name=self.name, value=min(5, len(given.current_turn[-1].content)))

class Tone(QualitativeMetric):
    def __init__(self, llm=None):
        super().__init__(name="tone_of_answer", llm=llm)

    def evaluate(self, given):
        return QualResult(name=self.name, value="moody")
"""


@pytest.mark.statement(77, 87)
def test_custom_metrics_run_in_addition(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(METRICS)
    imported = configured(
        tmp_path,
        custom_metrics_file_paths=["./mine.py"],
        numeric_thresholds={"length_of_answer": 3.5},
        qualitative_failure_labels={"tone_of_answer": ["moody"]},
    )
    assert names(imported) == ["relevance", "length_of_answer", "tone_of_answer"]
    assert imported.suite.plugins == (tmp_path / "mine.py",)
    assert imported.suite.gates["length_of_answer"] == Gate(conversation_mean=3.5)
    assert parse_suite(suite_text(imported.suite), str(tmp_path / "x.yaml")) == imported.suite


def names(imported: Any) -> list[str]:
    return [spec.name for spec in imported.suite.evaluators]


TURN_METRICS = ["faithfulness", "helpfulness", "coherence", "verbosity", "relevance"]
CONVERSATION = ["turn_success_ratio", "overall_agent_score"]


BEHAVIOR, OF_CALLS = "agent_behavior_failure", "tool_call_behavior_failure"


@pytest.mark.statement(76, 80, 81, 82, 83, 85, 88)
@pytest.mark.parametrize(
    ("keys", "metrics", "gates"),
    [
        ({}, ["relevance"], {}),
        ({"metrics_to_run": None}, [*TURN_METRICS, "goal_completion", BEHAVIOR, *CONVERSATION], {}),
        ({"metrics_to_run": []}, [*TURN_METRICS, "goal_completion", BEHAVIOR, OF_CALLS, *CONVERSATION], {}),
        (
            {"numeric_thresholds": {"overall_score": 0.7, "helpfulness": 3}},
            ["helpfulness", "relevance", BEHAVIOR, *CONVERSATION],
            {"overall_agent_score": Gate(conversation_mean=0.7), "helpfulness": Gate(conversation_mean=3)},
        ),
        ({"numeric_thresholds": {"helpfulness": None}}, ["relevance"], {}),
        (
            {"score_threshold": 0.8},
            ["relevance", BEHAVIOR, *CONVERSATION],
            {"overall_agent_score": Gate(conversation_mean=0.8)},
        ),
        # labels of a turn may be those of its tool calls
        (
            {
                "metrics_to_run": [BEHAVIOR, OF_CALLS],
                "qualitative_failure_labels": {BEHAVIOR: ["repetition", "unsafe action"]},
            },
            [BEHAVIOR, OF_CALLS, *CONVERSATION],
            {BEHAVIOR: Gate(forbid=("repetition",)), OF_CALLS: Gate(forbid=("repetition", "unsafe action"))},
        ),
        # and are known where nothing finds them
        (
            {"metrics_to_run": [BEHAVIOR], "qualitative_failure_labels": {BEHAVIOR: ["unsafe action", "repetition"]}},
            [BEHAVIOR, *CONVERSATION],
            {BEHAVIOR: Gate(forbid=("unsafe action", "repetition"))},
        ),
    ],
)
def test_metrics_and_limits_of_a_configuration(
    tmp_path: Path, keys: dict[str, Any], metrics: list[str], gates: dict[str, Gate]
) -> None:
    imported = configured(tmp_path, **keys)
    assert names(imported) == metrics
    assert imported.suite.gates == gates
    assert parse_suite(suite_text(imported.suite)).gates == gates


@pytest.mark.parametrize(("limits", "passes"), [({}, True), ({"faithfulness": 3.0}, False)])
def test_a_metric_that_no_scenario_can_have_fails_only_its_own_limit(
    tmp_path: Path, limits: dict[str, float], passes: bool
) -> None:
    scenario = {"scenario_id": "s", "goal": "Know the opening hours.", "knowledge": []}
    (tmp_path / "s.json").write_text(json.dumps({"schema_version": "v1", "scenarios": [scenario]}))
    suite = configured(
        tmp_path,
        scenario_file_path="s.json",
        num_conversations_per_scenario=1,
        metrics_to_run=["helpfulness", "faithfulness"],
        numeric_thresholds=limits,
    ).suite
    results = [result("helpfulness", 2.0, scale=(1, 5)), EvalResult.skipped("faithfulness", "not given: knowledge")]
    held = turn("1", case="s", evaluations=[item if isinstance(item, dict) else item.to_dict() for item in results])
    verdict = run_verdict(suite, follow([held], suite))
    assert verdict.passed is passes, verdict.reasons


@pytest.mark.statement(73, 74, 75)
@pytest.mark.parametrize(
    ("keys", "judge"),
    [
        ({}, {"model": "gpt-5.1", "temperature": None, "concurrency": 50}),  # it accepts no temperature
        ({"num_workers": "auto"}, {"concurrency": 50}),
        ({"num_workers": 3}, {"concurrency": 3}),
        ({"num_workers": 100_000}, {"concurrency": 1_000}),
        ({"provider": "openai"}, {"url": "https://api.openai.com/v1", "api_key_env": None}),
        ({"provider": "anthropic"}, {"url": "https://api.anthropic.com/v1", "api_key_env": "ANTHROPIC_API_KEY"}),
        (
            {"provider": "google", "model": "m"},
            {
                "url": "https://generativelanguage.googleapis.com/v1beta/openai",
                "api_key_env": "GOOGLE_API_KEY",
                "model": "m",
            },
        ),
    ],
)
def test_the_judge_of_a_configuration(tmp_path: Path, keys: dict[str, Any], judge: dict[str, Any]) -> None:
    suite = configured(tmp_path, **keys).suite
    assert {name: getattr(suite.judge, name) for name in judge} == judge
    assert suite.agent.concurrency == suite.judge.concurrency


def test_the_prompt_of_the_simulated_user(tmp_path: Path) -> None:
    template = "You are {{ scenario.user_profile }} and want {{ scenario.goal }}."
    assert configured(tmp_path, simulated_user_prompt_template=template).suite.simulated_user.prompt == template
    assert configured(tmp_path).suite.tolerate == {"user_no_end"}
    with pytest.raises(SuiteError, match=r"simulated_user_prompt_template: .*unknown {{scenario.mood}}"):
        configured(tmp_path, simulated_user_prompt_template="{{ scenario.goal }} {{ scenario.mood }}")


def test_what_a_configuration_has_beyond_is_named(tmp_path: Path) -> None:
    imported = configured(
        tmp_path, colour="red", modell="m", trace_receiver={"enabled": True, "wait_timeout": 5}, provider="selfmade"
    )
    assert [note.split(":")[0] for note in imported.notes] == [
        "key colour of the configuration is unknown",
        "key modell of the configuration is unknown (did you mean model?)",
        "trace_receiver",
        "provider selfmade",
    ]
    assert configured(tmp_path, trace_receiver={"enabled": False}, simulated_user_prompt_template=None).notes == ()


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({"metrics_to_run": ["relevanse"]}, "metrics_to_run[0]: unknown 'relevanse'"),
        (
            {"qualitative_failure_labels": {"agent_behavior_failure": ["repetition", "rude"]}},
            "failure[1]: unknown 'rude'",
        ),
        ({"num_workers": 0}, "num_workers: expected a whole number from 1"),
        (
            {"max_turns": "many", "scenario_file_path": str(FIXTURES / "arksim-scenarios.json")},
            "max_turns: expected a whole number",
        ),
        ({"scenario_file_path": "none.json"}, "none.json: cannot be read"),
        ({"numeric_thresholds": {"relevance": "high"}}, "numeric_thresholds.relevance: expected a number"),
        (
            {"qualitative_failure_labels": {"relevance": ["x", 3]}},
            "qualitative_failure_labels.relevance[1]: expected a s",
        ),
        ({"numeric_thresholds": {"relevance": 7}}, "numeric_thresholds.relevance: must lie between 1 and 5"),
        ({"numeric_thresholds": [1]}, "numeric_thresholds: expected an object"),
        ({"qualitative_failure_labels": {"x": "violated"}}, "qualitative_failure_labels.x: expected a list"),
        ({"agent_config": {"agent_type": "b2b"}}, "agent_config.agent_type: unknown 'b2b'"),
        ({"agent_config": {"agent_type": "a2a"}}, "endpoint is missing"),
        ({"agent_config": {"agent_type": "custom"}}, "custom_config is missing"),
        ({"custom_metrics_file_paths": ["none.py"]}, "custom_metrics_file_paths[0]: plug-in"),
        ({"generate_html_report": "yes"}, "generate_html_report: expected true or false"),
    ],
)
def test_wrong_values_are_named(tmp_path: Path, keys: dict[str, Any], problem: str) -> None:
    with pytest.raises(SuiteError) as raised:
        configured(tmp_path, **keys)
    assert problem in str(raised.value)


def test_another_scenario_file_replaces_that_of_a_configuration() -> None:
    other = FIXTURES / "arksim-scenarios.json"
    imported = import_suite(EXAMPLE / "config_a2a.yaml", scenario_file=other)
    assert [case.id for case in imported.suite.cases] == ["return_kettle", "small_talk", "browse"]
    with pytest.raises(SuiteError, match="not an ArkSim configuration"):
        import_suite(other, scenario_file=other)


INNER_KEYS = (
    *("agent_type", "api_config", "custom_config", "endpoint", "headers", "body", "module_path", "class_name"),
    *("conversation_id", "scenario_id", "conversation_history", "role", "content", "tool_calls", "variables"),
    *("simulated_user_prompt", "scenario.goal", "scenario.knowledge", "helpfulness", "overall_score", "enabled"),
)


# ── conversations ───────────────────────────────────────────────────────────────────────────────────────────────

CALL = ToolCall("get_order", {"id": "1"}, id="c1", result="shipped", source="a2a_protocol")  # type: ignore[arg-type]
USER = {"goal": "Find the order.", "user_profile": "Brief.", "knowledge": ["It is late."], "agent_context": "A shop."}
CONVERSATIONS = [
    SimulatedConversation(
        "c-1", "order", [HeldTurn("Where?", "Which one?"), HeldTurn("1", "Shipped.", (CALL,))], USER, "Be {x}"
    ),
    SimulatedConversation("c-2", "order", [HeldTurn("Hello", "")], USER),
    SimulatedConversation("c-3", "unknown", [HeldTurn("Hi \ud800", "Hello. \x00 ä")]),
]


@pytest.mark.statement(70)
def test_conversations_are_read_as_they_were_written(tmp_path: Path) -> None:
    text = simulation_text("s-1", "2026-11-22T15:00:00Z", CONVERSATIONS)
    (tmp_path / "simulation.json").write_text(text, "utf-8")
    simulation = load_simulation(tmp_path / "simulation.json")
    assert (simulation.simulation_id, simulation.generated_at) == ("s-1", "2026-11-22T15:00:00Z")
    assert (simulation.conversations, simulation.notes) == (CONVERSATIONS, ())


def simulated(*messages: dict[str, Any], **members: Any) -> bytes:
    conversation = {"conversation_id": "c", "scenario_id": "s", "conversation_history": messages, **members}
    return json.dumps({"simulation_id": "i", "conversations": [conversation]}).encode()


def test_messages_without_an_answer_are_no_turns() -> None:
    user, agent = {"role": "simulated_user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}
    simulation = read_simulation(simulated(agent, user, user, agent, user))
    assert simulation.conversations[0].turns == [HeldTurn("Hi", "Hello")]
    assert [note.partition(": ")[2] for note in simulation.notes] == [
        "an answer to no message is not scored",
        "a message of the user has no answer and is not scored",
        "the last message of the user has no answer and is not scored",
    ]


def test_malformed_calls_are_findings() -> None:
    calls = [{"name": "a", "arguments": '{"x": 1}'}, {"arguments": {}}, 3]
    messages = {"role": "simulated_user", "content": "Hi"}, {"role": "assistant", "content": "", "tool_calls": calls}
    (turn,) = read_simulation(simulated(*messages)).conversations[0].turns
    assert turn.tool_calls == (ToolCall("a", {"x": 1}),)
    assert [finding.code for finding in turn.findings] == ["repaired_entry", "malformed_entry", "malformed_entry"]


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"{", "is not JSON"),
        (b"[]", "expected an object"),
        (b"\xff", "is not JSON"),
        (b'{"conversations": [{}]}', "conversations[0]: conversation_id is missing"),
        (simulated({"role": "tool", "content": ""}), "conversation_history[0].role: unknown 'tool'"),
        (simulated({"role": "assistant"}), "content is missing"),
        (simulated({"role": "assistant", "content": 3}), "expected a string"),
        (simulated(simulated_user_prompt=3), "simulated_user_prompt: expected an object"),
        (b"[" * 100_000, "is not JSON"),
        (b'{"simulation_id": "i", "conversations": []}', "conversations: no message of a user has an answer"),
        (simulated(), "conversations: no message of a user has an answer"),
    ],
)
def test_a_wrong_simulation_is_one_sentence(data: bytes, problem: str) -> None:
    with pytest.raises(SuiteError) as raised:
        read_simulation(data)
    assert problem in str(raised.value)


def test_a_scenario_is_held_as_often_as_there_are_conversations() -> None:
    imported = import_suite(FIXTURES / "arksim-scenarios.json")
    assert isinstance(imported.run_files, ArksimFiles)
    browsing = SimulatedConversation("c-4", "browse", [HeldTurn("Hi", "Hello.")], USER)
    known = imported.run_files.scenarios.by_scenario_id(imported.suite.cases)
    cases = cases_by_scenario([*CONVERSATIONS, browsing], known)
    assert {key: case.conversations for key, case in cases.items()} == {"order": 2, "unknown": 1, "browse": 1}
    assert cases["browse"].expect.tool_calls == (ExpectedCall("search", None),)
    order = cases["order"].eval_case(0)
    assert (order.user_goal, order.knowledge, order.profile) == ("Find the order.", "It is late.", "Brief.")
    assert cases["unknown"].eval_case(0).user_goal is None


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["", "a2a", "c", "helpfulness", "simulated_user"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*CONFIG_KEYS, *INNER_KEYS]), inner, max_size=4)
    ),
    max_leaves=15,
)


@example({"numeric_thresholds": {"numeric_thresholds": 0}})
@given(st.dictionaries(st.sampled_from([*CONFIG_KEYS, "model", "num_workers", "max_turns", "score_threshold"]), VALUES))
def test_junk_is_a_run_or_a_suite_error(junk: dict[str, Any]) -> None:
    try:
        imported = import_text(json.dumps(junk), "x.json", "arksim")
    except SuiteError:
        return
    assert parse_suite(suite_text(imported.suite)) == imported.suite


@given(st.lists(st.dictionaries(st.sampled_from(INNER_KEYS), VALUES, max_size=5), max_size=3))
def test_junk_is_a_simulation_or_a_suite_error(junk: list[Any]) -> None:
    try:
        simulation = read_simulation(json.dumps({"simulation_id": "s", "conversations": junk}).encode())
    except SuiteError:
        return
    assert cases_by_scenario(simulation.conversations, {}).keys() == {
        item.scenario_id for item in simulation.conversations
    }


# ── results ──────────────────────────────────────────────────────────────────────────────────────────────────────────


IMPORTED = import_suite(Path(__file__).parents[1] / "fixtures/arksim-scenarios.json")
assert isinstance(IMPORTED.run_files, ArksimFiles)
SCENARIOS = IMPORTED.run_files.scenarios


def results(*turns: dict[str, Any], scenarios: Scenarios = SCENARIOS, **conversations: list[Any]) -> ArksimResults:
    suite = Suite(name="none", cases=IMPORTED.suite.cases) if scenarios is SCENARIOS else None
    verdict = run_verdict(suite or Suite(name="none"), follow(turns, suite)).to_dict()
    report = build_report("r", turns, verdict, suite=suite, conversation_results=conversations)
    return ArksimResults(report, scenarios, "s", "e", "2026-11-22T10:00:00Z")


def evaluation(found: ArksimResults) -> dict[str, Any]:
    text = found.evaluation()
    assert Evaluation.model_validate_json(text).model_dump() == json.loads(text)
    return dict(json.loads(text))


def failing(turn_id: str, label: str, reason: str, case: str, conversation: str, start: float = 0.0) -> dict[str, Any]:
    failure = result("agent_behavior_failure", 0.0, label=label, reason=reason)
    return turn(turn_id, evaluations=[failure], case=case, conversation=conversation, start=start)


@pytest.mark.statement(128, 129, 131, 133, 136)
def test_errors_are_numbered_by_severity_and_then_by_count() -> None:
    found = results(
        failing("1", "repetition", "said it twice", "browse", "c1"),
        failing("2", "disobey user request", "ignored it", "browse", "c1", 1.0),
        failing("3", "disobey user request", "left", "small_talk", "c2", 2.0),
        failing("4", "disobey user request", "left", "return_kettle", "c3", 3.0),
        failing("5", "false information", "made it up", "small_talk", "c2", 4.0),
    )
    mappings = evaluation(found)["error_scenario_mappings"]
    assert [(item["error_index"], item["error_description"], item["severity"]) for item in mappings] == [
        (1, "made it up", "critical"),
        (2, "left", "high"),
        (3, "ignored it", "high"),
        (4, "said it twice", "low"),
    ]
    assert mappings[1]["scenario_ids"] == ["return_kettle", "small_talk"]
    focus = found.focus()
    assert list(focus) == ["error_1.json", "error_2.json", "error_3.json", "error_4.json", "all_failures.json"]
    chosen = [[item["scenario_id"] for item in json.loads(text)["scenarios"]] for text in focus.values()]
    assert chosen[1:] == [
        ["return_kettle", "small_talk"],
        ["browse"],
        ["browse"],
        ["browse", "return_kettle", "small_talk"],
    ]


@pytest.mark.statement(119)
def test_without_a_scenario_file_errors_lead_nowhere() -> None:
    found = results(failing("1", "repetition", "said it twice", "browse", "c1"), scenarios=Scenarios())
    assert len(evaluation(found)["unique_errors"]) == 1
    assert (evaluation(found)["error_scenario_mappings"], found.focus()) == ([], {})


@pytest.mark.statement(123, 124, 125)
def test_scores_and_labels_of_turns_and_conversations() -> None:
    label = result("tone", None, threshold=None, label="kind", status="scored")
    judged = result("agent_behavior_failure", 1.0, label="no failure", reason="none seen")
    checked = {"metadata": {"checked": True}, "judge": {}}
    scores = [result("helpfulness", 4.0, scale=[1.0, 5.0]), result("clarity", 3.0, scale=[0.0, 5.0], details=checked)]
    whole = [
        result("turn_success_ratio", 1.0),
        result("overall_agent_score", 1.0, label="Done"),
        result("suitability", 2.5, scale=[0.0, 5.0]),
        result("needs", None, threshold=None, label="met", status="scored"),
        result("goal_completion", None),
    ]
    found = results(turn("1", evaluations=[*scores, label, judged], case="browse", conversation="c1"), c1=whole)
    (only,) = evaluation(found)["conversations"]
    assert (only["evaluation_status"], only["turn_success_ratio"], only["goal_completion_score"]) == ("Done", 1.0, -1.0)
    (scored,) = only["turn_scores"]
    assert [(item["name"], item["value"], item["scope"], item["metadata"]) for item in scored["scores"]] == [
        ("helpfulness", 4.0, "turn", None),
        ("clarity", 3.0, "turn", {"checked": True}),
    ]
    assert scored["turn_score"] == 3.5
    assert [(item["name"], item["value"]) for item in scored["qual_scores"]] == [("tone", "kind")]
    assert (scored["turn_behavior_failure"], scored["turn_behavior_failure_reason"]) == ("no failure", "none seen")
    assert [(item["name"], item["value"], item["scope"]) for item in only["convo_scores"]] == [
        ("suitability", 2.5, "conversation")
    ]
    assert [(item["name"], item["value"]) for item in only["convo_qual_scores"]] == [("needs", "met")]


def test_the_worse_of_two_failures_is_that_of_the_turn() -> None:
    failures = [
        result("agent_behavior_failure", 0.0, label="repetition", reason="twice"),
        result("tool_call_behavior_failure", 0.0, label="unsafe action", reason="deleted it"),
    ]
    found = evaluation(results(turn("1", evaluations=failures, case="browse", conversation="c1")))
    (scored,) = found["conversations"][0]["turn_scores"]
    assert (scored["turn_behavior_failure"], scored["turn_behavior_failure_reason"]) == ("unsafe action", "deleted it")
    assert len(scored["unique_error_ids"]) == 2


def test_expected_calls_that_were_not_made_are_a_failure_of_the_turn_that_they_count_against() -> None:
    good = result("agent_behavior_failure", 1.0, label="no failure")
    turns = [turn(str(i), evaluations=[good], case="browse", conversation="c1", start=i) for i in range(2)]
    failed = [{"turn": 2, "metric": "tool_trajectory", "label": None, "reason": "a is missing"}]
    whole = [
        result("turn_success_ratio", 0.5, details={"failed": failed}),
        result("tool_trajectory", 0.0, reason="a is missing"),
    ]
    found = evaluation(results(*turns, c1=whole))
    first, second = found["conversations"][0]["turn_scores"]
    assert first["turn_behavior_failure"] == "no failure"
    assert second["turn_behavior_failure"] == "disobey user request"
    assert second["turn_behavior_failure_reason"] == "a is missing"
    (error,) = found["unique_errors"]
    assert second["unique_error_ids"] == [error["unique_error_id"]]
    assert (error["severity"], error["occurrences"]) == ("high", [{"conversation_id": "c1", "turn_id": 1}])
    assert found["error_scenario_mappings"][0]["scenario_ids"] == ["browse"]


@pytest.mark.statement(121)
def test_an_evaluation_that_failed() -> None:
    errored = result("agent_behavior_failure", None, status="errored", reason="no answer")
    whole = [result("turn_success_ratio", 1.0), result("overall_agent_score", 1.0, label="Done")]
    found = evaluation(
        results(
            turn("1", evaluations=[errored], case="browse", conversation="c1"),
            turn("2", case="small_talk", conversation="c2", start=1, state="TASK_STATE_FAILED"),
            c1=whole,
        )
    )
    broken, only = found["conversations"]
    assert broken["turn_scores"][0]["turn_behavior_failure"] == "agent_api_error"
    assert (only["evaluation_status"], only["overall_agent_score"]) == ("Evaluation Failed", -1.0)
    (scored,) = only["turn_scores"]
    assert (scored["turn_behavior_failure"], scored["turn_behavior_failure_reason"]) == (
        "evaluation_run_failed",
        "no answer",
    )
    assert (scored["scores"], scored["turn_score"]) == ([], -1.0)


def judged(number: int, failure: str = "no failure", labels: dict[str, str] | None = None, **scores: float) -> Any:
    return {
        "turn_id": number,
        "scores": [{"name": name, "value": value} for name, value in scores.items()],
        "turn_score": 3.0,
        "turn_behavior_failure": failure,
        "turn_behavior_failure_reason": "",
        "qual_scores": [{"name": name, "value": value} for name, value in (labels or {}).items()],
    }


def talk(name: str, *turns: Any, overall: float = 1.0, goal: float = 1.0, **more: Any) -> Any:
    return {
        "conversation_id": name,
        "goal_completion_score": goal,
        "goal_completion_reason": "",
        "turn_success_ratio": 1.0,
        "overall_agent_score": overall,
        "evaluation_status": "Done",
        "turn_scores": list(turns),
        **more,
    }


def written(*conversations: Any) -> Any:
    return {
        "schema_version": "v1.1",
        "generated_at": "2026-01-01T00:00:00+00:00",
        "evaluator_version": "v1",
        "evaluation_id": "e",
        "simulation_id": "s",
        "conversations": list(conversations),
        "unique_errors": [],
    }


TWO = written(
    talk("a", judged(0, helpfulness=2), judged(1, helpfulness=5), overall=0.7, goal=0.75),
    talk("b", judged(0, helpfulness=4), convo_scores=[{"name": "suitability", "value": 2.5}]),
)


@pytest.mark.statement(107, 108, 113, 114)
@pytest.mark.parametrize(
    ("thresholds", "passes"),
    [
        ({"helpfulness": 3.5}, True),
        ({"helpfulness": 3.6}, False),
        ({"overall_score": 0.7}, True),
        ({"overall_score": 0.71}, False),
        ({"goal_completion": 0.75}, True),
        ({"goal_completion": 0.8}, False),
        ({"suitability": 2.5}, True),
        ({"suitability": 2.6}, False),
        ({"helpfulness": 3.5, "overall_score": 0.9}, False),
        ({}, True),
        (None, True),
    ],
)
def test_every_conversation_must_reach_the_threshold(thresholds, passes):
    assert check_numeric_thresholds(TWO, thresholds) is passes
    assert check_numeric_thresholds(Evaluation.model_validate(TWO), thresholds) is passes


@pytest.mark.statement(110)
def test_a_conversation_without_the_metric_is_left_out(caplog):
    skipped = written(talk("a", judged(0), goal=-1.0), talk("b", judged(0, relevance=-1)))
    assert check_numeric_thresholds(skipped, {"goal_completion": 0.8})
    assert "a: goal_completion was not measured and is not compared" in caplog.text


@pytest.mark.parametrize("metric", ["helpfullness", "relevance"])
def test_a_metric_that_was_measured_nowhere_does_not_pass(metric, caplog):
    unmeasured = written(talk("a", judged(0, relevance=-1)))
    assert not check_numeric_thresholds(unmeasured, {metric: 1})
    assert not check_qualitative_failure_labels(unmeasured, {metric: ["x"]})
    assert f"{metric} was measured in no conversation: nothing shows that its limit holds" in caplog.text
    assert not check_numeric_thresholds(written(), {"overall_score": 0})


@pytest.mark.statement(109, 113)
@pytest.mark.parametrize(
    ("labels", "passes"),
    [
        ({"agent_behavior_failure": ["false information"]}, False),
        ({"agent_behavior_failure": ["repetition"]}, True),
        ({"prohibited_statements": ["violated"]}, False),
        ({"prohibited_statements": ["odd"]}, True),
        ({"disclosure": ["missing"]}, False),
        ({"agent_behavior_failure": []}, True),
        (None, True),
    ],
)
def test_no_turn_and_no_conversation_may_have_a_label(labels, passes):
    labelled = written(
        talk("a", judged(0, "skipped_good_performance", {"prohibited_statements": "clean"})),
        talk(
            "b",
            judged(0, "evaluation_run_failed"),
            judged(1, "false information", {"prohibited_statements": "violated"}),
            convo_qual_scores=[{"name": "disclosure", "value": "missing"}],
        ),
    )
    assert check_qualitative_failure_labels(labelled, labels) is passes


@pytest.mark.statement(111)
def test_what_failed_is_logged_with_its_place(caplog):
    caplog.set_level(logging.ERROR)
    check_numeric_thresholds(TWO, {"helpfulness": 3.75})
    check_qualitative_failure_labels(
        written(talk("b", judged(3, "repetition"))), {"agent_behavior_failure": ["repetition"]}
    )
    assert caplog.messages == [
        "a: helpfulness is 3.500, below 3.75",
        "b, turn 3: agent_behavior_failure is 'repetition'",
    ]


def test_objects_of_arksim_itself_are_read_by_their_attributes():
    def objects(value):
        if isinstance(value, dict):
            return SimpleNamespace(**{key: objects(item) for key, item in value.items()})
        return [objects(item) for item in value] if isinstance(value, list) else value

    assert check_numeric_thresholds(objects(TWO), {"helpfulness": 3.5})
    with pytest.raises(ValueError, match="validation error"):
        check_numeric_thresholds({"conversation": []}, {"helpfulness": 3.5})
