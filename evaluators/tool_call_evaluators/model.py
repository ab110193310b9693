"""The input and output of evaluators: `EvalCase`, `EvalResult`, `ToolDefinition`."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from functools import partial
from html import escape
from typing import Any, NamedTuple, NoReturn, TypeVar

from a2a_tool_capture.models import ToolCall

from .resources import Price, read_prices
from .suite_fields import (
    FieldError,
    at,
    boolean,
    checked_object,
    choice,
    kind,
    number,
    place,
    text,
    text_or_texts,
    whole_number,
)
from .texts import counted, json_text
from .tool_classes import ToolClasses


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """A tool as described to the model. `parameters` is a JSON Schema; `strict` forbids arguments that are not in
    it."""

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    strict: bool = False

    @classmethod
    def of(cls, name: str, description: str, parameters: Mapping[str, Any]) -> ToolDefinition:
        """From its parts. Raises ValueError for an empty name."""
        return cls(required_name(name), description, parameters)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ToolDefinition:
        """From the form of `to_dict`, or a tool of OpenAI (nested under `function` or flat), MCP (`inputSchema`),
        Anthropic (`input_schema`) or A2E (`input_parameters`, a list or a map by name).

        Raises ValueError if the name is missing.
        """
        tool = data.get("function", data)
        parameters = tool.get("parameters") or tool.get("inputSchema") or tool.get("input_schema") or {}
        if "input_parameters" in tool:
            parameters = _a2e_schema(tool["input_parameters"], "input_parameters")
        return replace(
            cls.of(tool.get("name"), tool.get("description") or "", parameters), strict=bool(tool.get("strict"))
        )

    def to_openai(self) -> dict[str, Any]:
        """A function tool for OpenAI's chat completions; `from_openai` is the inverse.

        OpenAI refuses parameters without `type` or `properties`: where they are absent, they are added.
        """
        function = self.to_dict()
        function["parameters"] = {"type": "object", "properties": {}, **self.parameters}
        if not function.pop("strict"):
            return {"type": "function", "function": function}
        return {"type": "function", "function": {**function, "strict": True}}

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {name: getattr(self, name) for name in self.__slots__} | {"parameters": dict(self.parameters)}


def required_name(name: Any) -> str:
    if not isinstance(name, str) or not name:
        raise ValueError(f"name must be a non-empty string, got {name!r}")
    return name


def _a2e_schema(parameters: Any, where: str) -> dict[str, Any]:
    entries = parameters or []
    if isinstance(entries, Mapping):
        entries = [{"name": name, **_a2e_parameter(entry, where)} for name, entry in entries.items()]
    properties, required = {}, []
    for entry in entries:
        parameter = _a2e_parameter(entry, where)
        name = required_name(parameter.get("name"))
        properties[name] = {key: parameter[key] for key in ("type", "description", "enum") if parameter.get(key)}
        if parameter.get("properties"):
            properties[name] |= _a2e_schema(parameter["properties"], f"{where}.{name}")
        if parameter.get("required"):
            required.append(name)
    return {"type": "object", "properties": properties, "required": required}


def _a2e_parameter(entry: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(entry, Mapping):
        raise ValueError(f"{where}: expected an object, got {kind(entry)}")
    return entry


T = TypeVar("T")

COMPARATORS: Mapping[str, Callable[[int, int], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "=": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
}


UNPROVEN = "unproven"
"""The label of a result that was skipped because nothing shows that a forbidden call would have been seen, the key in
its `details` with the tools, and the reason against a run with such a result."""

CALLS_UNSEEN = "calls_unseen"
"""The label of a result that was skipped because the tool calls are unknown."""

ENDED_AS_EXPECTED = "ended_as_expected"
"""The label of a result that was skipped because the turn failed as its case expects, which expects nothing of calls:
that these are unknown speaks neither for nor against a run."""

OVER_BUDGET = "over_budget"
"""The label of a result that was skipped because the judge budget is spent, and the reason that reports show for such
results. It speaks neither for nor against a run."""

UNREAD_EXPECTATION = "unread_expectation"
"""The reason against a run in which a case expects something that none of its evaluators reads."""

VACUOUS = "vacuous"
"""The key in `details` of a score that is 1 only because there was no tool call to judge, and the reason against a run
without any other result."""

READ_DETAILS = ("judge", VACUOUS, UNPROVEN)
"""The keys in `details` that a verdict reads: they stay where the details of results are left out."""


class Status(StrEnum):
    """How an evaluation ended. Only the first three carry a score."""

    PASSED = "passed"
    FAILED = "failed"
    SCORED = "scored"
    """Measured, without a threshold for the score: neither passed nor failed."""
    SKIPPED = "skipped"
    """Not measured: an input it needs is missing; the reason says which."""
    ERRORED = "errored"
    """Not measured: the evaluator failed; the reason says how."""


_WITHOUT_SCORE = (Status.SKIPPED, Status.ERRORED)


@dataclass(frozen=True, slots=True)
class EvalResult:
    """The result of one evaluator for one turn or conversation.

    `evaluator` is the registry name, or the `id` that a suite gave the evaluator. `score` lies within `scale` and is
    None if nothing was measured (skipped, errored), or only a `label` without a score. `passed` is None then too, and
    without a `threshold`. `label` is set by evaluators that choose among labels. `details` is JSON data, documented on
    each evaluator's page. `status` follows from `passed`. Raises ValueError for a result without score and label that
    is neither skipped nor errored.
    """

    evaluator: str
    score: float | None = None
    passed: bool | None = None
    threshold: float | None = None
    reason: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)
    status: Status = Status.SCORED
    label: str | None = None
    scale: tuple[float, float] = (0.0, 1.0)
    version: str = "1"

    def __post_init__(self) -> None:
        if self.status in _WITHOUT_SCORE:
            if self.score is not None or self.passed is not None:
                raise ValueError(f"{self.evaluator}: a {self.status} result has neither score nor verdict")
        elif self.score is None:
            if self.label is None:
                raise ValueError(f"{self.evaluator}: a result without score and label must be skipped or errored")
            if self.passed is not None:
                raise ValueError(f"{self.evaluator}: a label without a score has no verdict")
        elif self.passed is not None:
            object.__setattr__(self, "status", Status.PASSED if self.passed else Status.FAILED)

    @property
    def measured(self) -> bool:
        """Whether it has a score or a label: it was neither skipped nor errored."""
        return self.status not in _WITHOUT_SCORE

    @property
    def bad(self) -> bool:
        """Whether it failed or errored."""
        return self.status in (Status.FAILED, Status.ERRORED)

    @property
    def decisive(self) -> bool:
        """Whether it says something about the agent: it is measured and not `VACUOUS`."""
        return self.measured and not self.details.get(VACUOUS)

    @classmethod
    def skipped(
        cls,
        evaluator: str,
        reason: str,
        *,
        version: str = "1",
        label: str | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> EvalResult:
        """A skipped result with the reason."""
        return cls(evaluator, reason=reason, status=Status.SKIPPED, version=version, label=label, details=details or {})

    @classmethod
    def unseen(cls, evaluator: str, reason: str, *, version: str = "1") -> EvalResult:
        """A skipped result with the label `calls_unseen`: the tool calls are unknown."""
        return cls.skipped(evaluator, reason, version=version, label=CALLS_UNSEEN)

    @classmethod
    def errored(
        cls, evaluator: str, reason: str, *, version: str = "1", details: Mapping[str, Any] | None = None
    ) -> EvalResult:
        """An errored result with the reason."""
        return cls(evaluator, reason=reason, status=Status.ERRORED, version=version, details=details or {})

    def _repr_html_(self) -> str:
        """A line for a notebook: metric, status, score, label and reason."""
        parts = (self.status, "" if self.score is None else f"{self.score:g}", self.label or "", self.reason)
        return f"<b>{escape(self.evaluator)}</b> {escape(' '.join(filter(None, parts)))}"

    def to_dict(self) -> dict[str, Any]:
        """JSON form with every field; `EvalResult.from_dict` is its inverse."""
        return {
            "evaluator": self.evaluator,
            "score": self.score,
            "passed": self.passed,
            "threshold": self.threshold,
            "reason": self.reason,
            "details": dict(self.details),
            "status": str(self.status),
            "label": self.label,
            "scale": list(self.scale),
            "version": self.version,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> EvalResult:
        """Inverse of `to_dict`. Raises KeyError without an evaluator, ValueError for an unknown status."""
        given = {name: data[name] for name in _STATED if name in data}
        low, high = given.get("scale", (0.0, 1.0))
        status = Status(given.get("status", Status.SCORED))
        return cls(**{**given, "evaluator": data["evaluator"], "scale": (low, high), "status": status})


_STATED = tuple(item.name for item in fields(EvalResult))


class CallsUnseenError(Exception):
    """An evaluator read the tool calls of a case in which they are unknown; the message says why."""


@dataclass(frozen=True, slots=True)
class UnseenCalls:
    """`EvalCase.tool_calls` if there may be more than the `captured` ones: an evaluator that reads them is skipped."""

    captured: tuple[ToolCall, ...]
    why: str

    def _refuse(self, *_: object) -> NoReturn:
        raise CallsUnseenError(self.why)

    __iter__ = __len__ = __bool__ = __getitem__ = __contains__ = _refuse


class ExpectedOutput(NamedTuple):
    """The expected output of a call of the tool `name`."""

    name: str
    output: str


class CountCriterion(NamedTuple):
    """The expected number of calls of a tool; `comparator` is one of `COMPARATORS`."""

    comparator: str
    times: int

    def met_by(self, actual: int) -> bool:
        """Whether a tool may be called `actual` times."""
        return COMPARATORS[self.comparator](actual, self.times)


@dataclass(frozen=True, slots=True)
class ExpectedCall:
    """An expected call of the tool `name`: its arguments, and its result, error and success if they matter.

    Values may be placeholders (see `matching.placeholders`). `arguments` is None if any are accepted, `result`, `error`
    and `succeeded` if nothing is expected of them. A string is compared with the text of a result, any other value with
    the JSON value of the text. `succeeded`: whether `matching.call_failure` finds no failure.
    """

    name: str
    arguments: Mapping[str, Any] | None = field(default_factory=dict)
    result: Any = None
    error: Any = None
    succeeded: bool | None = None

    @property
    def outcome(self) -> dict[str, Any]:
        """What is expected of the `result`, the `error` and `succeeded`."""
        if self.result is None and self.error is None and self.succeeded is None:
            return {}
        return {part: value for part in _OUTCOME if (value := getattr(self, part)) is not None}

    def to_dict(self) -> dict[str, Any]:
        """JSON form; the outcome only if it is expected."""
        return {"name": self.name, "arguments": self.arguments, **self.outcome}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ExpectedCall:
        """Inverse of `to_dict`; `args` is also accepted. Raises FieldError, whose path begins with the key."""
        entries = checked_object(dict(data), EXPECTED_CALL_KEYS, ("name",))
        if {"args", "arguments"} <= entries.keys():
            raise FieldError("arguments and args are the same; give one of them", "args")
        key = "args" if "args" in entries else "arguments"
        arguments = entries.get(key, {})
        if not isinstance(arguments, Mapping | None):
            raise FieldError(f"expected an object, got {kind(arguments)}", key)
        succeeded = entries.get("succeeded")
        if succeeded is not None:
            at("succeeded", boolean, succeeded)
        return cls(at("name", text, entries["name"]), arguments, entries.get("result"), entries.get("error"), succeeded)


_OUTCOME = ("result", "error", "succeeded")
EXPECTED_CALL_KEYS = ("name", "arguments", "args", *_OUTCOME)
"""Keys of an expected call; `args` is another name of `arguments`."""


@dataclass(frozen=True, slots=True)
class ExpectedAgent:
    """An agent that should be asked, directly or by others, `at_least` and `at_most` that many times (0: never)."""

    name: str
    at_least: int = 1
    at_most: int | None = None
    given: tuple[str, ...] = ()
    """Texts that must be in the messages to it, without regard to case."""

    def __str__(self) -> str:
        """`orders`, `orders at least 2 times`, `payroll never`, `orders given ORD-1002`."""
        if self.at_most == 0:
            return f"{self.name} never"
        least = f" at least {counted(self.at_least, 'time')}" if self.at_least != 1 else ""
        most = f" at most {counted(self.at_most, 'time')}" if self.at_most is not None else ""
        return f"{self.name}{least}{most}" + (f" given {', '.join(self.given)}" if self.given else "")

    def to_dict(self) -> dict[str, Any]:
        """JSON form, without what is the default."""
        least = 0 if self.at_most == 0 else 1
        given: dict[str, Any] = {"name": self.name}
        given |= {} if self.at_least == least else {"at_least": self.at_least}
        given |= {} if self.at_most is None else {"at_most": self.at_most}
        return given | ({"given": list(self.given)} if self.given else {})


EXPECTED_AGENT_KEYS = ("name", "at_least", "at_most", "given")


def expected_agent(entry: Any) -> ExpectedAgent:
    """An expected agent from its JSON form, a name or `{name, at_least, at_most, given}`. Raises FieldError."""
    if isinstance(entry, ExpectedAgent):
        return entry
    data = checked_object({"name": entry} if isinstance(entry, str) else entry, EXPECTED_AGENT_KEYS, ("name",))
    at_most = data.get("at_most")
    if at_most is not None:
        at("at_most", TIMES.read, at_most)
    at_least = at("at_least", TIMES.read, data.get("at_least", 0 if at_most == 0 else 1))
    if at_most is not None and at_least > at_most:
        raise FieldError(f"at_least, which is {at_least}, must not be above at_most, which is {at_most}")
    given = at("given", text_or_texts, data.get("given", []))
    return ExpectedAgent(at("name", text, data["name"]), at_least, at_most, given)


TIMES = whole_number(0, 1_000_000)

EXPECT_KEYS: Mapping[str, str] = {
    "expected_agents": "agents",
    "expected_approval": "approval",
    "expected_skills": "skills",
    "expected_tool_calls": "tool_calls",
    "expected_response": "response",
    "expected_behavior": "behavior",
    "expected_world": "state_of_world",
}
"""Keys of `expect` in a suite for fields of EvalCase, if they differ."""


@dataclass(frozen=True, init=False)
class EvalCase:
    """The input of an evaluator, of one turn, or with its `turns` of a whole conversation.

    - What was seen: `user_text`, `tool_calls` (`calls_unseen`), `approvals`, `reasoning_steps`, `response_text`,
      `resources`, `tree`, `world`
    - What was expected: `expected_tool_calls`, `expected_response` and all that begins so, `response_contains`,
      `tool_calls_order`, `tool_calls_count`, `tool_outputs`, `forbidden_calls`, `forbidden_skills`
    - Context: `tools`, `tool_classes`, `user_goal`, `knowledge`, `profile`, `tasks`, `constraints`, `prices`,
      `history`, `turns`, `results`

    Every field is optional, and mappings are accepted in place of models. None means "not given" (evaluators that need
    the field are skipped), which differs from empty: `expected_tool_calls=[]` expects that no tool is called,
    `tools=[]` says that there are no tools.

    The key `args` is accepted for the arguments of a call. In an expected call, missing arguments are `{}`, and null
    means any; of a ToolCall, the name, arguments, result and error are expected. `results` holds the results of other
    evaluators for the same turn or conversation. Creating a case takes microseconds and checks types only. Raises
    ValueError, naming the field and entry, for a value that is neither the model nor a mapping with its required keys.
    """

    tool_calls: tuple[ToolCall, ...]
    """Those that the agent made. If they are unknown, reading them skips the evaluator; see `captured_calls`."""
    calls_unseen: str | None
    """Why the tool calls are unknown; None if `tool_calls` is complete."""
    approvals: tuple[ToolCall, ...] | None
    """Calls that wait for the user's approval; None if they are unknown."""
    expected_approval: ExpectedCall | None
    """The call that should wait; its name may be a pattern or a class. Without arguments, whatever the arguments."""
    expected_tool_calls: tuple[ExpectedCall, ...] | None
    tools: tuple[ToolDefinition, ...] | None
    user_text: str | None
    reasoning_steps: tuple[str, ...] | None
    """The agent's reasoning, for judges of its way to the answer."""
    response_text: str | None
    expected_response: Any
    """The expected answer: a string, or JSON data for `json_similarity`."""
    response_contains: str | None
    """A string that the answer should contain."""
    expected_behavior: str | None
    """A description of what the agent should do, for a judge."""
    user_goal: str | None
    knowledge: str | None
    profile: str | None
    """Who the user is, for a case with a simulated user."""
    tasks: tuple[str, ...] | None
    constraints: tuple[str, ...] | None
    tool_calls_order: tuple[str, ...] | None
    tool_calls_count: Mapping[str, CountCriterion] | None
    tool_outputs: tuple[ExpectedOutput, ...] | None
    resources: Mapping[str, Any] | None
    """What the turn took, as far as it is known (see `resources`)."""
    prices: Mapping[str, Any] | None
    """Of models, `{model: {input, output}}` for a million tokens; None: those of `resources.PRICES`."""
    tool_classes: ToolClasses | None
    """The names and patterns of the tools that read, and of those that write."""
    expected_agents: tuple[ExpectedAgent, ...] | None
    """The agents that this one should have asked, or must not have asked."""
    tree: Any
    """The turn with the turns of other agents that it caused: an `agent_tree.AgentTurn`."""
    world: Mapping[str, Any] | None
    """What a probe saw afterwards, `{"seen": value}`, or why it failed, `{"error": reason}`; None: nothing probed."""
    expected_world: Mapping[str, Any] | None
    """`{"equals": value}`, which may be or contain placeholders."""
    forbidden_calls: tuple[ExpectedCall, ...] | None
    """Calls that must not be made. Names may be patterns and classes; without arguments, whatever the arguments."""
    expected_skills: tuple[str, ...] | None
    """The skills that the agent must load, and no others; empty: none."""
    forbidden_skills: tuple[str, ...] | None
    history: tuple[EvalCase, ...]
    """The turns of the conversation before this one, oldest first; of a conversation, those of its history, which are
    not among its `turns`."""
    turns: tuple[EvalCase, ...] | None
    results: tuple[EvalResult, ...]

    def __init__(
        self,
        *,
        tool_calls: Iterable[ToolCall | Mapping[str, Any]] | None = None,
        calls_unseen: str | None = None,
        approvals: Iterable[ToolCall | Mapping[str, Any]] | None = None,
        expected_approval: ExpectedCall | Mapping[str, Any] | None = None,
        expected_tool_calls: Iterable[ExpectedCall | ToolCall | Mapping[str, Any]] | None = None,
        tools: Iterable[ToolDefinition | Mapping[str, Any]] | None = None,
        user_text: str | None = None,
        reasoning_steps: Iterable[str] | None = None,
        response_text: str | None = None,
        expected_response: Any = None,
        response_contains: str | None = None,
        expected_behavior: str | None = None,
        user_goal: str | None = None,
        knowledge: str | Iterable[str] | None = None,
        profile: str | None = None,
        tasks: Iterable[str] | None = None,
        constraints: str | Iterable[str] | None = None,
        tool_calls_order: Iterable[str] | None = None,
        tool_calls_count: Mapping[str, Sequence[Any]] | None = None,
        tool_outputs: Iterable[ExpectedOutput | Mapping[str, Any]] | None = None,
        resources: Mapping[str, Any] | None = None,
        prices: Mapping[str, Any] | None = None,
        tool_classes: ToolClasses | None = None,
        expected_agents: Iterable[ExpectedAgent | Mapping[str, Any] | str] | None = None,
        tree: Any = None,
        world: Mapping[str, Any] | None = None,
        expected_world: Mapping[str, Any] | None = None,
        forbidden_calls: Iterable[ExpectedCall | Mapping[str, Any]] | None = None,
        expected_skills: Iterable[str] | None = None,
        forbidden_skills: Iterable[str] | None = None,
        history: Iterable[EvalCase | Mapping[str, Any]] | None = None,
        turns: Iterable[EvalCase | Mapping[str, Any]] | None = None,
        results: Iterable[EvalResult | Mapping[str, Any]] | None = None,
    ) -> None:
        constraints = (constraints,) if isinstance(constraints, str) else constraints
        given = tool_calls.captured if isinstance(tool_calls, UnseenCalls) else tool_calls
        captured = _models(given or (), ToolCall, _tool_call, "tool_calls")
        vars(self).update(  # the dataclass is frozen
            tool_calls=captured if calls_unseen is None else UnseenCalls(captured, calls_unseen),
            calls_unseen=calls_unseen,
            approvals=None if approvals is None else _models(approvals, ToolCall, _tool_call, "approvals"),
            expected_approval=None if expected_approval is None else approval_call(expected_approval),
            expected_tool_calls=None if expected_tool_calls is None else expected_calls(expected_tool_calls),
            tools=None if tools is None else _models(tools, ToolDefinition, ToolDefinition.from_dict, "tools"),
            user_text=user_text,
            reasoning_steps=None if reasoning_steps is None else _texts(reasoning_steps, "reasoning_steps"),
            response_text=response_text,
            expected_response=expected_response,
            response_contains=response_contains,
            expected_behavior=expected_behavior,
            user_goal=user_goal,
            knowledge=knowledge if knowledge is None or isinstance(knowledge, str) else "\n\n".join(knowledge),
            profile=profile,
            tasks=None if tasks is None else _texts(tasks, "tasks"),
            constraints=None if constraints is None else _texts(constraints, "constraints"),
            tool_calls_order=None if tool_calls_order is None else _texts(tool_calls_order, "tool_calls_order"),
            tool_calls_count=None if tool_calls_count is None else _counts(tool_calls_count, "tool_calls_count"),
            tool_outputs=None
            if tool_outputs is None
            else _models(tool_outputs, ExpectedOutput, expected_output, "tool_outputs"),
            resources=None if resources is None else _resources(resources),
            prices=None if prices is None else read_prices(prices),
            tool_classes=tool_classes,
            expected_agents=None if expected_agents is None else tuple(map(expected_agent, expected_agents)),
            tree=tree,
            world=world,
            expected_world=expected_world,
            forbidden_calls=None
            if forbidden_calls is None
            else _models(forbidden_calls, ExpectedCall, forbidden_call, "forbidden_calls"),
            expected_skills=None if expected_skills is None else _texts(expected_skills, "expected_skills"),
            forbidden_skills=None if forbidden_skills is None else _texts(forbidden_skills, "forbidden_skills"),
            history=_models(history, EvalCase, EvalCase.from_dict, "history") if history else (),
            turns=None if turns is None else _models(turns, EvalCase, EvalCase.from_dict, "turns"),
            results=_models(results, EvalResult, EvalResult.from_dict, "results") if results else (),
        )

    @property
    def trees(self) -> tuple[Any, ...] | None:
        """The `tree` of a turn, or those of all turns of a conversation; None if one is not known."""
        found = tuple(turn.tree for turn in ((self,) if self.turns is None else self.turns))
        return None if None in found else found

    @property
    def captured_calls(self) -> tuple[ToolCall, ...]:
        """The tool calls that are known, whether or not there were more."""
        calls: Any = self.tool_calls
        return calls.captured if isinstance(calls, UnseenCalls) else calls

    def to_dict(self) -> dict[str, Any]:
        """JSON form: the given fields, and `tool_calls` unless they are unknown and none was captured."""
        given = {item.name: getattr(self, item.name) for item in fields(self)}
        given["tool_calls"] = self.captured_calls if self.calls_unseen is None else self.captured_calls or None
        for name in ("history", "results"):
            given[name] = given[name] or None  # empty and not given are equivalent
        return {name: _json(value) for name, value in given.items() if value is not None}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> EvalCase:
        """Inverse of `to_dict`, without the `tree`, of which JSON has only a part. Raises ValueError for an invalid
        case, unknown fields included."""
        if unknown := data.keys() - {item.name for item in fields(cls)}:
            raise ValueError(f"unknown field {min(unknown)!r}")
        return cls(**{name: value for name, value in data.items() if name != "tree"})


