"""`worker`."""

from __future__ import annotations

from .command import command, run_async
from .options import WorkerOptions


@command(WorkerOptions)
def worker(options: WorkerOptions) -> None:
    """Score turns that proxies leave pending.

    These are the turns that `serve --no-evaluate` stores in PostgreSQL. Any number of workers share the work. A turn
    is scored once, even if a worker dies while scoring it. Prints one line when ready. SIGTERM stops the worker after
    its running jobs.

    \b
    Example: a2a-eval-proxy worker --store postgresql://user@host/turns --suite suite.yaml
    """
    from ..store.postgres import require_extra

    require_extra()
    from ..worker.command import AdminOptions, work_until_stopped
    from ..worker.job_engine import EngineOptions

    engine = EngineOptions(options.concurrency, options.stalled_after, options.shutdown_timeout)
    admin = None if options.admin is None else AdminOptions(options.admin, options.admin_token)
    privacy = options.privacy()
    run_async(
        work_until_stopped(options.store, options.suite, engine, privacy, admin, allow_plugins=options.allow_plugins)
    )
