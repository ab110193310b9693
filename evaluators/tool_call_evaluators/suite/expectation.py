"""What a suite expects of a turn or a conversation: the key `expect`, and the forms of its values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Annotated, Any

from a2a_tool_capture.wire import SETTLED_STATES

from ..matching.placeholders import check_placeholders
from ..model import (
    COMPARATORS,
    EXPECT_KEYS,
    EXPECTED_CALL_KEYS,
    CountCriterion,
    ExpectedAgent,
    ExpectedCall,
    ExpectedCalls,
    ExpectedOutput,
    count_criterion,
    expected_agent,
    expected_output,
)
from ..options import did_you_mean
from ..suite_fields import TEXT, TEXTS, FieldError, SuiteFields, Text, Texts, Value, at, checked_object, each, text
from ..visibility import state_name


def _expected_call(value: Any) -> ExpectedCall:
    entries = checked_object(value, EXPECTED_CALL_KEYS, ("name",))
    at("name", text, entries["name"])
    if {"args", "arguments"} <= entries.keys():
        raise FieldError("arguments and args are the same; give one of them", "args")
    for key, entry in entries.items():
        if key in ("args", "arguments") and entry is not None:
            at(key, checked_object, entry)
        at(key, check_placeholders, entry)
    try:
        return ExpectedCall.from_dict(entries)
    except ValueError as error:
        raise FieldError(str(error), "succeeded") from None


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
    entries = checked_object(value, ("name", "args", "arguments"), ("name",))
    return replace(call := _expected_call(entries), arguments=call.arguments or None)


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


_TIMES = {"type": "integer", "minimum": 0}
_EXPECTED_AGENT = Value(
    expected_agent,
    {
        "anyOf": [
            {**TEXT, "description": "The name of an agent that must be asked."},
            {
                "type": "object",
                "properties": {
                    "name": {**TEXT, "description": "As in the settings of the proxy, else its URL."},
                    "at_least": {**_TIMES, "description": "How many times at least. Default: 1; 0 if at_most is 0."},
                    "at_most": {**_TIMES, "description": "How many times at most; 0: never."},
                    "given": {"anyOf": [TEXT, TEXTS], "description": "Texts that the messages to it must contain."},
                },
                "required": ["name"],
                "additionalProperties": False,
            },
        ]
    },
    write=lambda agent: data if len(data := agent.to_dict()) > 1 else agent.name,
)


def _spellings(state: str) -> tuple[str, ...]:
    """The names of a state: that of A2A 0.3 first, which is written, then those of 1.0."""
    word = state.removeprefix("TASK_STATE_")
    return tuple(dict.fromkeys((state_name(state), state, word, word.lower())))


_STATES = {name: state for state in sorted(SETTLED_STATES) for name in _spellings(state)}
_STATES |= {name.replace("cancel", "cancell").replace("CANCEL", "CANCELL"): _STATES[name] for name in [*_STATES]}
"""The accepted names of the states in which a turn can end."""


def _state(value: Any) -> str:
    name = text(value)
    if name not in _STATES:
        accepted = [*map(state_name, sorted(SETTLED_STATES))]
        hint = did_you_mean(name, accepted)
        raise FieldError(f"unknown state {name!r}{hint}; a turn can end as {', '.join(accepted)}")
    return _STATES[name]


def _states(value: Any) -> tuple[str, ...]:
    """One state, or several of which each is right."""
    states = each(_state, value) if isinstance(value, list) else (_state(value),)
    if not states:
        raise FieldError("needs at least one state")
    return tuple(dict.fromkeys(states))


def _written(states: tuple[str, ...]) -> Any:
    names = [*map(state_name, states)]
    return names if len(names) > 1 else names[0]


_STATE: dict[str, Any] = {"enum": list(_STATES)}
_States = Annotated[
    tuple[str, ...],
    Value(_states, {"anyOf": [_STATE, {"type": "array", "items": _STATE, "minItems": 1}]}, write=_written),
]

_CASE_FIELDS = {key: field for field, key in EXPECT_KEYS.items()}
"""Names of EvalCase for keys of `expect`, if they differ."""

_Calls = tuple[Annotated[ExpectedCall, _CALL], ...]
_Forbidden = tuple[Annotated[ExpectedCall, _FORBIDDEN], ...]
_Agents = tuple[Annotated[ExpectedAgent, _EXPECTED_AGENT], ...]
_Counts = Mapping[str, Annotated[CountCriterion, _COUNT]]
_Outputs = tuple[Annotated[ExpectedOutput, _OUTPUT], ...]


def _read_by(*evaluators: str) -> dict[str, Any]:
    """The metadata of a key of `expect`: the evaluators that read it."""
    return {"read_by": evaluators}


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation(SuiteFields):
    """The expected behaviour in a turn or a whole conversation. A missing key expects nothing."""

    tool_calls: _Calls | None = field(
        default=None, metadata=_read_by("tool_trajectory", "tool_correctness", "tool_call_args")
    )
    """Empty: no call at all."""
    tool_calls_order: Texts | None = field(default=None, metadata=_read_by("tool_call_order"))
    """Names of tools in the expected order of calls."""
    tool_calls_count: _Counts | None = field(default=None, metadata=_read_by("tool_call_count"))
    """The expected number of calls of each tool; `*`: of all others together."""
    tool_outputs: _Outputs | None = field(default=None, metadata=_read_by("tool_call_output"))
    """The expected outputs of tools."""
    response: Any = field(default=None, metadata=_read_by("exact_match", "json_similarity", "llm_judge_output"))
    """The expected answer: a string, or JSON data."""
    response_contains: Text | None = field(default=None, metadata=_read_by("contains"))
    """A string that the answer should contain."""
    behavior: Text | None = field(default=None, metadata=_read_by("llm_judge_trajectory"))
    """A description of what the agent should do, for a judge."""
    forbidden_calls: _Forbidden | None = field(default=None, metadata=_read_by("forbidden_calls"))
    """Calls that must not be made: `name` is a name, a pattern or a class; with `arguments`, only calls that have
    these."""
    agents: _Agents | None = field(default=None, metadata=_read_by("agents_asked"))
    """The agents that must be asked, by this agent or by those that it asks, or must not be."""
    state: _States | None = None
    """The state in which the task must end for this message, or several: such as `rejected` for a refusal,
    `input-required` for a question. No evaluator is needed. Default: any but failed, rejected and canceled."""

    @property
    def calls_expected(self) -> bool:
        """Whether only a turn with tool calls can meet it."""
        counts = (self.tool_calls_count or {}).values()
        return bool(
            self.tool_calls
            or self.tool_calls_order
            or self.tool_outputs
            or any(not criterion.met_by(0) for criterion in counts)
        )

    def __post_init__(self) -> None:
        if self.tool_calls is not None:  # keeps for all turns what evaluators find out about them
            object.__setattr__(self, "tool_calls", ExpectedCalls(self.tool_calls))

    def case_fields(self) -> dict[str, Any]:
        """The expectations by their names in EvalCase: what evaluators read."""
        return {name: getattr(self, key) for key, name in _READ.items()}


_READ = {item.name: _CASE_FIELDS.get(item.name, item.name) for item in fields(Expectation) if item.metadata}

CALL_FIELDS = tuple(
    _READ[key] for key in ("tool_calls", "tool_calls_order", "tool_calls_count", "tool_outputs", "forbidden_calls")
)
"""The fields of EvalCase that say which calls are expected."""

NO_EXPECTATION = Expectation()
