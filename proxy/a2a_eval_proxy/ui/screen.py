"""What a screen is: see the docstring of the room."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from starlette.requests import Request
from starlette.responses import Response

from ..admin.control import Control
from .agent_check import AgentCheck
from .links import Links
from .recent_figures import RecentFigures
from .runs.judged_runs import JudgedRuns


@dataclass(frozen=True, slots=True)
class View:
    """What a screen is made of."""

    control: Control
    request: Request
    figures: RecentFigures
    runs: JudgedRuns
    check: AgentCheck | None
    """None where there is no agent."""
    link: Links


Values: TypeAlias = Mapping[str, Any]
"""The variables of a template."""

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
