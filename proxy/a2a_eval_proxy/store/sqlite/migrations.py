"""The schema of an SQLite store, as the migrations that lead to it; PostgreSQL has its own in `postgres/migrations`.

A new file runs all of them, so that a migrated file and a new one are alike.
"""

from __future__ import annotations

import sqlite3

from .sql import transaction

MIGRATIONS: dict[int, tuple[str, ...]] = {
    2: (
        """
        CREATE TABLE turns (
          seq INTEGER PRIMARY KEY,
          turn_id TEXT NOT NULL UNIQUE,
          run TEXT NOT NULL,
          case_id TEXT,
          conversation_id TEXT NOT NULL,
          status TEXT NOT NULL,
          body TEXT NOT NULL,
          evaluations TEXT NOT NULL DEFAULT '[]'
        )
        """,
        "CREATE INDEX turns_run ON turns (run, seq)",
        "CREATE INDEX turns_conversation ON turns (conversation_id, seq)",
        "CREATE INDEX turns_case ON turns (case_id, seq) WHERE case_id IS NOT NULL",
        "CREATE INDEX turns_pending ON turns (seq) WHERE status = 'pending'",
        """
        CREATE TABLE conversations (
          run TEXT NOT NULL,
          conversation_id TEXT NOT NULL,
          case_id TEXT NOT NULL,
          turns INTEGER NOT NULL,
          evaluations TEXT NOT NULL,
          PRIMARY KEY (run, conversation_id, case_id)
        )
        """,
        "CREATE INDEX conversations_id ON conversations (conversation_id)",
    ),
    3: (  # open turns, and the task of each turn
        "ALTER TABLE turns ADD COLUMN task_id TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE turns ADD COLUMN heard_at INTEGER NOT NULL DEFAULT 0",
        # only recent turns get their task: older tasks do not continue
        """
        UPDATE turns SET task_id = coalesce(json_extract(body, '$.task_id'), '')
         WHERE seq > (SELECT coalesce(max(seq), 0) FROM turns) - 100000
        """,
        "CREATE INDEX turns_task ON turns (task_id, seq) WHERE task_id != ''",
        "CREATE INDEX turns_open ON turns (heard_at) WHERE status = 'open'",
    ),
    4: (  # `SqliteJudgeCache` creates it in a file of its own
        "CREATE TABLE IF NOT EXISTS judge_answers (key TEXT PRIMARY KEY, entry TEXT, kept_at TEXT NOT NULL)",
    ),
    5: (  # see `sql`: with random ids, each of the old indexes had a page written for nearly every turn
        "DROP INDEX turns_conversation",
        "DROP INDEX turns_task",
        "CREATE INDEX turns_conversation ON turns (seq >> 10, substr(conversation_id, -8))",
        "CREATE INDEX turns_task ON turns (seq >> 10, substr(task_id, -8))",
    ),
}
"""Statements by schema version (SQLite's `user_version`), ascending. Released ones never change: add a version."""

OLDEST, NEWEST = min(MIGRATIONS), max(MIGRATIONS)


def schema_version(connection: sqlite3.Connection) -> int:
    """Returns the `user_version`; 0 in a new file."""
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return version


def migrate(connection: sqlite3.Connection) -> None:
    """Bring the open file to `NEWEST` in one transaction, under SQLite's write lock.

    A process that waited for the lock finds the version of the one before it. A process that is killed leaves the file
    as it was. Raises sqlite3.Error.
    """
    if schema_version(connection) == NEWEST:
        return
    with transaction(connection):
        version = schema_version(connection)
        for number, statements in MIGRATIONS.items():
            for statement in statements if number > version else ():
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {NEWEST}")
