"""`check`."""

from __future__ import annotations

from .command import command, run_async
from .options import CheckOptions


@command(CheckOptions)
def check(options: CheckOptions) -> bool:
    """Check that an agent implements the extension correctly.

    Sends messages to the agent at URL over every JSON-RPC and HTTP+JSON interface of its card, with and without a
    request for tool calls. Reports what is wrong, with the evidence and a fix. The agent's tools really run.

    \b
    Exit codes: 0 conforming, 1 not conforming or no tool call seen, 2 bad usage, 3 agent unreachable.
    """
    from ..check.command import run_check

    headers = dict(options.header)
    return run_async(
        run_check(options.url, options.message, headers, options.tls(), options.timeout, options.format, options.out)
    )
