"""How instrumentations write values, as JSON or the Python repr of one: parsed, never evaluated; how they wrap a call's
arguments and its result, and how to take the wrapping off."""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from ..canonical import with_whole_numbers
from ..json_limits import READ, mapped, may_have_too_many_values, too_deep
from ..json_values import not_json
from .model import CutText

MAX_REPR = 1 << 16
"""Maximum length of a repr, in characters: `ast` needs about a hundred times as much memory."""

PLACEHOLDERS = frozenset({"redacted", "elided", "scrubbed", "redacted-by-litellm", "<not specified>", "n/a"}) | {
    "<not serializable>"
}
"""Text that stands for "no value", in lower case: litellm's, google-adk's, and words that nothing else is."""

_WITHHELD = (
    "redacted", "elided", "removed", "hidden", "withheld", "masked", "filtered", "omitted", "scrubbed", "stripped",
    "suppressed", "truncated", "saniti[sz]ed", "censored", "obfuscated", "dropped", "anonymi[sz]ed", "confidential",
    "not captured", "not recorded", "not available", "not logged", "capture disabled", "deleted", "clipped", "snipped",
    "shortened", "encrypted", "hashed", "disabled", "unavailable", "no content", "too large", "too long", "pii",
)  # fmt: skip
"""Of these, one is in the brackets or between the underscores that redacting libraries and exporters write in place
of content: `[REDACTED]` (strands), `__REDACTED__` (OpenInference), `<elided>` (google-adk), `[Filtered]` (Sentry),
`[truncated]` (Agent 365), `[Scrubbed due to 'auth']` (Logfire)."""

_stands_for = re.compile(
    rf"""(?: [\[<({{]{{1,2}}(?!['"]) | [«‹【$%`#_]{{1,3}} )  [^"\[\]<>{{}},]*
         (?<![a-z]) (?:{"|".join(_WITHHELD).replace(" ", "[ _-]")}) (?![a-z])
         [^"\[\]<>{{}}]*  (?: [\]>)}}]{{1,2}} | [»›】$%`#_]{{1,3}} )
         | [*•█▒■#]{{3,}} | \[?\*{{3,}}\]?""",
    re.IGNORECASE | re.VERBOSE,
).fullmatch
_MAX_PLACEHOLDER = 200  # characters
_MAX_WITHHELD = 1_000  # characters of a structure in which nothing but placeholders is looked for

_decode = json.JSONDecoder(parse_constant=not_json).decode
_encode = json.JSONEncoder(ensure_ascii=False, default=str).encode
_maybe_unlike_json = re.compile(r"\\u[dD]|[0-9]{19}").search
"""JSON text that may hold half a character, or an integer beyond 64 bits."""
_FIELD = re.compile(r"""(\w+)=('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")(?=[ ,)]|$)""", re.DOTALL)


def is_placeholder(text: str) -> bool:
    """Whether `text` only says that the content was withheld."""
    if len(text) > _MAX_PLACEHOLDER:
        return False
    bare = text.strip(' \t\r\n"')
    return bare.casefold() in PLACEHOLDERS or _stands_for(bare) is not None


def parse(value: Any) -> Any:
    """The value that `value` is or spells; None where it spells none, was cut, or is withheld.

    Text is read as JSON, else as a Python literal made of JSON's kinds of values (tuples become lists).
    Anything else than text is returned as it is. Never raises, never evaluates.
    """
    if not isinstance(value, str):
        return None if too_deep(value) else value
    if isinstance(value, CutText) or not value or is_placeholder(value) or may_have_too_many_values(value):
        return None  # not `has_too_many_values`: strings of a Python literal end elsewhere
    try:
        parsed = _decode(value)
    except (ValueError, RecursionError):
        return _python_literal(value)
    if _maybe_unlike_json(value):
        return _of_json_kinds(parsed)
    return None if too_deep(parsed) else parsed


