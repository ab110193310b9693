from __future__ import annotations

import click

from ..cli.command import command, run_async
from ..errors import ConfigError
from ..feature import Feature
from ..settings.parts import RetentionOptions, StoreOption


class PruneOptions(StoreOption, RetentionOptions):
    def __post_init__(self) -> None:
        if self.retain_days is None and self.retain_mb is None:
            raise ConfigError("prune: which turns? Give --retain-days, --retain-mb or both")


@command(PruneOptions)
def prune(options: PruneOptions) -> None:
    """Delete old turns of the store, once and now.

    Deletes turns that ended more than --retain-days ago, then the oldest ones until the store takes at most
    --retain-mb, with their results and annotations: what `serve` does every ten minutes with the same settings.
    Proxies may use the store meanwhile.

    \b
    Example: a2a-eval-proxy prune --store turns.db --retain-days 30
    """
    from ..runs.stored_turns import pruned

    click.echo(run_async(pruned(options.store, options.retain_days, options.retain_mb)))


FEATURE = Feature(commands=[prune])
