"""`serve`: run the proxy until SIGTERM or SIGINT."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys

import click

from ..settings import Settings
from ..settings.store_url import masked_url
from .command import command, run_async


@command(Settings)
def serve(settings: Settings) -> None:
    """Relay traffic to an agent and score every turn.

    Each turn is captured with its tool calls, stored and scored.

    Configure clients with the proxy's URL instead of the agent's. Prints one line when ready. SIGTERM stops the proxy
    after its open responses.

    \b
    Example: a2a-eval-proxy serve --upstream http://127.0.0.1:9999 --suite suite.yaml
    """
    run_async(_serve_until_stopped(settings))


async def _serve_until_stopped(settings: Settings) -> None:
    """Run a proxy, print one line when it is ready, and stop in order on the first signal; later ones are ignored."""
    from ..app import run_proxy
    from ..privacy.policy import privacy_of
    from ..telemetry.logs import LOG_LINE, start_logging

    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    privacy = privacy_of(settings.redact, settings.redact_key, no_content=settings.no_content)
    start_logging(settings.log_level, LOG_LINE, privacy)
    async with run_proxy(settings) as proxy:
        _collect_garbage_less_often()
        sys.setswitchinterval(_SWITCH_INTERVAL_S)
        traces = f"traces {proxy.otlp_url}, " if proxy.otlp_url else ""
        click.echo(
            f"a2a-eval-proxy ready: proxy {proxy.url} -> agent {settings.upstream}, admin {proxy.admin_url}, {traces}"
            f"store {masked_url(settings.store)}, run {settings.run}"
        )
        await stop.wait()
        limit = f"{settings.shutdown_timeout:g} s"
        click.echo(
            f"a2a-eval-proxy stopping: waiting up to {limit} for open responses, then up to {limit} for scoring",
            err=True,
        )
        await proxy.drain()


_SWITCH_INTERVAL_S = 0.000_5
"""How long the store's thread may keep the event loop waiting for the interpreter lock; Python's default is 5 ms."""


def _collect_garbage_less_often() -> None:
    """Never search the objects of the start-up for garbage cycles, and the others rarely.

    Traffic creates few cycles; with Python's defaults every third request would pay for a search, and some for a
    search through every module.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