def parse_object(value: Any) -> dict[str, Any] | None:
    """`parse` where an object is expected, also one encoded twice; None for anything else.

    An object of which a member was withheld is not the object: None too.
    """
    parsed = parse(value)
    if isinstance(parsed, str):
        parsed = parse(parsed)
    if not isinstance(parsed, dict):
        return None
    return None if any(map(_is_withheld, _leaves(parsed))) else with_whole_numbers(parsed)


def as_text(value: Any) -> str | None:
    """A value as the text of a result: text as it is, anything else as JSON. None for None or what was withheld."""
    if value is None:
        return None
    held = value
    if isinstance(value, str) and len(value) < _MAX_WITHHELD and not is_placeholder(value):
        held = parse(value) if value.startswith(("{", "[")) else value
    leaves = _leaves(held, but="type")
    if leaves and all(map(_is_withheld, leaves)):
        return None
    if isinstance(value, str):
        return value
    try:
        return _encode(value)
    except (TypeError, ValueError):
        return str(value)


def _leaves(value: Any, but: str = "") -> list[Any]:
    """The values in objects and lists, at any depth, without those of the member `but`."""
    if isinstance(value, dict):
        return [leaf for key, inner in value.items() if key != but for leaf in _leaves(inner, but)]
    return [leaf for inner in value for leaf in _leaves(inner, but)] if isinstance(value, list) else [value]


def _is_withheld(leaf: Any) -> bool:
    return isinstance(leaf, str) and is_placeholder(leaf)


def repr_fields(text: str) -> dict[str, str]:
    """The quoted fields of an object's repr, `content='...' name='...'`; {} for a string without any."""
    fields: dict[str, str] = {}
    for name, quoted in _FIELD.findall(text[:MAX_REPR]):
        content = _python_literal(quoted)
        if isinstance(content, str):
            fields.setdefault(name, content)
    return fields


def _python_literal(text: str) -> Any:
    """The value of a Python literal of JSON types, with tuples as lists; None for anything else."""
    text = text.strip()
    if len(text) > MAX_REPR or not text.startswith(("{", "[", "(", "'", '"')):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a lone backslash in the text
            value = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None  # not a literal, or nested beyond what the parser takes
    return _of_json_kinds(value)


def _of_json_kinds(value: Any) -> Any:
    """`value` with tuples as lists and integers beyond 64 bits as floats; None if it is not JSON or nests too deep."""
    try:
        return mapped(value, _json_leaf, key=_key, depth=READ, beyond=_json_leaf)
    except (ValueError, OverflowError):  # UnicodeEncodeError is a ValueError
        return None


def _json_leaf(value: Any) -> Any:
    match value:
        case str():
            value.encode()  # refuses lone surrogates
            return value
        case None | bool() | float():
            return value
        case int():
            return value if -(1 << 63) <= value < 1 << 64 else float(value)
    raise ValueError(f"not a JSON value: {type(value).__name__}")


def _key(key: Any) -> str:
    if isinstance(key, str):
        key.encode()
        return key
    raise ValueError(f"not a JSON key: {key!r}")


@dataclass(frozen=True, slots=True)
class Arguments:
    """What a call was given; `values` is None where that is unknown. `call_id` where the wrapping names it."""

    values: dict[str, Any] | None
    call_id: str = ""


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """What a call gave back; `text` is None where that is unknown. `failed` where the content itself says so."""

    text: str | None
    call_id: str = ""
    failed: bool = False


_WRAPPED_CALL = {"args", "kwargs", "sanitize_inputs_outputs"}
"""Members of a wrapped call; the last is smolagents'."""

UNKNOWN = Arguments(None)
NOTHING = ToolOutcome(None)


def plain_arguments(value: Any) -> Arguments:
    """An object, as JSON, Python repr or structured."""
    return Arguments(parse_object(value))


