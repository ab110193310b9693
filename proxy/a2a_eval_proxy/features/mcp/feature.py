from __future__ import annotations

import sys
from contextlib import redirect_stdout

import click

from ...cli.command import command, run_async
from ...cli.output import unguarded
from ...feature import Feature
from .options import McpOptions


@command(McpOptions)
def mcp(options: McpOptions) -> None:
    """Serve runs and failed turns to a coding agent over MCP.

    The coding agent starts this command and exchanges messages with it on standard input and output. It can list runs,
    show how a turn differs from what was expected, run cases, and explain evaluators. It changes the suite only with
    --allow-accept.

    \b
    Example: a2a-eval-proxy mcp --suite suite.yaml --agent http://127.0.0.1:9999
    """
    from .tools import tools_server

    server = tools_server(options)
    if sys.stdin.isatty():
        click.echo("waiting for a coding agent, which starts this command; see proxy/docs/testing.md", err=True)
    with redirect_stdout(unguarded(sys.stdout)):  # the protocol writes bytes, whatever the encoding is
        run_async(server.run_stdio_async())


FEATURE = Feature(commands=[mcp])
