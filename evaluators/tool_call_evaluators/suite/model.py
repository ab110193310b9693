"""A suite: the evaluators, and for each case the user messages and the expected behaviour.

Each class declares the keys of one object of a suite file in the order of writing: their types (see `suite_fields`),
and, in the docstrings below them, their descriptions in the JSON Schema. Reader, writer, schema and lint follow.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import date
from functools import partial
from itertools import compress
from pathlib import Path
from typing import Annotated, Any, Self
from urllib.parse import urlsplit

from a2a_tool_capture.models import ToolCall
from a2a_tool_capture.wire import BINDINGS, SETTLED_STATES
from pydantic import AfterValidator, ValidationInfo

from ..agent_tree import AgentTurn, calls_of_all
from ..evaluator import EvaluatorBase, Scope
from ..gates import RUN_GATES, TOLERABLE, Gate, RunGates
from ..judge.cache import JudgeCache
from ..judge.settings import JudgeSettings
from ..judged.base import MeaningEvaluator, check_judges, with_judge
from ..matching.placeholders import asks_judge, check_placeholders
from ..model import (
    COMPARATORS,
    EXPECT_KEYS,
    TIMES,
    CountCriterion,
    EvalCase,
    EvalResult,
    ExpectedAgent,
    ExpectedCall,
    ExpectedOutput,
    ToolDefinition,
    approval_call,
    count_criterion,
    expected_agent,
    expected_output,
    forbidden_call,
)
from ..plugins import load_plugin, plugin_function
from ..registry import evaluator_class, get_evaluator, named_options
from ..resources import Prices, read_prices
from ..simulation.settings import SimulatedUserSettings, UserSettings
from ..simulation.user import Simulation
from ..suite_fields import (
    TEXT,
    TEXTS,
    Boolean,
    FieldError,
    SuiteFields,
    Text,
    Texts,
    Value,
    at,
    check,
    checked_object,
    choice,
    each,
    kind,
    number,
    one_of,
    text,
    text_or_texts,
    texts,
    whole_number,
)
from ..texts import listed
from ..tool_classes import ToolClasses
from ..visibility import state_name
from .messages import MAX_FILE_BYTES, MESSAGE_SCHEMA, UserMessage, read_message
from .yaml_document import read_source


@dataclass(frozen=True, slots=True)
class ReadContext:
    """The directory of the suite's file (None without a file), and whether plug-ins outside it may run. `kept`: it is
    the suite that a run keeps, without what it starts."""

    folder: Path | None = None
    allow_plugins: bool = False
    kept: bool = False


def code_path(file: str, context: ReadContext) -> Path:
    """The path of a Python file that a suite names, relative to the suite. Raises FieldError if it may not run."""
    folder = context.folder or Path()
    path = folder / file
    if not (context.allow_plugins or path.resolve().is_relative_to(folder.resolve())):
        raise FieldError(
            f"{path} is outside the suite's directory; if you trust the suite, allow running it "
            "with --allow-plugins (in Python: allow_plugins=True)"
        )
    return path


def _read_tools(value: Any, context: ReadContext) -> tuple[ToolDefinition, ...]:
    """A list of definitions (our form, OpenAI's, MCP's or A2E's); or the name of a file, relative to the suite, with
    such a list or an object with it under `tools` (as in MCP's `tools/list`).

    Raises FieldError for this value, SuiteError for an error in the file. Without a directory no file is read.
    """
    if not isinstance(value, str):
        return _definitions(value)
    if context.folder is None:
        raise FieldError("expected a list: there is no directory to look for a file in")
    path = context.folder / text(value)
    if not path.is_file():
        raise FieldError(f"no such file: {path}")
    tools = read_source(path)
    if isinstance(tools.value, dict) and "tools" in tools.value:
        tools = tools.entries()["tools"]
    return tools.convert(_definitions)


def _definitions(value: Any) -> tuple[ToolDefinition, ...]:
    return each(lambda item: ToolDefinition.from_dict(checked_object(item)), value)


_PRICE = {"type": "number", "minimum": 0, "description": "Of a million tokens."}
PriceTable = Annotated[
    Prices,
    Value(
        read_prices,
        {
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "properties": {"input": _PRICE, "output": _PRICE},
                "required": ["input", "output"],
                "additionalProperties": False,
            },
        },
        write=lambda prices: {model: price._asdict() for model, price in prices.items()},
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Classes(SuiteFields):
    """Which tools only read, and which write. An entry is a name, or a pattern such as `get_*`."""

    reads: Texts = ()
    """Tools that change nothing."""
    writes: Texts = ()
    """Tools that change something. A pattern here goes before one of `reads`."""

    @property
    def by_name(self) -> ToolClasses:
        return {"reads": self.reads, "writes": self.writes}


def _in_one_class(classes: Classes) -> None:
    if twice := [tool for tool in classes.reads if tool in classes.writes]:
        raise FieldError(f"{twice[0]} is in reads and in writes", "writes")


_LIST = {"type": "array", "items": {"type": "object", "description": "In our form, OpenAI's, MCP's or A2E's."}}

Tools = Annotated[
    tuple[ToolDefinition, ...],
    Value(
        _read_tools,
        {"anyOf": [_LIST, TEXT]},
        write=lambda tools: [tool.to_dict() for tool in tools],
        in_context=True,
    ),
]


_PYTHON, _CHAT = "python:", "openai:"


def _agent(value: Any, context: ReadContext) -> str:
    """A URL, or an agent that does not speak A2A."""
    name = text(value)
    if name.startswith(_PYTHON):
        module = name.removeprefix(_PYTHON)
        file, suffix, behind = module.partition(".py")
        if suffix:
            return f"{_PYTHON}{code_path(file + suffix, context)}{behind}"
        if not context.allow_plugins:
            raise FieldError(f"module {module}: if you trust the suite, allow running it with --allow-plugins")
    else:
        _url(name.removeprefix(_CHAT))
    return name


def _absolute(agent: str) -> str:
    """The inverse of `_agent` for suites that are written elsewhere."""
    file, suffix, behind = agent.removeprefix(_PYTHON).partition(".py")
    is_file = agent.startswith(_PYTHON) and bool(suffix)
    return f"{_PYTHON}{Path(file).resolve()}{suffix}{behind}" if is_file else agent


def _url(value: Any) -> str:
    url = text(value)
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise FieldError(f"expected a URL that begins with http:// or https://, got {kind(value)}")
    if "@" in parts.netloc:  # URLs are displayed and stored
        raise FieldError("expected a URL without user name and password; send them in a header")
    return url


def _seconds(value: Any) -> float:
    if not 0 < number(value) < float("inf"):
        raise FieldError(f"expected seconds above 0, got {kind(value)}")
    return number(value)


_SECONDS = Value(_seconds, {"type": "number", "exclusiveMinimum": 0})
_AGENT = Value(_agent, {"type": "string", "pattern": "^(openai:)?https?://|^python:"}, write=_absolute, in_context=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentDefaults(SuiteFields):
    """How the agent is reached; the command line overrides it. None: not given."""

    url: Annotated[str, _AGENT] | None = None
    """Of an A2A agent. Also `python:FILE.py:CLASS`, or `openai:URL` of a chat-completions API."""
    headers: Mapping[str, Text] = field(default_factory=dict)
    """Sent with every request. `${VARIABLE}` stands for an environment variable."""
    binding: Annotated[str, one_of(*BINDINGS)] | None = None
    """The protocol binding. Default: the first that the agent's card offers."""
    streaming: Boolean | None = None
    """Whether to stream. Default: as the agent's card says."""
    timeout: Annotated[float, _SECONDS] | None = None
    """Timeout of a turn, in seconds."""
    concurrency: Annotated[int, whole_number(1, 1_000)] | None = None
    """Maximum number of concurrent conversations."""
    model: Text | None = None
    """The model of an `openai:` agent."""
    system: Text | None = None
    """Its system prompt."""
    body: Mapping[str, Any] = field(default_factory=dict)
    """Other members of its requests. Their `messages` begin every conversation."""


_FILE_OPTIONS = frozenset({"command", "folder", "judge"})


@dataclass(frozen=True, slots=True)
class EvaluatorSpec:
    """An evaluator as a suite names it. `scope` is set if it differs from the evaluator's own; `judge` if the evaluator
    is of another suite than the one it stands in (see `combined`)."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    scope: Scope | None = None
    judge: JudgeSettings | None = None

    def build(self) -> EvaluatorBase:
        return get_evaluator(self.name, **self.options)


def _read(value: Any, context: ReadContext) -> EvaluatorSpec:
    """One entry of `evaluators`: `name` or `{name: options}`."""
    if isinstance(value, str):
        return _spec(text(value), {}, context)
    named = list(checked_object(value).items())
    if len(named) != 1:
        raise FieldError("expected one evaluator: its name, or {name: options}")
    ((name, options),) = named
    return at(name, lambda given: _spec(name, {} if given is None else checked_object(given), context), options)


def _spec(name: str, given: Mapping[str, Any], context: ReadContext) -> EvaluatorSpec:
    name = evaluator_class(name).name
    options = named_options(name, {option: value for option, value in given.items() if option != "scope"})
    if context.folder is None and (refused := _FILE_OPTIONS & options.keys()):
        raise FieldError(
            "may only be set in a suite file: it decides what is run, or who gets the judge's key", min(refused)
        )
    has_folder = any(item.name == "folder" for item in fields(evaluator_class(name)))
    if context.folder is not None and has_folder and isinstance(options.get("folder", ""), str):
        # relative to the suite; absolute, as the spec may be written into a suite elsewhere
        options["folder"] = str((context.folder / options.get("folder", "")).resolve())
    own = get_evaluator(name, **options).scope
    scope = at("scope", partial(_scope, own), given["scope"]) if "scope" in given else None
    return EvaluatorSpec(name, options, scope)


def _scope(own: Scope, value: Any) -> Scope | None:
    """The requested scope; None if it is the evaluator's own."""
    if choice(value, ("turn", "conversation")) == own:
        return None
    if own == "conversation":
        raise FieldError("this evaluator scores whole conversations, not turns")
    return "conversation"


def _write(spec: EvaluatorSpec) -> Any:
    options = {**spec.options, **({"scope": spec.scope} if spec.scope else {})}
    return {spec.name: options} if options else spec.name


def _unique_metrics(specs: Sequence[EvaluatorSpec]) -> None:
    metrics = set[str]()
    for index, spec in enumerate(specs):
        metric = spec.build().metric
        if metric in RUN_GATES:
            raise FieldError(f"{metric} is the name of a gate on the run; give the evaluator another `id`", index)
        if metric in metrics:
            raise FieldError(f"{metric} is already used; give one of the two its own `id`", index)
        metrics.add(metric)


_SPEC = Value(
    _read,
    {
        "anyOf": [TEXT, {"type": "object", "minProperties": 1, "maxProperties": 1}],
        "description": "The name of an evaluator, or {name: options}.",
    },
    _write,
    in_context=True,
)
Evaluators = Annotated[tuple[Annotated[EvaluatorSpec, _SPEC], ...], check(_unique_metrics)]


def run_plugin(value: Any, context: ReadContext) -> tuple[Path, tuple[str, ...]]:
    """The path of the plug-in file `value`, relative to the suite, and the names of the ArkSim metrics in it.

    Raises ValueError if it fails or may not run."""
    try:
        path = code_path(text(value), context)
    except FieldError as error:
        raise FieldError(f"plug-in {error}") from None
    return path.resolve(), load_plugin(path)


_PLUGIN = Value(lambda value, context: run_plugin(value, context)[0], TEXT, str, in_context=True)
Plugins = tuple[Annotated[Path, _PLUGIN], ...]


def _expected_call(value: Any) -> ExpectedCall:
    for key, entry in checked_object(value).items():
        at(key, check_placeholders, entry)
    return ExpectedCall.from_dict(value)


_ARGUMENTS = {
    "type": ["object", "null"],
    "description": "Expected arguments; null: any. Values may be placeholders.",
}
_CALL = Value(
    _expected_call,
    {
        "type": "object",
        "properties": {
            "name": TEXT,
            "arguments": _ARGUMENTS,
            "args": _ARGUMENTS,
            "result": {"description": "Expected result: a string, or the JSON value of the text; null: any."},
            "error": {"description": "Expected error: a string, or the JSON value of the text; null: any, or none."},
            "succeeded": {
                "type": ["boolean", "null"],
                "description": "Whether the call must succeed, or fail, by the rule of tool_error; null: either.",
            },
        },
        "required": ["name"],
        "additionalProperties": False,
    },
    write=lambda call: {key: value for key, value in call.to_dict().items() if key != "arguments" or value != {}},
)


def _forbidden(value: Any) -> ExpectedCall:
    _expected_call(value)
    return forbidden_call(value)


_TOOL = {**TEXT, "description": "A tool, a pattern such as `delete_*`, or the class `reads` or `writes`."}
_THESE = {"type": ["object", "null"], "description": "Only with these arguments; null: whatever the arguments."}
_FORBIDDEN = Value(
    _forbidden,
    {
        "type": "object",
        "properties": {"name": _TOOL, "arguments": _THESE, "args": _THESE},
        "required": ["name"],
        "additionalProperties": False,
    },
    write=lambda call: {key: value for key, value in call.to_dict().items() if value is not None},
)


def _approval(value: Any) -> ExpectedCall:
    at("arguments", check_placeholders, checked_object(value, ("tool", "arguments"), ("tool",)).get("arguments"))
    return approval_call(value)


_APPROVAL = Value(
    _approval,
    {
        "type": "object",
        "properties": {"tool": _TOOL, "arguments": _THESE},
        "required": ["tool"],
        "additionalProperties": False,
    },
    write=lambda call: {"tool": call.name, **({} if call.arguments is None else {"arguments": call.arguments})},
)
_COUNT = Value(
    count_criterion,
    {
        "type": "array",
        "items": [{"enum": list(COMPARATORS)}, {"type": "integer"}],
        "minItems": 2,
        "additionalItems": False,
    },
    write=list,
)
_OUTPUT = Value(
    expected_output,
    {"type": "object", "required": ["name", "output"]},
    write=lambda output: output._asdict(),
)


_EXPECTED_AGENT = Value(
    expected_agent,
    {
        "anyOf": [
            {**TEXT, "description": "The name of an agent that must be asked."},
            {
                "type": "object",
                "properties": {
                    "name": {**TEXT, "description": "As in the settings of the proxy, else its URL."},
                    "at_least": {
                        **TIMES.schema,
                        "description": "Default: 1; 0 if at_most is 0.",
                    },
                    "at_most": {**TIMES.schema, "description": "How many times at most; 0: never."},
                    "given": {"anyOf": [TEXT, TEXTS], "description": "Texts that the messages to it must contain."},
                },
                "required": ["name"],
                "additionalProperties": False,
            },
        ]
    },
    write=lambda agent: data if len(data := agent.to_dict()) > 1 else agent.name,
)


_STATES = {state_name(state): state for state in sorted(SETTLED_STATES)}
"""The states in which a turn can end, by their names in A2A 0.3; those of 1.0 are accepted, too."""


def _state(value: Any) -> str:
    return value if value in _STATES.values() else _STATES[choice(value, _STATES)]


def _states(value: Any) -> tuple[str, ...]:
    """One state, or several of which each is right."""
    states = each(_state, value) if isinstance(value, list) else (_state(value),)
    if not states:
        raise FieldError("needs at least one state")
    return tuple(dict.fromkeys(states))


def _written(states: tuple[str, ...]) -> Any:
    names = [*map(state_name, states)]
    return names if len(names) > 1 else names[0]


_STATE: dict[str, Any] = {"enum": [*_STATES, *_STATES.values()]}
_States = Annotated[
    tuple[str, ...],
    Value(_states, {"anyOf": [_STATE, {"type": "array", "items": _STATE, "minItems": 1}]}, write=_written),
]


_FUNCTION = re.compile(r"^.+\.py:\w+$", re.ASCII)


def _function(value: Any) -> str:
    if not _FUNCTION.match(text(value)):
        raise FieldError(f"expected FILE.py:FUNCTION, got {kind(value)}")
    return text(value)


_HTTP_URL = Value(_url, {"type": "string", "pattern": "^https?://"})


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpProbe(SuiteFields):
    """A request whose answer is the state: null where the status is 404 or 410, and nothing is known for any other than
    2xx."""

    url: Annotated[str, _HTTP_URL]
    """`{case_id}` and `{context_id}` stand for the ids of the case and of the conversation."""
    method: Text = "GET"
    headers: Mapping[str, Text] = field(default_factory=dict)
    """`${VARIABLE}` stands for an environment variable."""
    body: Any = None
    """A text, or JSON data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldExpectation(SuiteFields):
    """What a probe should see as soon as the agent has answered. Needs one of `http`, `command` and `python`."""

    http: HttpProbe | None = None
    command: Annotated[tuple[str, ...], Value(texts, {**TEXTS, "minItems": 1})] | None = None
    """A program, with its arguments, that writes the state: it reads `{case_id, context_id, user_text, response_text}`
    as JSON."""
    python: Annotated[str, Value(_function, {"type": "string", "pattern": _FUNCTION.pattern})] | None = None
    """`FILE.py:FUNCTION`, which gets such an object, and returns the state."""
    timeout: Annotated[float, _SECONDS] = 10.0
    """In seconds."""
    folder: Text | None = None
    """The directory of `command` and `python`. Default: the suite's."""
    equals: Annotated[Any, check(check_placeholders)]
    """The expected state: a text, or JSON data. It may be or contain placeholders."""

    @property
    def function(self) -> Callable[..., Any]:
        """That of `python`. Raises OptionError."""
        file, _, name = (self.python or "").rpartition(":")
        return plugin_function(Path(self.folder or "", file), name)


def _startable(state: WorldExpectation, info: ValidationInfo) -> WorldExpectation:
    """With the absolute directory of what it starts, which is loaded. Raises FieldError if it may not be started."""
    context: ReadContext = info.context or ReadContext()
    probes = [name for name in ("http", "command", "python") if getattr(state, name)]
    if context.kept:
        return state
    if len(probes) != 1:
        raise FieldError("needs one of http, command and python")
    if context.folder is None:
        raise FieldError("may only be set in a suite file: it decides what is run and asked", *probes)
    if state.http:
        return state
    state = replace(state, folder=str((context.folder / (state.folder or "")).resolve()))
    if state.python:
        at("python", lambda name: code_path(f"{state.folder}/{name.rpartition(':')[0]}", context), state.python)
        at("python", lambda _: state.function, state.python)
    return state


_CASE_FIELDS = {key: field for field, key in EXPECT_KEYS.items()}
"""Names of EvalCase for keys of `expect`, if they differ."""

_Calls = tuple[Annotated[ExpectedCall, _CALL], ...]
_Forbidden = tuple[Annotated[ExpectedCall, _FORBIDDEN], ...]
_Agents = tuple[Annotated[ExpectedAgent, _EXPECTED_AGENT], ...]
_Counts = Mapping[str, Annotated[CountCriterion, _COUNT]]
_Outputs = tuple[Annotated[ExpectedOutput, _OUTPUT], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation(SuiteFields):
    """The expected behaviour in a turn or a whole conversation. A missing key expects nothing."""

    tool_calls: _Calls | None = None
    """Empty: no call at all."""
    tool_calls_order: Texts | None = None
    """Names of tools in the expected order of calls."""
    tool_calls_count: _Counts | None = None
    """The expected number of calls of each tool; `*`: of all others together."""
    tool_outputs: _Outputs | None = None
    """The expected outputs of tools."""
    response: Any = None
    """The expected answer: a string, or JSON data."""
    response_contains: Text | None = None
    """A string that the answer should contain."""
    behavior: Text | None = None
    """A description of what the agent should do, for a judge."""
    forbidden_calls: _Forbidden | None = None
    """Calls that must not be made: `name` is a name, a pattern or a class; with `arguments`, only calls that have
    these."""
    skills: Texts | None = None
    """The skills that the agent must load, and no others. Empty: none."""
    forbidden_skills: Texts | None = None
    """Skills that the agent must not load."""
    agents: _Agents | None = None
    """The agents that must be asked, by this agent or by those that it asks, or must not be."""
    approval: Annotated[ExpectedCall, _APPROVAL] | None = None
    """The call that must wait until the user approves it, and none of its tool may be executed before."""
    state: _States | None = None
    """The state in which the task must end for this message, or several: such as `rejected` for a refusal,
    `input-required` for a question. No evaluator is needed. Default: any but failed, rejected and canceled."""
    state_of_world: Annotated[WorldExpectation, AfterValidator(_startable)] | None = None
    """What the agent should have changed, or left alone, outside of the conversation."""

    @property
    def calls_expected(self) -> bool:
        """Whether only a turn with tool calls can meet it."""
        counts = (self.tool_calls_count or {}).values()
        return bool(
            self.tool_calls
            or self.tool_calls_order
            or self.tool_outputs
            or self.skills
            or any(not criterion.met_by(0) for criterion in counts)
        )

    @property
    def values(self) -> dict[str, Any]:
        """What evaluators read, by its keys."""
        world = self.state_of_world and {"equals": self.state_of_world.equals}
        return {key: getattr(self, key) for key in _READ} | {"state_of_world": world}

    def case_fields(self) -> dict[str, Any]:
        """The expectations by their names in EvalCase: what evaluators read."""
        return {_READ[key]: value for key, value in self.values.items()}

    @property
    def kept(self) -> Expectation:
        """Without what it starts."""
        world = self.state_of_world and WorldExpectation(equals=self.state_of_world.equals)
        return replace(self, state_of_world=world)


_READ = {item.name: _CASE_FIELDS.get(item.name, item.name) for item in fields(Expectation) if item.name != "state"}

_OF_CALLS = ("tool_calls", "tool_calls_order", "tool_calls_count", "tool_outputs", "forbidden_calls")
CALL_FIELDS = tuple(_READ[key] for key in (*_OF_CALLS, "skills", "forbidden_skills"))
"""The fields of EvalCase that say which calls are expected."""

NO_EXPECTATION = Expectation()


MAX_REPETITIONS = 1_000
_AGENT_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?", re.ASCII)
_OF_SUITE = ("tool_classes", "prices")
"""Fields that a case has from its suite alone."""


def _case_id(value: Any) -> str:
    case_id = text(value)
    if not case_id.isprintable() or case_id != case_id.strip():
        raise FieldError("must be printable, without surrounding white space: it is sent in a header")
    return case_id


def _agent_name(value: Any) -> str:
    name = text(value)
    if not _AGENT_NAME.fullmatch(name):
        raise FieldError("must be a name of at most 63 letters, digits and -, as in the settings of the proxy")
    return name


def _at_least_one_turn(turns: Sequence[Any]) -> None:
    if not turns:
        raise FieldError("needs at least one turn")


def _of_turns(expect: Expectation) -> None:
    for key, what in (("state", "ends in a state"), ("approval", "asks for approval")):
        if getattr(expect, key) is not None:
            raise FieldError(f"a turn {what}: write it in `expect` of the turn", key)


def _check_agents(case: Mapping[str, Any]) -> None:
    """Raise FieldError where, in a case as a document has it, turns name agents, but one of its messages has none."""
    turns = case.get("turns")
    turns = [turn for turn in turns if isinstance(turn, dict)] if isinstance(turns, list) else []
    named = ["agent" in turn for turn in turns]
    if not any(named):
        return
    if "simulate" in case and "agent" not in case:
        raise FieldError("agent is missing: name the one with which the simulated user continues after the turns")
    if "agent" not in case and not all(named):
        problem = "agent is missing, which another turn names: give each turn its own, or the case that of the others"
        raise FieldError(problem, "turns", named.index(False))


def _unique_ids(cases: Sequence[Case]) -> None:
    seen = set[str]()
    for index, case in enumerate(cases):
        if case.id in seen:
            raise FieldError(f"{case.id!r} is already the id of an earlier case", index, "id")
        seen.add(case.id)


def _message(value: Any, context: ReadContext) -> str:
    """Files that are sent are those in the folder of the suite, unless it is trusted."""

    def path_of(name: str) -> str:
        if context.kept:
            return name
        if context.folder is None:
            raise FieldError("there is no directory to look for a file in")
        path = code_path(name, context).resolve()
        if not path.is_file():
            raise FieldError(f"no such file: {path}")
        if path.stat().st_size > MAX_FILE_BYTES:
            raise FieldError(f"{path} has more than {MAX_FILE_BYTES:,} bytes")
        return str(path)

    return read_message(value, path_of)


_USER = Value(
    _message,
    MESSAGE_SCHEMA,
    write=lambda said: said.content if isinstance(said, UserMessage) and said.content else str(said),
    in_context=True,
)


@dataclass(frozen=True, slots=True)
class CaseTurn(SuiteFields):
    """One user message of a case, and the expected behaviour of the agent."""

    user: Annotated[str, _USER]
    """What the user says: a text, parts of a message, or the answer to a question of the agent."""
    expect: Expectation = NO_EXPECTATION
    agent: Annotated[str, Value(_agent_name, TEXT)] | None = None
    """Which of several agents behind a proxy this message is for. Default: that of the case."""


MAX_GIVEN = 100
"""The most turns of a history."""


@dataclass(frozen=True, slots=True)
class GivenTurn(SuiteFields):
    """A user message before the first turn of a case. A string alone is `user`."""

    user: Annotated[str, _USER]
    """What the user says: a text, parts of a message, or the answer to a question of the agent."""
    answer: Text | None = None
    """What the agent has answered, for an `openai:` agent alone: then the message is not sent, and the model is given
    both. All messages of a history have one, or none has."""
    agent: Annotated[str, Value(_agent_name, TEXT)] | None = None
    """Which of several agents behind a proxy this message is for. Default: that of the first turn."""
    short = "user"


def _of_a_history(turns: Sequence[GivenTurn]) -> None:
    if not 1 <= len(turns) <= MAX_GIVEN:
        raise FieldError(f"needs 1 to {MAX_GIVEN} turns, got {len(turns)}")
    if len({turn.answer is None for turn in turns}) > 1:
        raise FieldError("answer is missing in some: give one to all messages, or to none")


@dataclass(frozen=True, slots=True, kw_only=True)
class History(SuiteFields):
    """What goes before the first turn of a case, and is not scored: one of `turns`, `run`, `simulate` and `context_id`.
    A list alone is `turns`."""

    turns: Annotated[tuple[GivenTurn, ...], check(_of_a_history)] = ()
    """Messages that are sent."""
    run: Text | None = None
    """A stored run: the messages of its first conversation about `case` are sent again."""
    case: Annotated[str, Value(_case_id, TEXT)] | None = None
    """The case in `run`. Default: this one."""
    simulate: Simulation | None = None
    """A simulated user speaks."""
    context_id: Text | None = None
    """A conversation that the agent keeps, by its `contextId`: the turns continue it. Nothing is sent before them."""
    short = "turns"

    @classmethod
    def long_form(cls, value: Any) -> Any:
        entries = cls.entries(value if isinstance(value, dict) else {"turns": value})
        kinds = [name for name in ("turns", "run", "simulate", "context_id") if name in entries]
        if len(kinds) != 1 or ("case" in entries and kinds != ["run"]):
            raise FieldError("give a list of messages, or one of run (with case), simulate and context_id")
        if "conversations" in (entries.get("simulate") or ()):
            raise FieldError(
                "is for the case itself: each of its conversations has a history", "simulate", "conversations"
            )
        return entries


NO_HISTORY = History()


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeat(SuiteFields):
    """The attempts at a case. A number alone is `times`."""

    times: Annotated[int, whole_number(1, MAX_REPETITIONS)]
    """How many attempts a run makes: each is a conversation."""
    must_pass: Annotated[int, whole_number(1, MAX_REPETITIONS)] | None = field(default=None, metadata={"key": "pass"})
    """How many of them must pass; a run ends the attempts at a case once this is decided. Default: all."""
    short = "times"


def _possible(repeat: Repeat) -> None:
    if repeat.must_pass is not None and repeat.must_pass > repeat.times:
        raise FieldError(f"must not be above times, which is {repeat.times}; got {repeat.must_pass}", "pass")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case(SuiteFields):
    """An expected behaviour in a conversation of scripted turns, of a simulated user, or of the one after the other."""

    id: Annotated[str, Value(_case_id, TEXT)]
    """Unique in the suite."""
    tags: Texts = ()
    """Words to select cases by: `--tag`."""
    agent: Annotated[str, Value(_agent_name, TEXT)] | None = None
    """Which of several agents behind a proxy the case is for: `run` sends its messages to `/agents/NAME` below the URL
    of the agent. Turns may name others."""
    repeat: Annotated[Repeat, check(_possible)] | None = None
    """The attempts at the case: replaces the suite's."""
    user_goal: Text | None = None
    """What the user wants to reach, for judged evaluators."""
    knowledge: Text | None = None
    """What the agent's answers must be faithful to."""
    tasks: Texts | None = None
    """What the agent should complete."""
    constraints: Annotated[tuple[str, ...], Value(text_or_texts, {"anyOf": [TEXT, TEXTS]})] | None = None
    """Conditions on the completion of the tasks."""
    tools: Tools | None = None
    """Replaces the suite's: a list, or the name of a file with such a list."""
    depth: Annotated[str, one_of("own", "all")] | None = None
    """Replaces the suite's."""
    evaluators: Evaluators | None = None
    """Replaces the suite's."""
    given: History = NO_HISTORY
    """What goes before the turns, and is not scored: messages, written, recorded or of a simulated user, or a
    conversation that the agent keeps."""
    turns: Annotated[tuple[CaseTurn, ...], check(_at_least_one_turn)] = ()
    """Scripted messages. Required without `simulate`."""
    simulate: Simulation | None = None
    """A simulated user, who takes over after the scripted turns."""
    expect: Annotated[Expectation, check(_of_turns)] = NO_EXPECTATION
    """Expectations of all turns together; needs an evaluator with `scope: conversation`."""
    tool_classes: ToolClasses | None = field(default=None, metadata={"key": ""})
    """The suite's."""
    prices: Prices | None = field(default=None, metadata={"key": ""})
    """The suite's."""

    @classmethod
    def long_form(cls, value: Any) -> Any:
        entries = cls.entries(value)
        if "turns" not in entries and "simulate" not in entries:
            raise FieldError("turns is missing; give turns, simulate, or both")
        if "repeat" in entries and "conversations" in (entries.get("simulate") or ()):
            raise FieldError("repeat and simulate.conversations are the same number: give one", "repeat")
        _check_agents(entries)
        return entries

    @classmethod
    def schema(cls, declared: dict[str, Any]) -> dict[str, Any]:
        properties = {key: value for key, value in declared["properties"].items() if key not in _OF_SUITE}
        properties["turns"]["minItems"] = 1
        return declared | {"properties": properties, "anyOf": [{"required": ["turns"]}, {"required": ["simulate"]}]}

    @property
    def expectations(self) -> tuple[Expectation, ...]:
        """Of the whole conversation, then of each turn."""
        return (self.expect, *(turn.expect for turn in self.turns))

    @property
    def agents(self) -> tuple[str | None, ...]:
        """The agents of its turns, each once, in the order of the first message to each. None: no name is given."""
        turns = len(self.turns) + (self.simulate is not None)
        given = (turn.agent or self.agent_at(0) for turn in self.given.turns)
        return tuple(dict.fromkeys((*given, *(self.agent_at(index) for index in range(turns or 1)))))

    def is_given(self, turn: Mapping[str, Any]) -> bool:
        """Whether a turn (JSON) is of the history: `run` has sent it as such; or traffic has a message of `given`.

        The messages of a recorded or simulated history are not known here: in traffic, that is any message of no turn.
        """
        if turn.get("given") or turn.get("attempt") or self.given == NO_HISTORY or self.given.context_id:
            return bool(turn.get("given"))
        text = turn["user_text"].strip()
        if any(said.user.strip() == text for said in self.turns):
            return False
        written = [said.user.strip() for said in self.given.turns]
        return text in written if written or self.simulate else True

    def is_whole_with(self, turn: Mapping[str, Any]) -> bool:
        """Whether a turn (JSON) is one of a conversation with the several agents of this case, as `run` holds them."""
        return bool(turn.get("attempt")) and len(self.agents) > 1 and turn.get("agent_name") in self.agents

    def agent_at(self, turn_index: int) -> str | None:
        """The name of the agent of the turn `turn_index` (from 0), planned or not."""
        own = self.turns[turn_index].agent if turn_index < len(self.turns) else None
        return own or self.agent

    def expect_at(self, turn_index: int) -> Expectation:
        """What is expected in the turn `turn_index` (from 0), planned or not."""
        return self.turns[turn_index].expect if turn_index < len(self.turns) else NO_EXPECTATION

    def with_expectations(self, convert: Callable[[Expectation], Expectation]) -> Case:
        """This case with each expectation converted."""
        turns = tuple(replace(turn, expect=convert(turn.expect)) for turn in self.turns)
        return replace(self, turns=turns, expect=convert(self.expect))

    @property
    def input(self) -> str:
        """The first scripted message; empty without one."""
        return self.turns[0].user if self.turns else ""

    @property
    def conversations(self) -> int:
        """The number of conversations to hold, at most."""
        return (self.simulate and self.simulate.conversations) or (self.repeat.times if self.repeat else 1)

    @property
    def must_pass(self) -> int | None:
        """How many of these must pass; None: all."""
        return self.repeat.must_pass if self.repeat else None

    def completed(self, suite: Suite) -> Case:
        """This case with the tools and the attempts of its suite, where it has none of its own."""
        own = self.repeat is not None or (self.simulate is not None and self.simulate.conversations is not None)
        return replace(
            self,
            tools=suite.tools if self.tools is None else self.tools,
            depth=self.depth or suite.depth,
            repeat=self.repeat if own else suite.repeat,
            tool_classes=suite.tool_classes.by_name if suite.tool_classes else None,
            prices=suite.prices,
        )

    def without(self, suite: Suite) -> Case:
        """The inverse of `completed`."""
        return replace(
            self,
            tools=None if self.tools == suite.tools else self.tools,
            depth=None if self.depth == suite.depth else self.depth,
            repeat=None if self.repeat == suite.repeat else self.repeat,
            tool_classes=None,
            prices=None,
        )

    def held(self, times: int) -> Case:
        """This case with that number of conversations."""
        simulate = self.simulate and replace(self.simulate, conversations=None)
        return replace(self, repeat=Repeat(times=times), simulate=simulate)

    def eval_case(
        self,
        turn_index: int,
        *,
        tool_calls: Iterable[ToolCall | Mapping[str, Any]] = (),
        calls_unseen: str | None = None,
        approvals: Iterable[ToolCall | Mapping[str, Any]] | None = None,
        response_text: str | None = None,
        user_text: str | None = None,
        history: Iterable[EvalCase] = (),
        resources: Mapping[str, Any] | None = None,
        tree: AgentTurn | None = None,
        world: Mapping[str, Any] | None = None,
    ) -> EvalCase:
        """The case of the turn `turn_index` (from 0), given what the agent did.

        A turn beyond the last has no expectations: a conversation may be longer than planned. `user_text` is the actual
        message, if it differs from the case's; `history` the turns before; `tree` the turn with those that it caused,
        whose tool calls count with `depth: all`; `world` what a probe saw.
        """
        if self.depth == "all":
            tool_calls, calls_unseen = calls_of_all(tool_calls, calls_unseen, tree)
        planned = self.turns[turn_index] if turn_index < len(self.turns) else None
        return EvalCase(
            tool_calls=tool_calls,
            calls_unseen=calls_unseen,
            approvals=approvals,
            user_text=user_text if user_text is not None or planned is None else planned.user,
            response_text=response_text,
            history=history,
            resources=resources,
            tree=tree,
            world=world,
            **self.expect_at(turn_index).case_fields(),
            **self._case_fields(),
        )

    def conversation_case(
        self,
        turns: Iterable[EvalCase],
        results: Iterable[EvalResult] = (),
        history: Iterable[EvalCase] = (),
        world: Mapping[str, Any] | None = None,
    ) -> EvalCase:
        """The case of the whole conversation, given its turns with their results, what was `given` before them, and
        what a probe saw at its end.

        Its tool calls are those of all turns, and unknown if those of any turn are. Its response is the last one.
        """
        turns = tuple(turns)
        return EvalCase(
            tool_calls=[call for turn in turns for call in turn.captured_calls],
            calls_unseen=next((turn.calls_unseen for turn in turns if turn.calls_unseen is not None), None),
            response_text=turns[-1].response_text if turns else None,
            turns=turns,
            history=history,
            results=results,
            world=world,
            **self.expect.case_fields(),
            **self._case_fields(),
        )

    def _case_fields(self) -> dict[str, Any]:
        """The fields of the case itself for evaluators; those of its `simulate` block where it has none."""
        own = {
            name: getattr(self, name)
            for name in ("user_goal", "knowledge", "tasks", "constraints", "tools", *_OF_SUITE)
        }
        simulated = self.simulate.case_fields() if self.simulate else {}
        return own | {name: value for name, value in simulated.items() if own.get(name) is None}

    def turn_index(self, user_text: str, earlier: int, agent_name: str | None = None) -> int:
        """The index of a turn, from 0: the first later turn with exactly this text, else the next.

        `earlier` is the number of previous turns of the case in the conversation. Of a case with turns of several
        agents, it is one of the agent `agent_name`, if that is known.
        """
        if self.simulate and earlier >= len(self.turns):
            return earlier
        any_agent = agent_name is None or len(self.agents) == 1
        own = [index for index in range(len(self.turns)) if any_agent or self.agent_at(index) == agent_name]
        text = user_text.strip()
        said = [index for index in own if self.turns[index].user.strip() == text]
        later = [index for index in own if index >= earlier]
        beyond = max(earlier, len(self.turns))
        return next((index for index in said if index >= earlier), (said or later or [beyond])[0])


_JUDGE = Value(
    lambda value: JudgeSettings.from_mapping(checked_object(value)),
    write=lambda judge: {
        item.name: value for item in fields(judge) if (value := getattr(judge, item.name)) != item.default
    },
)
_TOLERATED = Value(
    lambda value: frozenset(each(lambda code: choice(code, TOLERABLE), value)),
    {"type": "array", "items": {"enum": list(TOLERABLE)}},
    write=sorted,
)


def _day(value: Any) -> date:
    try:
        return date.fromisoformat(text(value))
    except ValueError:
        raise FieldError(f"expected a date, such as 2026-12-31, got {kind(value)}") from None


_DAY = Value(_day, {"type": "string", "format": "date"}, write=date.isoformat)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantine(SuiteFields):
    """A case that does not count for a while: it is run, and every report shows it."""

    reason: Text
    """Why, for people."""
    until: Annotated[date, _DAY]
    """The last day, in UTC. A later run of the case fails until it is repaired, or the day changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite(SuiteFields):
    """A suite file. Without `gates` the thresholds of the evaluators decide whether a run passes."""

    name: Text = field(metadata={"key": "suite"})
    """The suite's name."""
    agent: AgentDefaults = field(default_factory=AgentDefaults)
    """How the agent is reached; the command line overrides it."""
    plugins: Plugins = ()
    """Python files with evaluators, relative to this file. They are executed."""
    evaluators: Evaluators = ()
    """The evaluators, in this order."""
    judge: Annotated[JudgeSettings, _JUDGE] = field(default_factory=JudgeSettings)
    """The model that judged evaluators ask."""
    simulated_user: UserSettings = field(default_factory=SimulatedUserSettings)
    """The model that plays the users of cases with `simulate`. What is not given is that of the judge."""
    tools: Tools | None = None
    """The tools the agent has, or the name of a file with such a list."""
    tool_classes: Annotated[Classes, check(_in_one_class)] | None = None
    """Which tools only read, and which write: evaluators may ignore the calls of a class."""
    depth: Annotated[str, one_of("own", "all")] | None = None
    """Whose tool calls count: those of the agent (own, the default), or also those of the agents that it asks (all)."""
    prices: PriceTable | None = None
    """Prices of models for `budget`. They replace the built-in ones."""
    repeat: Annotated[Repeat, check(_possible)] | None = None
    """The attempts at each case."""
    gates: Mapping[str, Gate] = field(default_factory=dict)
    """Limits that metrics and the run must reach."""
    run_gates: RunGates = field(default_factory=RunGates, metadata={"key": ""})
    tolerate: Annotated[frozenset[str], _TOLERATED] = frozenset()
    """Reasons that do not fail the run."""
    quarantine: Mapping[str, Quarantine] = field(default_factory=dict)
    """Cases that do not count for a while, by their ids."""
    cases: Annotated[tuple[Case, ...], check(_unique_ids)] = ()
    """The user messages and the expected behaviour."""

    @classmethod
    def long_form(cls, value: Any) -> Any:
        """Separates the gates on the run from those on metrics, which share a key in a file."""
        entries = cls.entries(value)
        if not isinstance(gates := entries.get("gates"), dict):
            return entries
        on_run = {name: gate for name, gate in gates.items() if name in RUN_GATES}
        on_metrics = {name: gate for name, gate in gates.items() if name not in RUN_GATES}
        return entries | {"gates": on_metrics, "run_gates": on_run}

    @classmethod
    def short_form(cls, entries: dict[str, Any]) -> Any:
        gates = entries.get("gates", {}) | entries.pop("run_gates", {})
        return entries | ({"gates": gates} if gates else {})

    def build_evaluators(
        self, scope: Scope | None = None, case: Case | None = None, *, judge_cache: JudgeCache | None = None
    ) -> list[EvaluatorBase]:
        """New evaluators, in the order of the file: those of `case` where it has its own, else the suite's.

        With a `scope`, only those that score turns, or conversations. Judged evaluators get the judge configured by
        the suite and the environment, which uses `judge_cache`.
        """
        specs = self.evaluators if case is None or case.evaluators is None else case.evaluators
        built = [(spec.build(), spec) for spec in specs]
        chosen = (pair for pair in built if scope in (None, pair[1].scope or pair[0].scope))
        return [with_judge([item], spec.judge or self.judge, cache=judge_cache)[0] for item, spec in chosen]

    def check_judges(self, environ: Mapping[str, str] = os.environ) -> None:
        """Raise JudgeNotConfiguredError if an evaluator needs a judge without a model or key. Nothing is sent."""
        check_judges(filter(self.needs_judge, [spec.build() for spec in self.specs]), self.judge, environ)

    def needs_judge(self, evaluator: EvaluatorBase) -> bool:
        """Whether the evaluator cannot score the cases of the suite without a judge."""
        if not isinstance(evaluator, MeaningEvaluator):
            return evaluator.needs_judge
        expected = [expect.case_fields() for case in self.cases for expect in case.expectations]
        return asks_judge([vars(evaluator), *expected])

    def with_fresh_judge(self) -> Suite:
        """This suite without a judge cache."""
        return replace(self, judge=replace(self.judge, cache=False))

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of all results of the suite, including those of its cases' own evaluators."""
        return tuple(dict.fromkeys(spec.build().metric for spec in self.specs))

    @property
    def specs(self) -> tuple[EvaluatorSpec, ...]:
        """All evaluators of the suite, including those of its cases."""
        return (*self.evaluators, *(spec for case in self.cases for spec in case.evaluators or ()))

    def case(self, case_id: str) -> Case | None:
        return next((case for case in self.cases if case.id == case_id), None)

    def of_agents(self, names: Collection[str], came: Collection[str | None] = ()) -> Self:
        """The suite by which turns of these agents are judged: without the cases that name another one.

        A case that names several, which no conversation of traffic with one agent completes, counts where it `came`.
        """
        own = [(None,), *((name,) for name in names)]
        counts = [case.agents in own or (len(case.agents) > 1 and case.id in came) for case in self.cases]
        return replace(self, cases=tuple(compress(self.cases, counts)))


_NAMED = 3


class CombinationError(ValueError):
    """Suites that cannot be in one run; the message names both."""

    exit_code = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class CombinedSuite(Suite):
    """Several suites as one; `parts` has them as they are, with their gates."""

    parts: tuple[Suite, ...] = ()

    def of_agents(self, names: Collection[str], came: Collection[str | None] = ()) -> Self:
        """See `Suite`."""
        own = super(CombinedSuite, self).of_agents(names, came)  # `slots` make another class: it has to be named
        return replace(own, parts=tuple(part.of_agents(names, came) for part in self.parts))


def combined(suites: Sequence[Suite], files: Sequence[str] = ()) -> Suite:
    """The suite that scores the cases of all: a single one as it is.

    It has no gates, and no settings of an agent or a simulated user: those of each suite are for its own cases. Raises
    CombinationError, which names `files` (default: the suites), for a case or a name of a suite that occurs twice.
    """
    if len(suites) == 1:
        return suites[0]
    places = files or [suite.name for suite in suites]
    _unique("the suite", [(suite.name, place) for suite, place in zip(suites, places, strict=True)])
    _unique("the case", [(case.id, place) for suite, place in zip(suites, places, strict=True) for case in suite.cases])
    plugins = dict.fromkeys(path for suite in suites for path in suite.plugins)
    cases = tuple(_own(case, suite) for suite in suites for case in suite.cases)
    name = listed([suite.name for suite in suites], _NAMED)
    return CombinedSuite(name=name, plugins=tuple(plugins), cases=cases, parts=tuple(suites))


def _own(case: Case, suite: Suite) -> Case:
    specs = suite.evaluators if case.evaluators is None else case.evaluators
    return replace(case, evaluators=tuple(replace(spec, judge=suite.judge) for spec in specs))


def _unique(kind: str, names: Sequence[tuple[str, str]]) -> None:
    seen: dict[str, str] = {}
    for name, place in names:
        if name in seen:
            raise CombinationError(f"{kind} {name!r} is in {seen[name]} and in {place}; rename one of them")
        seen[name] = place
