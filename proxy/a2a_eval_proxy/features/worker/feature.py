from __future__ import annotations

from dataclasses import replace
from functools import cached_property

from ...cli.command import command, run_async
from ...errors import ConfigError
from ...feature import Feature
from ...settings import parsing as types
from ...settings.options import option
from ...settings.parsing import is_loopback
from ...settings.parts import AdminPortOptions, AgentsOptions, ScoringOptions, TimeoutsOption
from ...settings.store_url import is_postgres, masked_url


class WorkerOptions(AgentsOptions, ScoringOptions, AdminPortOptions, TimeoutsOption):
    store: str = option(
        replace(types.TEXT, metavar="URL"), "PostgreSQL database with the pending turns.", required=True
    )
    concurrency: int = option(
        types.UP_TO_1000, "Jobs to run concurrently, each of up to 50 turns. Raise it if judges are slow.", 4
    )
    stalled_after: float = option(
        types.SECONDS_FROM_1, "Heartbeat timeout, after which the jobs of a worker go to other workers.", 30.0
    )
    admin: str | None = option(types.ADDRESS, "Address of /healthz, /readyz and /metrics. Default: none.")

    def __post_init__(self) -> None:
        if not is_postgres(self.store):
            given = masked_url(self.store)
            raise ConfigError(f"--store: workers share a store; expected postgresql://..., got {given!r}")
        if self.admin and not is_loopback(self.admin) and not self.admin_token:
            raise ConfigError(f"--admin: {self.admin} is not on loopback, which requires --admin-token")
        super().__post_init__()
        _ = self.each_agent  # raises ConfigError

    @cached_property
    def each_agent(self) -> dict[str, WorkerOptions]:
        """What holds for the turns of each agent, by name: of its settings, those that concern scoring."""
        from ...settings.settings import own_settings  # it asks all features

        return {name: replace(self, **{"agents": (), **own_settings(self, name, own)[0]}) for name, own in self.agents}


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
