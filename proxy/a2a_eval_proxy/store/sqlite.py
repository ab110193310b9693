"""The store in one SQLite file: a writer thread that commits in groups, readers beside it (WAL)."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, TypeVar

from a2a_tool_capture.models import rfc3339
from tool_call_evaluators.judge.cache import SqliteJudgeCache

from ..capture.turn import Turn
from .base import Score, Scored, ScoredConversation, StoreError
from .encoding import json_text, utf8_text
from .sqlite_reads import SqliteReads
from .sqlite_retention import prune
from .writing import Add, Discard, Finish, FinishConversations, Item, Prune, QueuedWrites, Settle, latest_results

T = TypeVar("T")

SCHEMA_VERSION = 3
_SCHEMA = """
CREATE TABLE turns (
  seq INTEGER PRIMARY KEY,
  turn_id TEXT NOT NULL UNIQUE,
  run TEXT NOT NULL,
  case_id TEXT,
  conversation_id TEXT NOT NULL,
  status TEXT NOT NULL,
  body TEXT NOT NULL,
  evaluations TEXT NOT NULL DEFAULT '[]',
  task_id TEXT NOT NULL DEFAULT '',
  heard_at INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX turns_run ON turns (run, seq);
CREATE INDEX turns_conversation ON turns (conversation_id, seq);
CREATE INDEX turns_case ON turns (case_id, seq) WHERE case_id IS NOT NULL;
CREATE INDEX turns_pending ON turns (seq) WHERE status = 'pending';
CREATE INDEX turns_task ON turns (task_id, seq) WHERE task_id != '';
CREATE INDEX turns_open ON turns (heard_at) WHERE status = 'open';
CREATE TABLE conversations (
  run TEXT NOT NULL,
  conversation_id TEXT NOT NULL,
  case_id TEXT NOT NULL,
  turns INTEGER NOT NULL,
  evaluations TEXT NOT NULL,
  PRIMARY KEY (run, conversation_id, case_id)
);
CREATE INDEX conversations_id ON conversations (conversation_id);
"""

_FROM_VERSION_2 = """
BEGIN IMMEDIATE;
ALTER TABLE turns ADD COLUMN task_id TEXT NOT NULL DEFAULT '';
ALTER TABLE turns ADD COLUMN heard_at INTEGER NOT NULL DEFAULT 0;
UPDATE turns SET task_id = coalesce(json_extract(body, '$.task_id'), '')
  WHERE seq > (SELECT coalesce(max(seq), 0) FROM turns) - 100000;
CREATE INDEX turns_task ON turns (task_id, seq) WHERE task_id != '';
CREATE INDEX turns_open ON turns (heard_at) WHERE status = 'open';
PRAGMA user_version = 3;
COMMIT;
"""
"""From the schema before. Only recent turns get their task: older tasks do not go on."""

_ROWS = 64
"""Rows in one statement. Each statement lets go of the interpreter lock, and that costs more than the row."""

_Statement = tuple[str, Sequence[Any]]


class SqliteStore(SqliteReads, QueuedWrites):
    """See `base.Store`. Raises StoreError where the file cannot be opened or is something else."""

    shared = False
    trouble = (sqlite3.Error,)  # a full disk, a lock

    def __init__(self, path: str) -> None:
        SqliteReads.__init__(self, path)
        QueuedWrites.__init__(self, path)
        self.judge_cache = SqliteJudgeCache(path)
        try:
            self._connection = _open(path)
        except (sqlite3.Error, OSError) as error:
            raise StoreError(f"store {path}: {error}; give the path of a store, or of a file to be made") from error
        self._writer.start()

    def close(self) -> None:
        super().close()
        self._connection.close()

    def _writing(self, group: list[Item]) -> Callable[[], None]:
        return partial(self._write, list(_statements(group)))

    def _pruned(self, item: Prune) -> int:
        before = None if item.before is None else rfc3339(item.before)
        return prune(self._connection, before, item.max_bytes)

    def _write(self, statements: list[_Statement]) -> None:
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            for statement, values in statements:
                connection.execute(statement, values)
            connection.execute("COMMIT")
        except sqlite3.Error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


def _statements(group: list[Item]) -> Iterator[_Statement]:
    """What writes a group: turns before their results, results in the order in which they came."""
    added = [_row(turn, item.score) for item in group if isinstance(item, Add) for turn in item.turns]
    for rows in _chunks(added):
        yield _insert(len(rows)), [value for row in rows for value in row]
    scored = latest_results(item for item in group if isinstance(item, Finish))
    for results in _chunks([_results(item) for item in scored]):
        yield _update(len(results)), [value for result in results for value in result]
    for item in group:
        if isinstance(item, Settle):
            yield from ((_SETTLE, (json_text(turn.to_dict()), turn.turn_id)) for turn in item.turns)
        elif isinstance(item, FinishConversations):
            yield from ((_CONVERSATION, _conversation_row(scored)) for scored in item.scored)
        elif isinstance(item, Discard):
            yield from ((statement, (turn_id,)) for turn_id in item.turn_ids for statement in _DISCARD)


def _row(turn: Turn, score: Score | None) -> tuple[Any, ...]:
    evaluations = score(turn) if score is not None and turn.status != "open" else None
    status, results = (turn.status, "[]") if evaluations is None else ("done", json_text(evaluations))
    case_id = None if turn.case_id is None else utf8_text(turn.case_id)
    found_by = turn.turn_id, utf8_text(turn.run), case_id, utf8_text(turn.conversation_id)
    heard_at = int(time.time()) if status == "open" else 0
    return *found_by, status, json_text(turn.to_dict()), results, utf8_text(turn.task_id), heard_at


def _results(scored: Scored) -> tuple[str, str, str | None]:
    body = None if scored.merged is None else json_text(scored.merged.to_dict())
    return scored.turn_id, json_text(scored.evaluations), body


def _conversation_row(scored: ScoredConversation) -> tuple[Any, ...]:
    run, conversation_id, case_id = scored.key
    names = utf8_text(run), utf8_text(conversation_id), utf8_text(case_id or "")
    return *names, scored.turns, json_text(scored.evaluations)


_CONVERSATION = (
    "INSERT OR REPLACE INTO conversations (run, conversation_id, case_id, turns, evaluations) VALUES (?, ?, ?, ?, ?)"
)
_SETTLE = "UPDATE turns SET status = 'pending', body = ? WHERE turn_id = ?"
_DISCARD = (
    "DELETE FROM conversations WHERE EXISTS (SELECT 1 FROM turns WHERE turn_id = ? AND turns.run = conversations.run"
    " AND turns.conversation_id = conversations.conversation_id"
    " AND coalesce(turns.case_id, '') = conversations.case_id)",
    "DELETE FROM turns WHERE turn_id = ?",
)


def _chunks(rows: list[T]) -> Iterator[list[T]]:
    """Pieces of a few fixed sizes, so that the statements for them stay prepared."""
    position, size = 0, _ROWS
    while position < len(rows):
        while size > len(rows) - position:
            size //= 2
        yield rows[position : position + size]
        position += size


@lru_cache
def _insert(rows: int) -> str:
    values = ", ".join(["(?, ?, ?, ?, ?, ?, ?, ?, ?)"] * rows)
    columns = ("run", "case_id", "conversation_id", "status", "body", "evaluations", "task_id", "heard_at")
    replaced = ", ".join(f"{column} = excluded.{column}" for column in columns)
    return (
        f"INSERT INTO turns (turn_id, {', '.join(columns)}) VALUES {values}"  # noqa: S608  # fixed texts
        f" ON CONFLICT (turn_id) DO UPDATE SET {replaced} WHERE turns.status = 'open'"
    )


@lru_cache
def _update(rows: int) -> str:
    values = ", ".join(["(?, ?, ?)"] * rows)
    return (
        f"WITH scored (id, results, merged) AS (VALUES {values}) "  # noqa: S608  # fixed texts
        "UPDATE turns SET status = 'done', evaluations = results, body = coalesce(merged, body) FROM scored"
        " WHERE turn_id = id"
    )


def _open(path: str) -> sqlite3.Connection:
    parent = Path(path).parent
    if not parent.is_dir():
        raise OSError(f"there is no directory {str(parent)!r}")
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))  # what agents say is nobody else's to read
    connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None, timeout=10.0)
    try:
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # of a new file: so that it can shrink
        connection.execute("PRAGMA secure_delete = ON")  # what is deleted, or replaced, is overwritten
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        tables = connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()[0]
        if version == 0 and tables == 0:
            connection.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;")
        elif version == 2:
            connection.executescript(_FROM_VERSION_2)
        elif version != SCHEMA_VERSION:
            raise sqlite3.DatabaseError(f"it is no store of this version (schema {version}, expected {SCHEMA_VERSION})")
    except sqlite3.Error:
        connection.close()
        raise
    return connection
