"""Suite files: which evaluators run, and for each case what the user says and what the agent should do.

The smallest form, as YAML or JSON:

    suite: orders
    evaluators: [tool_error, {tool_trajectory: {mode: in_order, threshold: 1.0}}]
    cases:
      - id: status
        turns:
          - user: Where is order ORD-1001?
            expect: {tool_calls: [{name: lookup_order, arguments: {order_id: ORD-1001}}]}
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from a2a_tool_capture.models import Severity, ToolCall

from .agentdefaults import AgentDefaults, read_agent_defaults
from .base import EvaluatorBase, Scope
from .document import Document, DocumentError, read_document
from .gates import RUN_GATES, TOLERABLE, Gate, RunGates
from .judge.cache import JudgeCache
from .judge.settings import JudgeSettings
from .judged import LabelledEvaluator, with_judge
from .model import (
    CountCriterion,
    EvalCase,
    EvalResult,
    ExpectedOutput,
    ToolDefinition,
    count_criterion,
    expected_output,
)
from .node import Node
from .options import OptionError
from .placeholders import check_placeholders
from .registry import get_evaluator, load_plugin, option_names
from .source import SuiteError as SuiteError
from .source import read_text
from .toolfile import read_tools

MAX_REPETITIONS = 1_000

SUITE_KEYS = ("suite", "agent", "plugins", "evaluators", "judge", "tools", "gates", "tolerate", "cases")
CASE_KEYS = (
    "id",
    "turns",
    "expect",
    "evaluators",
    "user_goal",
    "knowledge",
    "tasks",
    "constraints",
    "tools",
    "tags",
    "repetitions",
)

_FILE_OPTIONS = frozenset({"command", "folder", "judge"})

T = TypeVar("T")
Entries = Mapping[str, Node]


@dataclass(frozen=True, slots=True)
class EvaluatorSpec:
    """An evaluator as a suite names it. `scope` is set where it is not to look at what it looks at by itself."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    scope: Scope | None = None

    def build(self) -> EvaluatorBase:
        return get_evaluator(self.name, **self.options)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """What should happen in a turn, or in a whole conversation.

    None: nothing was said about it; an empty `tool_calls`: no call at all.
    """

    tool_calls: tuple[ToolCall, ...] | None = None
    tool_calls_order: tuple[str, ...] | None = None
    tool_calls_count: Mapping[str, CountCriterion] | None = None
    tool_outputs: tuple[ExpectedOutput, ...] | None = None
    response: Any = None
    response_contains: str | None = None
    behavior: str | None = None

    @property
    def calls_expected(self) -> bool:
        """Whether it takes a tool call to meet it."""
        counts = (self.tool_calls_count or {}).values()
        return bool(
            self.tool_calls
            or self.tool_calls_order
            or self.tool_outputs
            or any(not criterion.met_by(0) for criterion in counts)
        )


