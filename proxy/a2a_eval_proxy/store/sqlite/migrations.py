"""Creates the tables of an SQLite store, and migrates those of earlier versions to the same schema."""

from __future__ import annotations

import sqlite3
from itertools import chain

from ..schema import SQLITE
from .sql import transaction

MIGRATIONS: dict[int, tuple[str, ...]] = {
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
    5: (  # see `sql`; with random ids, each of the old indexes had a page written for nearly every turn
        "DROP INDEX turns_conversation",
        "DROP INDEX turns_task",
        "CREATE INDEX turns_conversation ON turns (seq >> 11, substr(conversation_id, -8))",
        "CREATE INDEX turns_task ON turns (seq >> 11, substr(task_id, -8)) WHERE task_id != ''",
    ),
    6: (
        "CREATE TABLE annotations (annotation_id TEXT PRIMARY KEY,"
        " turn_id TEXT NOT NULL REFERENCES turns (turn_id) ON DELETE CASCADE, body TEXT NOT NULL)",
        "CREATE INDEX annotations_turn ON annotations (turn_id)",
    ),
    7: (
        "CREATE TABLE webhooks (webhook_id TEXT PRIMARY KEY, url TEXT NOT NULL, asked BIGINT NOT NULL,"
        " registered_at BIGINT NOT NULL, task_key TEXT NOT NULL, config_key TEXT NOT NULL, ended_at BIGINT NOT NULL)",
        "CREATE INDEX webhooks_task ON webhooks (task_key)",
    ),
    8: (
        "ALTER TABLE webhooks ADD COLUMN lease_owner TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE webhooks ADD COLUMN lease_until BIGINT NOT NULL DEFAULT 0",
        "CREATE TABLE deliveries (number INTEGER PRIMARY KEY, webhook_id TEXT NOT NULL, content TEXT NOT NULL,"
        " kept_at BIGINT NOT NULL, tries BIGINT NOT NULL DEFAULT 0, due_at BIGINT NOT NULL DEFAULT 0)",
        "CREATE INDEX deliveries_webhook ON deliveries (webhook_id, number)",
    ),
}
"""Statements by the schema version (SQLite's `user_version`) to which they lead, ascending. Released ones never change:
add a version."""

OLDEST, NEWEST = min(MIGRATIONS) - 1, max(MIGRATIONS)


def schema_version(connection: sqlite3.Connection) -> int:
    """Returns the `user_version`; 0 in a new file."""
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return version


def migrate(connection: sqlite3.Connection) -> None:
    """Create the tables, or bring them to `NEWEST`, in one transaction, under SQLite's write lock.

    A process that waited for the lock finds the version of the one before it. A process that is killed leaves the file
    as it was. Raises sqlite3.Error.
    """
    if schema_version(connection) == NEWEST:
        return
    with transaction(connection):
        version = schema_version(connection)
        later = (statements for number, statements in MIGRATIONS.items() if number > version)
        for statement in SQLITE.statements() if version == 0 else chain.from_iterable(later):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {NEWEST}")
