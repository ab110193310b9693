"""What is read from a PostgreSQL store."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from ...turn import Turn
from ..base import (
    MAX_PAGE_BYTES,
    ConversationKey,
    Page,
    RunSummary,
    ScoredConversation,
    StoreUnreachableError,
    TurnJson,
    TurnQuery,
)
from .columns import OUTCOMES, PREFIX, stored_text, turn_json
from .database import TROUBLE, Database, Work, reason

T = TypeVar("T")

MAX_PAGE = 1_000
_LARGEST = 2**63 - 1

_SUMS = ", ".join(f"coalesce(sum({outcome}), 0) AS {outcome}" for outcome in OUTCOMES)


_TURNS = (
    "WITH found AS (SELECT seq, row_number() OVER page AS place, sum(size) OVER page - size AS before FROM"
    " (SELECT seq, octet_length(body) + octet_length(evaluations) AS size FROM turns WHERE {conditions}"
    " ORDER BY seq {order} LIMIT :one_more) AS sized WINDOW page AS (ORDER BY seq {order}))"
    " SELECT seq, status, body, evaluations, (SELECT count(*) FROM found) FROM found JOIN turns USING (seq)"
    " WHERE place <= :limit AND before < :bytes ORDER BY seq {order}"
)
"""`octet_length` does not read the texts."""

_TAKE_OVER = (
    "UPDATE turns SET heard_at = now() WHERE turn_id IN (SELECT turn_id FROM turns WHERE status = 'open'"
    " AND heard_at < now() - make_interval(secs => :silent_s) ORDER BY heard_at LIMIT :most FOR UPDATE SKIP LOCKED)"
    " RETURNING body"
)


class PostgresReads:
    """The reading half of `PostgresStore`, see `base.Store`. Raises StoreUnreachableError while it is away."""

    def __init__(self, database: Database, name: str) -> None:
        self._database = database
        self._where = name

    async def turns(self, query: TurnQuery) -> Page:
        conditions, values = _conditions(
            run=query.run, conversation_id=query.conversation, case_id=query.case, status=query.status
        )
        if query.cursor is not None:
            if not (query.cursor.isascii() and query.cursor.isdigit()):
                raise ValueError(f"cursor: expected the next_cursor of a page, got {query.cursor!r}")
            conditions += " AND seq > :cursor"
            values["cursor"] = min(int(query.cursor), _LARGEST)
        limit = max(1, min(query.limit, MAX_PAGE))
        rows, more = await self._turns(conditions, values, limit)
        return Page([turn for _, turn in rows], str(rows[-1][0]) if more else None)

    async def turn(self, turn_id: str) -> TurnJson | None:
        page, _ = await self._turns("turn_id = :turn_id", {"turn_id": stored_text(turn_id)}, 1)
        return page[0][1] if page else None

    async def status(self, turn_id: str) -> str | None:
        rows = await self._rows("SELECT status FROM turns WHERE turn_id = :turn_id", {"turn_id": stored_text(turn_id)})
        return rows[0][0] if rows else None

    async def earlier(self, turn: Turn, most: int) -> list[TurnJson]:
        if not turn.conversation_id:
            return []
        conditions, values = _conditions(conversation_id=turn.conversation_id, run=turn.run)
        conditions += " AND seq < (SELECT seq FROM turns WHERE turn_id = :turn_id)"
        found, _ = await self._turns(conditions, {**values, "turn_id": turn.turn_id}, most, "DESC")
        return [item for _, item in reversed(found)]

    async def of_task(self, task_id: str, most: int) -> list[TurnJson]:
        conditions, values = _conditions(task_id=task_id)
        found, _ = await self._turns(f"{conditions} AND task_id != ''", values, most, "DESC")
        return [item for _, item in reversed(found)]

    async def take_over(self, silent_s: float, most: int) -> list[TurnJson]:
        rows = await self._rows(_TAKE_OVER, {"silent_s": silent_s, "most": most})
        return [turn_json("open", body, "[]") for (body,) in rows]

    async def conversations(self, run: str | None = None, conversation: str | None = None) -> list[ScoredConversation]:
        conditions, values = _conditions(run=run, conversation_id=conversation)
        rows = await self._rows(
            f"SELECT run, conversation_id, case_id, turns, evaluations FROM conversations WHERE {conditions}",  # noqa: S608  # fixed texts
            values,
        )
        return [
            ScoredConversation(ConversationKey(run, conversation, case_id or None), turns, json.loads(evaluations))
            for run, conversation, case_id, turns, evaluations in rows
        ]

    async def unscored_conversations(self, newest: int) -> list[ConversationKey]:
        rows = await self._rows(
            "SELECT t.run, t.conversation_id, t.case_id FROM turns AS t LEFT JOIN conversations AS c"
            " ON c.run = t.run AND c.conversation_id = t.conversation_id AND c.case_id = t.case_id"
            " WHERE t.seq > (SELECT coalesce(max(seq), 0) FROM turns) - :newest AND t.case_id IS NOT NULL"
            " AND t.conversation_id != '' AND t.status = 'done' GROUP BY t.run, t.conversation_id, t.case_id"
            " HAVING count(*) > coalesce(max(c.turns), 0) ORDER BY min(t.seq)",
            {"newest": newest},
        )
        return [ConversationKey(*row) for row in rows]

    async def positions(self, newest: int) -> dict[tuple[str, str, str], int]:
        rows = await self._rows(
            "SELECT run, case_id, conversation_id, count(*) FROM turns"
            " WHERE seq > (SELECT coalesce(max(seq), 0) FROM turns) - :newest AND case_id IS NOT NULL"
            " AND conversation_id != '' AND status = 'done' GROUP BY run, case_id, conversation_id",
            {"newest": newest},
        )
        return {(run, case, conversation): count for run, case, conversation, count in rows}

    async def runs(self, name: str | None = None) -> list[RunSummary]:
        conditions, values = _conditions(run=name)
        of_conversations = {
            run: counts
            for run, *counts in await self._rows(
                f"SELECT run, {_SUMS} FROM conversations WHERE {conditions} GROUP BY run",  # noqa: S608  # fixed texts
                values,
            )
        }
        rows = await self._rows(
            "SELECT run, count(*), count(*) FILTER (WHERE status = 'pending'), min(started_at), max(ended_at),"  # noqa: S608  # fixed texts
            f" {_SUMS} FROM turns WHERE {conditions} GROUP BY run ORDER BY min(seq)",
            values,
        )
        nothing = [0] * len(OUTCOMES)
        return [
            RunSummary(
                name=run,
                turns=total,
                pending=pending,
                **{
                    outcome: int(one + other)
                    for outcome, one, other in zip(OUTCOMES, counts, of_conversations.get(run, nothing), strict=True)
                },
                started_at=_rfc3339(started),
                ended_at=_rfc3339(ended),
            )
            for run, total, pending, started, ended, *counts in rows
        ]

    async def _turns(
        self, conditions: str, values: dict[str, Any], limit: int, order: str = "ASC"
    ) -> tuple[list[tuple[int, TurnJson]], bool]:
        """Turns with their places, as many as `Page` says; and whether there are more."""
        bounds = {"limit": limit, "one_more": limit + 1, "bytes": MAX_PAGE_BYTES}
        rows = await self._rows(_TURNS.format(conditions=conditions, order=order), {**values, **bounds})
        turns = [(seq, turn_json(status, body, evaluations)) for seq, status, body, evaluations, _ in rows]
        return turns, bool(rows) and rows[0][-1] > len(rows)

    async def _rows(self, statement: str, values: dict[str, Any]) -> Sequence[Any]:
        async def select(connection: AsyncConnection) -> Sequence[Any]:
            return (await connection.execute(text(statement), values)).all()

        return await self._read(select)

    async def _read(self, work: Work[T]) -> T:
        try:
            return await self._database.run(work)
        except TROUBLE as error:
            raise StoreUnreachableError(f"store {self._where} cannot be read: {reason(error)}") from error


def _conditions(**equal: str | None) -> tuple[str, dict[str, Any]]:
    """The condition that these columns have these values (None: any), in the words of the indexes."""
    given = {column: stored_text(value) for column, value in equal.items() if value is not None}
    conditions = ["true"]
    for column in given:
        conditions.append(f"{column} = :{column}")
        if column != "status":
            conditions.append(f"left({column}, {PREFIX}) = left(:{column}, {PREFIX})")
    return " AND ".join(conditions), given


def _rfc3339(moment: datetime | None) -> str | None:
    if moment is None:
        return None
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
