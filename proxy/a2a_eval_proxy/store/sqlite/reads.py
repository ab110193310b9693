"""What is read from a store in an SQLite file: each read has a connection of its own, beside the writer (WAL)."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, Literal
from urllib.parse import quote

from ...turn import Turn
from ..base import (
    MAX_PAGE_BYTES,
    ConversationKey,
    Page,
    RunSummary,
    ScoredConversation,
    StoreFileError,
    TurnJson,
    TurnQuery,
)
from ..encoding import utf8_text
from .file import Identity, identity

MAX_PAGE = 1_000


class SqliteReads:
    """The reading half of `SqliteStore`; see `base.Store`."""

    def __init__(self, path: str) -> None:
        self._path = path

    def _met(self, error: sqlite3.Error, file: Identity | None) -> None:
        """Called with each error of SQLite, and the file that was to be read, in any thread."""

    @contextmanager
    def _reading(self, mode: Literal["ro", "rw"] = "ro") -> Iterator[sqlite3.Connection]:
        """A connection that does not make a file where there is none. Raises StoreFileError."""
        file = identity(self._path)
        try:
            with closing(
                sqlite3.connect(f"file:{quote(self._path)}?mode={mode}", uri=True, timeout=10.0)
            ) as connection:
                yield connection
        except sqlite3.Error as error:
            self._met(error, file)
            raise StoreFileError(f"store {self._path}: it cannot be read: {error}") from error
        except json.JSONDecodeError as error:
            raise StoreFileError(f"store {self._path}: a turn in it is damaged: {error}") from error

    async def turns(self, query: TurnQuery) -> Page:
        return await asyncio.to_thread(self._read_turns, query)

    async def turn(self, turn_id: str) -> TurnJson | None:
        page, _ = await asyncio.to_thread(self._select, "turn_id = ?", [turn_id], 1)
        return page[0][1] if page else None

    async def status(self, turn_id: str) -> str | None:
        return await asyncio.to_thread(self._read_status, turn_id)

    async def earlier(self, turn: Turn, most: int) -> list[TurnJson]:
        if not turn.conversation_id:
            return []
        condition = "conversation_id = ? AND run = ? AND seq < (SELECT seq FROM turns WHERE turn_id = ?)"
        values = [utf8_text(turn.conversation_id), utf8_text(turn.run), turn.turn_id]
        found, _ = await asyncio.to_thread(self._select, condition, values, most, "DESC")
        return [item for _, item in reversed(found)]

    async def of_task(self, task_id: str, most: int) -> list[TurnJson]:
        found, _ = await asyncio.to_thread(self._select, "task_id = ?", [utf8_text(task_id)], most, "DESC")
        return [item for _, item in reversed(found)]

    async def take_over(self, silent_s: float, most: int) -> list[TurnJson]:
        return await asyncio.to_thread(self._take_over, silent_s, most)

    async def conversations(self, run: str | None = None, conversation: str | None = None) -> list[ScoredConversation]:
        return await asyncio.to_thread(self._read_conversations, run, conversation)

    async def unscored_conversations(self, newest: int) -> list[ConversationKey]:
        return await asyncio.to_thread(self._read_unscored, newest)

    async def runs(self, name: str | None = None) -> list[RunSummary]:
        return await asyncio.to_thread(self._read_runs, name)

    async def positions(self, newest: int) -> dict[tuple[str, str, str], int]:
        return await asyncio.to_thread(self._read_positions, newest)

    def _read_status(self, turn_id: str) -> str | None:
        with self._reading() as connection:
            row = connection.execute("SELECT status FROM turns WHERE turn_id = ?", (turn_id,)).fetchone()
        return row[0] if row is not None else None

    def _take_over(self, silent_s: float, most: int) -> list[TurnJson]:
        now = int(time.time())
        silent = "SELECT turn_id FROM turns WHERE status = 'open' AND heard_at < ? ORDER BY heard_at LIMIT ?"
        with self._reading("rw") as connection:
            if connection.execute(silent, (now - silent_s, 1)).fetchone() is None:
                return []  # without the lock that a write needs
            with connection:
                rows = connection.execute(
                    f"UPDATE turns SET heard_at = ? WHERE turn_id IN ({silent}) RETURNING body",  # noqa: S608  # fixed texts
                    (now, now - silent_s, most),
                ).fetchall()
        return [{**json.loads(body), "status": "open", "evaluations": []} for (body,) in rows]

    def _read_positions(self, newest: int) -> dict[tuple[str, str, str], int]:
        with self._reading() as connection:
            rows = connection.execute(
                "SELECT run, case_id, conversation_id, COUNT(*) FROM turns"
                " WHERE seq > (SELECT coalesce(max(seq), 0) FROM turns) - ? AND case_id IS NOT NULL"
                " AND conversation_id != '' AND status = 'done' GROUP BY run, case_id, conversation_id",
                (newest,),
            )
            return {(run, case, conversation): count for run, case, conversation, count in rows}

    def _read_unscored(self, newest: int) -> list[ConversationKey]:
        with self._reading() as connection:
            rows = connection.execute(
                "SELECT t.run, t.conversation_id, t.case_id FROM turns AS t LEFT JOIN conversations AS c"
                " ON c.run = t.run AND c.conversation_id = t.conversation_id AND c.case_id = t.case_id"
                " WHERE t.seq > (SELECT coalesce(max(seq), 0) FROM turns) - ? AND t.case_id IS NOT NULL"
                " AND t.conversation_id != '' AND t.status = 'done'"
                " GROUP BY t.run, t.conversation_id, t.case_id HAVING COUNT(*) > coalesce(MAX(c.turns), 0)"
                " ORDER BY MIN(t.seq)",
                (newest,),
            )
            return [ConversationKey(*row) for row in rows]

    def _read_conversations(self, run: str | None, conversation: str | None) -> list[ScoredConversation]:
        conditions, values = _conditions(run=run, conversation_id=conversation)
        with self._reading() as connection:
            rows = connection.execute(
                f"SELECT run, conversation_id, case_id, turns, evaluations FROM conversations WHERE {conditions}",  # noqa: S608  # fixed texts
                values,
            ).fetchall()
        return [
            ScoredConversation(ConversationKey(run, conversation, case_id or None), turns, json.loads(evaluations))
            for run, conversation, case_id, turns, evaluations in rows
        ]

    def _read_turns(self, query: TurnQuery) -> Page:
        conditions, values = _conditions(
            run=query.run, conversation_id=query.conversation, case_id=query.case, status=query.status
        )
        if query.cursor is not None:
            if not (query.cursor.isascii() and query.cursor.isdigit()):
                raise ValueError(f"cursor: expected the next_cursor of a page, got {query.cursor!r}")
            conditions += " AND seq > ?"
            values.append(query.cursor)
        limit = max(1, min(query.limit, MAX_PAGE))
        rows, more = self._select(conditions, values, limit)
        return Page([turn for _, turn in rows], str(rows[-1][0]) if more else None)

    def _select(
        self, condition: str, values: list[str], limit: int, order: str = "ASC"
    ) -> tuple[list[tuple[int, TurnJson]], bool]:
        """Turns with their places, as many as `Page` says; and whether there are more."""
        with self._reading() as connection:
            rows = connection.execute(
                f"SELECT seq, status, body, evaluations FROM turns WHERE {condition} ORDER BY seq {order} LIMIT ?",  # noqa: S608  # fixed texts
                [*values, limit + 1],
            )
            turns: list[tuple[int, TurnJson]] = []
            size = 0
            for seq, status, body, evaluations in rows:
                if len(turns) == limit or size >= MAX_PAGE_BYTES:
                    return turns, True
                size += len(body.encode()) + len(evaluations.encode())
                turn = json.loads(body)
                turn["status"] = status
                turn["evaluations"] = json.loads(evaluations)
                turns.append((seq, turn))
            return turns, False

    def _read_runs(self, name: str | None) -> list[RunSummary]:
        everything = name is None
        with self._reading() as connection:
            counts: dict[str, dict[str, int]] = {}
            for run, status, count in connection.execute(
                "SELECT run, json_extract(value, '$.status') AS outcome, COUNT(*) FROM"
                " (SELECT run, evaluations FROM turns UNION ALL SELECT run, evaluations FROM conversations) AS said,"
                " json_each(said.evaluations) WHERE ? OR run = ? GROUP BY run, outcome",
                (everything, name),
            ):
                counts.setdefault(run, {})[status] = count
            rows = connection.execute(
                "SELECT run, COUNT(*), SUM(turns.status = 'pending'), MIN(json_extract(body, '$.started_at')),"
                " MAX(json_extract(body, '$.ended_at')) FROM turns WHERE ? OR run = ? GROUP BY run ORDER BY MIN(seq)",
                (everything, name),
            ).fetchall()
        return [
            RunSummary(
                name=run,
                turns=total,
                pending=pending,
                **{status: counts.get(run, {}).get(status, 0) for status in ("passed", "failed", "errored", "skipped")},
                started_at=started,
                ended_at=ended,
            )
            for run, total, pending, started, ended in rows
        ]


def _conditions(**equal: str | None) -> tuple[str, list[Any]]:
    """The condition that these columns have these values; None: any."""
    given = {column: utf8_text(value) for column, value in equal.items() if value is not None}
    return " AND ".join(["1", *(f"{column} = ?" for column in given)]), list(given.values())
