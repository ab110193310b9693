"""Reads the Python repr of a value, which some instrumentations write instead of JSON. The text is parsed, never
evaluated."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Mapping
from typing import Any

from a2a_tool_capture.canonical import MAX_DEPTH

MAX_REPR = 1 << 16
"""Maximum length of a repr, in characters: `ast` needs about a hundred times as much memory."""


def python_literal(text: str) -> Any:
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
    try:
        return _json_kinds(value, MAX_DEPTH)
    except (ValueError, OverflowError):  # UnicodeEncodeError is a ValueError
        return None


def _json_kinds(value: Any, depth: int) -> Any:
    """`value` with tuples as lists. Raises ValueError or OverflowError for a value that is not JSON or nests deeper
    than `depth`."""
    match value:
        case str():
            value.encode()  # refuses lone surrogates
            return value
        case None | bool() | float():
            return value
        case int():
            return value if -(1 << 63) <= value < 1 << 64 else float(value)  # as the JSON reader does
        case list() | tuple() if depth:
            return [_json_kinds(item, depth - 1) for item in value]
        case Mapping() if depth:
            return {_key(key): _json_kinds(item, depth - 1) for key, item in value.items()}
    raise ValueError(f"not a JSON value: {type(value).__name__}")


def _key(key: Any) -> str:
    if isinstance(key, str):
        key.encode()
        return key
    raise ValueError(f"not a JSON key: {key!r}")
