"""The statements that write a PostgreSQL store, and delete what is old.

Those that write take any number of rows and run in their caller's transaction. Jobs for workers, in the tables of
procrastinate, are queued in the transaction that adds their turns.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import Any

from ..base import ConversationKey
from ..encoding import EncodedConversation, EncodedScored, EncodedTurn, Prune
from ..retention import CUT, SIZES, AgentSizes
from ..schema import OUTCOMES, POSTGRES, PREFIX, WITHOUT_RUN, replacing
from .database import Connection, named

QUEUE = "a2a-eval-proxy"
TASK = "score_turns"

_TURNS_PER_JOB = 50
"""A job costs the database more than a turn does; but all of a job's turns wait for the slowest of them."""

_DEFER = named(
    "SELECT unnest(procrastinate_defer_jobs_v1("
    "ARRAY[ROW(:queue, :task, 0, NULL, NULL, CAST(:arguments AS jsonb), NULL)::procrastinate_job_to_defer_v1]))"
)

ABANDONED_S = 600  # seconds after which a pending turn that has no job counts as left by the proxy that was to score it

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


Rows = list[dict[str, Any]]  # rows by column
_APPENDING = 0x6132_6165_7661_6C01  # advisory lock of who adds turns
_COLUMNS = POSTGRES.tables()
_BY_SERVER = ("seq", "version", "stored_at", "heard_at")
_TURN_COLUMNS = [column for column in _COLUMNS["turns"] if column not in _BY_SERVER]
_CONVERSATION_COLUMNS = list(_COLUMNS["conversations"])
_RESULT_COLUMNS = ("turn_id", "body", "size", "case_id", "links", "evaluations", *OUTCOMES)


def _statement(template: str, columns: Sequence[str]) -> bytes:
    """`template` with `{rows}` as a table of these columns, `{columns}` as their names."""
    types = _COLUMNS["conversations"] | _COLUMNS["turns"]  # columns of one name have one type
    arrays = ", ".join(f"%({column})b::{types[column].split()[0].replace('DOUBLE', 'FLOAT8')}[]" for column in columns)
    names = ", ".join(columns)
    rows = f"unnest({arrays}) WITH ORDINALITY AS given ({names}, position)"
    return template.format(rows=rows, columns=names).encode()


_LOCK = named("SELECT pg_advisory_xact_lock(:key)")
_REPLACED = ", ".join(replacing(column, f"excluded.{column}") for column in _TURN_COLUMNS if column != "turn_id")
_INSERT = _statement(
    "INSERT INTO turns ({columns}) SELECT {columns} FROM {rows} ORDER BY position ON CONFLICT (turn_id)"  # noqa: S608  # fixed texts
    f" DO UPDATE SET {_REPLACED}, stored_at = now(), heard_at = now() WHERE turns.status = 'open'",
    _TURN_COLUMNS,
)
_NAMES = named(
    "INSERT INTO turn_names (turn_id, name) SELECT turn_id, name FROM unnest(CAST(:turns AS text[]),"
    " CAST(:names AS text[])) AS given (turn_id, name) JOIN turns USING (turn_id) ON CONFLICT DO NOTHING"
)
_GIVEN_LINKS = replacing("links", "given.links")
_UPDATE = (
    "UPDATE turns SET status = 'done', version = version + 1, body = coalesce(given.body, turns.body),"  # noqa: S608  # fixed texts
    " size = coalesce(given.size, turns.size),"
    f" case_id = CASE WHEN given.body IS NULL THEN turns.case_id ELSE given.case_id END, {_GIVEN_LINKS},"
    " evaluations = given.evaluations, passed = given.passed, failed = given.failed, errored = given.errored,"
    " skipped = given.skipped FROM {rows} WHERE turns.turn_id = given.turn_id"
)
_SETTLED_COLUMNS = ("turn_id", "body", "size", "links", "job_id")
_SETTLE = _statement(
    f"UPDATE turns SET status = 'pending', body = given.body, size = given.size, {_GIVEN_LINKS},"  # noqa: S608  # fixed texts
    " job_id = given.job_id FROM {rows} WHERE turns.turn_id = given.turn_id",
    _SETTLED_COLUMNS,
)
_FINISH = _statement(_UPDATE, _RESULT_COLUMNS)
_FINISH_PENDING = _statement(
    _UPDATE
    + " AND turns.status = 'pending' AND turns.job_id IS NOT DISTINCT FROM given.job_id RETURNING turns.turn_id",
    (*_RESULT_COLUMNS, "job_id"),
)
_UPSERT = (
    "INSERT INTO conversations AS known ({columns}) SELECT {columns} FROM {rows} ORDER BY key ON CONFLICT (key) DO"
    " UPDATE SET turns = excluded.turns, evaluations = excluded.evaluations, passed = excluded.passed,"
    " failed = excluded.failed, errored = excluded.errored, skipped = excluded.skipped"
)
_CONVERSATION = _statement(_UPSERT, _CONVERSATION_COLUMNS)
_NEWER_CONVERSATION = _statement(_UPSERT + " WHERE known.turns < excluded.turns", _CONVERSATION_COLUMNS)
_WIRES = (
    b"INSERT INTO wires (turn_id, body) SELECT * FROM unnest(%(turn_id)b::TEXT[], %(body)b::TEXT[])"
    b" ON CONFLICT (turn_id) DO NOTHING"
)
_DISCARD_CONVERSATIONS = named(
    "DELETE FROM conversations AS c USING turns AS t WHERE t.turn_id = ANY(:ids) AND c.run = t.run"
    " AND left(c.conversation_id, 128) = left(t.conversation_id, 128) AND c.conversation_id = t.conversation_id"
    " AND c.case_id = coalesce(t.case_id, '') AND c.agent_name IN ('', t.agent)"
)
_DISCARD = named("DELETE FROM turns WHERE turn_id = ANY(:ids)")


