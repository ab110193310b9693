"""Which cases a page shows, and in which order. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from tool_call_evaluators.suite import Case

ORDERS = {"": "In order", "id": "By id", "failed": "Failed first"}
"""The orders by their values in the URL."""
_RANK = {"failed": 0, "errored": 0, "invalid": 1, "noted": 2}
"""Of the last verdicts; those that are not seen come last."""
_OTHER, _NOT_SEEN = 3, 4

Origin = TypeVar("Origin", bound=str)


def found_cases(listed: Sequence[tuple[Case, Origin]], text: str) -> list[tuple[Case, Origin]]:
    """The cases that have each word of `text` in their id, tags, messages, goal or expected tools, in any case."""
    words = text.casefold().split()
    return [item for item in listed if all(word in _text(item[0]) for word in words)] if words else list(listed)


def _text(case: Case) -> str:
    goals = (case.user_goal, case.simulate.goal if case.simulate else None)
    expected = [case.expect, *(turn.expect for turn in case.turns)]
    tools = (call.name for expect in expected if expect for call in expect.tool_calls or ())
    return "\n".join(
        [case.id, *case.tags, *(turn.user for turn in case.turns), *filter(None, goals), *tools]
    ).casefold()


def in_order(
    cases: Iterable[tuple[Case, Origin]], order: str, statuses: Mapping[str, str]
) -> list[tuple[Case, Origin]]:
    """The cases in one of ORDERS; `statuses` are the last verdicts by id."""
    keys: Mapping[str, Callable[[tuple[Case, Origin]], Any]] = {
        "id": lambda item: item[0].id,
        "failed": lambda item: _RANK.get(statuses.get(item[0].id, ""), _OTHER) if item[0].id in statuses else _NOT_SEEN,
    }
    return sorted(cases, key=keys[order]) if order in keys else list(cases)
