from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from ...cli.command import command, run_async
from ...cli.options import run_option
from ...feature import Feature
from ...settings import parsing as types
from ...settings.options import option
from ...settings.parts import PluginOption, StoreOption, TraceUrlOption
from ...settings.store_url import masked_url
from ...signals import stop_signal

if TYPE_CHECKING:
    from ...admin.control import Control
    from ...admin.guard import AdminTokens, Pages


class UiOptions(TraceUrlOption, PluginOption, StoreOption):
    suite: str | None = run_option(
        types.FILE, "Suite file or folder whose cases are shown, and whose gates judge runs."
    )
    port: int = option(types.PORT, "Port to listen on, on this machine only; 0: any free one.", 8082)
    open: bool = option(types.FLAG, "Open the link in a browser.")


@command(UiOptions)
def ui(options: UiOptions) -> None:
    """Show the turns and runs of a store in a browser.

    The pages are those of `serve`, without an agent. The store may be in use: turns that proxies add appear on the
    pages. Several proxies that share a PostgreSQL database appear in one page. Prints a link that works once; listens
    on this machine only.

    \b
    Example: a2a-eval-proxy ui --store postgresql://db.example/turns --suite suite.yaml
    """
    run_async(serve_pages(options))


async def serve_pages(options: UiOptions) -> None:
    from tool_call_evaluators.importers import import_suites

    from ...privacy.policy import NO_PRIVACY
    from ...telemetry.logs import LOG_LINE, start_logging
    from .store_pages import store_pages

    stop = stop_signal()
    start_logging("info", LOG_LINE, NO_PRIVACY)
    imported = import_suites(options.suite, allow_plugins=options.allow_plugins) if options.suite else None
    suite, file = (imported.suite, imported.file) if imported else (None, None)
    async with store_pages(options.store, options.port, suite, file, options.trace_url) as (link, token):
        click.echo(f"a2a-eval-proxy ui ready: store {masked_url(options.store)}, open {link}")
        click.echo(f"the link works once; later logins and the API need the token {token}", err=True)
        if options.open:
            await asyncio.to_thread(click.launch, link)
        await stop.wait()


def _pages(control: Control, tokens: AdminTokens | None) -> Pages:
    from .site import Site

    return Site(control, tokens)


FEATURE = Feature(commands=[ui], pages=_pages)
