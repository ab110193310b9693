"""`serve`: run the proxy until SIGTERM or SIGINT."""

from __future__ import annotations

import asyncio
import gc
import signal

import click

from .app import run_proxy
from .config import Settings
from .location import shown
from .logs import LOG_LINE, start_logging
from .privacy import privacy_of


async def serve_until_stopped(settings: Settings) -> None:
    """Run a proxy, print one line when it is ready, stop in order on the first signal; further ones change nothing."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    privacy = privacy_of(settings.redact, settings.redact_key, no_content=settings.no_content)
    start_logging(settings.log_level, LOG_LINE, privacy)
    async with run_proxy(settings) as proxy:
        _calm_the_collector()
        traces = f"traces {proxy.otlp_url}, " if proxy.otlp_url else ""
        click.echo(
            f"a2a-eval-proxy ready: proxy {proxy.url} -> agent {settings.upstream}, admin {proxy.admin_url}, {traces}"
            f"store {shown(settings.store)}, run {settings.run}"
        )
        await stop.wait()
        time_left = f"{settings.shutdown_timeout:g} s to finish, and turns as long again to be scored"
        click.echo(f"a2a-eval-proxy stopping: open responses have {time_left}", err=True)
        await proxy.drain()


def _calm_the_collector() -> None:
    """Collect garbage cycles seldom, and never what was there at the start.

    Traffic makes few cycles, but at Python's defaults every third request pays for a search, and now and then one
    for a search through every module.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
