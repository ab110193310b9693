from __future__ import annotations

from ...cli.command import command, run_async, wide_console
from ...feature import Feature
from ...settings import parsing as types
from ...settings.options import Options, option


class DemoOptions(Options):
    keep: bool = option(types.FLAG, "Leave the agent and the proxy running at the end.")


@command(DemoOptions)
def demo(options: DemoOptions) -> None:
    """Show a sample agent behind the proxy, in one process.

    Clients talk to the agent through the proxy, which shows and scores its tool calls, and writes a report.
    """
    from .story import tell

    run_async(tell(options.keep, console=wide_console()))


FEATURE = Feature(commands=[demo])
