"""What a feature adds to the package, and which features there are."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from ssl import SSLContext

    from click import Command
    from starlette.routing import Route
    from tool_call_evaluators.suite import AgentDefaults, Suite

    from .admin.control import Control
    from .admin.guard import AdminTokens, Pages
    from .features.pages.screen import Screen
    from .net.file_watcher import FileWatch
    from .otlp.trace_service import Tracing
    from .privacy.policy import Privacy
    from .relay.webhooks import WebhookPort
    from .runs.served_agents import ServedAgent
    from .scoring.evidence import TurnTrees
    from .scoring.scorer import ScoringExecutor
    from .settings.options import Options
    from .settings.settings import Settings
    from .store import Store

    AgentServer = Callable[
        [str, AgentDefaults, Mapping[str, str], SSLContext | None, float],
        AbstractAsyncContextManager[ServedAgent],
    ]
    """Serves an agent for the time of a block; its arguments are those of `runs.served_agents.connected`."""
    TraceFetcher = Callable[[str, Mapping[str, str], float], AbstractAsyncContextManager[Tracing]]
    """Traces of turns for the time of a block: from a location, with headers, for so many seconds after a turn."""

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Feature:
    """Each field is something that the core asks for where it composes its parts. A feature imports what is slow to
    import where it is used, and `Settings`: every command imports every feature, and `Settings` asks them all."""

    commands: Sequence[Command] = ()
    settings: type[Options] | None = None
    """Settings of `serve`, which the class declares and checks."""
    webhooks: Callable[[Settings, FileWatch], WebhookPort] | None = None
    """What is done about webhooks that clients register, in place of letting them pass."""
    trees: Callable[[Store], TurnTrees] | None = None
    """Who asked whom, as scores and reports show it, by what a store has."""
    routes: Callable[[Control], Sequence[Route]] | None = None
    """Operations of the admin API."""
    pages: Callable[[Control, AdminTokens | None], Pages] | None = None
    """What the admin port shows in a browser; without tokens, to everybody."""
    screens: Callable[[], Sequence[Screen]] | None = None
    """Pages of it: of the feature `pages`, which asks for them."""
    agents: Mapping[str, AgentServer] = field(default_factory=dict)
    """By the scheme of their URL, servers of agents that do not speak A2A."""
    traces: Mapping[str, TraceFetcher] = field(default_factory=dict)
    """By the scheme of a location, where traces of turns are fetched from."""
    engines: Mapping[str, Callable[[Suite, str, Privacy], ScoringExecutor]] = field(default_factory=dict)
    """By name, where `evaluate` has evaluators run: for a suite, the location of a store and the privacy."""


@cache
def features() -> tuple[Feature, ...]:
    """Those of the folder `features`, in the order of their names."""
    folder = import_module(f"{__package__}.features")
    found = sorted((module.name, ".feature" * module.ispkg) for module in pkgutil.iter_modules(folder.__path__))
    return tuple(import_module(f"{folder.__name__}.{name}{inside}").FEATURE for name, inside in found)


def provided(by: Callable[[Feature], T | None]) -> T | None:
    """What the first feature has that provides this; None where none does."""
    return next((found for feature in features() if (found := by(feature)) is not None), None)
