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
