"""LLM messages in spans and log events: where each instrumentation has them, and the calls in them."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from .content import as_text, is_placeholder, joined_blocks, parse, parse_object, usable_id
from .conventions import (
    CALLS_TOOLS,
    CONTENT_OF_MESSAGE,
    DEFINITIONS,
    KEYED_PARTS,
    MESSAGE_TYPES,
    PARTS,
    READ_OF_MESSAGE,
    SPEAKS_OF_TOOLS,
    WRAPPERS,
    PartKind,
    PartRole,
)
from .model import LogEvent, Span, Unread

ITEM_ID = "fc_"
"""OpenAI Responses name the output item so; the call's own id, which answers refer to, is another."""

MAX_PATH = 12
"""Steps of a flattened attribute's path that are followed."""

_ROLES = {"human": "user", "ai": "assistant", "AIMessageChunk": "assistant", "function": "tool"}


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


Item = Asked | Answered | UserSaid | Unread


def read_messages(value: Any) -> list[Item] | None:
    """The items of messages, given structured or as text; None if there are none at all. Never raises."""
    if value is None or value == "":
        return None
    messages = parse(value)
    if messages is not None:
        return list(_entry(messages))
    return list(_text(value)) if isinstance(value, str) else [Unread.withheld("messages nest too deep to be read")]


def read_flattened(attributes: Mapping[str, Any], prefix: str) -> list[Item] | None:
    """The items of messages spread over attributes `{prefix}0.message.tool_calls.1.tool_call.id` and so on."""
    tree: dict[str, Any] = {}
    for key, value in attributes.items():
        if key.startswith(prefix):
            _plant(tree, key[len(prefix) :].split(".", MAX_PATH), value)
    return read_messages(_listed(tree)) if tree else None


def paired(items: Iterable[Item]) -> list[tuple[Asked, bool]]:
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


def of_last_turn(items: Sequence[Item]) -> Sequence[Item]:
    """What follows the last message of the user."""
    last = max((place for place, item in enumerate(items) if isinstance(item, UserSaid)), default=-1)
    return items[last + 1 :]


def _first_open(calls: deque[Asked]) -> Asked | None:
    """Take the first call that has no answer yet."""
    while calls:
        call = calls.popleft()
        if call.answer is None:
            return call
    return None


def _entry(entry: Any) -> Iterator[Item]:
    """A message, a part, or what holds some: a list, a choice, a generation, a request or a response as a whole."""
    if isinstance(entry, list):
        for inner in entry:
            yield from _entry(inner)
    elif isinstance(entry, str):
        held = parse(entry) if entry.startswith(("[", "{", '"')) else None
        one = held[0] if isinstance(held, list) and held else held
        encoded_twice = isinstance(held, str) or (isinstance(one, Mapping) and "role" in one)
        if encoded_twice or any(True for _ in _called_in(held)) or (held and SPEAKS_OF_TOOLS(entry)):
            yield from _entry(held)
        else:
            yield from _text(entry)
    elif isinstance(entry, Mapping):
        message = _bare(entry)
        if _is_part(message):
            yield from _part(message)
        elif _is_message(message):
            yield from _message(message)
        elif held := [message[key] for key in WRAPPERS if key in message]:
            for inner in held:
                yield from _entry(parse(inner) or inner)
            yield from _hidden({key: value for key, value in message.items() if key not in WRAPPERS})
        elif message:
            yield Unread.unknown(f"an object with {_keys(message)} in place of messages")
    elif entry is not None:
        yield Unread.unknown(f"a message that is {as_text(entry)}")


def _is_part(entry: Mapping[str, Any]) -> bool:
    if (kind := _word(entry.get("type"))) in MESSAGE_TYPES:
        return kind in PARTS and "content" not in entry
    return kind in PARTS or "part_kind" in entry or ("role" not in entry and bool(_keyed(entry)))


def _is_message(entry: Mapping[str, Any]) -> bool:
    if "role" in entry or _word(entry.get("type")) in MESSAGE_TYPES:
        return True
    if "type" in entry:
        return False
    held = [entry[key] for key in CONTENT_OF_MESSAGE if key in entry]
    return any(isinstance(content, str | list) for content in held) or any(entry.get(key) for key in READ_OF_MESSAGE)


