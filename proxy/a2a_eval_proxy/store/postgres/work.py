"""What workers read and write: unlike the store's own writes, these are awaited and return what they changed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from ..base import ConversationKey, Scored, ScoredConversation, TurnJson
from ..encoding import conversation_key, encoded_conversation, encoded_scored, stored_key, stored_text
from ..reads import turn_json
from ..writes import newer_conversation, result_statements
from .database import Connection, Database, named, positional

JOBS = (
    "CREATE TABLE jobs (id BIGSERIAL PRIMARY KEY, turn_ids TEXT[] NOT NULL, tries INTEGER NOT NULL DEFAULT 0,"
    " due_at TIMESTAMPTZ NOT NULL DEFAULT now())",
    "CREATE INDEX jobs_due ON jobs (due_at)",
    "CREATE TABLE workers (worker TEXT PRIMARY KEY, seen_at TIMESTAMPTZ NOT NULL)",
)
"""A job is turns to score together, due at a time: now, later because it failed, or when its worker counts as dead."""

MOST_TRIES = 10
"""A job that failed so often, or whose workers died, is left to people."""

_TURNS_PER_JOB = 50
"""A job costs the database more than a turn does; but all of a job's turns wait for the slowest of them."""

_QUEUE = named("INSERT INTO jobs (turn_ids) VALUES (:ids) RETURNING id")
_TAKE = named(
    "UPDATE jobs SET tries = tries + 1, due_at = now() + make_interval(secs => :lease) WHERE id IN (SELECT id FROM jobs"
    " WHERE due_at <= now() AND tries < :most ORDER BY id LIMIT :room FOR UPDATE SKIP LOCKED)"
    " RETURNING id, turn_ids, tries"
)
_DUE_IN = named(
    "UPDATE jobs SET due_at = now() + make_interval(secs => :seconds), tries = jobs.tries - :less FROM"
    " unnest(CAST(:ids AS bigint[]), CAST(:tries AS integer[])) AS mine (id, tries)"
    " WHERE jobs.id = mine.id AND jobs.tries = mine.tries"
)
_DONE = named("DELETE FROM jobs WHERE id = :id AND tries = :tries")
_ALIVE = named(
    "INSERT INTO workers VALUES (:worker, now()) ON CONFLICT (worker) DO UPDATE SET seen_at = excluded.seen_at"
)
_FORGET = named("DELETE FROM workers WHERE worker = :worker OR seen_at < now() - interval '1 day'")

ABANDONED_S = 600  # seconds after which a pending turn that has no job counts as left by the proxy that was to score it

_ABANDONED = named(
    "SELECT turn_id FROM turns WHERE status = 'pending' AND CASE"
    " WHEN job_id IS NULL THEN stored_at < extract(epoch FROM now()) - :seconds"
    " ELSE NOT EXISTS (SELECT FROM jobs WHERE jobs.id = job_id) END"
    " ORDER BY seq LIMIT 1000 FOR UPDATE SKIP LOCKED"
)
_ASSIGN = named("UPDATE turns SET job_id = :job WHERE turn_id = ANY(:ids)")


async def queue_jobs(connection: Connection, turn_ids: Sequence[str]) -> dict[str, int]:
    """Queue these turns to be scored; returns the job of each."""
    jobs: dict[str, int] = {}
    for start in range(0, len(turn_ids), _TURNS_PER_JOB):
        ids = list(turn_ids[start : start + _TURNS_PER_JOB])
        ((job,),) = await (await connection.execute(_QUEUE, {"ids": ids})).fetchall()
        for turn_id in ids:
            jobs[turn_id] = job
    return jobs


async def queue_abandoned(connection: Connection, after_s: float) -> int:
    """Queue pending turns that no process is going to score; returns how many.

    Those are turns whose job is gone, and turns without one that a proxy was to score itself and has not for
    `after_s`. A job that failed for good stays, and so do its turns.
    """
    async with connection.transaction():
        found = await (await connection.execute(_ABANDONED, {"seconds": after_s})).fetchall()
        jobs = await queue_jobs(connection, [turn_id for (turn_id,) in found])
        for job in dict.fromkeys(jobs.values()):
            await connection.execute(_ASSIGN, {"job": job, "ids": [turn for turn, its in jobs.items() if its == job]})
    return len(jobs)


_TURNS = named("SELECT job_id, status, body, evaluations FROM turns WHERE turn_id = ANY(:ids) ORDER BY seq")
_CONVERSATIONS = named(
    "SELECT t.seq, t.status, t.body, t.evaluations"
    " FROM unnest(CAST(:runs AS text[]), CAST(:ids AS text[])) AS given (run, id) CROSS JOIN LATERAL"
    " (SELECT * FROM turns WHERE left(conversation_id, 128) = left(given.id, 128) AND conversation_id = given.id"
    " AND run = given.run AND seq <= (SELECT coalesce(max(seq), 9223372036854775807) FROM turns"
    " WHERE turn_id = ANY(:until)) ORDER BY seq DESC LIMIT :most) AS t ORDER BY t.seq"
)
_SAID = named("SELECT key, turns FROM conversations WHERE key = ANY(:keys)")

_CLAIM = named(
    "SELECT turn_id, job_id FROM turns WHERE turn_id = ANY(:ids) AND status = 'pending' ORDER BY turn_id FOR UPDATE"
)

_ALL = 2**31 - 1

MAX_COUNTED = 100_000  # maximum number of pending turns to count

