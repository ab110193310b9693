"""`demo`."""

from __future__ import annotations

from .command import command, run_async, wide_console
from .options import DemoOptions


@command(DemoOptions)
def demo(options: DemoOptions) -> None:
    """Show a sample agent behind the proxy, in one process.

    Clients talk to the agent through the proxy, which shows and scores its tool calls, and writes a report.
    """
    from ..demo.story import tell

    run_async(tell(options.keep, console=wide_console()))
