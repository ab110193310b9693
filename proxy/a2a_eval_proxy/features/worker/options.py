"""The options of `worker`."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

from ...errors import ConfigError
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
            raise ConfigError(
                f"--store: workers share a store; expected postgresql://..., got {masked_url(self.store)!r}"
            )
        if self.admin and not is_loopback(self.admin) and not self.admin_token:
            raise ConfigError(f"--admin: {self.admin} is not on loopback, which requires --admin-token")
        super().__post_init__()
        _ = self.each_agent  # raises ConfigError

    @cached_property
    def each_agent(self) -> dict[str, WorkerOptions]:
        """What holds for the turns of each agent, by name: of its settings, those that concern scoring."""
        from ...settings.settings import own_settings  # it asks all features

        return {name: replace(self, **{"agents": (), **own_settings(self, name, own)[0]}) for name, own in self.agents}
