"""Imports Python code: a file, or a module by its dotted name; and the class of an agent in it."""

from __future__ import annotations

import importlib
import inspect
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from a2a_tool_capture.connector import AgentConfig, CustomConfig
from a2a_tool_capture.connector.arksim_names import names
from a2a_tool_capture.json_values import describe
from tool_call_evaluators import plugins
from tool_call_evaluators.evaluator import FAILURES
from tool_call_evaluators.options import OptionError

from ...errors import ConfigError
from .agent_spans import watch_spans


def load_module(source: str, setting: str) -> ModuleType:
    """The module of a path that ends with `.py`, or of a dotted name; its code runs once per process.

    Modules next to the file, or in the current directory, can be imported, and those of arksim that `arksim_names`
    serves. Raises ConfigError, which begins with `setting`.
    """
    names.install()
    plugins.install_foreign_names()
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


def python_agents(reference: str) -> Callable[[], Any]:
    """Creates an instance for a conversation, of the class that `FILE.py:CLASS` or `MODULE:CLASS` names. Without a
    class: of the only one there that has `execute`. Raises ConfigError where there is no such class; so does
    the call, where the constructor fails."""
    setting = f"--agent python:{reference}"
    before, _, last = reference.rpartition(":")
    source, class_name = (before, last) if last.isidentifier() and before else (reference, None)
    if not source.endswith(".py") and not all(part.isidentifier() for part in source.split(".")):
        raise ConfigError(f"{setting}: expected python:FILE.py:CLASS or python:MODULE:CLASS")
    agent_class = _find(source, class_name, setting)
    name = agent_class.__name__
    parameters = inspect.signature(agent_class).parameters.values()
    takes_config = any(
        each.name == "agent_config"
        or (each.default is each.empty and each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD))
        for each in parameters
    )
    arguments = (AgentConfig(name, custom_config=CustomConfig(source, name)),) if takes_config else ()

    def new() -> Any:
        try:
            agent = agent_class(*arguments)
        except FAILURES as error:
            raise ConfigError(f"{setting}: {name}() raised {failure(error)}") from error
        watch_spans()
        return agent

    return new


def _find(source: str, class_name: str | None, setting: str) -> type:
    module = load_module(source, setting)
    found = {
        name: value
        for name, value in vars(module).items()
        if inspect.isclass(value) and value.__module__ == module.__name__ and callable(getattr(value, "execute", None))
    }
    if class_name is None:
        if len(found) == 1:
            return next(iter(found.values()))
        among = f"one of {', '.join(found)}; append :CLASS" if found else "none: an agent is a class with `execute`"
        raise ConfigError(f"{setting}: expected a single class with `execute` there, found {among}")
    named = getattr(module, class_name, None)
    if not inspect.isclass(named):
        candidates = f"; classes with `execute` are {', '.join(found)}" if found else ""
        raise ConfigError(f"{setting}: {source} has no class {class_name}{candidates}")
    if not callable(getattr(named, "execute", None)):
        raise ConfigError(f"{setting}: the class has no method execute(user_query, **kwargs)")
    return named
