"""Imports Python code: a file, or a module by its dotted name; and the class of an agent in it."""

from __future__ import annotations

import importlib
import inspect
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

from a2a_tool_capture.connector import AgentConfig, CustomConfig
from a2a_tool_capture.connector.arksim_names import names
from a2a_tool_capture.json_values import describe
from tool_call_evaluators import plugins
from tool_call_evaluators.evaluator import FAILURES
from tool_call_evaluators.options import OptionError

from ..errors import ConfigError
from .agent_spans import watch_spans


def load_module(source: str, setting: str) -> ModuleType:
    """The module of a path that ends with `.py`, or of a dotted name; its code runs once per process.

    Modules next to the file, or in the current directory, can be imported, and those of arksim that `arksim_names`
    serves. Raises ConfigError, which begins with `setting`.
    """
    names.install()
    is_file = source.endswith(".py")
    try:
        if is_file:
            path = Path(source).resolve()
            _make_importable(path.parent)
            return plugins.run_file(path, f"a2a_eval_agent:{path}")
        _make_importable(Path.cwd())
        return importlib.import_module(source)
    except OptionError as error:
        raise ConfigError(f"{setting}: {error}") from None
    except FAILURES as error:
        if isinstance(error, ModuleNotFoundError) and not is_file and f"{source}.".startswith(f"{error.name}."):
            raise ConfigError(f"{setting}: no module named {error.name!r} here or among the installed ones") from None
        raise ConfigError(f"{setting}: {failure(error)}") from error


def _make_importable(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def failure(error: BaseException) -> str:
    """What an agent's code raised, and in which line; without traceback."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not any(part in frame.filename for part in _NOT_OF_AGENTS)]
    where = f" ({Path(own[-1].filename).name}, line {own[-1].lineno})" if own else ""
    message = describe(error)
    return f"{type(error).__name__}{f': {message}' if message else ''}{where}"


_NOT_OF_AGENTS = ("site-packages", "importlib", str(Path(__file__).parent), str(Path(plugins.__file__).parent))
"""Parts of the names of files that are no code of an agent."""


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


def python_agents(reference: PythonReference) -> Callable[[], Any]:
    """Creates an instance for a conversation. Raises ConfigError where there is no such class; so does the call, where
    the constructor fails."""
    setting = f"--agent {reference}"
    agent_class = _find(reference, setting)
    name = agent_class.__name__
    arguments = _arguments(agent_class, AgentConfig(name, custom_config=CustomConfig(reference.source, name)), setting)

    def new() -> Any:
        try:
            agent = agent_class(*arguments)
        except FAILURES as error:
            raise ConfigError(f"{setting}: {name}() raised {failure(error)}") from error
        watch_spans()
        return agent

    return new


def _find(reference: PythonReference, setting: str) -> type:
    module = load_module(reference.source, setting)
    found = {
        name: value
        for name, value in vars(module).items()
        if inspect.isclass(value) and value.__module__ == module.__name__ and callable(getattr(value, "execute", None))
    }
    if reference.class_name is None:
        if len(found) == 1:
            return next(iter(found.values()))
        among = f"one of {', '.join(found)}; append :CLASS" if found else "none: an agent is a class with `execute`"
        raise ConfigError(f"{setting}: expected a single class with `execute` there, found {among}")
    named = getattr(module, reference.class_name, None)
    if not inspect.isclass(named):
        candidates = f"; classes with `execute` are {', '.join(found)}" if found else ""
        raise ConfigError(f"{setting}: {reference.source} has no class {reference.class_name}{candidates}")
    if not callable(getattr(named, "execute", None)):
        raise ConfigError(f"{setting}: the class has no method execute(user_query, **kwargs)")
    return named


def _arguments(agent_class: type, config: AgentConfig, setting: str) -> tuple[AgentConfig, ...]:
    """What the constructor takes: an `AgentConfig`, or nothing."""
    signature = inspect.signature(agent_class)
    if "agent_config" in signature.parameters or not _accepts(signature):
        if not _accepts(signature, config):
            expected = f"no arguments, or one AgentConfig; it is {agent_class.__name__}{signature}"
            raise ConfigError(f"{setting}: expected a constructor with {expected}")
        return (config,)
    return ()


def _accepts(signature: inspect.Signature, *arguments: Any) -> bool:
    try:
        signature.bind(*arguments)
    except TypeError:
        return False
    return True