@dataclass(frozen=True, slots=True)
class CaseTurn:
    """One user message of a case, and what is expected of the agent then."""

    user: str
    expect: Expectation = Expectation()


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """An expected behaviour: a conversation of at least one turn, run `repetitions` times.

    `expect` is about all turns together; `evaluators` take the place of the suite's.
    """

    id: str
    turns: tuple[CaseTurn, ...]
    expect: Expectation = Expectation()
    evaluators: tuple[EvaluatorSpec, ...] | None = None
    user_goal: str | None = None
    knowledge: str | None = None
    tasks: tuple[str, ...] | None = None
    constraints: tuple[str, ...] | None = None
    tools: tuple[ToolDefinition, ...] | None = None
    tags: tuple[str, ...] = ()
    repetitions: int = 1

    def eval_case(
        self,
        turn_index: int,
        *,
        tool_calls: Iterable[ToolCall | Mapping[str, Any]] = (),
        calls_unseen: str | None = None,
        response_text: str | None = None,
        user_text: str | None = None,
        history: Iterable[EvalCase] = (),
    ) -> EvalCase:
        """What to evaluate of the turn `turn_index` (from 0), given what the agent did.

        A turn beyond the last is a turn without expectations: a conversation may go on longer than planned.
        `user_text` is what was really said, where that is not the case's own text; `history` the turns before.
        """
        planned = self.turns[turn_index] if turn_index < len(self.turns) else None
        expect = planned.expect if planned else Expectation()
        return EvalCase(
            tool_calls=tool_calls,
            calls_unseen=calls_unseen,
            expected_tool_calls=expect.tool_calls,
            tools=self.tools,
            user_text=user_text if user_text is not None or planned is None else planned.user,
            response_text=response_text,
            expected_response=expect.response,
            response_contains=expect.response_contains,
            expected_behavior=expect.behavior,
            user_goal=self.user_goal,
            knowledge=self.knowledge,
            tasks=self.tasks,
            constraints=self.constraints,
            tool_calls_order=expect.tool_calls_order,
            tool_calls_count=expect.tool_calls_count,
            tool_outputs=expect.tool_outputs,
            history=history,
        )

    def conversation_case(self, turns: Iterable[EvalCase], results: Iterable[EvalResult] = ()) -> EvalCase:
        """What to evaluate of the whole conversation, given its turns with their results.

        Its tool calls are those of all turns, and unseen where those of any turn are. Its response is the last one.
        """
        turns = tuple(turns)
        return EvalCase(
            tool_calls=[call for turn in turns for call in turn.tool_calls],
            calls_unseen=next((turn.calls_unseen for turn in turns if turn.calls_unseen is not None), None),
            expected_tool_calls=self.expect.tool_calls,
            response_text=turns[-1].response_text if turns else None,
            expected_response=self.expect.response,
            response_contains=self.expect.response_contains,
            expected_behavior=self.expect.behavior,
            tool_calls_order=self.expect.tool_calls_order,
            tool_calls_count=self.expect.tool_calls_count,
            tool_outputs=self.expect.tool_outputs,
            turns=turns,
            results=results,
            tools=self.tools,
            user_goal=self.user_goal,
            knowledge=self.knowledge,
            tasks=self.tasks,
            constraints=self.constraints,
        )

    def turn_index(self, user_text: str, earlier: int) -> int:
        """Which turn this is, from 0: the first with this very text that is not past, else the next.

        `earlier` is how many turns of the case its conversation has had.
        """
        texts = [turn.user.strip() for turn in self.turns]
        text = user_text.strip()
        for index in range(earlier, len(texts)):
            if texts[index] == text:
                return index
        return texts.index(text) if text in texts else earlier


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """What a suite file says. `gates` is empty where the file leaves the verdict to the evaluators' thresholds.

    `plugins` are the Python files that were run for it.
    """

    name: str
    evaluators: tuple[EvaluatorSpec, ...] = ()
    cases: tuple[Case, ...] = ()
    tools: tuple[ToolDefinition, ...] | None = None
    gates: Mapping[str, Gate] = field(default_factory=dict)
    run_gates: RunGates = field(default_factory=RunGates)
    tolerate: frozenset[str] = frozenset()
    agent: AgentDefaults = field(default_factory=AgentDefaults)
    plugins: tuple[Path, ...] = ()
    judge: JudgeSettings = field(default_factory=JudgeSettings)

    def build_evaluators(
        self, scope: Scope | None = None, case: Case | None = None, *, judge_cache: JudgeCache | None = None
    ) -> list[EvaluatorBase]:
        """New evaluators, in the order of the file: those of `case` where it has its own, else the suite's.

        With a `scope` only those that look at turns, or at conversations. Those that ask a judge get the one that
        the suite and the environment describe, whose answers are kept in `judge_cache`.
        """
        specs = self.evaluators if case is None or case.evaluators is None else case.evaluators
        built = [(spec, spec.build()) for spec in specs]
        chosen = [evaluator for spec, evaluator in built if scope in (None, spec.scope or evaluator.scope)]
        return with_judge(chosen, self.judge, cache=judge_cache)

    def with_fresh_judge(self) -> Suite:
        """This suite, whose judge is asked anew each time."""
        return replace(self, judge=replace(self.judge, cache=False))

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of all results the suite asks for, those of its cases' own evaluators included."""
        own = [spec for case in self.cases for spec in case.evaluators or ()]
        return tuple(dict.fromkeys(spec.build().metric for spec in (*self.evaluators, *own)))

    def case(self, case_id: str) -> Case | None:
        """The case of that id, or None."""
        return next((case for case in self.cases if case.id == case_id), None)


