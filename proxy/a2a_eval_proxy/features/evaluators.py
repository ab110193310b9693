from __future__ import annotations

import inspect
import json
from collections.abc import Collection
from dataclasses import MISSING, Field, fields, replace
from typing import TYPE_CHECKING, Any

import click

from ..cli.command import command, wide_console
from ..feature import Feature
from ..settings import parsing as types
from ..settings.options import Options, option

if TYPE_CHECKING:
    from tool_call_evaluators.evaluator import EvaluatorBase


class EvaluatorsOptions(Options):
    name: str | None = option(
        replace(types.NAME, metavar="[NAME]"), "Name of the evaluator to explain.", positional=True
    )


@command(EvaluatorsOptions)
def evaluators(options: EvaluatorsOptions) -> None:
    """List the evaluators, or explain one.

    With NAME: what it measures, what it needs, an example, and its options.

    \b
    Example: a2a-eval-proxy evaluators tool_call_count
    """
    from tool_call_evaluators import evaluator_names
    from tool_call_evaluators.judged.base import JudgedEvaluator
    from tool_call_evaluators.options import OptionError
    from tool_call_evaluators.registry import evaluator_class

    if options.name is not None:
        click.echo(explained(evaluator_class(options.name)))
        return
    from rich.table import Column

    from ..runs.tables import plain_table

    names = (Column(heading, no_wrap=True) for heading in ("evaluator", "scores each", "judge"))
    table = plain_table(*names, "what it measures")
    for name in evaluator_names():
        try:
            cls = evaluator_class(name)
        except OptionError as error:  # a broken plug-in
            table.add_row(name, "–", "–", f"cannot be used: {error}")
            continue
        table.add_row(
            name,
            cls.scope,
            "yes" if issubclass(cls, JudgedEvaluator) else "",
            (inspect.getdoc(cls) or "").partition("\n")[0],
        )
    wide_console().print(table, markup=False)


def explained(cls: type[EvaluatorBase], without: Collection[str] = ()) -> str:
    """An evaluator in Markdown, with its options but those in `without` and `threshold`, which the text has."""
    from jinja2 import PackageLoader
    from tool_call_evaluators.evaluator import field_text
    from tool_call_evaluators.report.templating import plain_text
    from tool_call_evaluators.suite.schema import suite_schema

    schemas = suite_schema()["definitions"]["evaluator"]["anyOf"][1]["properties"]
    return plain_text(
        "evaluators.txt",
        PackageLoader(__package__, ""),
        cls=cls,
        text=inspect.getdoc(cls) or "",
        needs=", ".join(map(field_text, cls.needs)),
        options=sorted(
            (spec for spec in fields(cls) if spec.name not in ("threshold", *without)),
            key=lambda spec: spec.name == "id",
        ),
        schemas=schemas.get(cls.name, {}).get("properties", {}),
        default=_default,
    )


def _default(option: Field[Any]) -> str:
    if option.default is MISSING:
        return "required" if option.default_factory is MISSING else "empty"
    if isinstance(option.default, tuple):
        return ", ".join(map(str, option.default)) or "not set"
    if option.default is None:
        return "not set"
    return json.dumps(option.default) if isinstance(option.default, str | int | float | bool) else str(option.default)


FEATURE = Feature(commands=[evaluators])
