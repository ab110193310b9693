"""Builds cases from the messages or spans of a program, without a proxy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from a2a_tool_capture.models import ToolCall

from ..model import EvalCase
from ..tool_definition import ToolDefinition
from .messages import TraceEvent, langchain_events, openai_events
from .spans import tool_calls_of_spans


@dataclass(frozen=True, slots=True)
class TraceTurn:
    """The user message of a turn, the tool calls that followed, and the answer. None: there was no such text.

    `reasoning_steps` are texts of the agent's reasoning, in order. `calls_unseen`: why there may be further calls."""

    user_text: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    response_text: str | None = None
    reasoning_steps: tuple[str, ...] = ()
    calls_unseen: str | None = None

    def to_dict(self) -> dict[str, Any]:
        return {
            "user_text": self.user_text,
            "tool_calls": [call.to_dict() for call in self.tool_calls],
            "response_text": self.response_text,
            **({"reasoning_steps": list(self.reasoning_steps)} if self.reasoning_steps else {}),
            **({"calls_unseen": self.calls_unseen} if self.calls_unseen else {}),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> TraceTurn:
        """Inverse of `to_dict`. Raises KeyError or ValueError for a malformed call."""
        calls = tuple(ToolCall.from_dict(call) for call in data.get("tool_calls") or ())
        steps = tuple(data.get("reasoning_steps") or ())
        return cls(data.get("user_text"), calls, data.get("response_text"), steps, data.get("calls_unseen"))


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
    def reasoning_steps(self) -> tuple[str, ...]:
        """The reasoning of all turns, in order."""
        return tuple(step for turn in self.turns for step in turn.reasoning_steps)

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

        If spans show neither a call nor that one would have been seen, the calls are unknown, with a warning. Raises
        ValueError if the input is not a list of spans, or one in OTLP's form, which the proxy's receiver reads.
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
            "reasoningSteps": list(self.reasoning_steps),
        }

    def to_dict(self) -> dict[str, Any]:
        """JSON form; `AgentTrace.from_dict` is its inverse."""
        return {"turns": [turn.to_dict() for turn in self.turns]}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> AgentTrace:
        """Inverse of `to_dict`. Raises KeyError or ValueError for a malformed call."""
        return cls(tuple(TraceTurn.from_dict(turn) for turn in data.get("turns") or ()))


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