def load_suite(path: str | Path, *, allow_plugins: bool = False) -> Suite:
    """Read the suite file at `path`. Raises SuiteError for one that is missing, unreadable or wrong.

    `allow_plugins`: see `parse_suite`."""
    path = Path(path)
    return parse_suite(read_text(path), str(path), allow_plugins=allow_plugins)


def parse_suite(text: str, filename: str = "suite", *, allow_plugins: bool = False) -> Suite:
    """The suite in `text`. Raises SuiteError, whose message begins with `filename` and the position.

    Files that the suite names are looked for beside `filename`: tool definitions, and plug-ins, which are run. Plug-ins
    that are not in its folder, or below, are run with `allow_plugins` only.
    """
    try:
        document = read_document(text)
        return _suite(Node(document, document.value), Path(filename).parent, allow_plugins)
    except DocumentError as error:
        raise SuiteError(error.problem, filename, error.position) from None


def parse_case(data: Mapping[str, Any], filename: str = "case") -> Case:
    """One case from its JSON form, as in the `cases` of a suite. Raises SuiteError."""
    try:
        return _case(Node(Document(data), data), None, None)
    except DocumentError as error:
        raise SuiteError(error.problem, filename, error.position) from None


def _suite(node: Node, folder: Path, allow_plugins: bool) -> Suite:
    entries = node.object(SUITE_KEYS, required=("suite",))
    plugins = tuple(_load(plugin, folder, allow_plugins) for plugin in _items(entries, "plugins"))
    tools = _tools(entries, folder)
    gates, run_gates = _gates(entries)
    suite = Suite(
        name=entries["suite"].text(),
        evaluators=_evaluators(entries, folder) or (),
        cases=_cases(entries, tools, folder),
        tools=tools,
        gates=gates,
        run_gates=run_gates,
        tolerate=frozenset(item.choice(TOLERABLE) for item in _items(entries, "tolerate")),
        agent=_optional(entries, "agent", read_agent_defaults) or AgentDefaults(),
        plugins=plugins,
        judge=_optional(entries, "judge", _judge) or JudgeSettings(),
    )
    _check_conversation_expectations(suite, entries)
    _check_gates(suite, entries)
    return suite


def _load(plugin: Node, folder: Path, allow_plugins: bool) -> Path:
    path = folder / plugin.text()
    if not (allow_plugins or path.resolve().is_relative_to(folder.resolve())):
        plugin.fail(
            f"plug-in {path} is outside the folder of the suite, and would be run; allow that with --allow-plugins "
            "(in Python: allow_plugins=True) where you trust the suite"
        )
    plugin.convert(lambda _: load_plugin(path))
    return path.resolve()


def _check_conversation_expectations(suite: Suite, entries: Entries) -> None:
    """An expectation that nothing looks at would pass by silence."""
    for case, item in zip(suite.cases, _items(entries, "cases"), strict=True):
        if case.expect != Expectation() and not suite.build_evaluators("conversation", case):
            item.entries()["expect"].fail(
                "no evaluator looks at conversations; give one `scope: conversation`, as in "
                "{tool_trajectory: {scope: conversation}}"
            )


def _check_gates(suite: Suite, entries: Entries) -> None:
    """A mean that is off the evaluator's scale, or a label that it never gives, would be met or missed by silence."""
    if not suite.gates:
        return
    nodes = entries["gates"].entries()
    specs = (*suite.evaluators, *(spec for case in suite.cases for spec in case.evaluators or ()))
    for evaluator in (spec.build() for spec in specs):
        gate = suite.gates.get(evaluator.metric)
        if gate is None:
            continue
        node = nodes[evaluator.metric]
        parts = node.entries() if isinstance(node.value, dict) else {"mean": node}
        low, high = evaluator.scale
        for name in ("mean", "conversation_mean"):
            value = getattr(gate, name)
            if value is not None and not low <= value <= high:
                parts[name].fail(f"must lie between {low:g} and {high:g}, the scale of {evaluator.name}; got {value}")
        if isinstance(evaluator, LabelledEvaluator):
            for item in parts["forbid"].items() if gate.forbid else ():
                item.choice(tuple(evaluator.labels))


