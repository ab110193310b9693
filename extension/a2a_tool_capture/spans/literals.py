"""Text that instrumentations write for values: JSON, or the Python repr of one. Parsed, never evaluated."""

from __future__ import annotations

import ast
import json
import re
import warnings
from typing import Any

from ..canonical import with_whole_numbers
from ..json_limits import READ, mapped, may_have_too_many_values, too_deep
from ..json_values import not_json
from .model import CutText

MAX_REPR = 1 << 16
"""Maximum length of a repr, in characters: `ast` needs about a hundred times as much memory."""

REDACTED = frozenset({"__REDACTED__", "[REDACTED]", "<REDACTED>", "REDACTED"})
"""What OpenInference and redacting exporters put in place of content."""

PLACEHOLDERS = REDACTED | {"<not specified>", "<not serializable>", "N/A"}
"""Text that stands for "no value" (the last three: google-adk)."""

_SCRUBBED = "[Scrubbed due to "
_decode = json.JSONDecoder(parse_constant=not_json).decode
_encode = json.JSONEncoder(ensure_ascii=False, default=str).encode
_maybe_unlike_json = re.compile(r"\\u[dD]|[0-9]{19}").search
"""JSON text that may hold half a character, or an integer beyond 64 bits."""
_FIELD = re.compile(r"""(\w+)=('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")(?=[ ,)]|$)""", re.DOTALL)


def is_placeholder(text: str) -> bool:
    """Whether `text` only says that the content was withheld."""
    return text in PLACEHOLDERS or text.startswith(_SCRUBBED)


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
    withheld = any(isinstance(member, str) and is_placeholder(member) for member in parsed.values())
    return None if withheld else with_whole_numbers(parsed)


def as_text(value: Any) -> str | None:
    """A value as the text of a result: text as it is, anything else as JSON. None for None or withheld text."""
    if value is None:
        return None
    if isinstance(value, str):
        return None if is_placeholder(value) else value
    try:
        return _encode(value)
    except (TypeError, ValueError):
        return str(value)


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
