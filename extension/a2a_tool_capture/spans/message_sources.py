"""Where spans and log events keep LLM messages: what one model call was handed, and what it gave."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from .literals import parse
from .messages import Item, UserSaid, read_document, read_flattened, read_messages
from .model import LogEvent, Span

MAX_ITEMS = 5_000
"""Calls, answers and messages of the user that are kept of one list, the last ones."""

_INPUT = ("gen_ai.input.messages", "pydantic_ai.all_messages", "all_messages_events", "events")
"""The last two: pydantic-ai format 1, the events of a run or a model call as one attribute."""

_OUTPUT = ("gen_ai.output.messages",)

_FLATTENED_INPUT = ("llm.input_messages.", "gen_ai.prompt.")
_FLATTENED_OUTPUT = ("llm.output_messages.", "gen_ai.completion.")
_FLATTENED_FIRST = ("llm.", "gen_ai.p", "gen_ai.c")

_DOCUMENTS = (
    ("openinference.span.kind", "LLM", "input.value", "output.value"),
    ("langsmith.span.kind", "llm", "gen_ai.prompt", "gen_ai.completion"),
)
"""Attribute and value of a model call's span; where its request and its response are as a whole."""

_DETAILS = "gen_ai.client.inference.operation.details"
_MESSAGE_EVENTS = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}
_CHOICE = "gen_ai.choice"

ANSWER_TOOLS: tuple[tuple[str, str], ...] = (
    ("pydantic-ai", "final_result"),
    ("smolagents", "final_answer"),
    ("openinference.instrumentation.smolagents", "final_answer"),
)
"""Scope and beginning of a name: "calls" by which a framework has the model give its final answer."""


@dataclass(slots=True)
class Transcript:
    """The messages of one model call, or of an agent's run. `inputs` may hold the whole history."""

    trace_id: str
    span_id: str
    start_ns: int
    scope: str
    inputs: list[Item] = field(default_factory=list)
    outputs: list[Item] = field(default_factory=list)

    def add(self, inputs: list[Item], outputs: list[Item]) -> None:
        """Take what another source holds, in each direction only where nothing was found before."""
        self.inputs = self.inputs or inputs[-MAX_ITEMS:]
        self.outputs = self.outputs or outputs[-MAX_ITEMS:]

    def is_answer(self, name: str) -> bool:
        """Whether a call of `name` is only how the framework has the model give its final answer."""
        return any(self.scope.startswith(scope) and name.startswith(begin) for scope, begin in ANSWER_TOOLS)


def transcripts(spans: Iterable[Span], logs: Iterable[LogEvent]) -> list[Transcript]:
    """The transcripts of `spans` and of the log events, those with any item, by start. Never raises.

    Messages that are on a span's attributes, its events and in log events are read once, in this preference.
    """
    known: dict[tuple[str, str], Transcript] = {}
    for span in spans:
        known[span.key] = transcript = Transcript(span.trace_id, span.span_id, span.start_ns, span.scope)
        for source in (_attributes(span.attributes), _events((event.name, event.attributes) for event in span.events)):
            transcript.add(*source)
    for key, records in _by_span(logs).items():
        first = records[0]
        transcript = known.setdefault(key, Transcript(*key, first.time_ns, first.scope))
        events = ((log.name, log.body if isinstance(log.body, Mapping) else {}, log.attributes) for log in records)
        transcript.add(*_events((name, {**body, **attributes}) for name, body, attributes in events))
    found = [transcript for transcript in known.values() if transcript.inputs or transcript.outputs]
    return sorted(found, key=lambda transcript: (transcript.start_ns, transcript.trace_id, transcript.span_id))


def _attributes(attributes: Mapping[str, Any]) -> tuple[list[Item], list[Item]]:
    flattened = any(key.startswith(_FLATTENED_FIRST) for key in attributes)
    inputs = _first(attributes, _INPUT, _FLATTENED_INPUT if flattened else ())
    outputs = _first(attributes, _OUTPUT, _FLATTENED_OUTPUT if flattened else ())
    for marker, value, request, response in _DOCUMENTS:
        if attributes.get(marker) == value:
            if all(isinstance(item, UserSaid) for item in inputs):
                inputs = inputs + read_document(attributes.get(request))
            outputs = outputs or read_document(attributes.get(response))
    return inputs, outputs


def _first(attributes: Mapping[str, Any], keys: Iterable[str], prefixes: Iterable[str]) -> list[Item]:
    """The messages under the first of `keys` that has any, or spread over attributes with one of `prefixes`."""
    by_key = (read_messages(attributes[key]) for key in keys if key in attributes)
    spread = (read_flattened(attributes, prefix) for prefix in prefixes)
    return next(filter(None, chain(by_key, spread)), [])


def _events(events: Iterable[tuple[str, Mapping[str, Any]]]) -> tuple[list[Item], list[Item]]:
    inputs: list[Item] = []
    outputs: list[Item] = []
    for name, attributes in events:
        if name == _DETAILS:
            for key in _INPUT:
                inputs += read_messages(attributes.get(key))
            for key in _OUTPUT:
                outputs += read_messages(attributes.get(key))
        elif name in _MESSAGE_EVENTS:
            inputs += read_messages([{"role": _MESSAGE_EVENTS[name], **attributes}])
        elif name == _CHOICE:
            outputs += read_messages([_choice(attributes)])
            outputs += read_messages(attributes.get("tool.result"))
    return inputs, outputs


def _by_span(logs: Iterable[LogEvent]) -> dict[tuple[str, str], list[LogEvent]]:
    """The log events of each span by time; one that was delivered again is there once."""
    found: dict[tuple[str, str], list[LogEvent]] = {}
    for log in sorted(logs, key=_log_order):
        records = found.setdefault((log.trace_id, log.span_id), [])
        if not records or records[-1] != log:
            records.append(log)
    return found


def _choice(attributes: Mapping[str, Any]) -> Mapping[str, Any]:
    """The message of a choice event: a structured one, or strands' list of blocks in `message`."""
    message = parse(attributes.get("message"))
    if isinstance(message, Mapping):
        return message
    content = message if isinstance(message, list) else attributes.get("content")
    return {"role": "assistant", "content": content, "tool_calls": attributes.get("tool_calls")}


def _log_order(log: LogEvent) -> tuple[int, str, str, str, str]:
    return log.time_ns, log.trace_id, log.span_id, log.name, repr((log.attributes, log.body))
