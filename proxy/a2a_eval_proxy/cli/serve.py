"""`serve`: works until it is stopped."""

from __future__ import annotations

import asyncio
import gc
import sys
from functools import partial
from typing import TYPE_CHECKING

import click

from ..memory import return_large_blocks
from ..settings.settings import Settings
from ..settings.store_url import masked_url
from ..signals import stop_signal
from .command import command, run_async
from .output import guarded

if TYPE_CHECKING:
    from ..privacy.policy import Privacy


@command(Settings)
def serve(settings: Settings) -> None:
    """Relay traffic to an agent and score every turn.

    Each turn is captured with its tool calls, stored and scored.

    Configure clients with the proxy's URL instead of the agent's. Prints one line when ready, and on stderr what the
    agent's card offers and a line for each turn. SIGTERM stops the proxy after its open responses.

    \b
    Example: a2a-eval-proxy serve --upstream http://127.0.0.1:9999 --suite suite.yaml
    """
    run_async(_serve_until_stopped(settings, settings.privacy()))


async def _serve_until_stopped(settings: Settings, privacy: Privacy) -> None:
    """Run a proxy, print one line when it is ready, and stop in order on the first signal; later ones are ignored."""
    from ..app import run_proxy
    from ..privacy.policy import together
    from ..telemetry.logs import LOG_LINE, start_logging, without_secrets
    from .turn_lines import LineWriter, TurnLines

    loop = asyncio.get_running_loop()
    stop = stop_signal()
    of_all = together([privacy, *(agent.settings.privacy() for name, agent in settings.each_agent.items() if name)])
    start_logging(settings.log_level, LOG_LINE, of_all)
    lines = LineWriter(lambda line: guarded(of_all.text(without_secrets(line))))
    says_turns = settings.log_level in ("debug", "info")
    listeners = [TurnLines(lines, scores=settings.evaluate)] if says_turns else []
    async with run_proxy(settings, *listeners, privacy=privacy) as proxy:
        _tune_interpreter()
        traces = f"traces {proxy.otlp_url}, " if proxy.otlp_url else ""
        grpc = f"gRPC {proxy.grpc_address}, " if proxy.grpc_address else ""
        click.echo(
            f"a2a-eval-proxy ready: proxy {proxy.url} -> {_behind(settings)}, admin {proxy.admin_url}, "
            f"{traces}{grpc}store {masked_url(settings.store)}, run {settings.run}"
        )
        if address := proxy.control.page_address():
            click.echo(f"open {address} in a browser to see turns live", err=True)
        reports = [
            line.status.report(partial(lines.write, partial("{}: {}".format, name) if name else str))
            for name, line in proxy.control.lines.items()
        ]
        watches = [loop.create_task(report) for report in reports]
        await stop.wait()
        for watch in watches:
            watch.cancel()
        limit = f"{settings.timeouts.shutdown:g} s"
        click.echo(
            f"a2a-eval-proxy stopping: waiting up to {limit} for open responses, then up to {limit} for scoring",
            err=True,
        )
        await proxy.drain()
    lines.close()


def _behind(settings: Settings) -> str:
    """The agent, or the names of several."""
    if settings.upstream:
        return f"agent {settings.upstream}"
    from tool_call_evaluators.texts import counted

    names = [*settings.each_agent]
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"{counted(len(names), 'agent')} at /agents/NAME: {' '.join(names[:_MOST_NAMES])}{more}"


_MOST_NAMES = 10

_SWITCH_INTERVAL_S = 0.000_5
"""How long the store's thread may keep the event loop waiting for the interpreter lock; Python's default is 5 ms."""


def _tune_interpreter() -> None:
    """Never search the objects of the start-up for garbage cycles, and the others rarely; switch threads more often;
    return large blocks of memory to the system.

    Traffic creates few cycles; with Python's defaults every third request would pay for a search, and some for a
    search through every module. A search takes half a microsecond for each object, in which requests wait: those that
    agents keep waiting are searched twice, at most some ten thousand objects at a time, and then rarely.
    """
    return_large_blocks()
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    gc.collect()
    gc.freeze()
    gc.set_threshold(5_000, 0, 150)
