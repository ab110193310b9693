"""Commands about suites: `run` and `evaluate` score with them; `evaluators`, `schema`, `convert` and `validate` are
about the suites themselves."""

from __future__ import annotations

import inspect
import json
from dataclasses import MISSING, fields
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING, Any

import click

from ..errors import BAD_INPUT
from .command import command, run_async, wide_console
from .options import ConvertOptions, EvaluateOptions, EvaluatorsOptions, RunOptions, SchemaOptions, ValidateOptions
from .output import JsonOutput, put_document, refuse_existing

if TYPE_CHECKING:
    from tool_call_evaluators.evaluator import EvaluatorBase
    from tool_call_evaluators.importers import Imported


@command(RunOptions)
def run(options: RunOptions) -> bool:
    """Send the cases of each SUITE to an agent and score every turn.

    SUITE is a file, or a folder with suites. Several make one run, which passes if each of them does.

    The exit code says whether the run passed. What does not run counts as failed: a case without a response, an
    evaluator with an error, a metric that was never measured.

    \b
    Example: a2a-eval-proxy run suite.yaml --agent http://127.0.0.1:9999 --report report
    """
    from .run_display import run_and_show

    return run_async(run_and_show(options))


@command(EvaluateOptions)
def evaluate(options: EvaluateOptions) -> bool:
    """Score stored turns again with suites, without an agent.

    The exit code says whether they passed. With --report, writes the report of a run that is stored.

    \b
    Example: a2a-eval-proxy evaluate --run monday --suite suite.yaml --report report
    """
    from .run_display import evaluate_and_show

    return run_async(evaluate_and_show(options))


_COMMON = ("threshold", "id")


@command(EvaluatorsOptions)
def evaluators(options: EvaluatorsOptions) -> None:
    """List the evaluators, or explain one.

    With NAME: what it measures, what it needs, its options, and a whole suite as an example.

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

    from ..runs.tables import PlainTable

    names = (Column(heading, no_wrap=True) for heading in ("evaluator", "scores each", "judge"))
    table = PlainTable(*names, "what it measures")
    for name in evaluator_names():
        cls = evaluator_class(name)
        table.add_row(
            name,
            cls.scope,
            "yes" if issubclass(cls, JudgedEvaluator) else "",
            (inspect.getdoc(cls) or "").partition("\n")[0],
        )
    wide_console().print(table, markup=False)


@command(SchemaOptions)
def schema(options: SchemaOptions) -> None:
    """Print the JSON Schema of suite files, for editors.

    An editor with a YAML language server completes and checks a suite whose first line names the file:
    # yaml-language-server: $schema=suite.schema.json

    \b
    Example: a2a-eval-proxy schema > suite.schema.json
    """
    from tool_call_evaluators.suite.writing import shipped_schema

    JsonOutput().write(shipped_schema())


@command(ConvertOptions)
def convert(options: ConvertOptions) -> None:
    """Convert a file of another framework to a suite.

    FILE is of ArkSim, google-adk, UiPath or Dokimos. What has no counterpart is listed on stderr, and in comments at
    the head of the suite.

    \b
    Example: a2a-eval-proxy convert cases.test.json --out suite.yaml
    """
    from tool_call_evaluators.importers import import_suite
    from tool_call_evaluators.suite.writing import suite_text

    refuse_existing(options.out)
    imported = import_suite(options.file, options.format, allow_plugins=options.allow_plugins)
    notes = [f"Not imported: {note}" for note in imported.notes]
    text = suite_text(imported.suite, [f"From {Path(options.file).name} ({imported.format}).", *notes])
    put_document(text, options.out)
    cases = len(imported.suite.cases)
    summary = f"converted {cases} case{'' if cases == 1 else 's'}" + (f" to {options.out}" if options.out else "")
    click.echo("\n".join([*notes, summary]), err=True)


def explained(cls: type[EvaluatorBase]) -> list[str]:
    from tool_call_evaluators.evaluator import field_text, is_built_in
    from tool_call_evaluators.suite.examples import example_text

    low, high = cls.scale
    lines = [f"{cls.name}: scores each {cls.scope}, from {low:g} to {high:g}", "", inspect.getdoc(cls) or "", ""]
    if cls.needs:
        lines += [f"Skipped without {', '.join(map(field_text, cls.needs))}.", ""]
    lines += ["Options:", *_options(cls)]
    if is_built_in(cls):
        lines += ["", "A whole suite:", "", *(f"  {line}".rstrip() for line in example_text(cls.name).splitlines())]
    return lines


def _options(cls: type[EvaluatorBase]) -> list[str]:
    """A line for each option: its default, what it may be, what it is for."""
    from tool_call_evaluators.suite.writing import suite_schema

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


@command(ValidateOptions)
def validate(options: ValidateOptions) -> None:
    """Check suites and their agents before a run.

    Finds errors of the suite, unknown gates, judges without a model or key, plug-ins that do not load, expectations
    that no evaluator reads, and misspelt placeholders. With an agent (--agent, or the suite's), reads its card. The
    agent gets no message.

    \b
    Exit codes: 0 valid, 2 not valid, 3 the agent is unreachable.
    Example: a2a-eval-proxy validate suite.yaml --agent localhost:9999
    """
    from tool_call_evaluators.importers import import_suite, suite_files
    from tool_call_evaluators.suite.model import combined
    from tool_call_evaluators.texts import counted, printable

    files, skipped = suite_files(options.suite)
    for file in skipped:
        click.echo(printable(f"{file} is skipped: it is not a suite"))
    imported = [import_suite(file, options.format, allow_plugins=options.allow_plugins) for file in files]
    combined([item.suite for item in imported], files)  # no two of them have a case of the same id
    errors = sum(_check_suite(file, item, options) for file, item in zip(files, imported, strict=True))
    if errors:
        click.echo(f"\nnot valid: {counted(errors, 'error')}")
        click.get_current_context().exit(BAD_INPUT)
    click.echo("\nvalid")


def _check_suite(file: str, imported: Imported, options: ValidateOptions) -> int:
    """Print what is wrong with the suite of a file, and what its agent declares; the number of errors."""
    from tool_call_evaluators.texts import printable

    from ..runs.preflight import check_agents, check_suite, suite_line, unresolved_headers

    suite = imported.suite
    found, unresolved = check_suite(suite), unresolved_headers(file, suite, options.agent_defaults().headers)
    errors = [*found.errors, *unresolved]
    lines = [suite_line(suite), *(f"not imported: {note}" for note in imported.notes)]
    lines += [f"error: {sentence}" for sentence in errors]
    lines += [f"warning: {sentence}" for sentence in found.warnings]
    click.echo(printable("\n".join(lines)))
    if (options.agent or suite.agent.url) and not unresolved:
        lines, unseen = run_async(check_agents(options.agent_options(suite.agent), suite))
        click.echo(printable("\n".join([*lines, *(f"warning: {sentence}" for sentence in unseen)])))
    return len(errors)
