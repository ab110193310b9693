"""The store in one SQLite file: a writer thread that commits in groups, and concurrent readers (WAL).

What is old is deleted for good: neither the file nor its write-ahead log has its bytes.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache, partial
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any

from a2a_tool_capture.models import rfc3339
from tool_call_evaluators.judge.cache import SqliteJudgeCache

from ...files import ScratchFolder
from ..base import KeptVerdict, Scored, StoreFileError, StoreUnreachableError
from ..encoding import (
    Add,
    Discard,
    EncodedTurn,
    FinishConversations,
    Item,
    Mark,
    Prune,
    Settle,
    json_text,
    latest_results,
)
from ..retention import CUT, SIZES, AgentSizes
from ..schema import OUTCOMES, SQLITE, WITHOUT_RUN, replacing
from ..store import Store
from ..write_queue import QueuedWrites, StoreLostError
from .file import (
    Identity,
    StoreDamagedError,
    copied,
    found_by,
    identity,
    is_damage,
    is_full,
    keep_reserve,
    log_identity,
    moved_aside,
    of_agents,
    open_file,
    release_reserve,
    transaction,
)
from .reads import SqliteReads

logger = logging.getLogger(__name__)

_BATCH, _BATCH_BYTES = 200, 1024 * 1024
"""Turns deleted in one transaction, and their size, so that none is long, or takes much of a full disk. A larger turn
is deleted alone."""

_VACUUMED = 250  # pages freed in one transaction
_SIZE = (
    "(length(body) + length(evaluations)"
    " + coalesce((SELECT length(w.body) FROM wires AS w WHERE w.turn_id = oldest.turn_id), 0))"
)

_DELETE_CONVERSATION = (
    "DELETE FROM conversations AS c WHERE run = :run AND conversation_id = :conversation_id AND NOT EXISTS"  # noqa: S608  # fixed texts
    f" (SELECT 1 FROM turns AS t WHERE t.seq IN ({found_by('conversation_id')}) AND +t.run = :run"
    " AND c.agent_name IN ('', t.agent))"
)


_AGENTS = (
    "WITH RECURSIVE names (agent) AS (SELECT min(agent) FROM turns UNION ALL"
    " SELECT (SELECT min(agent) FROM turns WHERE agent > names.agent) FROM names WHERE agent IS NOT NULL)"
    " SELECT agent FROM names WHERE agent IS NOT NULL"
)
_OF_ANY = "SELECT * FROM turns ORDER BY seq LIMIT :most"
_OF_AGENTS = (
    "SELECT t.* FROM json_each(:agents) AS a JOIN turns AS t ON t.seq IN (SELECT o.seq FROM turns AS o"
    " WHERE o.agent = a.value ORDER BY o.seq LIMIT :most) ORDER BY t.seq LIMIT :most"
)
_ENDED = "coalesce(ended_at, started_at) < :before"


def prune(connection: sqlite3.Connection, item: Prune, sizes: AgentSizes) -> int:
    """Delete turns that ended before `before`, then the oldest until the file is small enough; see `Prune`.

    Also deletes evaluations of conversations without turns, and judges' answers as old as the turns. Returns the number
    of deleted turns, and shrinks the file. Raises sqlite3.Error; earlier deletions are kept.
    """
    connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()  # what the log has no more need of is used again
    others = _others(connection, item.own)
    deleted = _delete_all(connection, others, _ENDED, before=item.before) if item.before is not None else 0
    answers_before = [] if item.before is None else [item.before]
    for agent, limits in item.own.items():
        if limits.before is not None:
            deleted += _delete_all(connection, [agent], _ENDED, before=limits.before)
            answers_before.append(limits.before)
        if limits.max_bytes is not None:
            last = _last_beyond(connection, agent, limits.max_bytes, sizes)
            if count := _delete_all(connection, [agent], "seq <= :last", last=last):
                deleted += count
                answers_before.append(_oldest(connection, [agent]))
    if item.max_bytes is not None:
        others = _others(connection, item.sized)
        while (used := _used_bytes(connection)) > item.max_bytes:
            most = _share(connection, 1 - item.max_bytes / used)
            count = _delete_oldest(connection, others, "1", {}, most)
            if not count and others is not None:
                count = _delete_oldest(connection, None, "1", {}, most)
            if not count:
                break
            deleted += count
            _delete_answers(connection, _oldest(connection, None))
    if deleted:
        with transaction(connection):
            connection.execute(WITHOUT_RUN)
    deleted_answers = _delete_answers(connection, max(answers_before)) if answers_before else 0
    if deleted or deleted_answers:
        _vacuum(connection)
    # The log has all that was ever written since it was last cut. A reader may have kept it from being cut last time.
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return deleted


def _others(connection: sqlite3.Connection, agents: Collection[str]) -> list[str] | None:
    """All other agents; None where that is any."""
    return [agent for (agent,) in connection.execute(_AGENTS) if agent not in agents] if agents else None


def _last_beyond(connection: sqlite3.Connection, agent: str, max_bytes: int, sizes: AgentSizes) -> int:
    """The number of the newest turn of an agent that is beyond its limit."""
    of_agent = of_agents(":agent")
    values = {"agent": agent, "since": sizes.since(agent)}
    full = sizes.full(agent, connection.execute(SIZES.format(of_agent=of_agent), values), max_bytes)
    if full is None:
        return 0
    (last,) = connection.execute(CUT.format(of_agent=of_agent), {"agent": agent, **full._asdict()}).fetchone()
    return full.first - 1 if last is None else int(last)


def _share(connection: sqlite3.Connection, part: float) -> int:
    """Returns the number of turns of that part of all; at least one, and at most a batch."""
    turns = connection.execute("SELECT COUNT(*) FROM turns").fetchone()[0]
    return max(1, min(_BATCH, int(turns * part)))


def _delete_all(connection: sqlite3.Connection, agents: list[str] | None, condition: str, **values: float) -> int:
    """Delete the oldest turns of these agents as long as some of a batch meet the condition."""
    deleted = 0
    while count := _delete_oldest(connection, agents, condition, values, _BATCH):
        deleted += count
    return deleted


def _delete_oldest(
    connection: sqlite3.Connection, agents: list[str] | None, condition: str, values: dict[str, float], most: int
) -> int:
    """Delete those of the oldest `most` turns (of these agents; None: of any) that meet the condition, in pieces of
    `_BATCH_BYTES`, and the results of conversations of which they were the last; returns their number."""
    with transaction(connection):
        found = connection.execute(
            f"SELECT seq, run, conversation_id FROM (SELECT *, sum({_SIZE}) OVER (ORDER BY seq) - {_SIZE} AS earlier"  # noqa: S608  # fixed texts
            f" FROM ({_OF_ANY if agents is None else _OF_AGENTS}) AS oldest WHERE {condition})"
            f" WHERE earlier < {_BATCH_BYTES}",
            {**values, "most": most, "agents": json_text(agents)},
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


def _oldest(connection: sqlite3.Connection, agents: list[str] | None) -> float:
    """Returns the start of the oldest remaining turn; later than all times without turns."""
    oldest = f"SELECT started_at FROM ({_OF_ANY if agents is None else _OF_AGENTS})"  # noqa: S608  # fixed texts
    row = connection.execute(oldest, {"most": 1, "agents": json_text(agents)}).fetchone()
    return row[0] if row else datetime.max.replace(tzinfo=UTC).timestamp()


def _delete_answers(connection: sqlite3.Connection, before: float) -> int:
    """Delete judges' answers from before that time: they quote turns."""
    moment = rfc3339(before)
    return connection.execute("DELETE FROM judge_answers WHERE kept_at < ?", (moment,)).rowcount


