"""ArkSim's files as suites: scenarios, configurations, and the conversations of a simulation."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
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
from tool_call_evaluators.importers.arksim.config import CONFIG_KEYS
from tool_call_evaluators.importers.arksim.run_files import ArksimFiles
from tool_call_evaluators.importers.arksim.simulation import (
    SimulatedConversation,
    cases_by_scenario,
    load_simulation,
    read_simulation,
    simulation_text,
)
from tool_call_evaluators.model import ExpectedCall
from tool_call_evaluators.outcomes.conversations import follow, run_verdict
from tool_call_evaluators.suite import EvaluatorSpec, Expectation, Simulation
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
