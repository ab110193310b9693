"""Turns in a PostgreSQL database: written by the store's thread in groups, each in one transaction."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial

from sqlalchemy.ext.asyncio import AsyncConnection

from ...settings.store_url import masked_url
from ..base import StoreError
from ..encoding import latest_results
from ..write_queue import (
    Add,
    Discard,
    Finish,
    FinishConversations,
    Item,
    Mark,
    Prune,
    QueuedWrites,
    Settle,
)
from .columns import conversation_columns, result_columns, settled_columns, turn_columns
from .database import TROUBLE, Database, reason, refused
from .judge_cache import PostgresJudgeCache
from .migrate import check_url, migrate
from .reads import PostgresReads
from .retention import prune, vacuum
from .work import WorkStore
from .writes import Rows, delete_turns, insert_turns, put_conversations, put_results, settle_turns

logger = logging.getLogger(__name__)

_SHOWN = 100
"""Characters of an id in a message: agents make up some of them."""


class PostgresStore(PostgresReads, QueuedWrites):
    """See `base.Store`. With `for_workers`, each turn that is added as pending is queued for them in the same
    transaction.

    Raises StoreError for what is no URL of a database. Where the database does not let us in it raises
    StoreUnreachableError, where it holds something else, or (with `must_exist`) no store, StoreError; `patient`, it
    leaves that to `start` and tries for as long as it takes. Once open, it outlives a database that goes away: what is
    written waits in memory.
    """

    shared = True
    trouble = TROUBLE

    def __init__(self, url: str, *, must_exist: bool = False, for_workers: bool = False, patient: bool = False) -> None:
        check_url(url)
        self._url = url
        self._must_exist = must_exist
        database = Database(url)
        PostgresReads.__init__(self, database, masked_url(url))
        QueuedWrites.__init__(self, masked_url(url))
        self.judge_cache = PostgresJudgeCache(database)
        self.work = WorkStore(database, masked_url(url))
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
        migrate(self._url, must_exist=self._must_exist)

    def _writing(self, group: list[Item]) -> Callable[[], None]:
        return partial(self._write, [_rows(item) for item in group])

    def _pruned(self, item: Prune) -> int:
        deleted = 0
        while count := self._database.submit(partial(prune, before=item.before, max_bytes=item.max_bytes)).result():
            deleted += count
        if deleted:
            try:
                self._database.submit(vacuum, autocommit=True).result()
            except TROUBLE as error:
                logger.info(
                    "store %s: what was deleted is freed in the server's own time: %s", self._name, reason(error)
                )
        return deleted

    def _write(self, items: list[_Rows]) -> None:
        """Write them together; where the database will not take one of them, all others."""
        try:
            self._database.submit(partial(_write_all, items, for_workers=self._for_workers)).result()
        except TROUBLE as error:
            if not refused(error):
                raise
            if len(items) > 1:
                for item in items:
                    self._write([item])
            else:
                logger.error("store %s will not take %s: %s", self._name, items[0].what, reason(error))


@dataclass(frozen=True, slots=True)
class _Rows:
    """One item of the queue, ready to be written; `what` it is, in words."""

    what: str
    added: Rows = field(default_factory=list)
    finished: Finish | None = None
    settled: Rows = field(default_factory=list)
    conversations: Rows = field(default_factory=list)
    discarded: list[str] = field(default_factory=list)


def _rows(item: Item) -> _Rows:
    match item:
        case Add(turns=turns, score=score, held=held):
            what = f"turn(s) {_listed(turn.turn_id for turn in turns)}"
            added = [turn_columns(turn, score) | {"held": turn.turn_id in held} for turn in turns]
            return _Rows(what, added=added)
        case Settle(turns=turns):
            what = f"the trace calls of turn(s) {_listed(turn.turn_id for turn in turns)}"
            return _Rows(what, settled=[settled_columns(turn) for turn in turns])
        case Finish(scored=scored):
            return _Rows(f"the results of turn(s) {_listed(one.turn_id for one in scored)}", finished=item)
        case FinishConversations(scored=whole):
            what = f"the results of conversation(s) {_listed(one.key.conversation_id for one in whole)}"
            return _Rows(what, conversations=[conversation_columns(one) for one in whole])
        case Discard(turn_ids=turn_ids):
            return _Rows(f"that turn(s) {_listed(turn_ids)} go", discarded=list(turn_ids))
        case Mark():
            return _Rows("a mark")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(name[:_SHOWN] for name in names)


async def _write_all(items: list[_Rows], connection: AsyncConnection, *, for_workers: bool) -> None:
    """Turns before their results, results in the order in which they came."""
    await insert_turns(connection, [row for item in items for row in item.added], for_workers=for_workers)
    await settle_turns(connection, [row for item in items for row in item.settled], for_workers=for_workers)
    scored = latest_results(one for item in items if item.finished is not None for one in item.finished.scored)
    await put_results(connection, [result_columns(one) for one in scored])
    for item in items:
        await put_conversations(connection, item.conversations)
        await delete_turns(connection, item.discarded)
