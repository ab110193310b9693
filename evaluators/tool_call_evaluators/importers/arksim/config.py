"""A configuration of ArkSim, one YAML file of `simulate`, `evaluate` and `simulate-evaluate`, and its scenarios.

Its gates alone decide whether a run passes, as with ArkSim: `numeric_thresholds` and `qualitative_failure_labels`. A
metric with a limit is measured even where `metrics_to_run` omits it. Paths are relative to the file.

A scenario of `{schema_version, scenarios: [...]}` is a case with a simulated user.
The expected calls of its `tool_calls` assertion apply to the whole conversation. Modes: `strict` and `within` have the
same name here, `unordered` is `any_order` with a score of 1, `contains` is `superset`; arguments `exact`, `partial`
(`subset`) and `ignore`.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from ...behavior_failures import AGENT_BEHAVIOR_LABELS, FAILURE_METRICS
from ...evaluator import EvaluatorBase
from ...foreign import Notes, expected_call, unique_ids
from ...gates import Gate, RunGates
from ...judge.settings import JudgeSettings
from ...model import ExpectedCall
from ...simulation.settings import SimulatedUserSettings
from ...simulation.user import MAX_CONVERSATIONS, MAX_TURNS
from ...suite import AgentDefaults, Case, EvaluatorSpec, Expectation, Simulation, Suite
from ...suite.model import ReadContext, code_path, run_plugin
from ...suite.writing import printable_id
from ...suite.yaml_document import Node, read_source
from ...suite_fields import FieldError, boolean, number, text, texts, whole_number
from .run_files import ArksimFiles
from .simulation import Scenarios

T = TypeVar("T")

_MODES = {"strict": "strict", "unordered": "any_order", "contains": "superset", "within": "within"}
_ARGUMENTS = ("exact", "ignore", "partial")
_KNOWN = {
    *("scenario_id", "goal", "agent_context", "user_profile", "knowledge", "assertions"),
    *("user_id", "origin", "user_attributes"),
}
"""The last three serve neither simulation nor evaluation, in ArkSim either."""


def read_scenarios(node: Node, notes: Notes, simulation: Mapping[str, Any]) -> Scenarios:
    """The scenarios of a document. `simulation` has further options of the `simulate` blocks. Raises SuiteError."""
    items = node.need("scenarios").items()
    cases = unique_ids(_case(item, notes, simulation) for item in items)
    originals = {case.id: item.object() for case, item in zip(cases, items, strict=True)}
    return Scenarios(cases, originals, node.text_at("schema_version") or "v1")


def _case(node: Node, notes: Notes, simulation: Mapping[str, Any]) -> Case:
    notes.unknown_keys(node, _KNOWN, "a scenario")
    simulate = Simulation(
        goal=node.need("goal").text(),
        profile=node.text_at("user_profile"),
        knowledge=tuple(text for item in node.items_at("knowledge") if (text := _content(item))),
        context=node.text_at("agent_context"),
        **simulation,
    )
    case = Case(id=printable_id(node.need("scenario_id").text()), simulate=simulate)
    for assertion in node.items_at("assertions"):
        kind = assertion.need("type").text()
        expected = assertion.items_at("expected")
        if kind != "tool_calls":
            notes.add(f"assertions of type {kind} are unknown and were not imported")
        elif expected and case.expect.tool_calls is None:  # arksim evaluates the first one that is not empty
            notes.unknown_keys(assertion, ("type", "expected", "match_mode"), "an assertion")
            for item in expected:
                notes.unknown_keys(item, ("name", "arguments", "arg_match_mode"), "an expected call")
                if item.get("arg_match_mode") is None and item.object().get("arguments"):
                    notes.add("arguments of expected calls without arg_match_mode: ArkSim ignores them, too")
            case = _with_expected_calls(case, assertion.get("match_mode"), expected)
    return case


def _content(node: Node) -> str | None:
    return node.text_at("content") if isinstance(node.value, dict) else None if node.blank else node.text()


def _with_expected_calls(case: Case, mode: Node | None, expected: list[Node]) -> Case:
    """`case` with the expected calls; its `evaluators` is the one that compares them."""
    calls = []
    matchers: dict[str, str] = {}
    for item in expected:
        call = expected_call(item, "arguments")
        how_node = item.get("arg_match_mode")
        how = "ignore" if how_node is None else how_node.choice(_ARGUMENTS)
        if how == "ignore":
            calls.append(ExpectedCall(call.name, None))
            continue
        matcher = {"exact": "exact", "partial": "subset"}[how]
        if matchers.setdefault(call.name, matcher) != matcher:
            item.fail(f"{call.name} is expected with arg_match_mode exact and partial; a suite has one for each tool")
        calls.append(call)
    options: dict[str, Any] = {"mode": "any_order" if mode is None else _MODES[mode.choice(tuple(_MODES))]}
    partial = {name: matcher for name, matcher in matchers.items() if matcher == "subset"}
    if partial:
        options["matcher"] = {"per_tool": partial}
    trajectory = EvaluatorSpec("tool_trajectory", options, "conversation")
    return replace(case, expect=Expectation(tool_calls=tuple(calls)), evaluators=(trajectory,))


TURN_METRICS = ("faithfulness", "helpfulness", "coherence", "verbosity", "relevance")
GOAL = "goal_completion"
METRICS = (*TURN_METRICS, GOAL, *FAILURE_METRICS)
_DEFAULT_METRICS = tuple(name for name in METRICS if name != "tool_call_behavior_failure")
_OPTIONS: Mapping[str, Mapping[str, Any]] = {"agent_behavior_failure": {"ask_below": 0.6}}
"""ArkSim's rules where they are not the default here."""

