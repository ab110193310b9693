"""Two runs compared, the last two of a suite unless others are chosen."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup
from starlette.exceptions import HTTPException
from tool_call_evaluators.report.html import comparison_body

from ...runs.run_result import LongRunError
from ...runs.stored_turns import VERSION, UnknownRunError, known_versions, newest_runs
from ..pages.rendering import sentence
from ..pages.screen import Screen, Values, View
from .stored import compared

MAX_CHOICES = 100
"""Runs to choose from."""


async def _two_runs(view: View) -> Values:
    query, store = view.request.query_params, view.control.store
    runs = await newest_runs(store)
    known = [run.name for run in runs]
    suites = [run.verdict and run.verdict.suite for run in runs]
    last, one_before, *_ = [*(run for run, suite in zip(known, suites, strict=True) if suite == suites[0]), None, None]
    before, after = names = [query.get("a") or one_before, query.get("b") or last]
    for name in names:
        if name is not None and name not in known and not (name == before and name.startswith(VERSION)):
            raise HTTPException(404, f"The store has no run {name[:200]!r}.")
    agent = query.get("agent") or None
    values: dict[str, Any] = {
        "names": names,
        "agent": agent,
        "choices": known[:MAX_CHOICES],
        "versions": {VERSION + version: version for version in await known_versions(store)},
        "swaps": before in known and after in known,
        "body": None,
        "waits": False,
    }
    if before is None or after is None:
        return values | {"problem": None}
    if before == after:
        return values | {"problem": "Choose two different runs."}
    try:
        found = await compared(view.control, before, after, agent, comparison_body, view.patience_s)
    except UnknownRunError as error:
        return values | {"problem": f"There is {error}."}
    except LongRunError as error:
        return values | {"problem": sentence(str(error))}
    body = None if found is None else Markup(found)  # noqa: S704  # every text in it is escaped
    return values | {"problem": None, "body": body, "waits": body is None}


SCREENS = (Screen("/compare", "compare/compare.html", _two_runs, fragments=("comparison",)),)
