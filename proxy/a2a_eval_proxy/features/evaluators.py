from __future__ import annotations

import inspect
import json
from dataclasses import MISSING, fields, replace
from textwrap import indent
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


_COMMON = ("threshold", "id")


@command(EvaluatorsOptions)
def evaluators(options: EvaluatorsOptions) -> None:
    """List the evaluators, or explain one.

    With NAME: what it measures, what it needs, and its options.

    \b
    Example: a2a-eval-proxy evaluators tool_call_count
    """
    from tool_call_evaluators import evaluator_names
    from tool_call_evaluators.judged.base import JudgedEvaluator
    from tool_call_evaluators.registry import evaluator_class

    if options.name is not None:
        click.echo("\n".join(explained(evaluator_class(options.name))))
        return
    from rich.table import Column

    from ..runs.tables import plain_table

    names = (Column(heading, no_wrap=True) for heading in ("evaluator", "scores each", "judge"))
    table = plain_table(*names, "what it measures")
    for name in evaluator_names():
        cls = evaluator_class(name)
        table.add_row(
            name,
            cls.scope,
            "yes" if issubclass(cls, JudgedEvaluator) else "",
            (inspect.getdoc(cls) or "").partition("\n")[0],
        )
    wide_console().print(table, markup=False)


def explained(cls: type[EvaluatorBase]) -> list[str]:
    from tool_call_evaluators.evaluator import field_text

    low, high = cls.scale
    lines = [f"{cls.name}: scores each {cls.scope}, from {low:g} to {high:g}", "", inspect.getdoc(cls) or "", ""]
    if cls.needs:
        lines += [f"Skipped without {', '.join(map(field_text, cls.needs))}.", ""]
    lines += ["Options:", *_options(cls)]
    return lines


def _options(cls: type[EvaluatorBase]) -> list[str]:
    """A line for each option: its default, what it may be, what it is for."""
    from tool_call_evaluators.suite.schema import suite_schema

    schemas = suite_schema()["definitions"]["evaluator"]["anyOf"][1]["properties"]
    described = schemas.get(cls.name, {}).get("properties", {})
    own = [spec for spec in fields(cls) if spec.name not in _COMMON]
    lines = []
    for spec in [*own, *(spec for spec in fields(cls) if spec.name in _COMMON)]:
        schema = described.get(spec.name, {})
        default = "required" if spec.default is spec.default_factory is MISSING else _default(spec.default)
        choices = " | ".join(map(str, schema.get("enum", ())))
        lines.append(f"  {spec.name} ({default})" + (f": {choices}" if choices else ""))
        if text := schema.get("description"):
            lines.append(indent(text, " " * 6))
    return lines


def _default(value: Any) -> str:
    if value is None or value is MISSING:
        return "not set" if value is None else "empty"
    return json.dumps(value) if isinstance(value, str | int | float | bool) else str(value)


FEATURE = Feature(commands=[evaluators])
