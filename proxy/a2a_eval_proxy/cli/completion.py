"""What a shell completes: paths, choices, runs of the store, cases and tags of the suite on the line, evaluators.

Completion has no place for errors: what cannot be read completes to nothing. It runs no plug-ins.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from ..settings.options import environment_name
from ..settings.parsing import CASE, EVALUATORS, RUN, TAG, ValueType
from ..settings.settings import DEFAULT_STORE

_MOST_RUNS = 1_000
_MOST_BYTES = 5_000_000  # of a suite, as in `tool_call_evaluators.suite`, which is slow to import


def complete(kind: ValueType, ctx: click.Context, param: click.Parameter, start: str) -> list[CompletionItem]:
    """What a shell offers for a value of `kind` that begins with `start`."""
    if kind.completes in _NAMES:
        try:
            names = dict.fromkeys(_NAMES[kind.completes](ctx))
        except Exception:  # noqa: BLE001
            return []
        return [CompletionItem(name) for name in names if name.startswith(start)]
    if kind.completes:
        return [CompletionItem(start, type=kind.completes)]
    return [CompletionItem(word) for word in kind.choices if word.startswith(start)]


def _evaluators(ctx: click.Context) -> Iterable[str]:
    from tool_call_evaluators import evaluator_names

    return evaluator_names()


def _runs(ctx: click.Context) -> Iterable[str]:
    from ..runs.stored_turns import open_existing_store

    async def names() -> list[str]:
        async with open_existing_store(_given(ctx, "store") or DEFAULT_STORE) as store:
            return await store.run_names(_MOST_RUNS)

    return asyncio.run(names())


def _cases(ctx: click.Context) -> Iterable[str]:
    return (case["id"] for case in _cases_of_suites(ctx))


def _tags(ctx: click.Context) -> Iterable[str]:
    return (tag for case in _cases_of_suites(ctx) for tag in case.get("tags", ()))


_NAMES = {RUN: _runs, EVALUATORS: _evaluators, CASE: _cases, TAG: _tags}


def _cases_of_suites(ctx: click.Context) -> Iterator[Mapping[str, Any]]:
    """The cases, as they are written, of the suites that the command line names."""
    import yaml

    given = _given(ctx, "suite") or ctx.args  # where click leaves arguments before an option without a value
    paths = map(Path, [given] if isinstance(given, str) else given)
    for file_path in chain.from_iterable(map(_files, paths)):
        with file_path.open("rb") as file:
            text = file.read(_MOST_BYTES)
        loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)  # makes nothing but strings, lists and objects
        yield from yaml.load(text, loader).get("cases", ())  # noqa: S506


def _files(path: Path) -> Iterable[Path]:
    return sorted(path.glob("*.y*ml")) if path.is_dir() else [path]


def _given(ctx: click.Context, name: str) -> Any:
    return ctx.params.get(name) or os.environ.get(environment_name(name))
