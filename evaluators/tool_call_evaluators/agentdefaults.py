"""How an agent is talked to, as a suite's `agent` block says it: defaults that the command line overrides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from urllib.parse import urlsplit

from .node import Node

BINDINGS = ("JSONRPC", "HTTP+JSON")


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentDefaults:
    """None: nothing was said. `headers` may hold `${VARIABLE}`, which stands for an environment variable."""

    url: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    binding: str | None = None
    """One of `BINDINGS`; None: the first that the agent's card offers."""
    streaming: bool | None = None
    timeout: float | None = None
    """Longest time of a turn, in seconds, above 0."""
    concurrency: int | None = None
    """Conversations at once, from 1."""


def read_agent_defaults(node: Node) -> AgentDefaults:
    """The defaults in `node`. Raises DocumentError."""
    entries = node.object(tuple(item.name for item in fields(AgentDefaults)))
    headers = entries["headers"].entries() if "headers" in entries else {}
    return AgentDefaults(
        url=_url(entries["url"]) if "url" in entries else None,
        headers={name: value.text() for name, value in headers.items()},
        binding=entries["binding"].choice(BINDINGS) if "binding" in entries else None,
        streaming=entries["streaming"].boolean() if "streaming" in entries else None,
        timeout=_seconds(entries["timeout"]) if "timeout" in entries else None,
        concurrency=entries["concurrency"].whole_number(1, 1_000) if "concurrency" in entries else None,
    )


def _url(node: Node) -> str:
    text = node.text()
    try:
        parts = urlsplit(text)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        node.fail(f"expected a URL that begins with http:// or https://, got {node.kind}")
    if "@" in parts.netloc:  # URLs are shown and stored
        node.fail("expected a URL without user name and password; they go into a header")
    return text


def _seconds(node: Node) -> float:
    seconds = node.number()
    if not 0 < seconds < float("inf"):
        node.fail(f"expected seconds above 0, got {node.kind}")
    return seconds
