"""Cases from the messages or spans of a program, without a proxy: `AgentTrace`.

Imports no library of models or agents: their objects are read like their JSON forms, and unknown entries are skipped.
Input that is not a list raises ValueError: a trace without turns would look like an agent that did nothing.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

from a2a_tool_capture.canonical import with_whole_numbers
from a2a_tool_capture.models import ToolCall, calls_unknown_by
from a2a_tool_capture.spans.content import parse
from a2a_tool_capture.spans.conventions import shows_genai_work
from a2a_tool_capture.spans.in_memory import log_of, span_of
from a2a_tool_capture.spans.model import LogEvent, Span
from a2a_tool_capture.spans.tool_calls import tool_calls

from .model import EvalCase, ToolDefinition
from .texts import json_text, listed


@dataclass(frozen=True, slots=True)
class TraceEvent:
    """A message, reasoning step, call or result.

    Of a result, `id` and `name` identify the call; `failed`: the result is an error."""

    kind: Literal["user", "agent", "reasoning", "call", "result"]
    text: str = ""
    call: ToolCall | None = None
    id: str = ""
    name: str = ""
    failed: bool = False


def openai_events(messages: Iterable[Any]) -> Iterator[TraceEvent]:
    """From chat-completion messages and items of the Responses API. Raises ValueError if the input is not a list."""
    for message in map(plain, required_list(_held(messages))):
        kind = message.get("type")
        if kind == "function_call":
            yield _call(message.get("name"), message.get("arguments"), message.get("call_id"))
        elif kind == "function_call_output":
            yield TraceEvent("result", _text(message.get("output")), id=_id(message.get("call_id")))
        elif kind == "reasoning":
            yield TraceEvent("reasoning", _text(message.get("summary") or message.get("content")))
        elif (role := _OPENAI_ROLES.get(str(message.get("role")))) is not None:
            if role == "agent":
                yield TraceEvent("reasoning", _text(message.get("reasoning_content")))
            yield _event(role, message)
            if role == "agent":
                for call in map(plain, _listed(message.get("tool_calls"))):
                    function = plain(call.get("function") or call.get("custom"))
                    yield _call(function.get("name"), function.get("arguments", function.get("input")), call.get("id"))
                if function := plain(message.get("function_call")):  # the predecessor of tool calls
                    yield _call(function.get("name"), function.get("arguments"), None)


def langchain_events(messages: Iterable[Any]) -> Iterator[TraceEvent]:
    """From LangChain messages, in any of their JSON forms. Raises ValueError if the input is not a list."""
    for message in map(_langchain_message, map(_of_pair, required_list(_held(messages)))):
        role = _LANGCHAIN_ROLES.get(str(message.get("type") or message.get("role") or ""))
        if role is None:
            continue
        yield _event(role, message, failed=message.get("status") == "error")
        if role == "agent":
            for call in map(plain, _listed(message.get("tool_calls"))):
                yield _call(call.get("name"), call.get("args"), call.get("id"))
            for call in map(plain, _listed(message.get("invalid_tool_calls"))):
                yield _call(call.get("name"), None, call.get("id"))
                problem, name = str(call.get("error") or "invalid call"), str(call.get("name") or "")
                yield TraceEvent("result", problem, id=_id(call.get("id")), name=name, failed=True)


def required_list(entries: Any, what: str = "messages") -> list[Any]:
    """`entries` as a list. Raises ValueError, which names `what` is expected, for a string, a mapping or a single
    object."""
    if isinstance(entries, str | bytes | Mapping) or not isinstance(entries, Iterable):
        raise ValueError(f"{what}: expected a list, got {type(entries).__name__}")
    return list(entries)


def _held(messages: Any) -> Any:
    """The messages inside a request body or the state of a graph."""
    return messages["messages"] if isinstance(messages, Mapping) and "messages" in messages else messages


def _of_pair(message: Any) -> Any:
    """The full form of LangChain's short message `(role, text)`."""
    if isinstance(message, tuple) and len(message) == 2:
        return {"role": message[0], "content": message[1]}
    return message


