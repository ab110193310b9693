"""Classes of tools: those that read, and those that write. By name, by pattern, or by the tags of a tool.

Names of tools in the options of evaluators are names, patterns such as `get_*`, or the classes `reads` and `writes` of
the suite.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TypeAlias

ToolClasses: TypeAlias = Mapping[str, Sequence[str]]
"""The names and patterns of the tools of each class in `CLASSES`. A tool in both writes."""

CLASSES = ("reads", "writes")


@lru_cache(maxsize=1024)
def _pattern(names: tuple[str, ...]) -> Callable[[str], object]:
    return re.compile("|".join(map(fnmatch.translate, names)) if names else r"(?!)").match


class NoClassesError(LookupError):
    """A class is named, and the suite has no `tool_classes`."""


def named(names: Iterable[str], classes: ToolClasses | None) -> Callable[[str], bool]:
    """Whether a tool is among `names`, which may be patterns and classes. Raises NoClassesError."""
    plain = tuple(name for name in names if name not in CLASSES)
    chosen = tuple(name for name in names if name in CLASSES)
    if chosen and classes is None:
        raise NoClassesError(f"{chosen[0]} is a class of tools, and the suite has no tool_classes")
    matches = _pattern(plain)
    if not chosen or classes is None:
        return lambda tool: bool(matches(tool))
    writes, reads = (_pattern(tuple(classes.get(name, ()))) for name in ("writes", "reads"))

    def is_named(tool: str) -> bool:
        own = "writes" if writes(tool) else "reads" if reads(tool) else ""
        return own in chosen or bool(matches(tool))

    return is_named


def patterns_of(name: str, classes: ToolClasses | None) -> dict[str, list[str]]:
    """The names and patterns that a name, pattern or class stands for, and those that it does not: JSON data for
    `is_shown`."""
    if name not in CLASSES or classes is None:
        return {"tools": [name], "except": []}
    return {"tools": list(classes[name]), "except": list(classes["writes"]) if name == "reads" else []}


def is_shown(patterns: Mapping[str, Sequence[str]], tools: Iterable[str]) -> str | None:
    """The first of `tools` that the patterns of `patterns_of` stand for."""
    wanted, unwanted = _pattern(tuple(patterns["tools"])), _pattern(tuple(patterns["except"]))
    return next((tool for tool in tools if wanted(tool) and not unwanted(tool)), None)