CONFIG_KEYS = (
    *("scenario_file_path", "simulation_file_path", "agent_config", "agent_config_file_path", "metrics_to_run"),
    *("custom_metrics_file_paths", "numeric_thresholds", "qualitative_failure_labels", "output_dir"),
    *("output_file_path", "num_conversations_per_scenario"),
)
"""Keys of which a configuration has at least one; no other format has any."""
_FURTHER_KEYS = (
    *("model", "provider", "num_workers", "max_turns", "generate_html_report", "score_threshold"),
    *("simulated_user_prompt_template", "trace_receiver"),
)
_AGENT_KEYS = {
    "agent_config": ("agent_type", "agent_name", "api_config", "custom_config"),
    "api_config": ("endpoint", "headers", "body"),
    "custom_config": ("module_path", "class_name"),
    "trace_receiver": ("enabled", "host", "port", "wait_timeout"),
}
"""Those of each object. The name of the agent has no use."""


def read_run(node: Node, path: Path, notes: Notes) -> Suite:
    """The suite of a configuration, or of a file of scenarios alone; `notes` gets the files of its run. Raises
    SuiteError."""
    if isinstance(node.object().get("scenarios"), list):
        scenarios = read_scenarios(node, notes, {})
        notes.run_files = ArksimFiles(scenarios=scenarios)
        errors = (EvaluatorSpec("tool_error"),)
        cases = tuple(_with_evaluators(case, errors) for case in scenarios.cases)
        return Suite(name=path.stem, evaluators=errors, cases=cases)
    if not node.object().keys() & {*CONFIG_KEYS, *_FURTHER_KEYS}:
        node.fail("is neither an ArkSim configuration nor its scenarios: no key of either is there")
    notes.unknown_keys(node, (*CONFIG_KEYS, *_FURTHER_KEYS), "the configuration")
    folder = path.parent
    context = ReadContext(folder, notes.allow_plugins)
    scenarios = _scenarios(node, folder, notes)
    custom = node.items_at("custom_metrics_file_paths")
    plugins = [item.convert(lambda value: run_plugin(value, context)) for item in custom]
    gates, html = _gates(node), node.get("generate_html_report")
    evaluators = _evaluators(node, [metric for _, metrics in plugins for metric in metrics], gates)
    notes.run_files = ArksimFiles(
        scenarios=scenarios,
        conversations=_path(node, "simulation_file_path", folder),
        simulation=_path(node, "output_file_path", folder) or folder / "simulation.json",
        folder=_path(node, "output_dir", folder) or folder / "results/evaluation",
        page="final_report.html" if html is None or html.convert(boolean) else "",
    )
    return Suite(
        name=path.stem,
        agent=_agent(node, context, notes),
        plugins=tuple(path for path, _ in plugins),
        evaluators=evaluators,
        judge=_judge(node, notes),
        simulated_user=_simulated_user(node),
        gates=_checked(node, gates, evaluators),
        run_gates=RunGates(pass_rate=0.0),
        tolerate=frozenset({"user_no_end"}),
        cases=tuple(_with_evaluators(case, evaluators) for case in scenarios.cases),
    )


