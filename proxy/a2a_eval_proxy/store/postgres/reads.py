"""Reads of a PostgreSQL store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ..base import MAX_PAGE_BYTES, TurnJson
from ..reads import BEYOND, LINKED, LinkedTurn, Order, Rows, StoreReads, TurnPage, of_turn, turn_json
from ..schema import PREFIX
from .database import Database, named
from .writes import TOO_MUCH

T = TypeVar("T")

_TURNS = (
    "WITH found AS (SELECT seq, row_number() OVER page AS place, sum(size) OVER page - size AS before FROM"  # noqa: S608  # fixed texts
    " (SELECT seq, octet_length(body) + octet_length(evaluations) AS size FROM turns WHERE {conditions}"
    " ORDER BY seq {order} LIMIT :one_more) AS sized WINDOW page AS (ORDER BY seq {order}))"
    f" SELECT seq, status, body, evaluations, {of_turn('string_agg')}, (SELECT count(*) FROM found)"
    " FROM found JOIN turns USING (seq)"
    " WHERE place <= :limit AND before < :bytes ORDER BY seq {order}"
)
"""`octet_length` does not read the texts."""

_LINKED = (
    f"SELECT {LINKED} FROM turns JOIN (SELECT seq, sum(size) OVER (ORDER BY seq) - size AS before FROM"  # noqa: S608  # fixed texts
    " (SELECT seq, octet_length(body) + octet_length(evaluations) AS size FROM turns WHERE seq IN ({selected}))"
    " AS sized) AS summed USING (seq) WHERE before < :bytes ORDER BY seq"
)

_CHUNK = 2_000  # turns that are read at once if not all of them need be on the page

_TAKE_OVER = (
    "UPDATE turns SET heard_at = now() WHERE turn_id IN (SELECT turn_id FROM turns WHERE status = 'open'"
    " AND heard_at < now() - make_interval(secs => :silent_s)"
    " AND body::json ->> 'agent_name' IS NOT DISTINCT FROM CAST(:agent_name AS text)"
    " AND (CAST(:agent_name AS text) IS NOT NULL OR body::json ->> 'agent' = :agent)"
    " ORDER BY heard_at LIMIT :most FOR UPDATE SKIP LOCKED)"
    " RETURNING body"
)


_BODY = r"replace(body, '\u0000', '\ufffd')::json"
"""PostgreSQL reads nothing in JSON with U+0000."""


class PostgresReads(StoreReads):
    """See `StoreReads`. Raises StoreUnreachableError."""

    shared = True

    _CALLS = f"json_array_length({_BODY} -> 'tool_calls')"

    _CARD = f"{_BODY} ->> 'agent_card'"

    _TOO_MUCH = TOO_MUCH

    def __init__(self, database: Database) -> None:
        self._database = database

    def _equals(self, column: str) -> str:
        """Compares indexed prefixes, too: the indexes have these expressions."""
        prefixes = f" AND left({column}, {PREFIX}) = left(:{column}, {PREFIX})"
        return super()._equals(column) + prefixes

    def _of_agents(self, *names: str) -> str:
        prefixes = ", ".join([f"left({name}, {PREFIX})" for name in names])
        return f"left(agent, {PREFIX}) IN ({prefixes}) AND agent IN ({', '.join(names)})"

    async def _change(self, statement: str, values: dict[str, Any]) -> int:
        return await self._database.change(named(statement), values)

    async def _read(self, statement: str, values: dict[str, Any], decode: Callable[[Rows], T]) -> T:
        return decode(await self._database.rows(named(statement), values))

    async def _fill(self, page: TurnPage, conditions: str, values: dict[str, Any], order: Order = "ASC") -> int | None:
        chunk = max(page.limit, _CHUNK) if page.content else page.limit
        values = {**values, "limit": chunk, "one_more": chunk + 1, "bytes": MAX_PAGE_BYTES}
        while True:
            rows = await self._read(_TURNS.format(conditions=conditions, order=order), values, list)
            last = await asyncio.to_thread(_collected, page, rows)
            if last is None or page.full:
                return last
            conditions += "" if "after" in values else f" AND seq {BEYOND[order]} :after"
            values["after"] = last

    def _like(self, column: str, parameter: str) -> str:
        """The collation makes it quick."""
        return f"{column} COLLATE \"C\" ILIKE :{parameter} ESCAPE '!'"

    def _among(self, column: str, parameter: str) -> str:
        return f"{column} IN ({self._listed(parameter)})"

    def _listed(self, parameter: str) -> str:
        return f"SELECT json_array_elements_text(CAST(:{parameter} AS json))"

    def _found_by(self, column: str) -> str:
        return f"SELECT seq FROM turns WHERE {self._equals(column)} AND {column} != ''"  # noqa: S608  # fixed texts

    async def _linked(self, selected: str, values: dict[str, Any]) -> list[LinkedTurn]:
        statement = _LINKED.format(selected=selected)
        rows = await self._read(statement, {**values, "bytes": MAX_PAGE_BYTES}, list)
        return await asyncio.to_thread(lambda: [LinkedTurn.of(*row) for row in rows])

    async def take_over(self, silent_s: float, most: int, agent_name: str | None, agent: str) -> list[TurnJson]:
        owner = {"agent_name": agent_name, "agent": agent}
        rows = await self._read(_TAKE_OVER, {"silent_s": silent_s, "most": most, **owner}, list)
        return [turn_json("open", body, "[]") for (body,) in rows]


def _collected(page: TurnPage, rows: Sequence[Any]) -> int | None:
    """Adds rows to the page until it is full; returns the `seq` of the last one if more rows follow."""
    for *columns, _ in rows:
        if page.full:
            return page.last
        page.add(*columns)
    return page.last if rows and rows[0][-1] > len(rows) else None
