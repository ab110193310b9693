"""Turns in a PostgreSQL database: written by the store's thread in groups, each in one transaction."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from ..base import StoreError
from ..encoding import EncodedConversation
from ..store import Store
from ..write_items import (
    Add,
    Discard,
    Finish,
    FinishConversations,
    Item,
    Mark,
    Prune,
    Settle,
    latest_results,
)
from ..write_queue import QueuedWrites
from .database import TROUBLE, Connection, Database, reason, refused
from .judge_cache import PostgresJudgeCache
from .opening import check_url, prepare
from .reads import PostgresReads
from .retention import prune, vacuum
from .work import WorkStore
from .writes import (
    Rows,
    conversation_columns,
    delete_turns,
    insert_turns,
    put_conversations,
    put_results,
    result_columns,
    settle_turns,
)

logger = logging.getLogger(__name__)

_SHOWN = 100
"""Characters of an id in a message: agents make up some of them."""


class PostgresStore(PostgresReads, Store):
    """With `for_workers`, each turn that is added as pending is queued for them in the same
    transaction.

    Raises StoreError for what is no URL of a database. Where the database does not let us in it raises
    StoreUnreachableError, where it holds something else, or (with `must_exist`) no store, StoreError; `patient`, it
    leaves that to `start` and tries for as long as it takes. Once open, it outlives a database that goes away for some
    time (`patient`: for any): what is written waits in memory.
    """

    trouble = TROUBLE

    def __init__(self, url: str, *, must_exist: bool = False, for_workers: bool = False, patient: bool = False) -> None:
        check_url(url)
        self._url = url
        self._must_exist = must_exist
        database = Database(url)
        PostgresReads.__init__(self, database)
        QueuedWrites.__init__(self, database.name, patient=patient)
        self.judge_cache = PostgresJudgeCache(database)
        self.work = WorkStore(database)
        """What workers do."""
        self._for_workers = for_workers
        if patient:
            return
        try:
            self._open_now()
        except StoreError:
            database.close()
            raise

    def close(self, timeout_s: float = 30.0) -> None:
        super().close(timeout_s)
        self._database.close()

    def _describe(self, error: Exception) -> str:
        return reason(error)

    def _open(self) -> None:
        prepare(self._url, must_exist=self._must_exist)

    def _writing(self, group: list[Item]) -> Callable[[], None]:
        added = {
            id(item): [turn.columns() | {"held": turn.turn_id in item.held} for turn in item.rows]
            for item in group
            if isinstance(item, Add)
        }
        return partial(self._write, group, added)

    def _pruned(self, item: Prune) -> int:
        deleted = 0
        while count := self._database.submit(partial(prune, before=item.before, max_bytes=item.max_bytes)).result():
            deleted += count
        if deleted:
            try:
                self._database.submit(vacuum).result()
            except TROUBLE as error:
                logger.info(
                    "store %s: what was deleted is freed in the server's own time: %s", self._name, reason(error)
                )
        return deleted

    def _write(self, items: list[Item], added: dict[int, Rows]) -> None:
        """Write them together; where the database refuses one of them, all others."""
        try:
            self._database.submit(partial(_write_all, items, added, for_workers=self._for_workers)).result()
        except TROUBLE as error:
            if not refused(error):
                raise
            if len(items) > 1:
                for item in items:
                    self._write([item], added)
            else:
                logger.error("store %s will not take %s: %s", self._name, _described(items[0]), reason(error))


_DESCRIPTIONS = {
    Add: "turn(s)",
    Settle: "the trace calls of turn(s)",
    Finish: "the results of turn(s)",
    FinishConversations: "the results of conversation(s)",
    Discard: "the deletion of turn(s)",
    Mark: "a mark",
}


def _described(item: Item) -> str:
    names = [
        row
        if isinstance(row, str)
        else row.key.conversation_id
        if isinstance(row, EncodedConversation)
        else row.turn_id
        for row in item.rows
    ]
    return f"{_DESCRIPTIONS[type(item)]} {', '.join(name[:_SHOWN] for name in names)}"


async def _write_all(items: list[Item], added: dict[int, Rows], connection: Connection, *, for_workers: bool) -> None:
    """Turns before their results, results in the order in which they came. `added` has the rows of an `Add` by id."""
    new = [row for item in items for row in added.get(id(item), ())]
    async with connection.transaction():
        await insert_turns(connection, new, for_workers=for_workers)
        settled = {turn.turn_id: turn.body.decode() for item in items if isinstance(item, Settle) for turn in item.rows}
        await settle_turns(connection, settled, for_workers=for_workers)
        await put_results(connection, [result_columns(one) for one in latest_results(items)])
        for item in items:
            if isinstance(item, FinishConversations):
                await put_conversations(connection, [conversation_columns(one) for one in item.rows])
            elif isinstance(item, Discard):
                await delete_turns(connection, list(item.rows))
