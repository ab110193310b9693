"""Where turns and conversations are scored: not on the event loop that serves traffic."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

from a2a_tool_capture import Finding, Severity

from ..errors import UNREACHABLE
from ..privacy.policy import Privacy
from ..store import ConversationKey
from ..traces.merge import settled
from ..traces.trace_book import Evidence
from ..turn import Turn
from .scorer import Results, Scorer, TurnJson
from .turn_memory import memory_of

logger = logging.getLogger(__name__)

_FIRST_S = 0.05
"""Time for scoring turns of a batch before they are stored; the rest of them are stored first."""


@dataclass(slots=True)
class Job:
    """A stored turn to score; `earlier` counts the turns its conversation had in its case before.

    `turn` is as it was captured, which nobody gets to see: evaluators see what is `shown`, and `stored` is kept.
    `late`: it was scored before. `kept` are results that stay, of evaluators of another suite. `conversation` is to
    be scored when none of its turns is on its way any more.
    """

    turn: Turn
    shown: Turn
    stored: Turn
    earlier: int
    late: bool = False
    kept: Sequence[dict[str, Any]] = ()
    conversation: ConversationKey | None = None

    @property
    def turn_id(self) -> str:
        return self.turn.turn_id

    @property
    def size(self) -> int:
        """Bytes of memory, about."""
        views = {id(turn): turn for turn in (self.turn, self.shown, self.stored)}
        return sum(map(memory_of, views.values()))

    def stored_only(self) -> StoredJob:
        """The same without its turn, for one that was not scored before."""
        return StoredJob(self.turn_id, self.earlier, self.conversation)


@dataclass(frozen=True, slots=True)
class StoredJob:
    """A job of which only the store has the turn, so that it takes no memory while it waits."""

    turn_id: str
    earlier: int
    conversation: ConversationKey | None


class ScoreFirst:
    """Scores turns of a batch in the thread that writes them, as long as that takes next to no time."""

    def __init__(self, scorer: Scorer, jobs: list[Job], privacy: Privacy | None = None) -> None:
        self._scorer = scorer
        self._privacy = privacy
        self._jobs = {job.turn.turn_id: job for job in jobs}
        self._until: float | None = None
        self.results: dict[str, list[dict[str, Any]]] = {}

    def __call__(self, turn_id: str) -> list[dict[str, Any]] | None:
        """The results of that turn; None where it has to be stored first."""
        now = time.monotonic()
        if self._until is None:
            self._until = now + _FIRST_S
        job = self._jobs.get(turn_id)
        if job is None or now > self._until or not self._scorer.evaluators(job.turn.case_id).swift:
            return None
        results = self._scorer.score_now(job.shown, job.earlier)
        if self._privacy is not None:
            results = self._privacy.stored_results(results)
        self.results[turn_id] = results
        return results


Work = list[tuple[Job, Evidence | None, list[TurnJson]]]
"""Turns to score, with what traces say of them, and the turns before them."""

Outcome = list[tuple[Turn, Results]]


class ScoringLostError(Exception):
    """The executor that scores is lost; the message says which, and why."""

    exit_code = UNREACHABLE


class Scoring(Protocol):
    """Where evaluators run. Both methods may raise ScoringLostError: nothing will be scored any more."""

    async def score(self, work: Work) -> Outcome:
        """Each turn as it may be seen, with what its traces say merged in, and its results as they may be kept."""

    async def score_conversations(self, conversations: Sequence[Sequence[TurnJson]]) -> list[Results | None]:
        """See `Scorer.score_conversation`: one for each, side by side."""

    def close(self) -> None:
        """Blocks until nothing runs any more."""


class ScoringThread:
    """Merging and evaluators run here: what they compute does not hold up traffic. Those that wait have a loop.

    Without a scorer turns are merged only, and have no results.
    """

    def __init__(self, scorer: Scorer | None, privacy: Privacy | None = None) -> None:
        self._scorer = scorer
        self._privacy = privacy
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="scoring")
        self._runner = asyncio.Runner()

    async def score(self, work: Work) -> Outcome:
        scorer = self._scorer
        if scorer is None:
            run = self._merge
        elif any(scorer.evaluators(job.turn.case_id).waits for job, _, _ in work):
            run = partial(self._wait_for, scorer)
        else:
            run = partial(self._compute, scorer)
        return await asyncio.get_running_loop().run_in_executor(self._executor, run, work)

    async def score_conversations(self, conversations: Sequence[Sequence[TurnJson]]) -> list[Results | None]:
        scorer = self._scorer
        if scorer is None:
            return [None for _ in conversations]

        async def score_all() -> list[Results | None]:
            return await asyncio.gather(*map(scorer.score_conversation, conversations))

        return await asyncio.get_running_loop().run_in_executor(self._executor, lambda: self._runner.run(score_all()))

    def close(self) -> None:
        self._executor.submit(self._runner.close)
        self._executor.shutdown(wait=True)

    def _merge(self, work: Work) -> Outcome:
        return [(self._merged(job, evidence), []) for job, evidence, _ in work]

    def _compute(self, scorer: Scorer, work: Work) -> Outcome:
        turns = [(self._merged(job, evidence), job.earlier) for job, evidence, _ in work]
        return [(turn, self._kept(scorer.score_now(turn, earlier))) for turn, earlier in turns]

    def _wait_for(self, scorer: Scorer, work: Work) -> Outcome:
        async def score_all() -> Outcome:
            turns = [self._merged(job, evidence) for job, evidence, _ in work]
            results = await asyncio.gather(
                *(scorer.score(turn, job.earlier, past) for turn, (job, _, past) in zip(turns, work, strict=True))
            )
            return list(zip(turns, map(self._kept, results), strict=True))

        return self._runner.run(score_all())

    def _kept(self, results: Results) -> Results:
        return results if self._privacy is None else self._privacy.stored_results(results)

    def _merged(self, job: Job, evidence: Evidence | None) -> Turn:
        """Calls are held against traces as they were captured: two that are masked may look the same."""
        merged = job.turn if evidence is None else _settled(job, evidence)
        if merged is job.turn:
            return job.shown
        return merged if self._privacy is None else self._privacy.shown(merged)


def _settled(job: Job, evidence: Evidence) -> Turn:
    try:
        return settled(job.turn, evidence, late=job.late)
    except Exception as error:  # the wall: a trace that we cannot read costs the turn its trace only
        logger.error("traces of turn %s could not be merged", job.turn.turn_id, exc_info=error)
        problem = Finding("capture_error", f"its traces could not be read: {error!r}", Severity.ERROR, "traces")
        return replace(job.turn, findings=[*job.turn.findings, problem])
