from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...cli.command import command, run_async
from ...cli.options import FAIL_ON, StoredAgentOption
from ...cli.output import JsonOutput, echo_document
from ...feature import Feature
from ...settings import parsing as types
from ...settings.options import option
from ...settings.parts import StoreOption

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.routing import Route
    from tool_call_evaluators.outcomes.comparison import FailOn

    from ...admin.control import Control
    from ..pages.screen import Screen


class CompareOptions(StoredAgentOption, StoreOption):
    run_a: str = option(
        replace(types.NAME, metavar="RUN_A"),
        "The earlier run, or version:NAME for all of an agent version.",
        required=True,
        positional=True,
    )
    run_b: str = option(replace(types.NAME, metavar="RUN_B"), "The later run.", required=True, positional=True)
    fail_on: tuple[FailOn, ...] = FAIL_ON
    margin: float = option(types.SHARE, "Pass rates that differ by less than this share are equivalent.", 0.05)
    detect: float | None = option(types.SHARE, "Say how many attempts show a drop of the pass rate by this: 10%, 0.1.")

    format: str = option(types.one_of("text", "json", "markdown", "html"), "Output format.", "text")
    report: Path | None = option(types.OUTPUT_DIRECTORY, "Directory for comparison.html.")


@command(CompareOptions)
def compare(options: CompareOptions) -> bool:
    """Show what changed from RUN_A to RUN_B, case by case.

    Reports changed tool calls, score changes, new failures and fixes. RUN_B has regressed if a case is missing, or if
    the pass rate or a metric drops significantly, over all cases or over the repetitions of one. At most 5 % of
    comparisons of an unchanged agent report a regression. The smallest drop that would be detected is shown too.

    Metrics that the runs measured differently (another judge model, prompt, evaluator version or threshold) are listed
    but not compared. With --fail-on regression, the exit code is 2 if no metric can be compared.

    \b
    Example: a2a-eval-proxy compare monday tuesday --fail-on regression
    """
    from ...runs.compare import FORMS, compare_runs, write_page

    comparison = run_async(
        compare_runs(
            options.store,
            options.run_a,
            options.run_b,
            margin=options.margin,
            detect=options.detect,
            agent=options.agent_name,
        )
    )
    text = FORMS[options.format](comparison)
    if options.format == "text":  # in colour on a terminal, unless NO_COLOR is set (https://no-color.org)
        click.echo(text, nl=False, color=False if os.environ.get("NO_COLOR") else None)
    elif options.format == "json":
        JsonOutput().write(text)
    else:
        echo_document(text)
    if options.report is not None:
        click.echo(f"page {write_page(comparison, options.report)}", err=True)
    if not options.fail_on:
        return True
    if "undecided" not in options.fail_on and not (comparison.regressed or comparison.comparable):
        raise click.UsageError(
            f"{options.run_a} and {options.run_b} cannot be compared: they share no metric measured in the same way"
        )
    return not comparison.fails_on(options.fail_on)


def routes(control: Control) -> Sequence[Route]:
    from starlette.exceptions import HTTPException
    from starlette.responses import Response
    from tool_call_evaluators.report import comparison_json

    from ...admin.api_route import api_route
    from ...admin.cases_api import OfAgent
    from ...runs.run_result import LongRunError
    from ...runs.stored_turns import UnknownRunError
    from .stored import compared

    async def handle(_: Request, before: str, after: str, given: OfAgent) -> Response:
        try:
            text = await compared(control, before, after, given.agent, comparison_json)
        except UnknownRunError as error:
            raise HTTPException(404, str(error)) from None
        except LongRunError as error:
            raise HTTPException(422, str(error)) from None
        return Response(text, media_type="application/json")

    return [api_route("GET", "/api/runs/{before}/compare/{after}", handle, OfAgent)]


def _screens() -> Sequence[Screen]:
    from .page import SCREENS

    return SCREENS


FEATURE = Feature(commands=[compare], routes=routes, screens=_screens)
