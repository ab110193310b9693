from __future__ import annotations

from pathlib import Path

import click

from ..cli.command import command
from ..cli.options import IMPORTED, new_file_option
from ..cli.output import put_document, refuse_existing
from ..feature import Feature
from ..settings import parsing as types
from ..settings.options import option
from ..settings.parts import PluginOption


class ConvertOptions(PluginOption):
    file: str = option(types.FILE, "File of ArkSim, google-adk, UiPath or Dokimos.", required=True, positional=True)
    format: str | None = option(types.one_of(*IMPORTED), "Format of FILE; detected by default.")
    out: Path | None = new_file_option()


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
    put_document(
        suite_text(imported.suite, [f"From {Path(options.file).name} ({imported.format}).", *notes]), options.out
    )
    cases = len(imported.suite.cases)
    summary = f"converted {cases} case{'' if cases == 1 else 's'}" + (f" to {options.out}" if options.out else "")
    click.echo("\n".join([*notes, summary]), err=True)


FEATURE = Feature(commands=[convert])