def expected_output(entry: Any) -> ExpectedOutput:
    """A criterion of `tool_call_output` from its JSON form, `{name, output}`; an output that is not a string becomes
    JSON text. Raises ValueError."""
    if isinstance(entry, ExpectedOutput):
        return entry
    entries = checked_object(entry, None, ("name", "output"))
    return ExpectedOutput(at("name", text, entries["name"]), json_text(entries["output"]) or "")


def count_criterion(entry: Any) -> CountCriterion:
    """A criterion of `tool_call_count` from its JSON form, `[comparator, times]`. Raises ValueError."""
    if not isinstance(entry, list | tuple) or len(entry) != 2:
        raise FieldError(f"expected [comparator, times], got {kind(entry)}")
    comparator, times = entry
    if at(1, number, times) % 1:
        raise FieldError(f"expected a whole number, got {kind(times)}", 1)
    return CountCriterion(at(0, partial(choice, accepted=COMPARATORS), comparator), int(times))


def _models(
    entries: Iterable[Any], model: type[T], from_dict: Callable[[Mapping[str, Any]], T], where: str
) -> tuple[T, ...]:
    if type(entries) not in (list, tuple) and isinstance(entries, str | Mapping):  # the first test is the cheaper one
        raise ValueError(f"{where}: expected a list, got {kind(entries)}")
    out = []
    for index, entry in enumerate(entries):
        if isinstance(entry, model):
            out.append(entry)
            continue
        try:
            out.append(from_dict(entry if isinstance(entry, Mapping) else checked_object(entry)))
        except KeyError as missing:
            raise ValueError(f"{where}[{index}]: {missing.args[0]} is missing") from None
        except (ValueError, TypeError) as error:
            raise _placed(error, f"{where}[{index}]") from error
    return tuple(out)


