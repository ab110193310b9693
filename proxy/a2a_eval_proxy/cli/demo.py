"""`demo`."""

from __future__ import annotations

from .command import command, run_async
from .options import DemoOptions


@command(DemoOptions)
def demo(options: DemoOptions) -> None:
    """Show a sample agent behind the proxy, in one process."""
    from ..demo.story import tell

    run_async(tell(options.keep))