def _judge(node: Node) -> JudgeSettings:
    options = node.entries()
    try:
        return JudgeSettings.from_mapping({name: option.value for name, option in options.items()})
    except OptionError as error:
        options.get(error.option or "", node).fail(str(error))


def _evaluators(entries: Entries, folder: Path | None) -> tuple[EvaluatorSpec, ...] | None:
    if "evaluators" not in entries:
        return None
    specs, metrics = [], dict[str, str]()
    for item in entries["evaluators"].items():
        spec, metric = _evaluator(item, folder)
        if metric in RUN_GATES:
            item.fail(f"{metric} is the name of a gate on the run; give the evaluator another `id`")
        if metric in metrics:
            item.fail(f"{metric} is already there; give one of the two an `id` of its own")
        metrics[metric] = spec.name
        specs.append(spec)
    return tuple(specs)


def _evaluator(item: Node, folder: Path | None) -> tuple[EvaluatorSpec, str]:
    """One entry of `evaluators`, `name` or `{name: options}`, and the name its results will go by."""
    if isinstance(item.value, str):
        name, options, place = item.text(), {}, item
    else:
        named = list(item.entries().items())
        if len(named) != 1:
            item.fail("expected one evaluator: its name, or {name: options}")
        name, place = named[0]
        options = {} if place.value is None else place.entries()
    scope = options.pop("scope", None)
    values = {key: option.value for key, option in options.items()}
    for option in _FILE_OPTIONS & options.keys():
        if folder is None:
            options[option].fail("may only be set in a suite file: it says what is run, or who gets the judge's key")
    try:
        if folder is not None and "folder" in option_names(name) and isinstance(values.get("folder", ""), str):
            # programs stand beside the suite; absolute, for the spec may be written into one that stands elsewhere
            values["folder"] = str((folder / values.get("folder", "")).resolve())
        evaluator = get_evaluator(name, **values)
        return EvaluatorSpec(name, values, _scope(scope, evaluator.scope)), evaluator.metric
    except OptionError as error:
        (options.get(error.option or "") or place).fail(str(error))


def _scope(node: Node | None, own: Scope) -> Scope | None:
    """The scope asked for, None where it is the evaluator's own."""
    if node is None or node.choice(("turn", "conversation")) == own:
        return None
    if own == "conversation":
        node.fail("this evaluator looks at whole conversations; it cannot score a turn")
    return "conversation"


def _tools(entries: Entries, folder: Path | None) -> tuple[ToolDefinition, ...] | None:
    return read_tools(entries["tools"], folder) if "tools" in entries else None


def _gates(entries: Entries) -> tuple[dict[str, Gate], RunGates]:
    nodes = entries["gates"].entries() if "gates" in entries else {}
    metrics = {name: _gate(node) for name, node in nodes.items() if name not in RUN_GATES}
    return metrics, RunGates(
        findings=_optional(nodes, "findings", _most_findings) or {},
        captured=_optional(nodes, "captured", Node.share),
        pass_rate=_optional(nodes, "pass_rate", Node.share),
    )


def _most_findings(node: Node) -> dict[Severity, int]:
    entries = node.object(tuple(severity.value for severity in Severity))
    return {Severity(name): entry.whole_number(0, 1_000_000_000) for name, entry in entries.items()}