def _used_bytes(connection: sqlite3.Connection) -> int:
    used = _number(connection, "page_count") - _number(connection, "freelist_count")
    return used * _number(connection, "page_size")


def _number(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])


_ROWS = 64  # rows in one statement. Each statement lets go of the interpreter lock, and that costs more than the row.
_Statement = tuple[str, Sequence[Any]]


class SqliteStore(SqliteReads, Store):
    """Raises StoreError for what cannot be a store; where the file cannot be opened, StoreFileError,
    unless it is `patient`: then `start` tries for as long as it takes.

    A `patient` store continues with another file: a damaged one is moved aside and can be repaired, a deleted one is
    created again. Any other store writes only to the file it opened, and stops writing if that is damaged or deleted.
    """

    trouble = (sqlite3.Error, OSError)  # a full disk, a lock

    def __init__(self, path: str, *, patient: bool = False) -> None:
        SqliteReads.__init__(self, path)
        QueuedWrites.__init__(self, path, patient=patient)
        self.judge_cache = SqliteJudgeCache(path)
        self._connection: sqlite3.Connection | None = None
        self._patient = self._keeps_reserve = patient
        self._identity: Identity | None = None
        self._log_identity: tuple[Identity | None, ...] = ()
        self._damage: tuple[Identity | None, str] | None = None
        """The file that is damaged, and the error that showed it."""
        if not patient:
            self._open_now()

    def close(self, timeout_s: float = 30.0) -> None:
        super().close(timeout_s)
        self._end_threads()
        if self.closed:
            self._let_go()
            if self._keeps_reserve and not self._patient:
                keep_reserve(self._path)

    def _open(self) -> None:
        try:
            self._connection, self._identity = self._opened_file()
        except StoreDamagedError as error:
            if not (self._patient and (error.ours or self._identity)):
                raise
            try:
                with self._changing:
                    logger.error("store %s: %s", self._path, moved_aside(self._path, error.file, str(error)))
            except OSError as refused:
                raise StoreFileError(f"{error}; it cannot be moved aside: {refused.strerror}") from refused
            self.health.replaced += 1
            self._connection, self._identity = open_file(self._path)
        self._log_identity = log_identity(self._path)
        if self._patient:
            keep_reserve(self._path)

    def _opened_file(self) -> tuple[sqlite3.Connection, Identity | None]:
        """See `open_file`, which needs a little space of the disk."""
        try:
            return open_file(self._path)
        except StoreFileError as error:
            if error.__cause__ is None or not self._released(error.__cause__):
                raise
        return open_file(self._path)

    def _check(self) -> None:
        file, why = self._damage or (None, "")
        if self._damage is not None and file == self._identity:
            self._let_go()
            if not self._patient:
                raise StoreFileError(f"store {self._path}: {why}; 'sqlite3 FILE .recover' may get turns from it")
            with self._changing:
                why = moved_aside(self._path, file, why)
            self._damage = None
            raise StoreLostError(why)
        self._damage = None  # it was a read of an earlier file
        if identity(self._path) != self._identity:
            self._let_go()
            gone = "its file was deleted or replaced while in use"
            if not self._patient:
                raise StoreUnreachableError(f"store {self._path}: {gone}")
            raise StoreLostError(f"{gone}; turns are kept in the one now there")
        if (
            log_identity(self._path) != self._log_identity
        ):  # other processes would not see what is written, nor this one
            self._let_go()  # which writes back what it has
            raise StoreLostError("its write-ahead log was deleted or replaced while in use; the file is reopened")

    def _let_go(self) -> None:
        """Close the file. Before another takes its name: SQLite deletes a write-ahead log by name."""
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None

    def _met(self, error: sqlite3.Error, file: Identity | None) -> None:
        """A reader met an error: where that is damage, the writing thread is to see to it."""
        if self._patient and self._damage is None and file == self._identity and is_damage(error):
            self._damage = file, str(error)
            self._put(Mark())

    def _writing(self, group: list[Item]) -> Callable[[], None]:
        return partial(self._write, list(_statements(group)))

    def _is_full(self, error: Exception) -> bool:
        return is_full(error)

    def _released(self, error: BaseException) -> bool:
        """Whether the error means a full disk, and the reserve was there to be given up: it is kept again later."""
        released = is_full(error) and release_reserve(self._path)
        self._keeps_reserve = self._keeps_reserve or released
        return released

    def _pruned(self, item: Prune) -> int:
        try:
            return prune(self._in_use(), item, self._sizes)
        except sqlite3.Error as error:
            if not self._released(error):
                raise
            return prune(self._in_use(), item, self._sizes)
        finally:
            if self._keeps_reserve:
                keep_reserve(self._path)

    def _in_use(self) -> sqlite3.Connection:
        if self._connection is None:
            raise sqlite3.OperationalError("it is not open")
        return self._connection

    def _write(self, statements: list[_Statement]) -> None:
        connection = self._in_use()
        try:
            with transaction(connection):
                for statement, values in statements:
                    connection.execute(statement, values)
        except sqlite3.Error as error:
            if is_damage(error):
                self._damage = self._identity, str(error)
                self._check()
            raise


