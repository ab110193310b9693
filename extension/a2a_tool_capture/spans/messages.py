"""LLM messages in spans and log events: where each instrumentation has them, and the calls in them."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple

from .content import joined_blocks, usable_id
from .literals import as_text, parse, parse_object
from .model import LogEvent, Span

ITEM_ID = "fc_"
"""OpenAI Responses name the output item so; the call's own id, which answers refer to, is another."""

MAX_PATH = 12
"""Steps of a flattened attribute's path that are followed."""

_ROLES = {"human": "user", "ai": "assistant", "AIMessageChunk": "assistant", "function": "tool"}
_CONTENT = ("parts", "content", "contents")


@dataclass(slots=True)
class Asked:
    """A call that the model asked for. `arguments` None: unknown; `answer` None: not seen."""

    name: str
    arguments: dict[str, Any] | None
    call_id: str = ""
    answer: str | None = None
    item_id: bool = False
    """An item's id was given in place of the call's."""


@dataclass(frozen=True, slots=True)
class Answered:
    """What was handed back to the model for a call; `call_id` or `name` may be ""."""

    call_id: str
    name: str
    text: str | None


@dataclass(frozen=True, slots=True)
class UserSaid:
    """A message of the user, with which a turn begins."""


Item = Asked | Answered | UserSaid


def read_messages(value: Any) -> list[Item]:
    """The items of a list of messages, given structured or as text; [] for anything else. Never raises."""
    messages = parse(value)
    if isinstance(messages, Mapping):
        messages = [messages]
    if not isinstance(messages, list):
        return []
    return [item for message in messages for item in _message(message)]


def read_document(value: Any) -> list[Item]:
    """The items of a whole request to or response of a model API, or of what a framework keeps of one."""
    document = parse(value)
    if isinstance(document, Mapping):
        for key in ("messages", "input", "output", "contents", "choices", "generations", "content"):
            inner = document.get(key)
            if isinstance(inner, list):
                return [item for entry in inner for item in _entry(entry)]
    return read_messages(document)


def read_flattened(attributes: Mapping[str, Any], prefix: str) -> list[Item]:
    """The items of messages spread over attributes `{prefix}0.message.tool_calls.1.tool_call.id` and so on."""
    tree: dict[str, Any] = {}
    for key, value in attributes.items():
        if key.startswith(prefix):
            _plant(tree, key[len(prefix) :].split(".", MAX_PATH), value)
    return read_messages(_listed(tree)) if tree else []


def paired(items: list[Item]) -> list[tuple[Asked, bool]]:
    """The calls asked for in a list of messages, each with its answer, and whether the last user message precedes it.

    Answers belong to the call with their id. An answer with the id of no call gives that id to the first open
    call that has only an item's; one without an id goes to the first open call of its name. Without a message
    of the user in the list, every call follows it.
    """
    asked: list[tuple[Asked, int]] = []
    by_id: dict[str, Asked] = {}
    by_name: dict[str, deque[Asked]] = defaultdict(deque)
    with_item_id: deque[Asked] = deque()
    turns = 0
    for item in items:
        match item:
            case UserSaid():
                turns += 1
            case Asked():
                asked.append((item, turns))
                by_name[item.name].append(item)
                if item.call_id:
                    by_id.setdefault(item.call_id, item)
                elif item.item_id:
                    with_item_id.append(item)
            case Answered(call_id="", name=name):
                if call := _first_open(by_name[name]):
                    call.answer = item.text
            case Answered(call_id=call_id):
                if call_id not in by_id and (call := _first_open(with_item_id)):
                    call.call_id = call_id
                    by_id[call_id] = call
                if (call := by_id.get(call_id)) and call.answer is None:
                    call.answer = item.text
    return [(call, turn == turns) for call, turn in asked]


def loose_answers(items: list[Item]) -> dict[str, str]:
    """Answers by call id, for lists that hold answers without the calls."""
    return {
        item.call_id: item.text
        for item in items
        if isinstance(item, Answered) and item.call_id and item.text is not None
    }


def _first_open(calls: deque[Asked]) -> Asked | None:
    """Take the first call that has no answer yet."""
    while calls:
        call = calls.popleft()
        if call.answer is None:
            return call
    return None


def _entry(entry: Any) -> Iterator[Item]:
    """One entry of a document: a message, or what holds one (a choice, a generation, a list of either)."""
    if isinstance(entry, list):
        for inner in entry:
            yield from _entry(inner)
    elif isinstance(entry, Mapping) and isinstance(entry.get("message"), Mapping):
        yield from _message(entry["message"])
    elif isinstance(entry, Mapping) and _word(entry.get("type")) in _PARTS:
        yield from _part(entry)
    else:
        yield from _message(entry)


def _message(message: Any) -> Iterator[Item]:
    message = _bare(message)
    if message is None:
        return
    if _word(message.get("type")) in _PARTS:
        yield from _part(message)
        return
    role = _word(message.get("role")) or _word(message.get("type"))
    role = _ROLES.get(role, role)
    answers_to = message.get("tool_call_id") or (message.get("id") if role == "tool" else None)
    blocks = _blocks(message)
    items = [item for block in blocks for item in _part(block)]
    if role == "user" and _says_something(message, blocks, items):
        yield UserSaid()
    if answers_to or (role == "tool" and not items):
        yield Answered(usable_id(answers_to), _name(message.get("name")), _content_text(message.get("content")))
    yield from items
    calls = parse(message.get("tool_calls"))
    for call in calls if isinstance(calls, list) else ():
        yield from _tool_call(call)