def _agent(node: Node, context: ReadContext, notes: Notes) -> AgentDefaults:
    """From `agent_config`, or the file that `agent_config_file_path` names. Raises SuiteError."""
    agent, concurrency = node.at("agent_config"), _workers(node)
    if (file := node.text_at("agent_config_file_path")) and not agent.value:
        agent = read_source((context.folder or Path()) / file)
    kind = agent.get("agent_type")
    receiver = node.at("trace_receiver")
    for name, within in {"agent_config": agent, "trace_receiver": receiver}.items():
        notes.unknown_keys(within, _AGENT_KEYS[name], name)
    for name in ("api_config", "custom_config"):
        notes.unknown_keys(agent.at(name), _AGENT_KEYS[name], name)
    if receiver.object().get("enabled") and (kind is None or kind.value != "custom"):
        notes.add(
            "trace_receiver: `run` receives traces with `--otlp HOST:PORT`, and waits for them with `--trace-wait`"
        )
    if kind is None:
        return AgentDefaults(concurrency=concurrency)
    if kind.choice(("a2a", "custom", "chat_completions")) == "custom":
        return AgentDefaults(url=_python(agent.need("custom_config"), context), concurrency=concurrency)
    api = agent.at("api_config")
    url = api.need("endpoint").text()
    headers = {name: value.text() for name, value in api.at("headers").entries().items()}
    if kind.value == "a2a":
        return AgentDefaults(url=url, headers=headers, concurrency=concurrency)
    body = api.need("body").object()
    return AgentDefaults(url=f"openai:{url}", headers=headers, body=body, concurrency=concurrency)


def _python(custom: Node, context: ReadContext) -> str:
    """`python:...` for a `module_path`, which is a file or a dotted name, and a `class_name`."""
    module, class_name = custom.need("module_path"), custom.text_at("class_name")
    source = module.text()
    if source.endswith(".py"):
        source = module.convert(lambda file: str(code_path(file, context)))
    return f"python:{source}" + (f":{class_name}" if class_name else "")


def _scenarios(node: Node, folder: Path, notes: Notes) -> Scenarios:
    file = _path(node, "scenario_file_path", folder)
    if file is None:
        return Scenarios()
    simulation = {
        "conversations": _whole(node, "num_conversations_per_scenario", 5, MAX_CONVERSATIONS),
        "max_turns": _whole(node, "max_turns", 5, MAX_TURNS),
    }
    return read_scenarios(read_source(file), notes, simulation)


def _with_evaluators(case: Case, evaluators: Sequence[EvaluatorSpec]) -> Case:
    """`case` with those of all cases before its own, if it has any.

    Its expected calls count in turn_success_ratio where the tool calls of turns do."""
    if case.evaluators is None:
        return case
    (trajectory,) = case.evaluators
    counts = any(spec.name == "tool_call_behavior_failure" for spec in evaluators)
    before = [
        EvaluatorSpec(spec.name, {"trajectory": trajectory.options})
        if counts and spec.name == "turn_success_ratio"
        else spec
        for spec in evaluators
    ]
    return replace(case, evaluators=(*before, *case.evaluators))


def _evaluators(node: Node, custom: Sequence[str], limited: Container[str]) -> tuple[EvaluatorSpec, ...]:
    """The chosen built-in metrics, those with a limit, and all `custom` ones."""
    chosen = node.get("metrics_to_run")
    wanted = _DEFAULT_METRICS if chosen is None else chosen.convert(texts) or METRICS
    for item in [] if chosen is None else chosen.items():
        item.choice((*METRICS, *custom))
    names = [name for name in METRICS if name in wanted or name in limited]
    if "overall_agent_score" in limited and "agent_behavior_failure" not in names:
        names.append("agent_behavior_failure")
    specs = [EvaluatorSpec(name, _OPTIONS.get(name, {})) for name in (*names, *custom)]
    if any(name in FAILURE_METRICS for name in names):
        with_goal = {} if GOAL in names else {"with_goal": False}
        specs += [EvaluatorSpec("turn_success_ratio"), EvaluatorSpec("overall_agent_score", with_goal)]
    return tuple(specs)