def result_columns(scored: EncodedScored) -> dict[str, Any]:
    merged = scored.merged
    return {
        "turn_id": scored.turn_id,
        "body": None if merged is None else merged.body.decode(),
        "size": None if merged is None else merged.stored_bytes,
        "case_id": None if merged is None else merged.case_id,
        "links": "" if merged is None else merged.links,
        **scored.results.columns(),
    }


def conversation_digest(key: ConversationKey) -> str:
    """Identifies a conversation by its `stored_key`: its names may be of any length, an entry of an index may not."""
    return hashlib.sha256("\x00".join(part or "" for part in (key if key.agent_name else key[:3])).encode()).hexdigest()


def conversation_columns(scored: EncodedConversation) -> dict[str, Any]:
    key = scored.key
    return {"key": conversation_digest(key), **key._asdict(), "turns": scored.turns, **scored.results.columns()}


def by_column(rows: Sequence[dict[str, Any]], columns: Iterable[str]) -> dict[str, list[Any]]:
    """The rows turned round, as `unnest` takes them: one statement, however many rows."""
    return {column: [row[column] for row in rows] for column in columns}


async def insert_turns(connection: Connection, rows: Rows, *, for_workers: bool) -> None:
    """Add turns that are not there yet or there as open, and (`for_workers`) jobs for those that are pending and not
    held.

    One transaction adds at a time, so that turns become visible in the order of their numbers: a page that ends with
    a turn would else hide an earlier one that was committed later.
    """
    if not rows:
        return
    await connection.execute(_LOCK, {"key": _APPENDING})
    rows = list({row["turn_id"]: row for row in rows}.values())  # a statement replaces a row once; the last one counts
    pending = [row["turn_id"] for row in rows if row["status"] == "pending" and not row["held"]]
    jobs = await queue_jobs(connection, pending if for_workers else [])
    complete = [{**row, "job_id": jobs.get(row["turn_id"])} for row in rows]
    await connection.execute(_INSERT, by_column(complete, _TURN_COLUMNS))
    names = [(row["turn_id"], name) for row in rows for name in row["names"]]
    if names:
        turns, called = zip(*names, strict=True)
        await connection.execute(_NAMES, {"turns": list(turns), "names": list(called)})


async def insert_wires(connection: Connection, wires: dict[str, str]) -> None:
    """Add what turns that are there looked like on the wire, by their ids."""
    if wires:
        await connection.execute(_WIRES, {"turn_id": list(wires), "body": list(wires.values())})


async def settle_turns(connection: Connection, turns: Sequence[EncodedTurn], *, for_workers: bool) -> None:
    """Replace what is known of these turns, which makes them pending, and (`for_workers`) queue them: their
    conversations are scored again, too."""
    if turns:
        latest = {turn.turn_id: turn for turn in turns}
        if for_workers:
            await connection.execute(_DISCARD_CONVERSATIONS, {"ids": list(latest)})
        jobs = await queue_jobs(connection, list(latest) if for_workers else [])
        rows = [turn.columns() | {"job_id": jobs.get(turn_id)} for turn_id, turn in latest.items()]
        await connection.execute(_SETTLE, by_column(rows, _SETTLED_COLUMNS))


async def put_results(connection: Connection, rows: Rows) -> None:
    """Replace the results of these turns, whatever they had before; one row for a turn."""
    if rows:
        await connection.execute(_FINISH, by_column(rows, _RESULT_COLUMNS))


async def put_first_results(connection: Connection, rows: Rows) -> set[str]:
    """Give results to those of these turns that are pending and still for that `job_id`; returns which."""
    found = await connection.execute(_FINISH_PENDING, by_column(rows, (*_RESULT_COLUMNS, "job_id")))
    return {turn_id for (turn_id,) in await found.fetchall()}


async def put_conversations(connection: Connection, rows: Rows) -> None:
    """Replace the results of these conversations; of two for the same one the later counts."""
    latest = {row["key"]: row for row in rows}
    if latest:
        await connection.execute(_CONVERSATION, by_column(list(latest.values()), _CONVERSATION_COLUMNS))


async def put_newer_conversations(connection: Connection, rows: Rows) -> None:
    """Replace the results of those conversations whose results are from fewer turns."""
    await connection.execute(_NEWER_CONVERSATION, by_column(rows, _CONVERSATION_COLUMNS))