class CopiedSqliteStore(SqliteStore):
    """A store that can be read only, such as one on a read-only file system: its copy, in a folder of its own.

    What is written is written to the copy, and gone when it is closed.
    """

    def __init__(self, path: str) -> None:
        self._folder = ScratchFolder()
        self._original = path
        self._warned = False
        try:
            super().__init__(copied(path, Path(self._folder.name)))
        except BaseException:
            self._folder.cleanup()
            raise

    def finish(self, scored: Sequence[Scored], committed: Callable[[], object]) -> None:
        if scored and not self._warned:
            self._warned = True
            logger.warning("store %s is read-only: the results of this evaluation are not kept in it", self._original)
        super().finish(scored, committed)

    async def keep_verdict(self, run: str, kept: KeptVerdict) -> None:
        """It is not kept, as the results are not."""

    judged = keep_verdict

    async def _change(self, statement: str, values: dict[str, Any]) -> int:
        raise StoreFileError(f"store {self._original} is read-only: annotations and calibrations cannot be kept in it")

    def close(self, timeout_s: float = 30.0) -> None:
        super().close(timeout_s)
        self._folder.cleanup()


def _statements(group: list[Item]) -> Iterator[_Statement]:
    """What writes a group: turns before their results, results in the order in which they came."""
    new = [turn for item in group if isinstance(item, Add) for turn in item.rows]
    for rows in _chunks([_row(turn) for turn in new]):
        yield _insert(len(rows)), list(chain.from_iterable(rows))
    yield from ((_WIRE, (turn.turn_id, turn.wire.decode())) for turn in new if turn.wire)
    scored = latest_results(group)
    for rows in _chunks([(one.turn_id, *one.results.columns().values()) for one in scored]):
        yield _update(len(rows)), list(chain.from_iterable(rows))
    for item in group:
        if isinstance(item, Add):
            yield from ((_NAME, (turn.turn_id, name)) for turn in item.rows for name in turn.names)
    yield from (
        (
            _MERGED,
            (one.merged.body.decode(), one.merged.stored_bytes, one.merged.case_id, one.merged.links, one.turn_id),
        )
        for one in scored
        if one.merged is not None
    )
    for item in group:
        match item:
            case Settle(rows=turns):
                yield from (
                    (_SETTLE, (turn.body.decode(), turn.stored_bytes, turn.links, turn.turn_id)) for turn in turns
                )
            case FinishConversations(rows=whole):
                yield from ((_CONVERSATION, (*one.key, one.turns, *one.results.columns().values())) for one in whole)
            case Discard(rows=turn_ids):
                yield from ((statement, (turn_id,)) for turn_id in turn_ids for statement in _DISCARD)


