from __future__ import annotations

from ..cli.command import command, run_async
from ..cli.options import StoredAgentOption, StoredRunOptions
from ..cli.output import JsonOutput
from ..feature import Feature


class ExportOptions(StoredAgentOption, StoredRunOptions):
    pass


@command(ExportOptions)
def export(options: ExportOptions) -> None:
    """Write stored turns to standard output as JSON Lines.

    Turns come in the order in which they were stored, in the format of /api/turns of the admin API.

    \b
    Example: a2a-eval-proxy export --run monday > turns.jsonl
    """
    from ..runs.stored_turns import write_turns

    run_async(write_turns(options.store, options.run, JsonOutput(), options.agent_name))


FEATURE = Feature(commands=[export])
