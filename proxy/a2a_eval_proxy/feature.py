"""What a feature adds to the package, and which features there are."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from click import Command

    from .admin.control import Control
    from .admin.guard import AdminTokens, Pages


@dataclass(frozen=True, kw_only=True)
class Feature:
    """Each field is something that the core asks for where it composes its parts. A feature imports what is slow to
    import where it is used: every command imports every feature."""

    commands: Sequence[Command] = ()
    pages: Callable[[Control, AdminTokens | None], Pages] | None = None
    """What the admin port shows in a browser; without tokens, to everybody."""


@cache
def features() -> tuple[Feature, ...]:
    """Those of the folder `features`, in the order of their names."""
    folder = import_module(f"{__package__}.features")
    found = sorted((module.name, ".feature" * module.ispkg) for module in pkgutil.iter_modules(folder.__path__))
    return tuple(import_module(f"{folder.__name__}.{name}{inside}").FEATURE for name, inside in found)
