"""The class of a Python agent, found in its module, and its instances."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from a2a_tool_capture.connector import AgentConfig, CustomConfig
from tool_call_evaluators.evaluator import FAILURES

from ..errors import ConfigError
from .agent_spans import watch_spans
from .loading import failure, load_module
from .reference import PythonReference


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
