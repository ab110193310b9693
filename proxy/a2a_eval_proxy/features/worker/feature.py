from __future__ import annotations

from ...cli.command import command, run_async
from ...feature import Feature
from .options import WorkerOptions


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
    from ...store.postgres import require_extra

    require_extra()
    from .command import work_until_stopped

    run_async(work_until_stopped(options))


FEATURE = Feature(commands=[worker])
