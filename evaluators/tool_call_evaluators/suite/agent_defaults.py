"""How a suite says that its agent is reached: the key `agent`, and its values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from a2a_tool_capture.wire import BINDINGS

from ..suite_fields import TEXT, Boolean, FieldError, SuiteFields, Text, Value, kind, number, one_of, text, whole_number
from .files import ReadContext, code_path

_PYTHON, _CHAT = "python:", "openai:"


def _agent(value: Any, context: ReadContext) -> str:
    """A URL, or an agent that does not speak A2A."""
    name = text(value)
    if name.startswith(_PYTHON):
        return _PYTHON + _code(name.removeprefix(_PYTHON), context)
    _url(name.removeprefix(_CHAT))
    return name


def _code(value: Any, context: ReadContext) -> str:
    """A Python file, relative to the suite, or a module; for an agent, with `:CLASS`."""
    file, suffix, behind = text(value).partition(".py")
    if suffix:
        return f"{code_path(file + suffix, context)}{behind}"
    if not context.allow_plugins:
        raise FieldError(f"module {value}: if you trust the suite, allow running it with --allow-plugins")
    return file


def _absolute(code: str) -> str:
    """The inverse of `_agent` and `_code` for suites that are written elsewhere."""
    scheme = _PYTHON if code.startswith(_PYTHON) else ""
    file, suffix, behind = code.removeprefix(scheme).partition(".py")
    is_file = bool(suffix) and not code.startswith(("http:", "https:", _CHAT))
    return f"{scheme}{Path(file).resolve()}{suffix}{behind}" if is_file else code


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


_AGENT = Value(_agent, {"type": "string", "pattern": "^(openai:)?https?://|^python:"}, write=_absolute, in_context=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentDefaults(SuiteFields):
    """How the agent is reached; the command line overrides it. None: not given."""

    url: Annotated[str, _AGENT] | None = None
    """Of an A2A agent. Also `python:FILE.py:CLASS`, or `openai:URL` of a chat-completions API."""
    headers: Mapping[str, Text] = field(default_factory=dict)
    """Sent with every request. `${VARIABLE}` stands for an environment variable."""
    binding: Annotated[str, one_of(*BINDINGS)] | None = None
    """The protocol binding. Default: the first that the agent's card offers."""
    streaming: Boolean | None = None
    """Whether to stream. Default: as the agent's card says."""
    timeout: Annotated[float, Value(_seconds, {"type": "number", "exclusiveMinimum": 0})] | None = None
    """Timeout of a turn, in seconds."""
    concurrency: Annotated[int, whole_number(1, 1_000)] | None = None
    """Maximum number of concurrent conversations."""
    model: Text | None = None
    """The model of an `openai:` agent."""
    system: Text | None = None
    """Its system prompt."""
    tools: Annotated[str, Value(_code, TEXT, _absolute, in_context=True)] | None = None
    """Its tools: a Python file or module, whose public functions the model may call."""
    body: Mapping[str, Any] = field(default_factory=dict)
    """Other members of its requests. Their `messages` begin every conversation."""
