"""What a screen is: see the docstring of the room."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from a2a_tool_capture.recent import Recent
from starlette.requests import Request
from starlette.responses import Response

from ...admin.control import Control, known_agent
from ...store import Store
from ...store.reads import TurnFigures
from .rendering import Links

FIRST_PAINT_S = 0.4
"""For so long a page waits for what has to be read; its fragment waits until that is there."""
_FRESH_S = 1.0
_MAX_RUNS = 16


class RecentFigures:
    """Reads figures from a store, each at most once a second."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._kept: Recent[tuple[str | None, str | None], tuple[float, TurnFigures]] = Recent(_MAX_RUNS)

    async def of(self, run: str | None, agent: str | None = None) -> TurnFigures:
        """The figures of a run, or of all runs, of one of several agents, or of all. Raises StoreError."""
        kept = self._kept.get((run, agent))
        if kept is not None and time.monotonic() - kept[0] < _FRESH_S:
            return kept[1]
        figures = await self._store.figures(run, agent)
        self._kept[run, agent] = time.monotonic(), figures
        return figures


@dataclass(frozen=True, slots=True)
class View:
    """What a screen is made of."""

    control: Control
    request: Request
    link: Links
    figures: RecentFigures

    @property
    def agent(self) -> str | None:
        """Which of several agents the page is about: that of its address, else the first; None for one agent.

        Raises HTTPException (400).
        """
        name = self.request.query_params.get("agent")
        return known_agent(self.control, name) if name else next(iter(self.control.scorings), None)

    @property
    def patience_s(self) -> float | None:
        """For how long the page waits for what takes long; None: until it is there."""
        query = self.request.query_params
        return None if "fragment" in query or "wait" in query else FIRST_PAINT_S


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