def plain(value: Any) -> Mapping[str, Any]:
    """An object in its JSON form: a mapping as it is, a pydantic model dumped, another object's attributes.

    Empty for any other value.
    """
    if isinstance(value, Mapping):
        return value
    if callable(dump := getattr(value, "model_dump", None)):
        dumped = dump()
        return dumped if isinstance(dumped, Mapping) else {}
    return getattr(value, "__dict__", {})


def arguments_of(value: Any) -> Mapping[str, Any] | None:
    """Arguments given as an object, its JSON text or its Python repr; None (unknown) for anything else."""
    if isinstance(value, str):
        value = parse(value or "{}")
    return with_whole_numbers(value) if isinstance(value, Mapping) else None


_Role: TypeAlias = Literal["user", "agent", "result"]

_OPENAI_ROLES: Mapping[str, _Role] = {"user": "user", "assistant": "agent", "tool": "result", "function": "result"}
_LANGCHAIN_ROLES: Mapping[str, _Role] = {
    **dict.fromkeys(("human", "user", "HumanMessage"), "user"),
    **dict.fromkeys(("ai", "assistant", "AIMessage", "AIMessageChunk"), "agent"),
    **dict.fromkeys(("tool", "ToolMessage"), "result"),
}


def _langchain_message(message: Any) -> Mapping[str, Any]:
    """`{type, content, ...}` from a message object, `messages_to_dict` (`data`) or `dumpd` (`kwargs`)."""
    found = plain(message)
    if isinstance(found.get("data"), Mapping):
        return {**found["data"], "type": found.get("type")}
    if isinstance(found.get("kwargs"), Mapping):
        path = found.get("id")
        return {**found["kwargs"], "type": path[-1] if isinstance(path, list) and path else None}
    return found


def _event(role: _Role, message: Mapping[str, Any], *, failed: bool = False) -> TraceEvent:
    name = str(message.get("name") or "")
    return TraceEvent(role, _text(message.get("content")), None, _id(message.get("tool_call_id")), name, failed)


def _call(name: Any, arguments: Any, call_id: Any) -> TraceEvent:
    return TraceEvent("call", call=ToolCall(str(name or "unknown"), arguments_of(arguments), _id(call_id)))


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else []


def _id(value: Any) -> str:
    return "" if value is None else str(value)


def _text(content: Any) -> str:
    """The text of a message content: the text parts of a list, or the JSON text of any other value."""
    if isinstance(content, list) and all(isinstance(part, str) or plain(part) for part in content):
        texts = (part if isinstance(part, str) else plain(part).get("text") for part in content)
        return "".join(text for text in texts if isinstance(text, str))
    return json_text(content) or ""


_Record = TypeVar("_Record", Span, LogEvent)

_UNSEEN = (
    "none of {count} span(s) shows a tool call, or an agent or model that could have made one; a tool call has the "
    "attribute gen_ai.operation.name = execute_tool, openinference.span.kind = TOOL, or tool.name; these have {keys}"
)
_MAX_KEYS = 10


class CallsInSpans(NamedTuple):
    """The calls in spans. `unseen`: why there may be others."""

    tool_calls: list[ToolCall]
    unseen: str | None


def tool_calls_of_spans(spans: Iterable[Any], logs: Iterable[Any] = ()) -> CallsInSpans:
    """The tool calls that the spans and GenAI log events show, as the proxy reads them.

    Warns if there are spans, and none would have shown a call, or one may be a call and could not be read. Raises
    ValueError for input that is not a list and for spans in OTLP form, which would not look like tool calls.
    """
    found = _read("spans", spans, span_of)
    events = [event for event in _read("logs", logs, lambda value, _: log_of(value)) if event.name and event.trace_id]
    calls, findings = tool_calls(found, events)
    unread = calls_unknown_by(findings)
    if unread is None and (calls or shows_genai_work(found) or not (found or events)):
        return CallsInSpans(calls, None)
    unseen = _UNSEEN.format(count=len(found), keys=_keys(found)) if unread is None else unread.message
    warnings.warn(f"the tool calls are unknown: {unseen}", UserWarning, stacklevel=3)
    return CallsInSpans(calls, unseen)