def _message(message: Mapping[str, Any]) -> Iterator[Item]:
    role = _word(message.get("role")) or _word(message.get("type"))
    role = _ROLES.get(role, role)
    answers_to = message.get("tool_call_id") or (message.get("id") if role == "tool" else None)
    read, content = _content(message)
    blocks = content if isinstance(content, list) else []
    items = [item for block in blocks for item in _part(block)]
    if role == "tool" and "parts" not in message:  # the content is what the tool gave, of any kind
        items = [item for item in items if not isinstance(item, Unread)]
    hands_back = any(isinstance(item, Answered) for item in items)  # Anthropic and Bedrock: results, as the user
    if role == "user" and not hands_back and (blocks or any(message.get(key) for key in CONTENT_OF_MESSAGE)):
        yield UserSaid()
    if answers_to or (role == "tool" and not items):
        name = _name(message.get("name")) or _name(message.get("tool_name"))
        yield Answered(usable_id(answers_to), name, _content_text(message.get("content")))
    yield from items
    calls = _further_calls(message)
    for call in calls:
        if call not in items:
            yield call
    if role in ("user", "tool", "system", "developer"):
        return
    if isinstance(content, str):
        yield from _text(content)
    elif isinstance(content, Mapping):
        yield from _entry(content)
    yield from _hidden({key: value for key, value in message.items() if key != read}, (*items, *calls))
    if not message.keys() & {*CONTENT_OF_MESSAGE, *READ_OF_MESSAGE} and any(map(_holds_more, message.values())):
        yield Unread.unknown(f"a message with {_keys(message)}")
    asks = any(isinstance(item, Asked | Unread) for item in (*items, *calls))
    if not asks and any(CALLS_TOOLS(_word(message.get(key))) for key in _REASONS):
        yield Unread.withheld("a message ends with a call that is not in it")


_REASONS = ("finish_reason", "finishReason", "stop_reason", "stopReason")
"""Members of messages and choices: why the model stopped."""


def _further_calls(message: Mapping[str, Any]) -> list[Item]:
    """The calls that a message has besides its content."""
    extra = message.get("additional_kwargs")
    lists = [message.get("tool_calls") or (extra.get("tool_calls") if isinstance(extra, Mapping) else None)]
    lists += [message.get("invalid_tool_calls"), [message["function_call"]] if message.get("function_call") else None]
    if message.get("function_call_name"):
        arguments = message.get("function_call_arguments_json")
        lists.append([{"name": message["function_call_name"], "arguments": arguments}])
    found: list[Item] = []
    for given in filter(None, lists):
        calls = parse(given)
        if isinstance(calls, list):
            for call in calls:  # OpenAI's, LangChain's, OpenInference's flattened one, or a part
                is_part = isinstance(call, Mapping) and _is_part(call)
                found += _part(call) if is_part else _call(PARTS["function"], call)
        else:
            found.append(Unread.withheld("calls in a message cannot be read"))
    return found


def _hidden(holder: Mapping[str, Any], read: Iterable[Item] = ()) -> Iterator[Unread]:
    """What a message, a part or a wrapper has under a name that is not known, and may be calls that were not read."""
    calls = [item for item in read if isinstance(item, Asked | Answered)]
    known = {item.name for item in calls} | {item.call_id for item in calls if item.call_id}
    for key, value in holder.items():
        if key in READ_OF_MESSAGE or key in DEFINITIONS or not _holds_more(value):
            continue
        if SPEAKS_OF_TOOLS(key) or not known.issuperset(_called_in(value)):
            yield Unread.unknown(f"{key!r} in a message")


def _called_in(value: Any) -> Iterator[str]:
    """The names in what looks like calls, or answers to some, at any depth; the id of one without a name, or ""."""
    value = parse(value) if isinstance(value, str) else value
    if isinstance(value, Mapping):
        if _may_be_call(value):
            yield _named(value)
        elif value.keys() & _ARGUMENTS:
            yield from filter(None, map(_name, (value.get(key) for key in _NAMES)))
        for key, inner in value.items():
            kind = KEYED_PARTS.get(key)
            if kind is not None and kind.role is not PartRole.CONTENT and isinstance(inner, Mapping):
                yield _named(inner)
            if key not in DEFINITIONS:
                yield from _called_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _called_in(inner)


def _may_be_call(value: Mapping[str, Any]) -> bool:
    """Whether its type or its role says that it is a call or an answer, of a kind that is known or not."""
    type_ = _kind_of(value)
    kind = PARTS.get(type_)
    if kind is not None:
        return kind.role is not PartRole.CONTENT
    return bool(SPEAKS_OF_TOOLS(type_)) or value.get("role") in ("tool", "function")