def _gate(node: Node) -> Gate:
    """A number, the least mean over the run; or an object with the fields of Gate."""
    if not isinstance(node.value, dict):
        return Gate(mean=node.number())
    parts = node.object(("mean", "conversation_mean", "pass_rate", "forbid"))
    if not parts:
        node.fail("asks for nothing; accepted are mean, conversation_mean, pass_rate, forbid")
    return Gate(
        mean=_optional(parts, "mean", Node.number),
        conversation_mean=_optional(parts, "conversation_mean", Node.number),
        pass_rate=_optional(parts, "pass_rate", Node.share),
        forbid=parts["forbid"].texts() if "forbid" in parts else (),
    )


def _cases(entries: Entries, tools: tuple[ToolDefinition, ...] | None, folder: Path) -> tuple[Case, ...]:
    cases: dict[str, Case] = {}
    for item in _items(entries, "cases"):
        case = _case(item, tools, folder)
        if case.id in cases:
            item.entries()["id"].fail(f"{case.id!r} is the id of an earlier case already")
        cases[case.id] = case
    return tuple(cases.values())


def _case(node: Node, tools: tuple[ToolDefinition, ...] | None, folder: Path | None) -> Case:
    entries = node.object(CASE_KEYS, required=("id", "turns"))
    turns = tuple(_turn(item) for item in entries["turns"].items())
    if not turns:
        entries["turns"].fail("needs at least one turn")
    return Case(
        id=_id(entries["id"]),
        turns=turns,
        expect=_optional(entries, "expect", _expectation) or Expectation(),
        evaluators=_evaluators(entries, folder),
        user_goal=_optional(entries, "user_goal", Node.text),
        knowledge=_optional(entries, "knowledge", Node.text),
        tasks=_optional(entries, "tasks", Node.texts),
        constraints=_optional(entries, "constraints", Node.text_or_texts),
        tools=_tools(entries, folder) if "tools" in entries else tools,
        tags=_optional(entries, "tags", Node.texts) or (),
        repetitions=_optional(entries, "repetitions", _repetitions) or 1,
    )


def _turn(node: Node) -> CaseTurn:
    entries = node.object(("user", "expect"), required=("user",))
    return CaseTurn(entries["user"].text(), _optional(entries, "expect", _expectation) or Expectation())


def _expectation(node: Node) -> Expectation:
    entries = node.object(tuple(item.name for item in fields(Expectation)))
    return Expectation(
        tool_calls=_optional(entries, "tool_calls", _expected_calls),
        tool_calls_order=_optional(entries, "tool_calls_order", Node.texts),
        tool_calls_count=_optional(entries, "tool_calls_count", _counts),
        tool_outputs=_optional(entries, "tool_outputs", _outputs),
        response=entries["response"].value if "response" in entries else None,
        response_contains=_optional(entries, "response_contains", Node.text),
        behavior=_optional(entries, "behavior", Node.text),
    )


def _expected_calls(node: Node) -> tuple[ToolCall, ...]:
    calls = []
    for item in node.items():
        # a recorded call may be pasted as it is; of it, only the name and the arguments are expected
        entries = item.object(tuple(field.name for field in fields(ToolCall)), required=("name",))
        arguments: Mapping[str, Any] | None = {}
        if "arguments" in entries:
            arguments = entries["arguments"].value
            if arguments is not None:
                entries["arguments"].entries()
                entries["arguments"].convert(check_placeholders)
        calls.append(ToolCall(entries["name"].text(), arguments))
    return tuple(calls)


def _counts(node: Node) -> dict[str, CountCriterion]:
    return {name: entry.convert(count_criterion) for name, entry in node.entries().items()}


def _outputs(node: Node) -> tuple[ExpectedOutput, ...]:
    return tuple(item.convert(expected_output) for item in node.items())


def _id(node: Node) -> str:
    case_id = node.text()
    if not case_id.isprintable() or case_id != case_id.strip():
        node.fail("must be printable, without white space around it: it travels in a header")
    return case_id


def _repetitions(node: Node) -> int:
    return node.whole_number(1, MAX_REPETITIONS)


def _items(entries: Entries, key: str) -> list[Node]:
    return entries[key].items() if key in entries else []


def _optional(entries: Entries, key: str, read: Callable[[Node], T]) -> T | None:
    return read(entries[key]) if key in entries else None
