"""Text that instrumentations write for values: JSON, or the Python repr of one. Parsed, never evaluated."""

from __future__ import annotations

import re
from typing import Any

import orjson
from a2a_tool_capture.canonical import MAX_DEPTH, too_deep, with_whole_numbers
from tool_call_evaluators.agent_trace.python_literals import MAX_REPR, python_literal

from ..protocol.json_density import may_be_dense
from .model import CutText

REDACTED = frozenset({"__REDACTED__", "[REDACTED]", "<REDACTED>", "REDACTED"})
"""What OpenInference and redacting exporters put in place of content."""

PLACEHOLDERS = REDACTED | {"<not specified>", "<not serializable>", "N/A"}
"""Text that stands for "no value" (the last three: google-adk)."""

_SCRUBBED = "[Scrubbed due to "
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
        return None if too_deep(value, MAX_DEPTH) else value
    if isinstance(value, CutText) or not value or is_placeholder(value) or may_be_dense(value):
        return None  # not `is_dense`: strings of a Python literal end elsewhere
    try:
        parsed = orjson.loads(value)
    except orjson.JSONDecodeError:
        return python_literal(value)
    return None if too_deep(parsed, MAX_DEPTH) else parsed


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
        return orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
    except orjson.JSONEncodeError:
        return str(value)


def repr_fields(text: str) -> dict[str, str]:
    """The quoted fields of an object's repr, `content='...' name='...'`; {} for a string without any."""
    fields: dict[str, str] = {}
    for name, quoted in _FIELD.findall(text[:MAX_REPR]):
        content = python_literal(quoted)
        if isinstance(content, str):
            fields.setdefault(name, content)
    return fields