def keyword_arguments(value: Any) -> Arguments:
    """`{"args": [], "kwargs": {...}}` of a wrapped Python function; positional arguments have no names: unknown."""
    wrapped = parse_object(value)
    if wrapped is None:
        return UNKNOWN
    if not isinstance(wrapped.get("kwargs"), dict) or not wrapped.keys() <= _WRAPPED_CALL:
        return Arguments(wrapped)
    return UNKNOWN if wrapped.get("args") else Arguments(wrapped["kwargs"])


def traceloop_arguments(value: Any) -> Arguments:
    """Traceloop's LangChain callback (`input_str`, `inputs`, `kwargs`), its decorators (`args`, `kwargs`), or plain."""
    wrapped = parse_object(value)
    if wrapped is None or "input_str" not in wrapped:
        return keyword_arguments(wrapped)
    inputs, options = wrapped.get("inputs"), wrapped.get("kwargs")
    return Arguments(
        inputs if isinstance(inputs, dict) else parse_object(wrapped["input_str"]),
        usable_id(options.get("tool_call_id")) if isinstance(options, Mapping) else "",
    )


def mcp_arguments(value: Any) -> Arguments:
    """`{"tool_name", "arguments"}`, or the request's `{"method", "params": {"name", "arguments"}}`."""
    wrapped = parse_object(value)
    if wrapped is None:
        return UNKNOWN
    request = wrapped.get("params") if isinstance(wrapped.get("params"), dict) else wrapped
    if not isinstance(request, dict) or ("arguments" not in request and wrapped.get("method") != "tools/call"):
        return Arguments(wrapped)
    arguments = request.get("arguments")  # optional (MCP 2025-06-18, CallToolRequest)
    return Arguments({} if arguments is None else parse_object(arguments))


def undeclared_parameters(value: Any) -> Arguments:
    """OpenInference's `tool.parameters`: the arguments in some libraries, the tool's schema in others.

    Only what cannot be a schema is taken; an empty object may be either: unknown.
    """
    values = parse_object(value)
    if not values or "properties" in values or values.get("type") == "object":
        return UNKNOWN
    if all(isinstance(member, dict) and "type" in member for member in values.values()):
        return UNKNOWN
    return Arguments(values)


def plain_outcome(value: Any) -> ToolOutcome:
    """The text as it is; structured content as JSON."""
    return ToolOutcome(as_text(value))


def encoded_outcome(value: Any) -> ToolOutcome:
    """JSON throughout, so that text is quoted."""
    decoded = parse(value) if isinstance(value, str) and value.startswith('"') else None
    return ToolOutcome(decoded) if isinstance(decoded, str) else plain_outcome(value)


def text_blocks(value: Any) -> ToolOutcome:
    """A list of content blocks `[{"text": ...}]`, as their text."""
    text = joined_blocks(parse(value))
    return plain_outcome(value) if text is None else ToolOutcome(text)


class Wrapper(NamedTuple):
    """An object around a result, as one instrumentation writes it. It has no members but `only` (None: any); it, or the
    object in its member `at`, has the members `has`. The result is the member `inner`, of which `fits` says whether it
    is one; "": all of it; None: nothing."""

    inner: str | None
    has: tuple[str, ...] = ()
    only: frozenset[str] | None = None
    at: str = ""
    fits: Callable[[Any], bool] = lambda inner: True
    call_id: str = ""
    """The member with the call's id."""
    failed: Callable[[Mapping[str, Any]], bool] = lambda holder: False
    blocks: bool = False
    """Whether the result may be a list of text blocks."""

    def holder(self, value: Any) -> Mapping[str, Any] | None:
        """The object that has the result, if `value` is wrapped so."""
        if not isinstance(value, dict) or not (self.only is None or value.keys() <= self.only):
            return None
        held = value.get(self.at) if self.at else value
        if not isinstance(held, dict) or not held.keys() >= set(self.has):
            return None
        return held if not self.inner or (self.inner in held and self.fits(held[self.inner])) else None


