"""`doctor`: what is seen of an agent's tool calls, and which lines show the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from .command import command, run_async
from .options import DoctorOptions
from .receiving import receiving, variables

if TYPE_CHECKING:
    from ..doctor.diagnosis import Diagnosis


@command(DoctorOptions)
def doctor(options: DoctorOptions) -> bool:
    """Say what is seen of an agent's tool calls, and what to add.

    Sends one message to the agent at URL, and waits for traces that it sends to --otlp. Names the way by which calls
    are seen, the framework, and the lines that show the rest. The agent's tools really run. Add the lines, restart the
    agent, and run it again.

    \b
    Exit codes: 0 all calls are seen, 1 not all, 2 bad usage, 3 agent unreachable.
    Example: a2a-eval-proxy doctor localhost:9999
    """
    diagnosis = run_async(_diagnose(options))
    for line in diagnosis.lines:
        click.echo(line)
    return diagnosis.all_seen


async def _diagnose(options: DoctorOptions) -> Diagnosis:
    from ..doctor.diagnosis import diagnose
    from ..doctor.frameworks import FRAMEWORKS
    from ..runs.init import send_first

    agent = options.agent_options()
    named = next((one for one in FRAMEWORKS if one.page == options.framework), None)
    async with receiving(options) as tracing:
        first = await send_first(agent, options.message, tracing)
        (turn,) = first.turns
        scopes = [span.scope for span in tracing.spans(turn["turn_id"])] if tracing else []
    traces = variables(f"http://{options.otlp}")
    return diagnose(agent.url, first.card, first.text, turn, scopes, traces, named)
