"""Where turns and conversations are scored: not on the event loop that serves traffic."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar

from a2a_tool_capture import Finding, Severity
from tool_call_evaluators.agent_tree import AgentTurn

from ..errors import UNREACHABLE
from ..privacy.policy import NO_PRIVACY, Privacy
from ..store import ConversationKey
from ..traces.merge import merge_traces
from ..traces.trace_records import Evidence
from ..turn import Turn
from .scorer import NO_TREES, Results, Scorer, TurnJson
from .turn_memory import memory_of

logger = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(slots=True)
class Job:
    """A stored turn to score; `earlier` counts the earlier turns of its conversation in its case.

    `turn` is the turn as captured, evaluators see it `redacted`, and it is `stored` as the privacy settings ask.
    `late`: it was scored before. `kept` are results of evaluators of another suite, which stay. `conversation` is
    scored when all its turns are. `bound`: it is as the store has it, with what traces show; another case may have been
    given to it, for which it left the conversation `left`.
    """

    turn: Turn
    redacted: Turn
    stored: Turn
    earlier: int
    late: bool = False
    kept: Sequence[dict[str, Any]] = ()
    conversation: ConversationKey | None = None
    bound: bool = False
    left: ConversationKey | None = None

    @property
    def turn_id(self) -> str:
        return self.turn.turn_id

    @property
    def size(self) -> int:
        """Bytes of memory, about."""
        if self.turn is self.redacted is self.stored:
            return memory_of(self.turn)
        return sum(map(memory_of, {id(turn): turn for turn in (self.turn, self.redacted, self.stored)}.values()))

    def found(self, findings: Iterable[Finding]) -> None:
        """These were found after the turn was closed."""
        for known in {id(turn.findings): turn.findings for turn in (self.turn, self.redacted, self.stored)}.values():
            known += [finding for finding in findings if finding not in known]

    def stored_only(self) -> StoredJob:
        """The same without its turn, for one that was not scored before."""
        return StoredJob(self.turn_id, self.earlier, self.conversation)


@dataclass(frozen=True, slots=True)
class StoredJob:
    """A job of which only the store has the turn, so that it takes no memory while it waits."""

    turn_id: str
    earlier: int
    conversation: ConversationKey | None


class ToScore(NamedTuple):
    """A turn to score."""

    job: Job
    evidence: Evidence | None
    """What traces say about the turn."""
    history: Sequence[TurnJson]
    """The turns before it."""
    tree: AgentTurn | None
    """The turn with those that it caused, if an evaluator reads that."""


Work = Sequence[ToScore]

Outcome = list[tuple[Turn, Results]]


class ExecutorLostError(Exception):
    """The executor cannot be reached any more; the message says which one, and why."""

    exit_code = UNREACHABLE


class ScoringExecutor(Protocol):
    """Where evaluators run. Both methods may raise ExecutorLostError: nothing is scored after that."""

    async def score(self, work: Work) -> Outcome:
        """Each turn, redacted and merged with its traces, and its results as they may be stored.

        Where traces change nothing the turn is the job's `redacted`, the same object: it is not written again.
        """

    async def score_conversations(
        self, conversations: Sequence[Sequence[TurnJson]], trees: Mapping[str, AgentTurn] = NO_TREES
    ) -> list[Results | None]:
        """`Scorer.score_conversation` for each of them, concurrently."""

    def close(self) -> None:
        """Blocks until nothing runs any more."""


class ThreadExecutor:
    """Merges and evaluates in one thread, so that traffic continues. Asynchronous evaluators get an event loop."""

    def __init__(self, scorer: Scorer, privacy: Privacy = NO_PRIVACY) -> None:
        self._scorer = scorer
        self._privacy = privacy
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="scoring")
        self._runner = asyncio.Runner()
        self._waiting: asyncio.Task[Any] | None = None
        """What the event loop runs."""

    async def score(self, work: Work) -> Outcome:
        return await asyncio.get_running_loop().run_in_executor(self._executor, self._score, work)

    async def score_conversations(
        self, conversations: Sequence[Sequence[TurnJson]], trees: Mapping[str, AgentTurn] = NO_TREES
    ) -> list[Results | None]:
        score = partial(self._scorer.score_conversation, trees=trees)
        return await asyncio.get_running_loop().run_in_executor(
            self._executor, lambda: self._run(map(score, conversations))
        )

    def close(self) -> None:
        if (waiting := self._waiting) is not None:  # for a judge, which may take its time
            waiting.get_loop().call_soon_threadsafe(waiting.cancel)
        self._executor.submit(self._runner.close)
        self._executor.shutdown(wait=True)

    def _score(self, work: Work) -> Outcome:
        scorer = self._scorer
        turns = [self._merged(one.job, one.evidence) for one in work]
        given = [(turn, one.job.earlier, one.history, one.tree) for turn, one in zip(turns, work, strict=True)]
        if any(scorer.evaluators(turn.case_id).is_async for turn in turns):
            results = self._run(scorer.score(*one) for one in given)
        else:
            results = [scorer.score_now(turn, earlier, tree) for turn, earlier, _, tree in given]
        return list(zip(turns, map(self._privacy.stored_results, results), strict=True))

    def _run(self, results: Iterable[Awaitable[T]]) -> list[T]:
        async def run() -> list[T]:
            self._waiting = asyncio.current_task()
            try:
                return await gathered(results)
            finally:
                self._waiting = None

        return self._runner.run(run())

    def _merged(self, job: Job, evidence: Evidence | None) -> Turn:
        """Calls are compared with traces as captured: two that are masked may look the same."""
        merged = job.turn if evidence is None else _merged(job, evidence)
        if merged is job.turn:
            return job.redacted
        return self._privacy.redacted(merged)


async def gathered(results: Iterable[Awaitable[T]]) -> list[T]:
    """The results, which are awaited side by side."""
    return await asyncio.gather(*results)


def _merged(job: Job, evidence: Evidence) -> Turn:
    try:
        return merge_traces(job.turn, evidence, late=job.late)
    except Exception as error:  # error boundary: an unreadable trace costs the turn its trace only
        logger.error("traces of turn %s could not be merged", job.turn.turn_id, exc_info=error)
        problem = Finding("capture_error", f"its traces could not be read: {error!r}", Severity.ERROR, "traces")
        return replace(job.turn, findings=[*job.turn.findings, problem])