async def delete_turns(connection: Connection, turn_ids: list[str]) -> None:
    """Delete turns and the results of their conversations."""
    if turn_ids:
        await connection.execute(_DISCARD_CONVERSATIONS, {"ids": turn_ids})
        await connection.execute(_DISCARD, {"ids": turn_ids})


MOST_AT_ONCE = 500_000  # turns deleted in one transaction: seconds, so that it ends before a statement has to

_OWN = "CAST(:own AS jsonb)"
"""Agents with limits of their own, and the `before` of each."""

_TOO_OLD = named(
    "DELETE FROM turns WHERE seq IN (SELECT seq FROM turns WHERE coalesce(ended_at, started_at) <"  # noqa: S608  # fixed texts
    f" CASE WHEN jsonb_exists({_OWN}, agent) THEN CAST({_OWN} ->> agent AS float) ELSE :before END"
    " ORDER BY seq LIMIT :most)"
)
TOO_MUCH = (
    "seq IN (SELECT seq FROM (SELECT seq, sum(pg_column_size(t.body) + pg_column_size(t.evaluations)"
    " + coalesce(pg_column_size(w.body), 0)) OVER kept AS taken FROM turns AS t LEFT JOIN wires AS w USING (turn_id)"
    " WINDOW kept AS (ORDER BY jsonb_exists(CAST(:sized AS jsonb), agent) DESC, seq DESC)) AS newest"
    " WHERE taken > :max_bytes)"
)
"""The condition that a turn is older than the newest ones that take `:max_bytes`, after those of agents with a size of
their own."""

_TOO_MUCH = named(
    f"DELETE FROM turns WHERE seq IN (SELECT seq FROM turns WHERE {TOO_MUCH} ORDER BY seq LIMIT :most)"  # noqa: S608  # fixed texts
)
OF_AGENT = f"left(agent, {PREFIX}) = left(:agent, {PREFIX}) AND agent = :agent"
_SIZES, _CUT = named(SIZES.format(of_agent=OF_AGENT)), named(CUT.format(of_agent=OF_AGENT))
_BEYOND = named(
    "DELETE FROM turns WHERE seq IN (SELECT seq FROM turns"  # noqa: S608  # fixed texts
    f" WHERE {OF_AGENT} AND seq <= :last ORDER BY seq LIMIT :most)"
)
_CONVERSATIONS = named(
    "DELETE FROM conversations AS c WHERE NOT EXISTS (SELECT 1 FROM turns AS t WHERE t.run = c.run"
    " AND left(c.conversation_id, 128) = left(t.conversation_id, 128) AND c.conversation_id = t.conversation_id"
    " AND c.agent_name IN ('', t.agent))"
)
_ANSWERS = named(
    "DELETE FROM judge_answers WHERE kept_at < to_timestamp(:before)"
    " OR kept_at < (SELECT to_timestamp(min(started_at)) FROM turns)"
)


async def prune(connection: Connection, item: Prune, sizes: AgentSizes) -> int:
    """Delete turns that ended before `before`, and the oldest until the rest takes at most `max_bytes`; see `Prune`.

    Also deletes their evaluations. Returns the number of deleted turns; call it again until that is 0.
    """
    deleted = 0
    befores = {agent: limits.before for agent, limits in item.own.items()}
    values = {"own": json.dumps(befores), "before": item.before, "max_bytes": item.max_bytes, "most": MOST_AT_ONCE}
    values["sized"] = json.dumps(item.sized)
    answers_before = [before for before in (item.before, *befores.values()) if before is not None]
    async with connection.transaction():
        if answers_before:
            deleted += (await connection.execute(_TOO_OLD, values)).rowcount
        for agent, limits in item.own.items():
            if limits.max_bytes is not None:
                last = await _last_beyond(connection, agent, limits.max_bytes, sizes)
                deleted += (await connection.execute(_BEYOND, {**values, "agent": agent, "last": last})).rowcount
        if item.max_bytes is not None:
            deleted += (await connection.execute(_TOO_MUCH, values)).rowcount
        if deleted:
            await connection.execute(_CONVERSATIONS)
            await connection.execute(WITHOUT_RUN)
        await connection.execute(_ANSWERS, {"before": max(answers_before, default=None)})
    return deleted


async def _last_beyond(connection: Connection, agent: str, max_bytes: int, sizes: AgentSizes) -> int:
    """The number of the newest turn of an agent that is beyond its limit."""
    found = await connection.execute(_SIZES, {"agent": agent, "since": sizes.since(agent)})
    full = sizes.full(agent, await found.fetchall(), max_bytes)
    if full is None:
        return 0
    ((last,),) = await (await connection.execute(_CUT, {"agent": agent, **full._asdict()})).fetchall()
    return full.first - 1 if last is None else int(last)


async def vacuum(connection: Connection) -> None:
    """Free the space of deleted rows. Must not run in a transaction. Skips tables that another proxy vacuums."""
    await connection.execute(named("VACUUM (SKIP_LOCKED) turns, annotations, wires, conversations, judge_answers"))
