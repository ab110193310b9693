"""Jobs for workers, in the tables of procrastinate: queued in the transaction that adds their turns."""

from __future__ import annotations

import json
from collections.abc import Sequence

from .database import Connection, named

QUEUE = "a2a-eval-proxy"
TASK = "score_turns"

_TURNS_PER_JOB = 50
"""A job costs the database more than a turn does; but all of a job's turns wait for the slowest of them."""

_DEFER = named(
    "SELECT unnest(procrastinate_defer_jobs_v1("
    "ARRAY[ROW(:queue, :task, 0, NULL, NULL, CAST(:arguments AS jsonb), NULL)::procrastinate_job_to_defer_v1]))"
)

ABANDONED_S = 600
"""Seconds after which a pending turn that has no job counts as left by the proxy that was to score it."""

_ABANDONED = named(
    "SELECT turn_id FROM turns WHERE status = 'pending' AND CASE"
    " WHEN job_id IS NULL THEN stored_at < now() - make_interval(secs => :seconds)"
    " ELSE NOT EXISTS (SELECT FROM procrastinate_jobs AS job WHERE job.id = job_id) END"
    " ORDER BY seq LIMIT 1000 FOR UPDATE SKIP LOCKED"
)
_ASSIGN = named("UPDATE turns SET job_id = :job WHERE turn_id = ANY(:ids)")


async def queue_jobs(connection: Connection, turn_ids: Sequence[str]) -> dict[str, int]:
    """Queue these turns to be scored; returns the job of each."""
    jobs: dict[str, int] = {}
    for start in range(0, len(turn_ids), _TURNS_PER_JOB):
        ids = list(turn_ids[start : start + _TURNS_PER_JOB])
        arguments = {"queue": QUEUE, "task": TASK, "arguments": json.dumps({"turn_ids": ids})}
        ((job,),) = await (await connection.execute(_DEFER, arguments)).fetchall()
        for turn_id in ids:
            jobs[turn_id] = job
    return jobs


async def queue_abandoned(connection: Connection, after_s: float = ABANDONED_S) -> int:
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
