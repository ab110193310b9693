"""What a screen is: see the docstring of the room."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from a2a_tool_capture.recent import Recent
from starlette.requests import Request
from starlette.responses import Response

from ..admin.control import Control
from ..store import Store
from ..store.reads import TurnFigures
from .agent_check import AgentCheck
from .judged_runs import JudgedRuns
from .rendering import Links
from .reruns import Playground, Reruns

_FRESH_S = 1.0
_MAX_RUNS = 16


class RecentFigures:
    """Reads figures from a store, each at most once a second."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._kept: Recent[str | None, tuple[float, TurnFigures]] = Recent(_MAX_RUNS)

    async def of(self, run: str | None) -> TurnFigures:
        """The figures of a run, or of all runs. Raises StoreError."""
        kept = self._kept.get(run)
        if kept is not None and time.monotonic() - kept[0] < _FRESH_S:
            return kept[1]
        figures = await self._store.figures(run)
        self._kept[run] = time.monotonic(), figures
        return figures


@dataclass(frozen=True, slots=True)
class View:
    """What a screen is made of."""

    control: Control
    request: Request
    figures: RecentFigures
    runs: JudgedRuns
    check: AgentCheck | None  # None where there is no agent
    link: Links
    reruns: Reruns | None = None  # None where nothing runs
    playground: Playground | None = None  # None where there is no agent


Values: TypeAlias = Mapping[str, Any]  # the variables of a template
ScreenFunction: TypeAlias = Callable[[View], Awaitable[Values | Response]]


@dataclass(frozen=True, slots=True)
class Screen:
    """A page at `path`, in the syntax of Starlette's routes.

    `nav` is its name in the navigation. `fragments` are the blocks of its template that `?fragment=` renders alone.
    `action` answers a POST to the same path, usually with a redirect.
    """

    path: str
    template: str
    values: ScreenFunction
    nav: str | None = None
    fragments: tuple[str, ...] = ()
    action: ScreenFunction | None = None
