"""LLM messages in the shapes model APIs and frameworks write them: which tool calls they ask for and answer."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from .content import joined_blocks, usable_id
from .literals import as_text, parse, parse_object

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
