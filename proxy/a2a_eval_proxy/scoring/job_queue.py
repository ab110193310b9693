"""Stored turns that wait to be scored, and scored ones whose spans may come late: both in bounded memory."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial

from ..memory import HeldBytes
from ..store import Store
from ..store.store import once_readable
from ..turn import Turn
from .executor import Job, StoredJob

PAGE = 200
"""Turns that are scored together, at most."""

_PART_BYTES = 8 * 1024 * 1024
"""Of turns that are scored together."""

_REMEMBERED = 100_000


class JobQueue:
    """Jobs of stored turns, in order. Belongs to one event loop.

    `memory` limits the bytes of jobs that wait with their turn, or are being scored. `readable` says whether the store
    has all that scoring needs of a turn. `on_read` is called with a turn that was read from the store, `on_gone` with a
    job whose turn is not there to be scored any more.
    """

    def __init__(
        self,
        store: Store,
        memory: int,
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
        self._held = HeldBytes(memory)

    def at_rest(self, job: Job | StoredJob) -> Job | StoredJob:
        """The job as it may wait: with its turn, as long as all that do take little memory. Each is put once."""
        if isinstance(job, StoredJob):
            return job
        if self._readable and not job.late and self._held.total > self._held.limit:
            return job.stored_only()
        self._held.add(None, job.size)
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
                if size >= min(_PART_BYTES, self._held.limit):
                    yield part
                    self._held.add(None, -size)
                    part, size = [], 0
            if part:
                yield part
                self._held.add(None, -size)

    async def _with_turn(self, job: Job | StoredJob) -> Job | None:
        if isinstance(job, Job):
            return job
        item = await once_readable(self._store, partial(self._store.turn, job.turn_id))
        if item is None or item["status"] != "pending":
            self._on_gone(job)
            return None
        turn = Turn.from_dict(item)
        self._on_read([turn])
        read = Job(turn, turn, turn, job.earlier, conversation=job.conversation)
        self._held.add(None, read.size)
        return read


class ScoredJobs:
    """The last jobs that were scored, by turn id: spans that come late make it necessary to score a turn again."""

    def __init__(self, memory: int) -> None:
        self._jobs: OrderedDict[str, Job] = OrderedDict()
        self._held = HeldBytes(memory)

    def put(self, job: Job) -> None:
        """Remember it; the oldest make room."""
        self._jobs[job.turn_id] = job
        self._jobs.move_to_end(job.turn_id)
        self._held.put(job.turn_id, job.size)
        while len(self._jobs) > _REMEMBERED or self._held.total > self._held.limit:
            self._held.drop(self._jobs.popitem(last=False)[0])

    def take(self, turn_id: str) -> Job | None:
        """The job, which is forgotten; None for one that is not known, or no more."""
        self._held.drop(turn_id)
        return self._jobs.pop(turn_id, None)
