"""Deletes old turns of a PostgreSQL store, and frees their space at once."""

from __future__ import annotations

from .database import Connection, named

MOST_AT_ONCE = 500_000
"""Turns deleted in one transaction: seconds, so that it ends before a statement has to."""

_TOO_OLD = named(
    "DELETE FROM turns WHERE seq IN (SELECT seq FROM turns WHERE coalesce(ended_at, started_at) < :before"
    " ORDER BY seq LIMIT :most)"
)
TOO_MUCH = (
    "seq <= (SELECT max(seq) FROM (SELECT seq,"
    " sum(pg_column_size(body) + pg_column_size(evaluations)) OVER (ORDER BY seq DESC) AS taken FROM turns) AS newest"
    " WHERE taken > :max_bytes)"
)
"""The condition that a turn is older than the newest ones that take `:max_bytes`."""

_TOO_MUCH = named(
    f"DELETE FROM turns WHERE seq IN (SELECT seq FROM turns WHERE {TOO_MUCH} ORDER BY seq LIMIT :most)"  # noqa: S608  # fixed texts
)
_CONVERSATIONS = named(
    "DELETE FROM conversations AS c WHERE NOT EXISTS (SELECT 1 FROM turns AS t WHERE t.run = c.run"
    " AND left(c.conversation_id, 128) = left(t.conversation_id, 128) AND c.conversation_id = t.conversation_id)"
)
_ANSWERS = named(
    "DELETE FROM judge_answers WHERE kept_at < to_timestamp(:before)"
    " OR kept_at < (SELECT to_timestamp(min(started_at)) FROM turns)"
)


async def prune(connection: Connection, *, before: float | None, max_bytes: int | None) -> int:
    """Delete turns that ended before `before`, and the oldest until the rest takes at most `max_bytes`.

    `before` is in seconds since the epoch. Also deletes their evaluations. Returns the number of deleted turns; call it
    again until that is 0.
    """
    deleted = 0
    async with connection.transaction():
        if before is not None:
            deleted += (await connection.execute(_TOO_OLD, {"before": before, "most": MOST_AT_ONCE})).rowcount
        if max_bytes is not None:
            deleted += (await connection.execute(_TOO_MUCH, {"max_bytes": max_bytes, "most": MOST_AT_ONCE})).rowcount
        if deleted:
            await connection.execute(_CONVERSATIONS)
        await connection.execute(_ANSWERS, {"before": before})
    return deleted


async def vacuum(connection: Connection) -> None:
    """Free the space of deleted rows. Must not run in a transaction. Skips tables that another proxy vacuums."""
    await connection.execute(named("VACUUM (SKIP_LOCKED) turns, annotations, conversations, judge_answers"))
