"""Two stored runs compared for the admin API and its pages."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tool_call_evaluators.outcomes.comparison import Comparison

from ...admin.control import Control
from ...runs.compare import compare_stored, compared_runs
from ...runs.run_result import MAX_TURNS, LongRunError


async def compared(
    control: Control,
    before: str,
    after: str,
    agent: str | None,
    form: Callable[[Comparison], str],
    within_s: float | None = None,
) -> str | None:
    """Two runs compared, in this form; None if that takes longer than `within_s`: then it is kept for the next time.

    Raises UnknownRunError, LongRunError, StoreError.
    """
    earlier, later = await compared_runs(control.store, before, after)
    if max(sum(run.turns for run in earlier), later.turns) > MAX_TURNS:
        raise LongRunError(
            f"there are more than {MAX_TURNS:,} turns; use `a2a-eval-proxy compare RUN_A RUN_B --format json`"
        )

    async def compare() -> str:
        comparison = await compare_stored(control.store, before, after, agent=agent)
        return await asyncio.to_thread(form, comparison)

    return await control.work.run((form, agent, before, *earlier, later), compare, within_s, keep=within_s is not None)
