"""Writes values for people, in reasons and messages, and reads JSON in texts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

MAX_PROBLEMS = 3
"""Maximum number of problems in a reason; the details contain all."""


def sentence(summary: str, problems: Sequence[str]) -> str:
    """`summary`, then the first problems and the number of further ones."""
    if not problems:
        return f"{summary}."
    more = len(problems) - MAX_PROBLEMS
    first = "; ".join(problems[:MAX_PROBLEMS])
    return f"{summary}: {first}; and {more} more." if more > 0 else f"{summary}: {first}."


def counted(count: int, noun: str) -> str:
    """`1 call`, `2,000 calls`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def excerpt(text: str, limit: int = 60) -> str:
    """`text`, cut to `limit` characters, with an ellipsis if it is cut."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def json_excerpt(value: Any, limit: int = 60) -> str:
    """`value` as JSON, cut to `limit` characters."""
    return excerpt(json.dumps(value, ensure_ascii=False, default=str), limit)


def json_text(value: Any) -> str | None:
    """Strings and None unchanged, any other value as JSON text: the stored form of tool results."""
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def from_json(value: Any) -> Any:
    """The JSON value of a string, or the string itself if it is not JSON; any other value unchanged."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value
