"""The store in one SQLite file: a writer thread that commits in groups, readers beside it (WAL)."""

from __future__ import annotations

import asyncio
import logging
import os
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from tool_call_evaluators.judge.cache import SqliteJudgeCache

from ..capture.turn import Turn
from .base import Score, Scored, ScoredConversation, StoreError
from .encoding import json_text, utf8_text
from .sqlite_reads import SqliteReads

logger = logging.getLogger(__name__)

T = TypeVar("T")

SCHEMA_VERSION = 2
_SCHEMA = """
CREATE TABLE turns (
  seq INTEGER PRIMARY KEY,
  turn_id TEXT NOT NULL UNIQUE,
  run TEXT NOT NULL,
  case_id TEXT,
  conversation_id TEXT NOT NULL,
  status TEXT NOT NULL,
  body TEXT NOT NULL,
  evaluations TEXT NOT NULL DEFAULT '[]'
);
CREATE INDEX turns_run ON turns (run, seq);
CREATE INDEX turns_conversation ON turns (conversation_id, seq);
CREATE INDEX turns_case ON turns (case_id, seq) WHERE case_id IS NOT NULL;
CREATE INDEX turns_pending ON turns (seq) WHERE status = 'pending';
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

MAX_QUEUED = 10_000
"""Batches waiting to be written; more than that, and the disk does not keep up."""

_MAX_GROUP = 100
_ROWS = 64
"""Rows in one statement. Each statement lets go of the interpreter lock, and that costs more than the row."""

_RETRY_S = 1.0


@dataclass(frozen=True, slots=True)
class _Add:
    turns: Sequence[Turn]
    committed: Callable[[], object]
    score: Score | None


@dataclass(frozen=True, slots=True)
class _Finish:
    scored: Sequence[Scored]
    committed: Callable[[], object]


@dataclass(frozen=True, slots=True)
class _FinishConversations:
    scored: Sequence[ScoredConversation]
    committed: Callable[[], object]


@dataclass(frozen=True, slots=True)
class _Discard:
    turn_ids: Sequence[str]
    committed: Callable[[], object]


@dataclass(frozen=True, slots=True)
class _Mark:
    """Reached when everything before it is committed."""

    reached: Callable[[], object]
    last: bool = False


_Item = _Add | _Finish | _FinishConversations | _Discard | _Mark
_Statement = tuple[str, Sequence[Any]]


class SqliteStore(SqliteReads):
    """See `base.Store`. Raises StoreError where the file cannot be opened or is something else."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._queue: queue.SimpleQueue[_Item] = queue.SimpleQueue()
        self.judge_cache = SqliteJudgeCache(path)
        try:
            self._connection = _open(path)
        except (sqlite3.Error, OSError) as error:
            raise StoreError(f"store {path}: {error}; give a writable path, or remove the file") from error
        self._writer = threading.Thread(target=self._write_forever, name="store-writer", daemon=True)
        self._writer.start()

    def add(self, turns: Sequence[Turn], committed: Callable[[], object], score: Score | None = None) -> bool:
        if self._queue.qsize() >= MAX_QUEUED:
            return False
        self._queue.put(_Add(turns, committed, score))
        return True

    def finish(self, scored: Sequence[Scored], committed: Callable[[], object]) -> None:
        self._queue.put(_Finish(scored, committed))

    def finish_conversations(self, scored: Sequence[ScoredConversation], committed: Callable[[], object]) -> None:
        self._queue.put(_FinishConversations(scored, committed))

    def discard(self, turn_ids: Sequence[str], committed: Callable[[], object]) -> None:
        self._queue.put(_Discard(turn_ids, committed))

    async def drained(self) -> None:
        loop = asyncio.get_running_loop()
        reached = asyncio.Event()
        self._queue.put(_Mark(lambda: loop.call_soon_threadsafe(reached.set)))
        await reached.wait()

    def close(self) -> None:
        self._queue.put(_Mark(lambda: None, last=True))
        self._writer.join()
        self._connection.close()

    def _write_forever(self) -> None:
        while True:
            group = self._next_group()
            self._commit(group)
            if any(isinstance(item, _Mark) and item.last for item in group):
                return

    def _next_group(self) -> list[_Item]:
        group = [self._queue.get()]
        while len(group) < _MAX_GROUP:
            try:
                group.append(self._queue.get_nowait())
            except queue.Empty:
                break
        return group

    def _commit(self, group: list[_Item]) -> None:
        statements = list(_statements(group))
        reported = False
        while statements:
            try:
                self._write(statements)
                break
            except sqlite3.Error as error:  # a full disk, a lock: nothing may be lost, so try until it works
                if not reported:
                    logger.error("store %s: %s; retrying, turns wait in memory", self._path, error)
                    reported = True
                time.sleep(_RETRY_S)
        for item in group:
            if isinstance(item, _Mark):
                item.reached()
            else:
                item.committed()

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


def _statements(group: list[_Item]) -> Iterator[_Statement]:
    """What writes a group: turns before their results, results in the order in which they came."""
    added = [_row(turn, item.score) for item in group if isinstance(item, _Add) for turn in item.turns]
    for rows in _chunks(added):
        yield _insert(len(rows)), [value for row in rows for value in row]
    scored = [_results(item) for entry in group if isinstance(entry, _Finish) for item in entry.scored]
    for results in _chunks(scored):
        yield _update(len(results)), [value for result in results for value in result]
    for item in group:
        if isinstance(item, _FinishConversations):
            yield from ((_CONVERSATION, _conversation_row(scored)) for scored in item.scored)
        elif isinstance(item, _Discard):
            yield from ((statement, (turn_id,)) for turn_id in item.turn_ids for statement in _DISCARD)


def _row(turn: Turn, score: Score | None) -> tuple[Any, ...]:
    evaluations = score(turn) if score is not None else None
    status, results = (turn.status, "[]") if evaluations is None else ("done", json_text(evaluations))
    case_id = None if turn.case_id is None else utf8_text(turn.case_id)
    found_by = turn.turn_id, utf8_text(turn.run), case_id, utf8_text(turn.conversation_id)
    return *found_by, status, json_text(turn.to_dict()), results


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
    values = ", ".join(["(?, ?, ?, ?, ?, ?, ?)"] * rows)
    columns = "turn_id, run, case_id, conversation_id, status, body, evaluations"
    return f"INSERT OR IGNORE INTO turns ({columns}) VALUES {values}"  # noqa: S608  # fixed texts


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
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        tables = connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()[0]
        if version == 0 and tables == 0:
            connection.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;")
        elif version != SCHEMA_VERSION:
            raise sqlite3.DatabaseError(f"it is no store of this version (schema {version}, expected {SCHEMA_VERSION})")
    except sqlite3.Error:
        connection.close()
        raise
    return connection