_COLUMNS = [column for column in SQLITE.tables()["turns"] if column != "seq"]  # SQLite numbers rows itself
_in_order: Callable[[dict[str, Any]], tuple[Any, ...]] = itemgetter(*_COLUMNS)


def _row(turn: EncodedTurn) -> tuple[Any, ...]:
    columns = turn.columns()
    columns["heard_at"] = int(time.time()) if columns["status"] == "open" else 0
    return _in_order(columns)


_RESULTS = ("evaluations", *OUTCOMES)
_CONVERSATION = (
    f"INSERT OR REPLACE INTO conversations (run, conversation_id, case_id, agent_name, turns, {', '.join(_RESULTS)})"  # noqa: S608  # fixed texts
    f" VALUES (?, ?, ?, ?, ?{', ?' * len(_RESULTS)})"
)
_WIRE = "INSERT OR IGNORE INTO wires (turn_id, body) VALUES (?, ?)"
_LINKS = replacing("links", "?")
_MERGED = f"UPDATE turns SET body = ?, size = ?, case_id = ?, {_LINKS} WHERE turn_id = ?"  # noqa: S608  # fixed texts
_SETTLE = f"UPDATE turns SET status = 'pending', body = ?, size = ?, {_LINKS} WHERE turn_id = ?"  # noqa: S608  # fixed texts
_NAME = "INSERT OR IGNORE INTO turn_names (turn_id, name) SELECT turn_id, ?2 FROM turns WHERE turn_id = ?1"
_DISCARD = (
    "DELETE FROM conversations WHERE (run, conversation_id, case_id) IN"
    " (SELECT run, conversation_id, coalesce(case_id, '') FROM turns WHERE turn_id = ?1)"
    " AND agent_name IN ('', (SELECT agent FROM turns WHERE turn_id = ?1))",
    "DELETE FROM turns WHERE turn_id = ?",
)


def _chunks(rows: list[tuple[Any, ...]]) -> Iterator[list[tuple[Any, ...]]]:
    """Pieces of a few fixed sizes: their statements stay prepared, which takes memory for each size."""
    position, size = 0, _ROWS
    while position < len(rows):
        while size > len(rows) - position:
            size //= 2
        yield rows[position : position + size]
        position += size


@lru_cache
def _insert(rows: int) -> str:
    values = ", ".join([f"({', '.join('?' * len(_COLUMNS))})"] * rows)
    replaced = ", ".join(replacing(column, f"excluded.{column}") for column in _COLUMNS if column != "turn_id")
    return (
        f"INSERT INTO turns ({', '.join(_COLUMNS)}) VALUES {values}"  # noqa: S608  # fixed texts
        f" ON CONFLICT (turn_id) DO UPDATE SET {replaced} WHERE turns.status = 'open'"
    )


@lru_cache
def _update(rows: int) -> str:
    """OR FAIL: an error undoes the transaction, so that SQLite need not copy the pages with texts for the statement."""
    values = ", ".join([f"(?{', ?' * len(_RESULTS)})"] * rows)
    replaced = ", ".join(f"{column} = scored.{column}" for column in _RESULTS)
    return (
        f"WITH scored (id, {', '.join(_RESULTS)}) AS (VALUES {values}) UPDATE OR FAIL turns"  # noqa: S608  # fixed texts
        f" SET status = 'done', {replaced} FROM scored WHERE turn_id = id"
    )
