"""How an agent is named: the URL of an A2A agent, a Python class, or the URL of a chat-completions API."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from ..errors import ConfigError

PYTHON, CHAT = "python:", "openai:"


@dataclass(frozen=True, slots=True)
class PythonReference:
    """`python:FILE.py:CLASS` or `python:MODULE:CLASS`. Without a class: the only one there that has `execute`."""

    source: str
    """A path that ends with `.py`, or a dotted module name."""
    class_name: str | None = None

    def __str__(self) -> str:
        return PYTHON + self.source + (f":{self.class_name}" if self.class_name else "")


@dataclass(frozen=True, slots=True)
class ChatReference:
    """`openai:URL`, of a chat-completions API: its base URL, or its endpoint `.../chat/completions`."""

    url: str

    def __str__(self) -> str:
        """Without the query, which may hold a key."""
        return CHAT + self.url.partition("?")[0]

    @property
    def endpoint(self) -> str:
        """Where completions are requested."""
        parts = urlsplit(self.url)
        path = parts.path.rstrip("/")
        return parts._replace(path=path if path.endswith("/chat/completions") else f"{path}/chat/completions").geturl()


def read_reference(agent: str) -> PythonReference | ChatReference | None:
    """What `agent` names; None for the URL of an A2A agent. Raises ConfigError."""
    if agent.startswith(CHAT):
        return ChatReference(agent.removeprefix(CHAT))
    if not agent.startswith(PYTHON):
        return None
    source = agent.removeprefix(PYTHON)
    before, _, last = source.rpartition(":")
    given = PythonReference(before, last) if last.isidentifier() and before else PythonReference(source)
    if not given.source.endswith(".py") and not all(part.isidentifier() for part in given.source.split(".")):
        raise ConfigError(f"--agent {agent}: expected python:FILE.py:CLASS or python:MODULE:CLASS")
    return given
