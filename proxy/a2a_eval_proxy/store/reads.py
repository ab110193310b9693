"""The reads that SQLite and PostgreSQL share: one SQL text with named parameters for both.

Plain SQL, since importing SQLAlchemy Core for the SQLite reads adds 11 MiB to the 55 MiB of an idle `serve`.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from ..turn import Turn
from .annotations import DELETE, INSERT, Annotation
from .base import ConversationKey, Page, RunSummary, ScoredConversation, TurnJson, TurnQuery
from .encoding import json_text, stored_text

T = TypeVar("T")

Rows = Iterable[Any]

MAX_PAGE = 1_000
_LARGEST = 2**63 - 1

_NEWEST_OF_CASES = (
    "seq > (SELECT coalesce(max(seq), 0) FROM turns) - :newest AND t.case_id IS NOT NULL"
    " AND t.conversation_id != '' AND t.status = 'done' GROUP BY t.run, t.case_id, t.conversation_id"
)
_POSITIONS = f"SELECT t.run, t.case_id, t.conversation_id, count(*) FROM turns AS t WHERE {_NEWEST_OF_CASES}"  # noqa: S608  # fixed texts
_UNSCORED = (
    "SELECT t.run, t.conversation_id, t.case_id FROM turns AS t LEFT JOIN conversations AS c"  # noqa: S608  # fixed texts
    " ON c.run = t.run AND c.conversation_id = t.conversation_id AND c.case_id = t.case_id"
    f" WHERE {_NEWEST_OF_CASES} HAVING count(*) > coalesce(max(c.turns), 0) ORDER BY min(t.seq)"
)


class StoreReads(ABC):
    """The reading half of a `base.Store`. Raises StoreError while the store cannot be read."""

    _RUNS: str
    """Selects the columns of RunSummary; `{conditions}` selects the run."""

    @abstractmethod
    async def _read(self, statement: str, values: dict[str, Any], decode: Callable[[Rows], T]) -> T:
        """Run a statement with parameters `:name` and return its decoded rows."""

    @abstractmethod
    async def _change(self, statement: str, values: dict[str, Any]) -> int:
        """Run a statement with parameters `:name` in a transaction; returns the number of changed rows."""

    @abstractmethod
    async def _turns(
        self, conditions: str, values: dict[str, Any], limit: int, order: str = "ASC"
    ) -> tuple[list[tuple[int, TurnJson]], bool]:
        """Returns turns with their `seq`, up to the limits of `Page`, and whether there are more."""

    def _equals(self, column: str) -> str:
        """Returns the condition that a column equals the parameter of its name."""
        return f"{column} = :{column}"

    def _conditions(self, **equal: str | None) -> tuple[str, dict[str, Any]]:
        """Returns the condition that these columns have these values (None: any), and its parameters."""
        values = {column: stored_text(value) for column, value in equal.items() if value is not None}
        return " AND ".join(["true", *map(self._equals, values)]), values

    async def turns(self, query: TurnQuery) -> Page:
        conditions, values = self._conditions(
            run=query.run, conversation_id=query.conversation, case_id=query.case, status=query.status
        )
        if query.cursor is not None:
            if not (query.cursor.isascii() and query.cursor.isdigit()):
                raise ValueError(f"cursor: expected the next_cursor of a page, got {query.cursor!r}")
            conditions += " AND seq > :cursor"
            values["cursor"] = min(int(query.cursor), _LARGEST)
        rows, more = await self._turns(conditions, values, max(1, min(query.limit, MAX_PAGE)))
        return Page([turn for _, turn in rows], str(rows[-1][0]) if more else None)

    async def turn(self, turn_id: str) -> TurnJson | None:
        page, _ = await self._turns("turn_id = :turn_id", {"turn_id": stored_text(turn_id)}, 1)
        return page[0][1] if page else None

    async def status(self, turn_id: str) -> str | None:
        statement = "SELECT status FROM turns WHERE turn_id = :turn_id"
        statuses = await self._read(statement, {"turn_id": stored_text(turn_id)}, list)
        return statuses[0][0] if statuses else None

    async def earlier(self, turn: Turn, most: int) -> list[TurnJson]:
        if not turn.conversation_id:
            return []
        conditions, values = self._conditions(conversation_id=turn.conversation_id, run=turn.run)
        conditions += " AND seq < (SELECT seq FROM turns WHERE turn_id = :turn_id)"
        found, _ = await self._turns(conditions, {**values, "turn_id": turn.turn_id}, most, "DESC")
        return [item for _, item in reversed(found)]

    async def of_task(self, task_id: str, most: int) -> list[TurnJson]:
        conditions, values = self._conditions(task_id=task_id)
        found, _ = await self._turns(f"{conditions} AND task_id != ''", values, most, "DESC")  # as the index has it
        return [item for _, item in reversed(found)]

    async def conversations(self, run: str | None = None, conversation: str | None = None) -> list[ScoredConversation]:
        conditions, values = self._conditions(run=run, conversation_id=conversation)
        statement = f"SELECT run, conversation_id, case_id, turns, evaluations FROM conversations WHERE {conditions}"  # noqa: S608  # fixed texts
        return await self._read(
            statement,
            values,
            lambda rows: [
                ScoredConversation(ConversationKey(run, conversation, case_id or None), turns, json.loads(evaluations))
                for run, conversation, case_id, turns, evaluations in rows
            ],
        )

    async def unscored_conversations(self, newest: int) -> list[ConversationKey]:
        return await self._read(_UNSCORED, {"newest": newest}, lambda rows: [ConversationKey(*row) for row in rows])

    async def positions(self, newest: int) -> dict[tuple[str, str, str], int]:
        return await self._read(
            _POSITIONS, {"newest": newest}, lambda rows: {(run, case, id_): count for run, case, id_, count in rows}
        )

    async def annotate(self, annotation: Annotation) -> bool:
        body = json_text(annotation.to_dict())
        ids = {"annotation_id": annotation.annotation_id, "turn_id": stored_text(annotation.turn_id)}
        return await self._change(INSERT, {**ids, "body": body}) == 1

    async def remove_annotation(self, turn_id: str, annotation_id: str) -> bool:
        ids = {"annotation_id": stored_text(annotation_id), "turn_id": stored_text(turn_id)}
        return await self._change(DELETE, ids) == 1

    async def runs(self, name: str | None = None) -> list[RunSummary]:
        conditions, values = self._conditions(run=name)
        statement = self._RUNS.format(conditions=conditions)
        return await self._read(statement, values, lambda rows: [RunSummary(*row) for row in rows])


def turn_json(status: str, body: str, evaluations: str, annotated: str | None = None) -> TurnJson:
    """Returns the turn of a row as in /api/turns. `annotated`: its annotations as a JSON list."""
    turn = {**json.loads(body), "status": status, "evaluations": json.loads(evaluations)}
    if annotated is not None:
        turn["annotations"] = sorted(json.loads(annotated), key=lambda item: str(item["annotation_id"]))
    return turn
