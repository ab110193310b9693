"""Turns and the spans that come after them: waiting for spans before scoring, scoring again when more come."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

from a2a_tool_capture import Finding

from ..otlp.trace_service import Tracing
from ..traces.trace_records import Evidence
from ..turn import Turn
from .executor import Job, StoredJob
from .job_queue import ScoredJobs

_LATE_S = 0.5
"""Late spans of a turn are gathered for this time before it is scored again."""


class NoSpans:
    """No traces are received: no turn waits for spans, and none is scored again."""

    expected = False
    """Whether spans are to be expected of the agent."""

    def evidence(self, turn: Turn) -> Evidence | None:
        """What traces contain about the turn; None where they contain nothing."""
        return None

    def awaited(self, turn: Turn) -> bool:
        """Whether spans of the turn have come, or may still come in time."""
        return False

    def wait(self, job: Job | StoredJob, resting: Job | StoredJob) -> bool:
        """Whether `job` has to wait for spans; `resting`, the same job as it may wait, is ready after that."""
        return False

    def scored(self, job: Job | StoredJob, used: Evidence | None) -> None:
        """The job is done with the evidence `used`; spans that come late, or came meanwhile, let it be scored again."""

    def bind(self, turn_id: str, case_id: str) -> None:
        """The turn belongs to this case now: it is scored so when spans come late."""

    def found_late(self, turn_id: str, findings: Sequence[Finding]) -> Job | None:
        """The turn has these findings, too, when spans come late. Returns what is remembered of it."""
        return None

    def close(self) -> None:
        """Waiting ends; nothing becomes ready any more."""


class LateSpans(NoSpans):
    """Belongs to one event loop.

    `ready` is called with a job that has waited long enough; `again` with one that is to be scored again, and returns
    it as it may wait.
    """

    def __init__(
        self,
        tracing: Tracing,
        ready: Callable[[Job | StoredJob], None],
        again: Callable[[Job], Job | StoredJob],
        agent_name: str | None,
        memory: int,
    ) -> None:
        """`memory`: bytes of the scored jobs that are remembered."""
        self._stop = tracing.listen(agent_name, self.changed)
        self._agent_name = agent_name
        self._tracing = tracing
        self._ready = ready
        self._again = again
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[str, tuple[Job | StoredJob, asyncio.TimerHandle]] = {}
        self._scored = ScoredJobs(memory)
        self._changed = False
        """Whether spans came for any turn."""

    @property
    def expected(self) -> bool:  # type: ignore[override]  # read-only here
        return self._tracing.heard(self._agent_name)

    def evidence(self, turn: Turn) -> Evidence | None:
        # most agents send no traces: there is nothing to look for
        return self._tracing.evidence(turn) if self._changed or self.expected else None

    def awaited(self, turn: Turn) -> bool:
        return self._tracing.wait_s(turn) > 0 or self.evidence(turn) is not None

    def wait(self, job: Job | StoredJob, resting: Job | StoredJob) -> bool:
        # One of which only the store has the turn has waited for the store, long enough.
        wait_s = self._tracing.wait_s(job.turn) if isinstance(job, Job) else 0.0
        if wait_s <= 0:
            return False
        self._wait(resting, wait_s)
        return True

    def scored(self, job: Job | StoredJob, used: Evidence | None) -> None:
        if not isinstance(job, Job):
            return
        self._scored.put(job)
        now_there = self.evidence(job.turn)
        if now_there is not None and now_there.size > (used.size if used is not None else 0):
            self.changed(job.turn, True)  # more came while it was scored

    def bind(self, turn_id: str, case_id: str) -> None:
        job = self._scored.take(turn_id)
        if job is not None:
            for turn in (job.turn, job.redacted, job.stored):
                turn.case_id = case_id
            self._scored.put(job)

    def found_late(self, turn_id: str, findings: Sequence[Finding]) -> Job | None:
        waiting, _ = self._waiting.get(turn_id, (None, None))
        if isinstance(waiting, Job):
            waiting.found(findings)
        job = self._scored.take(turn_id)
        if job is not None:
            job.found(findings)
            self._scored.put(job)
        return job

    def close(self) -> None:
        self._stop()
        for _, timer in self._waiting.values():
            timer.cancel()

    def changed(self, turn: Turn, has_work: bool) -> None:
        """Spans came for a turn. `has_work`: some are about an agent's work; others change nothing in a scored turn."""
        self._changed = True
        waiting = self._waiting.get(turn.turn_id)
        if waiting is not None:
            job, timer = waiting
            if self._tracing.complete(job.turn if isinstance(job, Job) else turn):
                timer.cancel()
                self._release(job)
        elif has_work and (scored := self._scored.take(turn.turn_id)):
            self._wait(self._again(replace(scored, late=True)), max(_LATE_S, self._tracing.wait_s(scored.turn)))

    def _wait(self, job: Job | StoredJob, seconds: float) -> None:
        self._waiting[job.turn_id] = (job, self._loop.call_later(seconds, self._release, job))

    def _release(self, job: Job | StoredJob) -> None:
        self._waiting.pop(job.turn_id, None)
        self._ready(job)
