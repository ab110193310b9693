"""`mcp`: runs and failed turns for a coding agent, over the Model Context Protocol on standard input and output."""

from __future__ import annotations

from .command import command, run_async
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
    from .mcp_tools import tools_server

    run_async(tools_server(options).run_stdio_async())
