"""Keeps with the runs of live traffic the suites that score them: by these their verdict is made where it is read."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from a2a_tool_capture.recent import Recent

from ..store import Store, StoreError
from ..store.base import KeptVerdict
from ..telemetry.turn_listener import TurnListener
from ..turn import Turn
from .run_result import JudgedBy, Plan

logger = logging.getLogger(__name__)

_MOST = 1_000  # runs that are remembered


@dataclass(slots=True)
class _LiveRun:
    agents: set[str | None] = field(default_factory=set)
    judging: set[str | None] = field(default_factory=set)
    """The agents whose suites judge it."""
    kept: Sequence[JudgedBy] = ()


class LiveRuns(TurnListener):
    """A suite judges the run to which the traffic of its agent belongs, in which a case that has not come yet counts as
    missing, and others with turns of its cases. Belongs to one event loop."""

    def __init__(
        self,
        store: Store,
        is_judged: Callable[[Turn], bool],
        judged_by: Callable[[set[str | None]], Sequence[JudgedBy]],
    ) -> None:
        """`is_judged`: whether the suite of the turn's agent judges its run. `judged_by`: the suites of agents."""
        self._store = store
        self._is_judged, self._judged_by = is_judged, judged_by
        self._runs: Recent[str, _LiveRun] = Recent(_MOST)
        self._tasks: set[asyncio.Task[None]] = set()

    def stored(self, turns: Sequence[Turn]) -> None:
        touched: dict[str, _LiveRun] = {}
        for turn in turns:
            if (run := self._runs.get(turn.run)) is None:
                run = self._runs[turn.run] = _LiveRun()
            touched[turn.run] = run
            run.agents.add(turn.agent_name)
            if self._is_judged(turn):
                run.judging.add(turn.agent_name)
        for name, run in touched.items():
            found = self._judges(run)
            if found != run.kept:
                run.kept = found
                task = asyncio.get_running_loop().create_task(self._keep(name, run))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    def _judges(self, run: _LiveRun) -> Sequence[JudgedBy]:
        if not run.judging:
            return ()
        return [
            by if by.agents.intersection(run.judging) else by._replace(suite=None) for by in self._judged_by(run.agents)
        ]

    async def drained(self) -> None:
        """Returns when what came so far is kept."""
        await asyncio.gather(*self._tasks)

    async def _keep(self, name: str, run: _LiveRun) -> None:
        try:
            before = await self._store.kept_verdict(name)
            for by in before.plan["judges"] if before else ():  # of an earlier process, or of another one
                run.agents.update(by["agents"])
                run.judging.update(by["agents"] if by["suites"] else ())
            plan = Plan(self._judges(run))
            await self._store.keep_verdict(name, KeptVerdict(plan.name, plan.to_dict(), "pending", None, "none yet"))
        except StoreError as error:
            run.kept = ()  # the next turn tries again
            logger.warning("the suite of run %s is not kept with it yet: %s", name, error)