def _read(what: str, values: Iterable[Any], read: Callable[[Any, int], _Record]) -> list[_Record]:
    records = []
    for place, value in enumerate(required_list(values, what)):
        try:
            records.append(read(value, place))
        except ValueError as error:
            raise ValueError(f"{what}[{place}].{error}") from None
    return records


def _keys(spans: Iterable[Span]) -> str:
    """The names of the first attributes, for the warning."""
    keys = list(dict.fromkeys(key for span in spans for key in span.attributes))
    return listed(keys, _MAX_KEYS) or "no attributes"


@dataclass(frozen=True, slots=True)
class TraceTurn:
    """The user message of a turn, the tool calls that followed, and the answer. None: there was no such text.

    `reasoning_steps` are texts of the agent's reasoning, in order. `calls_unseen`: why there may be further calls."""

    user_text: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    response_text: str | None = None
    reasoning_steps: tuple[str, ...] = ()
    calls_unseen: str | None = None


@dataclass(frozen=True, slots=True)
class AgentTrace:
    """The turns of a conversation."""

    turns: tuple[TraceTurn, ...] = ()

    @classmethod
    def of(
        cls,
        tool_calls: Iterable[ToolCall] = (),
        final_response: str | None = None,
        reasoning_steps: Iterable[str] = (),
        *,
        user_text: str | None = None,
    ) -> AgentTrace:
        """One turn from its parts."""
        return cls((TraceTurn(user_text, tuple(tool_calls), final_response, tuple(reasoning_steps)),))

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The calls of all turns, in order."""
        return tuple(call for turn in self.turns for call in turn.tool_calls)

    @property
    def final_response(self) -> str | None:
        """The answer of the last turn; None without one."""
        return self.turns[-1].response_text if self.turns else None

    @classmethod
    def from_openai_messages(cls, messages: Iterable[Any]) -> AgentTrace:
        """From the messages of a chat completion, or the items of the Responses API: dicts or the SDK's objects, or a
        mapping that has them as `messages`.

        A user message begins a turn. A call gets its result by its id. Arguments that are not a JSON object
        are unknown (None). The answer is the last text of the agent in the turn. Reasoning is read from items of the
        Responses API and from `reasoning_content`. System messages and other entries are skipped. Raises ValueError if
        the input is not a list of messages.
        """
        return cls(_turns(openai_events(messages)))

    @classmethod
    def from_langchain_messages(cls, messages: Iterable[Any]) -> AgentTrace:
        """From LangChain messages: its objects, their JSON forms, or pairs of role and text; or a mapping that has
        them as `messages`, as the state of a graph. Otherwise as `from_openai_messages`.

        A tool message of status `error` is the error of its call; an invalid call is a call with unknown arguments
        and that error.
        """
        return cls(_turns(langchain_events(messages)))

    @classmethod
    def from_spans(
        cls,
        spans: Iterable[Any],
        *,
        logs: Iterable[Any] = (),
        user_text: str | None = None,
        response_text: str | None = None,
    ) -> AgentTrace:
        """One turn from all spans of an agent, and its GenAI log events if the messages are in these.

        Spans and log records are those of OpenTelemetry's SDK, their JSON form, dicts with the same keys, or spans in
        the form of UiPath's exports (`Name`, `Attributes`); a dict with `arguments` is a call (`{name, arguments, id,
        result, error}`). They are read as the proxy reads those that it receives: every instrumentation of
        proxy/docs/traces.md, calls that several spans saw once, content from the LLM messages. Give the spans with
        their context, parent and instrumentation scope. Calls are in order of start; those without a time come first.

        If spans show neither a call nor that one would have been seen, or if something that may be a call cannot be
        read, the calls are unknown, with a warning. Raises ValueError if the input is not a list of spans, or one in
        OTLP's form, which the proxy's receiver reads.
        """
        seen = tool_calls_of_spans(spans, logs)
        return cls((TraceTurn(user_text, tuple(seen.tool_calls), response_text, calls_unseen=seen.unseen),))

    def case(self, index: int = -1, **expected: Any) -> EvalCase:
        """The case of the turn `index`, by default the last; the turns before it are its history.

        `expected` are further fields of EvalCase. Raises IndexError for a turn that does not exist.
        """
        index = range(len(self.turns))[index]
        cases = [_case(turn) for turn in self.turns[: index + 1]]
        return replace(cases[-1], history=tuple(cases[:-1]), **expected)

    def conversation(self, **expected: Any) -> EvalCase:
        """The case of the whole conversation, with the calls of all turns and the last answer; `expected` are further
        fields of EvalCase."""
        return EvalCase(
            tool_calls=self.tool_calls,
            calls_unseen=next((turn.calls_unseen for turn in self.turns if turn.calls_unseen is not None), None),
            response_text=self.final_response,
            turns=[_case(turn) for turn in self.turns],
            **expected,
        )

    def to_test_case(
        self,
        input: str | None = None,  # noqa: A002  # the name in Dokimos
        tools: Iterable[ToolDefinition] | None = None,
        tasks: Iterable[str] | None = None,
        **expected: Any,
    ) -> EvalCase:
        """The case of the last turn; `input` is the user message, if the trace lacks it. Otherwise as `case`."""
        case = self.case(tools=tools, tasks=tasks, **expected)
        return case if input is None else replace(case, user_text=input)

    def to_output_map(self) -> dict[str, Any]:
        """The answer, calls and reasoning as `eval_test_case` reads them and a task of `experiment` returns them."""
        unseen = any(turn.calls_unseen is not None for turn in self.turns)
        return {
            "output": self.final_response or "",
            **({} if unseen else {"toolCalls": list(self.tool_calls)}),
            "reasoningSteps": [step for turn in self.turns for step in turn.reasoning_steps],
        }


def _case(turn: TraceTurn) -> EvalCase:
    return EvalCase(
        tool_calls=turn.tool_calls,
        calls_unseen=turn.calls_unseen,
        user_text=turn.user_text,
        response_text=turn.response_text,
        reasoning_steps=turn.reasoning_steps or None,
    )


def _turns(events: Iterable[TraceEvent]) -> tuple[TraceTurn, ...]:
    turns: list[_OpenTurn] = []
    for event in events:
        if not turns or (event.kind == "user" and turns[-1].answered):
            turns.append(_OpenTurn())
        turns[-1].take(event)
    return tuple(turn.closed() for turn in turns)


class _OpenTurn:
    """A turn under construction."""

    def __init__(self) -> None:
        self._user_texts: list[str] = []
        self._calls: list[ToolCall] = []
        self._reasoning: list[str] = []
        self._answer: str | None = None
        self.answered = False
        """Whether the agent acted in this turn: the next user message begins another turn."""

    def take(self, event: TraceEvent) -> None:
        self.answered = self.answered or event.kind != "user"
        if event.kind == "user":
            self._user_texts.append(event.text)
        elif event.kind == "agent":
            self._answer = event.text or self._answer
        elif event.kind == "reasoning" and event.text:
            self._reasoning.append(event.text)
        elif event.kind == "call" and event.call is not None:
            self._calls.append(event.call)
        elif event.kind == "result":
            self._complete(event)

    def closed(self) -> TraceTurn:
        user_text = "\n".join(self._user_texts) if self._user_texts else None
        return TraceTurn(user_text, tuple(self._calls), self._answer, tuple(self._reasoning))

    def _complete(self, event: TraceEvent) -> None:
        """Set the result of the first open call with its id, or with its name if it has no id."""
        for index, call in enumerate(self._calls):
            meant = call.id == event.id if event.id else call.name == event.name
            if meant and call.result is None and call.error is None:
                completed = replace(call, error=event.text) if event.failed else replace(call, result=event.text)
                self._calls[index] = completed
                return


def fields_of_outputs(outputs: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of EvalCase in a map as of `AgentTrace.to_output_map`; without `toolCalls` the calls are unknown."""
    calls = outputs.get("toolCalls")
    return {
        "tool_calls": calls,
        "calls_unseen": "the outputs contain no toolCalls" if calls is None else None,
        "response_text": json_text(outputs.get("output")),
        "reasoning_steps": outputs.get("reasoningSteps") or None,
    }