def _placed(error: Exception, where: str) -> ValueError:
    """An error whose message begins with the place of the invalid value."""
    return ValueError(f"{where}{place(getattr(error, 'path', ()))}: {error}")


def expected_calls(entries: Iterable[Any]) -> tuple[ExpectedCall, ...]:
    """Expected calls from models or their JSON forms. Raises ValueError."""
    if not isinstance(entries, str | Mapping):
        entries = [
            ExpectedCall(one.name, one.arguments_given, one.result, one.error) if isinstance(one, ToolCall) else one
            for one in entries
        ]
    return _models(entries, ExpectedCall, ExpectedCall.from_dict, "expected_tool_calls")


def forbidden_call(data: Mapping[str, Any]) -> ExpectedCall:
    """A forbidden call from its JSON form, `{name, arguments}`. Raises FieldError."""
    call = ExpectedCall.from_dict(checked_object(dict(data), ("name", "arguments", "args")))
    return replace(call, arguments=call.arguments or None)


def approval_call(entry: Any) -> ExpectedCall:
    """A call that should wait for approval, from its JSON form `{tool, arguments}`. Raises FieldError."""
    if isinstance(entry, ExpectedCall):
        return entry
    data = checked_object(entry, ("tool", "name", "arguments"))
    return forbidden_call({"name" if key == "tool" else key: value for key, value in data.items()})


