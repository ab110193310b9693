"""Stored turns that wait to be scored, and scored ones whose spans may come late: both in bounded memory."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial

from ..memory import share
from ..store import Store
from ..store.store import once_readable
from ..turn import Turn
from .executor import Job, StoredJob

PAGE = 200
"""Turns that are scored together, at most."""

_PART_BYTES = 8 * 1024 * 1024
"""Of turns that are scored together."""

_QUEUED_BYTES = share(32)
"""Of turns that wait with what they say; further ones are read from the store when it is their turn."""

_REMEMBERED = 100_000
_REMEMBERED_BYTES = share(32)

_NO_JOB = (None, 0)


class JobQueue:
    """Jobs of stored turns, in order. Belongs to one event loop.

    `readable` says whether the store has all that scoring needs of a turn. `on_read` is called with a turn that was
    read from the store, `on_gone` with a job whose turn is not there to be scored any more.
    """

    def __init__(
        self,
        store: Store,
        *,
        readable: bool,
        on_read: Callable[[Sequence[Turn]], None],
        on_gone: Callable[[StoredJob], None],
    ) -> None:
        self._store = store
        self._readable = readable
        self._on_read = on_read
        self._on_gone = on_gone
        self._jobs: asyncio.Queue[list[Job | StoredJob]] = asyncio.Queue()
        self._bytes = 0

    def at_rest(self, job: Job | StoredJob) -> Job | StoredJob:
        """The job as it may wait: with its turn, as long as all that do take little memory. Each is put once."""
        if isinstance(job, StoredJob):
            return job
        if self._readable and not job.late and self._bytes > _QUEUED_BYTES:
            return job.stored_only()
        self._bytes += job.size
        return job

    def put(self, jobs: Sequence[Job | StoredJob]) -> None:
        """Jobs that are `at_rest`."""
        self._jobs.put_nowait(list(jobs))

    async def parts(self) -> AsyncIterator[list[Job]]:
        """Jobs to score together, as they come; never ends. One whose turn cannot be read now is waited for.

        Raises StoreError once the store's patience ends."""
        while True:
            jobs = await self._jobs.get()
            while not self._jobs.empty() and len(jobs) < PAGE:
                jobs += self._jobs.get_nowait()
            part: list[Job] = []
            size = 0
            for resting in jobs:
                job = await self._with_turn(resting)
                if job is None:
                    continue
                part.append(job)
                size += job.size
                if size >= _PART_BYTES:
                    yield part
                    part, size = [], 0
            if part:
                yield part

    async def _with_turn(self, job: Job | StoredJob) -> Job | None:
        if isinstance(job, Job):
            self._bytes -= job.size
            return job
        item = await once_readable(self._store, partial(self._store.turn, job.turn_id))
        if item is None or item["status"] != "pending":
            self._on_gone(job)
            return None
        turn = Turn.from_dict(item)
        self._on_read([turn])
        return Job(turn, turn, turn, job.earlier, conversation=job.conversation)


class ScoredJobs:
    """The last jobs that were scored, by turn id: spans that come late make it necessary to score a turn again."""

    def __init__(self) -> None:
        self._jobs: OrderedDict[str, tuple[Job, int]] = OrderedDict()
        self._bytes = 0

    def put(self, job: Job) -> None:
        """Remember it; the oldest make room."""
        turn_id, size = job.turn.turn_id, job.size
        self._bytes += size - self._jobs.pop(turn_id, _NO_JOB)[1]
        self._jobs[turn_id] = job, size
        while len(self._jobs) > _REMEMBERED or self._bytes > _REMEMBERED_BYTES:
            self._bytes -= self._jobs.popitem(last=False)[1][1]

    def take(self, turn_id: str) -> Job | None:
        """The job, which is forgotten; None for one that is not known, or no more."""
        job, size = self._jobs.pop(turn_id, _NO_JOB)
        self._bytes -= size
        return job
