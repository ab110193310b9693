"""Old turns deleted for good from an SQLite store: neither the file nor its write-ahead log has their bytes."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime

from a2a_tool_capture.models import rfc3339

from .file import found_by, transaction

_BATCH, _BATCH_BYTES = 200, 1024 * 1024
"""Turns deleted in one transaction, and their size, so that none is long, or takes much of a full disk. A larger turn
is deleted alone."""

_VACUUMED = 250  # pages freed in one transaction
_SIZE = "(length(body) + length(evaluations))"

_DELETE_CONVERSATION = (
    "DELETE FROM conversations WHERE run = :run AND conversation_id = :conversation_id AND NOT EXISTS"  # noqa: S608  # fixed texts
    f" (SELECT 1 FROM turns WHERE seq IN ({found_by('conversation_id')}) AND +run = :run)"
)


def prune(connection: sqlite3.Connection, before: float | None, max_bytes: int | None) -> int:
    """Delete turns that ended before `before`, then the oldest until the file is small enough.

    `before` is in seconds since the epoch. Also deletes evaluations of conversations without turns, and judges' answers
    as old as the turns. Returns the number of deleted turns, and shrinks the file. Raises sqlite3.Error; earlier
    deletions are kept.
    """
    connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()  # what the log has no more need of is used again
    deleted = 0
    if before is not None:
        while count := _delete(connection, "coalesce(ended_at, started_at) < ?", (before,), _BATCH):
            deleted += count
        deleted_answers = _delete_answers(connection, before)
    else:
        deleted_answers = 0
    if max_bytes is not None:
        while (used := _used_bytes(connection)) > max_bytes and (
            count := _delete(connection, "1", (), _share(connection, 1 - max_bytes / used))
        ):
            deleted += count
            deleted_answers += _delete_answers(connection, _oldest(connection))
    if deleted or deleted_answers:
        _vacuum(connection)
    # The log has all that was ever written since it was last cut. A reader may have kept it from being cut last time.
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return deleted


def _share(connection: sqlite3.Connection, part: float) -> int:
    """Returns the number of turns of that part of all; at least one, and at most a batch."""
    turns = connection.execute("SELECT COUNT(*) FROM turns").fetchone()[0]
    return max(1, min(_BATCH, int(turns * part)))


def _delete(connection: sqlite3.Connection, condition: str, values: tuple[float, ...], most: int) -> int:
    """Delete those of the oldest `most` turns that meet the condition, in pieces of `_BATCH_BYTES`, and the results of
    conversations of which they were the last; returns their number."""
    with transaction(connection):
        found = connection.execute(
            f"SELECT seq, run, conversation_id FROM (SELECT *, sum({_SIZE}) OVER (ORDER BY seq) - {_SIZE} AS earlier"  # noqa: S608  # fixed texts
            f" FROM (SELECT * FROM turns ORDER BY seq LIMIT {most}) WHERE {condition}) WHERE earlier < {_BATCH_BYTES}",
            values,
        ).fetchall()
        connection.executemany("DELETE FROM turns WHERE seq = ?", [(seq,) for seq, _, _ in found])
        for run, conversation_id in {(run, conversation_id) for _, run, conversation_id in found}:
            connection.execute(_DELETE_CONVERSATION, {"run": run, "conversation_id": conversation_id})
    return len(found)


def _vacuum(connection: sqlite3.Connection) -> None:
    left = _number(connection, "freelist_count")
    while left:
        connection.executescript(f"PRAGMA incremental_vacuum({_VACUUMED})")  # `execute` would free one page
        before, left = left, _number(connection, "freelist_count")
        if left >= before:  # a file of an earlier version, which cannot shrink, or others have deleted
            return


def _oldest(connection: sqlite3.Connection) -> float:
    """Returns the start of the oldest remaining turn; later than all times without turns."""
    row = connection.execute("SELECT started_at FROM turns ORDER BY seq LIMIT 1").fetchone()
    return row[0] if row else datetime.max.replace(tzinfo=UTC).timestamp()


def _delete_answers(connection: sqlite3.Connection, before: float) -> int:
    """Delete judges' answers from before that time: they quote turns."""
    moment = rfc3339(datetime.fromtimestamp(before, UTC))
    return connection.execute("DELETE FROM judge_answers WHERE kept_at < ?", (moment,)).rowcount


def _used_bytes(connection: sqlite3.Connection) -> int:
    used = _number(connection, "page_count") - _number(connection, "freelist_count")
    return used * _number(connection, "page_size")


def _number(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])
