from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...cli.command import command, run_async
from ...cli.options import StoredRunOptions, output_option, run_option
from ...cli.output import echo_json
from ...feature import Feature
from ...settings import parsing as types
from ...settings.options import option
from ...settings.parts import PluginOption, RedactionOptions

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.routing import Route

    from ...admin.control import Control
    from ..pages.screen import Screen


class CalibrateOptions(PluginOption, RedactionOptions, StoredRunOptions):
    suite: str = option(types.FILE, "Suite file or folder with the judges.", required=True, positional=True)
    evaluator: str | None = run_option(types.NAME, "Only the judge of these results. Default: every one with labels.")
    labels: str | None = run_option(
        types.FILE,
        "CSV or JSON Lines with turn_id or conversation_id, label, evaluator, who, by. Default: the annotations in the"
        " store.",
    )
    output: str = output_option()


_MOST_DISAGREEMENTS = 20


@command(CalibrateOptions)
def calibrate(options: CalibrateOptions) -> None:
    """Compare the judges of a suite with labels of people.

    Labels are the annotations in the store, given on the page /label, or a file. Says how consistent a judge is, how
    often it agrees with people, what it passes and fails wrongly, and where. Every score of that judge shows it from
    then on, until its prompt, criteria, model, parameters or threshold change.

    \b
    Exit codes: 0 compared, 2 nothing to compare, 3 no judge answered.
    Example: a2a-eval-proxy calibrate suite.yaml --labels labels.csv
    """
    from jinja2 import PackageLoader
    from rich.console import Console
    from tool_call_evaluators.importers import import_suites
    from tool_call_evaluators.report.templating import plain_text
    from tool_call_evaluators.report.text_forms import calibration_lines
    from tool_call_evaluators.texts import printable

    from .judging import calibrate

    suite = import_suites(options.suite, allow_plugins=options.allow_plugins).suite
    labels = None if options.labels is None else Path(options.labels)
    with Console(stderr=True).status("") as status:
        made = run_async(
            calibrate(
                suite,
                options.store,
                options.run,
                options.evaluator,
                labels,
                privacy=options.privacy(),
                advance=lambda done, of: status.update(f"{done:,} of {of:,} labelled"),
            )
        )
    if options.output == "json":
        echo_json(made)
        return
    loader = PackageLoader(__package__, "")
    text = plain_text("judges.txt", loader, judges=made, lines=calibration_lines, most=_MOST_DISAGREEMENTS)
    click.echo(printable(text) + "\n")


def routes(control: Control) -> Sequence[Route]:
    from starlette.responses import JSONResponse

    from ...admin.api_route import NoQuery, api_route

    async def handle(_: Request, given: NoQuery) -> JSONResponse:
        return JSONResponse({"items": await control.store.calibrations(), "next_cursor": None})

    return [api_route("GET", "/api/calibrations", handle)]


def _screens() -> Sequence[Screen]:
    from .label_page import SCREENS

    return SCREENS


FEATURE = Feature(commands=[calibrate], routes=routes, screens=_screens)