def wrapped_in(*stages: tuple[Wrapper, ...]) -> Callable[[Any], ToolOutcome]:
    """Takes off one wrapper of each stage, the first that is there, from the outermost on."""
    return partial(_unwrapped, stages)


def _unwrapped(stages: Sequence[tuple[Wrapper, ...]], value: Any) -> ToolOutcome:
    held, call_id, failed, text = parse(value), "", False, None
    if isinstance(value, str) and value.startswith("content=") and not isinstance(value, CutText):
        held = repr_fields(value)
    for wrappers in stages:
        found = next(((one, holder) for one in wrappers if (holder := one.holder(held)) is not None), None)
        if found is None:
            continue
        wrapper, holder = found
        call_id = call_id or usable_id(holder.get(wrapper.call_id))
        failed = failed or wrapper.failed(holder)
        if wrapper.inner != "":
            value = holder[wrapper.inner] if wrapper.inner else None
            held = parse(value)
        text = joined_blocks(value) if wrapper.blocks else None
    return ToolOutcome(as_text(value) if text is None else text, call_id, failed)


def _is_error(holder: Mapping[str, Any]) -> bool:
    return holder.get("isError") is True or holder.get("is_error") is True


_NO_CONTENT = Wrapper(None, only=frozenset())
"""What is written when content is off."""

_TOOL_MESSAGES = tuple(
    Wrapper(
        "content",
        has=("tool_call_id",),
        at=at,
        call_id="tool_call_id",
        failed=lambda message: message.get("status") == "error",
        blocks=True,
    )
    for at in ("", "kwargs", "data")
)
"""LangChain's ToolMessage in its serialised forms."""

tool_message = wrapped_in(_TOOL_MESSAGES)

run_output = wrapped_in((_NO_CONTENT, Wrapper("output", only=frozenset({"output", "kwargs"}))), _TOOL_MESSAGES)
"""What LangChain's callbacks hand over: `{"output": ToolMessage or value}`, `{}` for a run that gave none."""

adk_response = wrapped_in(
    (Wrapper("response", has=("name",), fits=lambda inner: isinstance(inner, dict), call_id="id"),),  # OpenInference
    (
        _NO_CONTENT,
        Wrapper("error", only=frozenset({"error"}), fits=lambda inner: isinstance(inner, str), failed=lambda _: True),
        Wrapper("result", only=frozenset({"result", "isError"}), failed=_is_error),
        Wrapper("", failed=_is_error),
    ),
)
"""google-adk's function response, as `function_parts.function_outcome` reads it, or the tool's own object."""

llama_index_output = wrapped_in(
    (Wrapper("tool_output", fits=lambda inner: isinstance(inner, dict), call_id="tool_id"),),
    (Wrapper("raw_output", failed=_is_error),),
)
"""llama-index's ToolOutput, alone or in a ToolCallResult."""

mcp_result = wrapped_in(
    (
        Wrapper("content", fits=lambda inner: joined_blocks(inner) is not None, failed=_is_error, blocks=True),
        Wrapper("result", only=frozenset({"result", "is_error"}), failed=_is_error),  # Traceloop
        Wrapper("", failed=_is_error),
    )
)
"""MCP's CallToolResult."""


def joined_blocks(value: Any) -> str | None:
    """The text of a non-empty list of text blocks, line by line; None for anything else."""
    if not isinstance(value, list) or not value:
        return None
    texts = []
    for block in value:
        if not isinstance(block, Mapping) or not isinstance(block.get("text"), str):
            return None
        if not block.keys() <= {"text", "type", "id", "annotations", "index"}:
            return None
        texts.append(block["text"])
    return "\n".join(texts)


def usable_id(value: Any) -> str:
    """A call id without quotes around it; "" for one that is absent, blank, or a placeholder."""
    if not isinstance(value, str):
        return ""
    text = value.strip().strip('"')
    return "" if is_placeholder(text) else text