_RENAMED = {"overall_score": "overall_agent_score"}
"""Metrics that have another name here."""


def _gates(node: Node) -> dict[str, Gate]:
    """The limits of the configuration, by metric. Null sets no limit."""
    former = {"overall_score": old} if (old := node.get("score_threshold")) is not None else {}
    means = _limits(former | node.at("numeric_thresholds").entries(), number)
    labels = _limits(node.at("qualitative_failure_labels").entries(), texts)
    return {
        metric: Gate(conversation_mean=means.get(metric), forbid=labels.get(metric, ())) for metric in means | labels
    }


def _limits(given: Mapping[str, Node], read: Callable[[Any], T]) -> dict[str, T]:
    return {_RENAMED.get(name, name): item.convert(read) for name, item in given.items() if item.value is not None}


def _checked(node: Node, gates: Mapping[str, Gate], specs: Sequence[EvaluatorSpec]) -> Mapping[str, Gate]:
    """The gates, with labels of turns for each metric that finds them: ArkSim reports both failures of a turn as one.

    Raises SuiteError for a limit that no result can decide."""
    evaluators = {evaluator.metric: evaluator for evaluator in (spec.build() for spec in specs)}
    agent, tools = FAILURE_METRICS
    checked = dict(gates)
    if agent in gates and tools in evaluators:
        labels = gates[agent].forbid
        checked[tools] = Gate(forbid=(*labels, *gates.get(tools, Gate()).forbid))
        checked[agent] = replace(
            gates[agent], forbid=tuple(label for label in labels if label in AGENT_BEHAVIOR_LABELS)
        )
    for metric, gate in checked.items():
        if metric in evaluators:
            node.convert(partial(_check, metric, gate, evaluators[metric]))
    return checked


def _check(metric: str, gate: Gate, evaluator: EvaluatorBase, _: Any) -> None:
    try:
        gate.check(evaluator)
    except FieldError as error:
        limit, *place = error.path
        key = "numeric_thresholds" if limit == "conversation_mean" else "qualitative_failure_labels"
        raise FieldError(str(error), key, metric, *place) from None


def _judge(node: Node, notes: Notes) -> JudgeSettings:
    provider = node.text_at("provider") or "openai"
    if provider not in _PROVIDERS:
        notes.add(f"provider {provider}: give the URL of its OpenAI-compatible API in A2A_EVAL_PROXY_JUDGE_BASE_URL")
    url, key = _PROVIDERS.get(provider, (None, None))
    model = node.text_at("model") or "gpt-5.1"
    return JudgeSettings(base_url=url, model=model, api_key_env=key, temperature=None, concurrency=_workers(node))


def _simulated_user(node: Node) -> SimulatedUserSettings:
    """With its own prompt, if given; all else is the judge's."""
    prompt = node.get("simulated_user_prompt_template")
    if prompt is None:
        return SimulatedUserSettings()
    return prompt.convert(lambda template: SimulatedUserSettings(prompt=text(template)))


_ANTHROPIC = ("https://api.anthropic.com/v1", "ANTHROPIC_API_KEY")
_GOOGLE = ("https://generativelanguage.googleapis.com/v1beta/openai", "GOOGLE_API_KEY")
_PROVIDERS: Mapping[str, tuple[str | None, str | None]] = {
    "openai": (None, None),
    "anthropic": _ANTHROPIC,
    "claude": _ANTHROPIC,
    "google": _GOOGLE,
    "gemini": _GOOGLE,
}
"""By ArkSim's names: the OpenAI-compatible API of each, and the variable with its key."""


def _workers(node: Node) -> int:
    given = node.get("num_workers")
    if given is None or given.value == "auto":
        return 50  # ArkSim's default
    count: int = given.convert(whole_number(1, 1_000_000).read)
    return min(count, 1_000)


def _whole(node: Node, key: str, default: int, most: int) -> int:
    given = node.get(key)
    return default if given is None else int(given.convert(whole_number(1, most).read))


def _path(node: Node, key: str, folder: Path) -> Path | None:
    given = node.text_at(key)
    return None if given is None else folder / given