_BACKLOG = named(
    "SELECT count(*), coalesce(extract(epoch FROM now()) - min(stored_at), 0),"
    " (SELECT count(*) FROM workers WHERE seen_at > now() - make_interval(secs => :alive))"
    " FROM (SELECT stored_at FROM turns WHERE status = 'pending' ORDER BY seq LIMIT :most) AS waiting"
)

WORKER_ALIVE_S = 60.0  # a worker whose last sign of life is older does not count; each gives one every 10 s


class Backlog(NamedTuple):
    """What waits for workers: pending turns (at most `MAX_COUNTED`), the age of the oldest in seconds, and how many
    workers are alive."""

    turns: int
    oldest_s: float
    workers: int


class Job(NamedTuple):
    """Turns that this worker is to score. Once another has taken it, which `tries` shows, it is not this worker's."""

    id: int
    turn_ids: Sequence[str]
    tries: int


class Claim(NamedTuple):
    """A turn as it was read, and the job it was in: it is in another job if it has changed since."""

    turn: TurnJson
    job_id: int | None


class WorkStore:
    """The store of workers. Every method raises StoreUnreachableError where the database is away or refuses."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def turns(self, turn_ids: Sequence[str]) -> list[Claim]:
        """Those of these turns that there are, in the order in which they were added."""
        return [
            Claim(turn_json(status, body, evaluations), job)
            for job, status, body, evaluations in await self._database.rows(_TURNS, {"ids": list(turn_ids)})
        ]

    async def conversations(
        self, turns: Sequence[Mapping[str, Any]], most: int = _ALL, until: Sequence[str] = ()
    ) -> list[TurnJson]:
        """All turns of the conversations of these turns, in order: of each the last `most`, and none after the last
        of those in `until`."""
        keys = dict.fromkeys((stored_text(turn["run"]), stored_text(turn["conversation_id"])) for turn in turns)
        runs, ids = [run for run, _ in keys], [conversation_id for _, conversation_id in keys]
        values = {"runs": runs, "ids": ids, "most": most, "until": list(until)}
        return [
            turn_json(status, body, evaluations)
            for _, status, body, evaluations in await self._database.rows(_CONVERSATIONS, values)
        ]

    async def said(self, conversations: Sequence[ConversationKey]) -> dict[ConversationKey, int]:
        """Returns the number of turns at the last evaluation of each of these conversations that has results."""
        keys = {conversation_key(stored_key(key)): key for key in conversations}
        return {keys[digest]: turns for digest, turns in await self._database.rows(_SAID, {"keys": list(keys)})}

    async def finish(self, scored: Sequence[tuple[Scored, Claim]]) -> set[str]:
        """Give these turns their results and mark them done: those that are pending, and the same as when they were
        claimed. Returns which these were."""
        claims = {one.turn_id: (one, claim.job_id) for one, claim in scored}

        async def finish(connection: Connection) -> set[str]:
            async with connection.transaction():
                found = await connection.execute(_CLAIM, {"ids": list(claims)})
                ours = {turn_id for turn_id, job in await found.fetchall() if job == claims[turn_id][1]}
                for statement, values in result_statements([encoded_scored(claims[turn_id][0]) for turn_id in ours]):
                    await connection.execute(positional(statement), values)
            return ours

        return await self._database.run(finish)

    async def finish_conversations(self, scored: Sequence[ScoredConversation]) -> None:
        """Replace the results of conversations, unless a conversation has results from more turns."""
        found = [encoded_conversation(one) for one in scored]

        async def finish(connection: Connection) -> None:
            async with connection.transaction():
                for one in sorted(found, key=lambda one: conversation_key(one.key)):  # in one order: no deadlock
                    statement, values = newer_conversation(one)
                    await connection.execute(positional(statement), values)

        await self._database.run(finish)

    async def backlog(self) -> Backlog:
        """What waits now. It costs an index scan of the pending turns."""
        ((turns, oldest_s, workers),) = await self._database.rows(
            _BACKLOG, {"alive": WORKER_ALIVE_S, "most": MAX_COUNTED}
        )
        return Backlog(turns, float(oldest_s), workers)

    async def queue_abandoned(self, after_s: float = ABANDONED_S) -> int:
        """See `queue_abandoned`."""
        return await self._database.run(partial(queue_abandoned, after_s=after_s))

    async def take(self, room: int, lease_s: float) -> list[Job]:
        """At most `room` jobs that are due. They are due again after `lease_s` unless that is put off."""
        return [
            Job(*row) for row in await self._database.rows(_TAKE, {"room": room, "lease": lease_s, "most": MOST_TRIES})
        ]

    async def due_in(self, seconds: float, jobs: Collection[Job], *, given_back: bool = False) -> None:
        """Put off jobs of this worker; `given_back`: this try does not count."""
        tries = [job.tries for job in jobs]
        values = {"seconds": seconds, "ids": [job.id for job in jobs], "tries": tries, "less": int(given_back)}
        await self._database.change(_DUE_IN, values)

    async def done(self, job: Job) -> None:
        await self._database.change(_DONE, {"id": job.id, "tries": job.tries})

    async def alive(self, worker: str) -> None:
        """Give a sign of life of this worker."""
        await self._database.change(_ALIVE, {"worker": worker})

    async def ended(self, worker: str) -> None:
        """Forget this worker, and those that died long ago."""
        await self._database.change(_FORGET, {"worker": worker})
