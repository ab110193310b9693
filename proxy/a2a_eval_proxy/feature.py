"""What a feature adds to the package, and which features there are."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from click import Command


@dataclass(frozen=True, kw_only=True)
class Feature:
    """Each field is something that the core asks for where it composes its parts. A feature imports what is slow to
    import where it is used: every command imports every feature."""

    commands: Sequence[Command] = ()
    pages: Callable[..., Any] | None = None
    """The `admin.guard.Pages` of a `Control` and its `AdminTokens`: what the admin port shows in a browser; without
    tokens, to everybody."""
    agents: Mapping[str, Callable[..., AbstractAsyncContextManager[Any]]] = field(default_factory=dict)
    """By the scheme of their URL, servers of agents that do not speak A2A; see `runs.served_agents.connected`."""
    engines: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    """By name, what makes the `scoring.scorer.ScoringExecutor` of a suite, the location of a store and the privacy:
    where `evaluate` has evaluators run."""


@cache
def features() -> tuple[Feature, ...]:
    """Those of the folder `features`, in the order of their names."""
    folder = import_module(f"{__package__}.features")
    found = sorted((module.name, ".feature" * module.ispkg) for module in pkgutil.iter_modules(folder.__path__))
    return tuple(import_module(f"{folder.__name__}.{name}{inside}").FEATURE for name, inside in found)