def _resources(given: Any) -> Mapping[str, Any]:
    is_object = isinstance(given, (dict, Mapping))  # `dict | Mapping` makes a type each time
    models = given.get("models", {}) if is_object else None
    if not isinstance(models, (dict, Mapping)) or (
        models and not all(isinstance(tokens, Mapping) for tokens in models.values())
    ):
        raise ValueError(f"resources: expected an object, with models as an object of objects, got {kind(given)}")
    return dict(given)


def _counts(entries: Any, where: str) -> dict[str, CountCriterion]:
    try:
        return {name: at(name, count_criterion, entry) for name, entry in checked_object(entries).items()}
    except FieldError as error:
        raise _placed(error, where) from None


def _tool_call(data: Mapping[str, Any]) -> ToolCall:
    if "args" in data and "arguments" not in data:  # the name in UiPath, LangChain and google-adk
        data = {**data, "arguments": data["args"]}
    call = ToolCall.from_dict(data)
    required_name(call.name)
    if call.arguments is not None and not isinstance(call.arguments, Mapping):
        raise ValueError(f"arguments must be an object, got {kind(call.arguments)}")
    if not isinstance(call.metadata, Mapping):
        raise ValueError(f"metadata must be an object, got {kind(call.metadata)}")
    return replace(call, result=json_text(call.result), error=json_text(call.error))


def _json(value: Any) -> Any:
    """Models in their JSON form, tuples as lists; any other value unchanged."""
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if isinstance(value, ExpectedOutput | Price):
        return value._asdict()
    if isinstance(value, Mapping):
        return {key: _json(item) for key, item in value.items()}
    return [_json(item) for item in value] if isinstance(value, list | tuple) else value


def _texts(entries: Iterable[str], where: str) -> tuple[str, ...]:
    if isinstance(entries, str | Mapping) or not isinstance(entries, Iterable):
        got = "one string" if isinstance(entries, str) else kind(entries)
        raise ValueError(f"{where}: expected a list of strings, got {got}")
    texts = tuple(entries)
    for index, item in enumerate(texts):
        if not isinstance(item, str):
            raise ValueError(f"{where}[{index}]: expected a string, got {kind(item)}")
    return texts