def _named(call: Mapping[str, Any]) -> str:
    inner = call.get("function")
    source = inner if isinstance(inner, Mapping) else call
    return next(filter(None, (_name(source.get(key)) for key in _NAMES)), "") or usable_id(
        _first_of(call, _ANSWERED_IDS)
    )


def _kind_of(part: Mapping[str, Any]) -> str:
    """Its `type`; that of pydantic-ai's own JSON has another name."""
    return _word(part.get("type")) or _word(part.get("part_kind"))


def _holds_more(value: Any) -> bool:
    return isinstance(parse(value) if isinstance(value, str) else value, list | Mapping) and bool(value)


def _bare(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """The message without the serialisation around it (LangChain's `lc` and `data`, OpenInference's `message`)."""
    if isinstance(inner := message.get("kwargs"), Mapping) and "lc" in message:
        return inner
    if isinstance(inner := message.get("data"), Mapping) and _word(message.get("type")) in MESSAGE_TYPES:
        return {"type": message["type"], **inner}
    if isinstance(inner := message.get("message"), Mapping):
        around = {key: value for key, value in message.items() if key in _REASONS or SPEAKS_OF_TOOLS(key)}
        return _bare({**around, **inner})
    return message


def _content(message: Mapping[str, Any]) -> tuple[str, Any]:
    """The parts of a message, or its text, and the member that has them."""
    held = [(key, message[key]) for key in CONTENT_OF_MESSAGE if message.get(key)]
    for key, content in held:
        if isinstance(content, str) and content.lstrip().startswith("["):
            content = parse(content)
        if isinstance(content, list):
            return key, content
    return held[0] if held else ("", None)


def _text(text: str) -> Iterator[Unread]:
    """Nothing, unless something stands in place of messages, or the rest of them is cut off."""
    if is_placeholder(text):
        yield Unread.withheld(f"{text} stands in place of messages")
    elif text.lstrip().startswith(("[{", "{")) and parse(text) is None:
        yield Unread.withheld("messages are cut, or cannot be read")


def _keyed(part: Mapping[str, Any]) -> list[tuple[PartKind, Any]]:
    return [(kind, part[key]) for key, kind in KEYED_PARTS.items() if isinstance(part.get(key), Mapping)]


def _part(part: Any) -> Iterator[Item]:
    """The call or the answer that a content part is, or holds."""
    if isinstance(part, str):
        held = parse(part) if part.startswith("{") else None
        if not isinstance(held, Mapping) or not (_may_be_call(held) or _keyed(held)):
            yield from _text(part)
            return
        part = held
    if isinstance(part, list):
        yield from _entry(part)
        return
    if not isinstance(part, Mapping):
        if part is not None:
            yield Unread.unknown(f"a part that is {as_text(part)}")
        return
    if isinstance(inner := part.get("message_content"), Mapping):
        part = {**part, **inner}
    type_ = _kind_of(part)
    if not type_ and "role" in part:
        yield from _message(part)
        return
    typed, keyed = PARTS.get(type_), _keyed(part)
    if typed is not None and typed.role is not PartRole.CONTENT:
        keyed = [(typed, part)]
    for kind, body in keyed:
        if kind.role is PartRole.CALL:
            yield from _call(kind, body)
        elif kind.role is PartRole.RESPONSE:
            yield from _response(kind, body)
    if any(kind.role is not PartRole.CONTENT for kind, _ in keyed):
        return
    if typed is None and not keyed and part and (type_ or not ("text" in part or isinstance(part.get("content"), str))):
        yield Unread.unknown(f"a part of type {type_!r}" if type_ else f"a part with {_keys(part)}")
    else:
        text = type_ == "text"  # other content is of any form
        read = [key for key in CONTENT_OF_MESSAGE if not text or isinstance(part.get(key), str)]
        yield from _hidden({key: value for key, value in part.items() if key not in read})


_NAMES = ("name", "toolName", "tool_name", "toolType", "tool_type")
_CALL_IDS = ("call_id", "toolUseId", "toolCallId", "tool_call_id", "id")
_ANSWERED_IDS = ("tool_use_id", "toolUseId", "call_id", "toolCallId", "tool_call_id", "id")
_ARGUMENTS = ("arguments", "args", "input", "action", "operation", "server_tool_call")
_RESULTS = ("response", "result", "output", "content", "error", "server_tool_call_response")
"""Members of calls and responses of all kinds, in this preference."""


def _call(kind: PartKind, call: Any) -> Iterator[Item]:
    if not isinstance(call, Mapping):
        yield Unread.unknown(f"a call that is {as_text(call)}")
        return
    call = call["tool_call"] if isinstance(call.get("tool_call"), Mapping) else call
    function = call.get("function")
    source = function if isinstance(function, Mapping) else call
    name = next(filter(None, (_name(source.get(key)) for key in _NAMES)), kind.name)
    if not name:
        yield Unread.withheld("a call in a message has no name", certain=True)
        return
    given = usable_id(_first_of(call, _CALL_IDS))
    if kind.members:
        arguments: Any = {member: source[member] for member in kind.members if member in source}
    else:
        arguments = _first_of(source, _ARGUMENTS)
    if isinstance(inner := call.get("server_tool_call"), Mapping):
        own = {key: value for key, value in inner.items() if key != "type"}
        arguments = _first_of(inner, _ARGUMENTS) or own
    is_item = given.startswith(ITEM_ID)
    answer = _content_text(call.get(kind.answer)) if kind.answer else None
    yield Asked(name, parse_object(arguments), "" if is_item else given, answer, item_id=is_item)


def _response(kind: PartKind, part: Mapping[str, Any]) -> Iterator[Answered]:
    name = next(filter(None, (_name(part.get(key)) for key in _NAMES)), kind.name)
    yield Answered(usable_id(_first_of(part, _ANSWERED_IDS)), name, _content_text(_first_of(part, _RESULTS)))


def _first_of(holder: Mapping[str, Any], keys: Iterable[str]) -> Any:
    return next((value for key in keys if (value := holder.get(key)) is not None and value != ""), None)


def _content_text(content: Any) -> str | None:
    """The text of an answer: its blocks joined, google-adk's `{"result": x}` unwrapped, else text or JSON."""
    blocks = joined_blocks(content)
    if blocks is not None:
        return as_text(blocks)
    if isinstance(content, Mapping):
        if content.keys() in ({"result"}, {"error"}):
            content = next(iter(content.values()))
        elif content.keys() == {"type", "value"}:  # Vercel AI SDK
            content = content["value"]
    return as_text(content)


def _word(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _keys(holder: Mapping[str, Any]) -> str:
    """The first names in it, for a finding."""
    return ", ".join(repr(str(key)[:40]) for key in list(holder)[:5]) or "nothing"


def _name(value: Any) -> str:
    """A tool's name; crewai's listener writes it quoted."""
    name = value.strip("'\"") if isinstance(value, str) else ""
    return "" if not name.strip() or is_placeholder(name) else name


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

_INPUT = ("gen_ai.input.messages", "pydantic_ai.all_messages", "all_messages_events", "events", "ai.prompt.messages")
"""The events: pydantic-ai format 1, those of a run or a model call as one attribute."""

_OUTPUT = ("gen_ai.output.messages",)
_OUTPUT_CALLS = "ai.response.toolCalls"

_FLATTENED_INPUT = ("llm.input_messages.", "gen_ai.prompt.")
_FLATTENED_OUTPUT = ("llm.output_messages.", "gen_ai.completion.")

_DOCUMENTS = (
    ("openinference.span.kind", "LLM", "input.value", "output.value"),
    ("langsmith.span.kind", "llm", "gen_ai.prompt", "gen_ai.completion"),
    ("gen_ai.operation.name", "chat", "gen_ai.prompt", "gen_ai.completion"),
)
"""Attribute and value of a model call's span; where its request and its response are as a whole."""

_DETAILS = "gen_ai.client.inference.operation.details"
_MESSAGE_EVENTS = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}
_CHOICE, _COMPLETION = "gen_ai.choice", "gen_ai.content.completion"

ANSWER_TOOLS: tuple[tuple[str, str], ...] = (
    ("pydantic-ai", "final_result"),
    ("smolagents", "final_answer"),
    ("openinference.instrumentation.smolagents", "final_answer"),
    ("openinference.instrumentation.openai_agents", "transfer_to_"),
    ("opentelemetry.instrumentation.openai_agents", "transfer_to_"),
    ("opentelemetry.instrumentation.genai.openai_agents", "transfer_to_"),
)
"""Scope and beginning of a name: "calls" by which a framework has the model give its final answer, or hand over."""


@dataclass(slots=True)
class Transcript:
    """The messages of one model call, or of an agent's run. `inputs` may hold the whole history."""

    trace_id: str
    span_id: str
    start_ns: int
    scope: str
    inputs: list[Item] | None = None
    outputs: list[Item] | None = None
    """None: it has none."""

    def add(self, inputs: list[Item] | None, outputs: list[Item] | None) -> None:
        """Take what another source holds, in each direction only where nothing was found before."""
        self.inputs = _fullest((self.inputs, inputs and inputs[-MAX_ITEMS:]))
        self.outputs = _fullest((self.outputs, outputs and outputs[-MAX_ITEMS:]))

    @property
    def unread(self) -> list[Unread]:
        """What may be calls of this turn. What the model was sent before, its outputs held as a whole."""
        outputs = [item for item in self.outputs or () if isinstance(item, Unread)]
        inputs = [item for item in of_last_turn(self.inputs or ()) if isinstance(item, Unread)]
        if self.outputs is not None:
            inputs = [item for item in inputs if item.code != "content_withheld"]
        return outputs + inputs

    def is_answer(self, name: str) -> bool:
        """Whether a call of `name` is only how the framework has the model answer, or hand over to another agent."""
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


_Source = list[Item] | None


def _fullest(sources: Iterable[_Source]) -> _Source:
    """The first that has calls, answers or users; else one that was read as a whole; None where all are."""
    left: _Source = None
    for items in sources:
        if any(not isinstance(item, Unread) for item in items or ()):
            return items
        if items is not None and (left is None or not items):
            left = items
    return left


def _attributes(attributes: Mapping[str, Any]) -> tuple[_Source, _Source]:
    inputs = _first(attributes, _INPUT, _FLATTENED_INPUT)
    outputs = _first(attributes, _OUTPUT, _FLATTENED_OUTPUT)
    if _OUTPUT_CALLS in attributes:
        outputs = _fullest((outputs, read_messages([{"tool_calls": attributes[_OUTPUT_CALLS]}])))
    for marker, value, request, response in _DOCUMENTS:
        if attributes.get(marker) == value:
            if all(isinstance(item, UserSaid) for item in inputs or ()):
                sent = read_messages(attributes.get(request)) or ()
                inputs = [*(inputs or ()), *(item for item in sent if not isinstance(item, Unread))]
            outputs = _fullest((outputs, _document(attributes.get(response))))
    return inputs, outputs


def _document(response: Any) -> _Source:
    """The items of a model's response in any form, which may be its answer, in JSON or not."""
    items = read_messages(response)
    speaks = SPEAKS_OF_TOOLS(response if isinstance(response, str) else as_text(response) or "")
    return items and [item for item in items if speaks or not isinstance(item, Unread)]


def _first(attributes: Mapping[str, Any], keys: Iterable[str], prefixes: Iterable[str]) -> _Source:
    """The messages under the first of `keys` that has any, or spread over attributes with one of `prefixes`."""
    by_key = (read_messages(attributes[key]) for key in keys if key in attributes)
    return _fullest(chain(by_key, (read_flattened(attributes, prefix) for prefix in prefixes)))


def _events(events: Iterable[tuple[str, Mapping[str, Any]]]) -> tuple[_Source, _Source]:
    inputs: list[_Source] = []
    outputs: list[_Source] = []
    for name, attributes in events:
        if name == _DETAILS:
            inputs += (read_messages(attributes.get(key)) for key in _INPUT)
            outputs += (read_messages(attributes.get(key)) for key in _OUTPUT)
        elif name in _MESSAGE_EVENTS:
            inputs.append(read_messages([{"role": _MESSAGE_EVENTS[name], **attributes}]))
        elif name == _COMPLETION:
            outputs.append(_document(attributes.get("gen_ai.completion")))
        elif name == _CHOICE:
            outputs += (read_messages([_choice(attributes)]), read_messages(attributes.get("tool.result")))
    return _joined(inputs), _joined(outputs)


def _joined(sources: Iterable[_Source]) -> _Source:
    found = [items for items in sources if items is not None]
    return [item for items in found for item in items] if found else None


def _by_span(logs: Iterable[LogEvent]) -> dict[tuple[str, str], list[LogEvent]]:
    """The log events of each span by time; one that was delivered again is there once."""
    found: dict[tuple[str, str], list[LogEvent]] = {}
    for log in sorted(logs, key=lambda log: (log.time_ns, *log.key, log.name, repr((log.attributes, log.body)))):
        records = found.setdefault(log.key, [])
        if not records or records[-1] != log:
            records.append(log)
    return found


def _choice(attributes: Mapping[str, Any]) -> Mapping[str, Any]:
    """The message of a choice event: a structured one, or strands' list of blocks in `message`."""
    message = parse(attributes.get("message"))
    if isinstance(message, Mapping):
        return {**attributes, **message}
    content = message if isinstance(message, list) else attributes.get("content")
    return {"role": "assistant", "content": content, "tool_calls": attributes.get("tool_calls")}
