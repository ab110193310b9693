"""Commands that work until they are stopped: `serve`, `ui`, `worker`, `mcp` and `demo`."""

from __future__ import annotations

import asyncio
import gc
import sys
from contextlib import redirect_stdout
from functools import partial
from typing import TYPE_CHECKING

import click

from ..memory import return_large_blocks
from ..settings import Settings
from ..settings.settings import WorkerOptions
from ..settings.store_url import masked_url
from ..signals import stop_signal
from .command import command, run_async, wide_console
from .options import DemoOptions, McpOptions, UiOptions
from .output import guarded, unguarded

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
            f"a2a-eval-proxy ready: proxy {proxy.url} -> {_behind(settings, [*proxy.lines])}, admin {proxy.admin_url}, "
            f"{traces}{grpc}store {masked_url(settings.store)}, run {settings.run}"
        )
        click.echo(f"open {proxy.page_address()} in a browser to see turns live", err=True)
        reports = [
            line.status.report(partial(lines.write, partial("{}: {}".format, name) if name else str))
            for name, line in proxy.lines.items()
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


def _behind(settings: Settings, names: list[str]) -> str:
    """The agent, or the names of several."""
    if settings.upstream:
        return f"agent {settings.upstream}"
    from tool_call_evaluators.texts import counted

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


@command(UiOptions)
def ui(options: UiOptions) -> None:
    """Show the turns and runs of a store in a browser.

    The pages are those of `serve`, without an agent. The store may be in use: turns that proxies add appear on the
    pages. Several proxies that share a PostgreSQL database appear in one page. Prints a link that works once; listens
    on this machine only.

    \b
    Example: a2a-eval-proxy ui --store postgresql://db.example/turns --suite suite.yaml
    """
    run_async(_serve_pages(options))


async def _serve_pages(options: UiOptions) -> None:
    from tool_call_evaluators.importers import import_suites

    from ..privacy.policy import NO_PRIVACY
    from ..telemetry.logs import LOG_LINE, start_logging
    from ..ui.store_pages import store_pages

    stop = stop_signal()
    start_logging("info", LOG_LINE, NO_PRIVACY)
    imported = import_suites(options.suite, allow_plugins=options.allow_plugins) if options.suite else None
    suite, file = (imported.suite, imported.file) if imported else (None, None)
    async with store_pages(options.store, options.port, suite, file, options.trace_url) as served:
        click.echo(f"a2a-eval-proxy ui ready: store {masked_url(options.store)}, open {served.link}")
        click.echo(f"the link works once; later logins and the API need the token {served.token}", err=True)
        if options.open:
            await asyncio.to_thread(click.launch, served.link)
        await stop.wait()


@command(WorkerOptions)
def worker(options: WorkerOptions) -> None:
    """Score turns that proxies leave pending.

    These are the turns that `serve --no-evaluate` stores in PostgreSQL. Any number of workers share the work. A turn
    is scored once, even if a worker dies while scoring it. Prints one line when ready. SIGTERM stops the worker after
    its running jobs. With the --config file of proxies before several agents, the turns of each are scored by its own
    suite.

    \b
    Example: a2a-eval-proxy worker --store postgresql://user@host/turns --suite suite.yaml
    """
    from ..store.postgres import require_extra

    require_extra()
    from ..worker.command import work_until_stopped

    run_async(work_until_stopped(options))


@command(DemoOptions)
def demo(options: DemoOptions) -> None:
    """Show a sample agent behind the proxy, in one process.

    Clients talk to the agent through the proxy, which shows and scores its tool calls, and writes a report.
    """
    from ..demo.story import tell

    run_async(tell(options.keep, console=wide_console()))


@command(McpOptions)
def mcp(options: McpOptions) -> None:
    """Serve runs and failed turns to a coding agent over MCP.

    The coding agent starts this command and exchanges messages with it on standard input and output. It can list runs,
    show how a turn differs from what was expected, run cases, and explain evaluators. It changes the suite only with
    --allow-accept.

    \b
    Example: a2a-eval-proxy mcp --suite suite.yaml --agent http://127.0.0.1:9999
    """
    from .mcp_tools import tools_server

    server = tools_server(options)
    if sys.stdin.isatty():
        click.echo("waiting for a coding agent, which starts this command; see proxy/docs/coding-agents.md", err=True)
    with redirect_stdout(unguarded(sys.stdout)):  # the protocol writes bytes, whatever the encoding is
        run_async(server.run_stdio_async())
