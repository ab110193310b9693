"""How a run reaches the agent, from a suite's `agent` block: defaults that the command line overrides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any
from urllib.parse import urlsplit

from a2a_tool_capture.wire import BINDINGS

from ..declared import Boolean, Declared, FieldError, Text, Value, kind, number, one_of, text, whole_number


def _url(value: Any) -> str:
    url = text(value)
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise FieldError(f"expected a URL that begins with http:// or https://, got {kind(value)}")
    if "@" in parts.netloc:  # URLs are displayed and stored
        raise FieldError("expected a URL without user name and password; send them in a header")
    return url


def _seconds(value: Any) -> float:
    if not 0 < number(value) < float("inf"):
        raise FieldError(f"expected seconds above 0, got {kind(value)}")
    return number(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentDefaults(Declared):
    """How the agent is reached; the command line overrides it. None: not given."""

    url: Annotated[str, Value(_url, {"type": "string", "pattern": "^https?://"})] | None = None
    headers: Mapping[str, Text] = field(default_factory=dict)
    """Sent with every request. `${VARIABLE}` stands for an environment variable."""
    binding: Annotated[str, one_of(*BINDINGS)] | None = None
    """The protocol binding. Default: the first that the agent's card offers."""
    streaming: Boolean | None = None
    timeout: Annotated[float, Value(_seconds, {"type": "number", "exclusiveMinimum": 0})] | None = None
    """Timeout of a turn, in seconds."""
    concurrency: Annotated[int, whole_number(1, 1_000)] | None = None
    """Maximum number of concurrent conversations."""