def _bare(message: Any) -> Mapping[str, Any] | None:
    """The message without the serialisation around it (LangChain's `lc` and `data`, OpenInference's `message`)."""
    if not isinstance(message, Mapping):
        return None
    for key in ("kwargs", "data", "message"):
        inner = message.get(key)
        if isinstance(inner, Mapping) and ("lc" in message or key != "kwargs"):
            return {"type": message.get("type"), **inner} if key == "data" else inner
    return message


def _blocks(message: Mapping[str, Any]) -> list[Any]:
    for key in _CONTENT:
        blocks = message.get(key)
        if isinstance(blocks, str) and blocks.lstrip().startswith("["):
            blocks = parse(blocks)
        if isinstance(blocks, list):
            return blocks
    return []


def _says_something(message: Mapping[str, Any], blocks: list[Any], items: Sequence[Item]) -> bool:
    answers = any(isinstance(item, Answered) for item in items)  # Anthropic and Bedrock: the user hands results back
    return not answers and (bool(blocks) or any(message.get(key) for key in _CONTENT))


def _tool_call(call: Any) -> Iterator[Asked]:
    """One of a message's `tool_calls`: OpenAI's, LangChain's, or OpenInference's flattened one."""
    if not isinstance(call, Mapping):
        return
    if isinstance(call.get("tool_call"), Mapping):
        call = call["tool_call"]
    function = call.get("function")
    source = function if isinstance(function, Mapping) else call
    yield from _asked(call.get("id"), source.get("name"), source.get("arguments", source.get("args")))


class _CallAt(NamedTuple):
    """Where a part has the id and the arguments of a call; the name is in `name`."""

    ids: tuple[str, ...]
    arguments: str

    def read(self, part: Mapping[str, Any]) -> Iterator[Asked]:
        call_id = next((part[key] for key in self.ids if part.get(key)), None)
        return _asked(call_id, part.get("name"), part.get(self.arguments))


class _AnswerAt(NamedTuple):
    """Where a part has the id of the call it answers, and the answer; the name is in `name` where it is `named`."""

    call_id: str
    contents: tuple[str, ...]
    named: bool = False

    def read(self, part: Mapping[str, Any]) -> Iterator[Answered]:
        """One of several keys must be there; a single one may miss, for an answer without content."""
        present = [part[key] for key in self.contents if key in part]
        if present or len(self.contents) == 1:
            name = _name(part.get("name")) if self.named else ""
            yield Answered(usable_id(part.get(self.call_id)), name, _content_text(present[0]) if present else None)


_GEMINI_CALL, _GEMINI_ANSWER = _CallAt(("id",), "args"), _AnswerAt("id", ("response",), named=True)

_PARTS: Mapping[str, _CallAt | _AnswerAt] = {
    "tool_call": _CallAt(("id",), "arguments"),  # OpenTelemetry
    "tool_call_response": _AnswerAt("id", ("response", "result", "content"), named=True),
    "function_call": _CallAt(("call_id", "id"), "arguments"),  # OpenAI Responses
    "function_call_output": _AnswerAt("call_id", ("output",)),
    "tool_use": _CallAt(("id",), "input"),  # Anthropic
    "tool_result": _AnswerAt("tool_use_id", ("content",)),
}
"""By the part's `type`."""

_KEYED_PARTS: Mapping[str, _CallAt | _AnswerAt] = {
    "toolUse": _CallAt(("toolUseId",), "input"),  # Bedrock
    "toolResult": _AnswerAt("toolUseId", ("content",)),
    "function_call": _GEMINI_CALL,
    "functionCall": _GEMINI_CALL,
    "function_response": _GEMINI_ANSWER,
    "functionResponse": _GEMINI_ANSWER,
}
"""By the part's only member."""


def _part(part: Any) -> Iterator[Asked | Answered]:
    """The call or the answer that a content part is."""
    if not isinstance(part, Mapping):
        return
    for key, place in _KEYED_PARTS.items():
        if isinstance(part.get(key), Mapping):
            yield from place.read(part[key])
            return
    if typed := _PARTS.get(_word(part.get("type"))):
        yield from typed.read(part)


def _asked(call_id: Any, name: Any, arguments: Any) -> Iterator[Asked]:
    if _name(name):
        given = usable_id(call_id)
        is_item = given.startswith(ITEM_ID)
        yield Asked(_name(name), parse_object(arguments), "" if is_item else given, item_id=is_item)


def _content_text(content: Any) -> str | None:
    """The text of an answer: its blocks joined, google-adk's `{"result": x}` unwrapped, else text or JSON."""
    blocks = joined_blocks(content)
    if blocks is not None:
        return blocks
    if isinstance(content, Mapping) and content.keys() in ({"result"}, {"error"}):
        content = next(iter(content.values()))
    return as_text(content)


def _word(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _name(value: Any) -> str:
    """A tool's name; crewai's listener writes it quoted."""
    return value.strip().strip("'\"") if isinstance(value, str) else ""


def _plant(tree: dict[str, Any], path: list[str], value: Any) -> None:
    for step in path[:-1]:
        branch = tree.setdefault(step, {})
        if not isinstance(branch, dict):
            return
        tree = branch
    tree.setdefault(path[-1], value)


def _listed(tree: Any) -> Any:
    """`tree` with every branch whose keys are all numbers as a list in their order."""
    if not isinstance(tree, dict):
        return tree
    if tree and all(key.isdecimal() and len(key) < 10 for key in tree):
        return [_listed(tree[key]) for key in sorted(tree, key=int)]
    return {key: _listed(branch) for key, branch in tree.items()}


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
