"""The narrow interface of a store, and the values that cross it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple, Protocol, TypeVar

from tool_call_evaluators.judge.cache import JudgeCache

from ..errors import BAD_INPUT, UNREACHABLE
from ..turn import Turn
from .annotations import Annotation
from .deliveries import DeliveryTable
from .figures import TurnFigures
from .shared_tasks import SharedTasks
from .turn_filter import ANY_TURN, TurnFilter
from .webhooks import WebhookTable

logger = logging.getLogger(__name__)

T = TypeVar("T")

TurnJson = dict[str, Any]
"""A turn as in /api/turns; `annotations` only where it has some."""

Evaluations = list[dict[str, Any]]


MAX_PAGE_BYTES = 8 * 1024 * 1024
"""Limit of the JSON of one page; a page ends with the turn that reaches it."""

_READ_AGAIN_S = 1.0

MAX_EXAMINED = 20_000
"""Turns that are read for a page with a filter by content."""

Score = Callable[[str], Evaluations | None]
"""Returns the results of the turn with this id, or None if it must be stored first."""


class StoreError(Exception):
    """The store cannot be opened or read; the message says which, why, and what to do."""

    exit_code = BAD_INPUT
    may_pass = False
    """Whether the problem may be temporary: then a proxy serves meanwhile and retries."""


class StoreUnreachableError(StoreError):
    """The database server does not respond or refuses access, or a store could not be written for too long."""

    exit_code = UNREACHABLE
    may_pass = True


class StoreFileError(StoreError):
    """The store's file cannot be read or written now: a full disk, a read-only file, a damaged one."""

    may_pass = True


@dataclass(slots=True)
class StoreHealth:
    """State and counters of a store's writer. Only the store's thread changes it; any thread may read it."""

    problem: str | None = "it is being opened"
    """Why writes fail now; None after a successful write."""
    failed_writes: int = 0
    """Number of failed attempts to open or write the store."""
    writes: int = 0
    """Number of committed groups of turns and results."""
    last_write_at: float | None = None
    """Time of the last commit, in seconds since the epoch."""
    replaced: int = 0
    """Number of times that the store was damaged or deleted while in use and reopened."""
    waiting_turns: int = 0
    waiting_bytes: int = 0
    """Turns and bytes in memory that wait to be written."""

    @property
    def is_written(self) -> bool:
        return not self.problem


STATUSES = ("open", "pending", "done")
"""Of a turn."""


@dataclass(frozen=True, slots=True)
class TurnQuery:
    """Which turns, in which order and form; None means any. `cursor` is a `Page.next_cursor`."""

    run: str | None = None
    conversation: str | None = None
    case: str | None = None
    status: str | None = None
    limit: int = 100
    cursor: str | None = None
    content: TurnFilter = ANY_TURN
    newest_first: bool = False
    summary: bool = False
    """Whether the items are those of `turn_summary`."""


@dataclass(frozen=True, slots=True)
class Page:
    """Turns in the order of the query, and the cursor of the next page (None: last page).

    A page ends with the turn that reaches `limit` or `MAX_PAGE_BYTES`. With a filter by content it also ends after
    `MAX_EXAMINED` turns, and may have fewer items or none.
    """

    items: list[TurnJson]
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class RunSummary:
    """A run in numbers. `passed`, `failed`, `errored` and `skipped` count results, of turns and of conversations."""

    name: str
    turns: int
    pending: int
    passed: int
    failed: int
    errored: int
    skipped: int
    started_at: str | None
    ended_at: str | None


@dataclass(frozen=True, slots=True)
class Scored:
    """A turn's results. `merged` is the turn itself where it changed since it was added."""

    turn_id: str
    evaluations: Evaluations
    merged: Turn | None = None


class ConversationKey(NamedTuple):
    """The turns of a conversation in a run that belong to one case, or (None) to none."""

    run: str
    conversation_id: str
    case_id: str | None


@dataclass(frozen=True, slots=True)
class ScoredConversation:
    """The evaluations of a whole conversation, and the number of turns that it had then."""

    key: ConversationKey
    turns: int
    evaluations: Evaluations


class PushTables(Protocol):
    """The tables of the push relay, in a store that this process or another one has opened."""

    @property
    def shared(self) -> bool:
        """Whether other proxies use it too: then what is pending may be on its way elsewhere."""

    @property
    def webhooks(self) -> WebhookTable:
        """The webhooks of clients that the proxy relays."""

    @property
    def deliveries(self) -> DeliveryTable:
        """Notifications that wait for these webhooks."""


class Store(PushTables, Protocol):
    """Writes are queued and never wait; `committed` callbacks come from another thread. Reads are awaited, and raise
    StoreError while the store cannot be read."""

    @property
    def shared_tasks(self) -> SharedTasks:
        """The owners of tasks, where the store is `shared`."""

    on_ended: Callable[[], object]
    """Called in the store's thread when it has `ended_by`."""

    patience_s: float
    """How long it may fail until the work that needs it ends; infinite for one that was opened `patiently`."""

    ended_by: StoreError | None
    """Why nothing more is ever written; None as long as the store is written, or tried again."""

    def start(self, on_opened: Callable[[], object]) -> None:
        """Open it in the background, and keep trying; for one that was opened `patiently`.

        `on_opened` is called in the store's thread.
        """

    def first_attempt(self, timeout_s: float) -> StoreError | None:
        """Waits for the first attempt to open it: why that failed. None if it worked or is still in progress."""

    def add(
        self,
        turns: Sequence[Turn],
        committed: Callable[[], object],
        score: Score | None = None,
        held: Collection[str] = (),
    ) -> bool:
        """Keep closed turns as pending, and `open` ones as open. False where the queue is full and they were not taken.

        A turn that the store has as open is replaced; one that it has as closed stays as it is, so that of several
        processes that close a turn the first does.

        Those whose ids are `held` are not for workers yet: `settle` is going to be called for them.

        `score` is asked for each turn's evaluations before it is written, in the thread that writes; a turn for
        which it has some is done at once, in one write instead of two. It is not asked where much is waiting.
        """

    def settle(self, turns: Sequence[Turn], committed: Callable[[], object]) -> None:
        """Replace what is known of these turns, as traces have it now; they are pending, again or still."""

    def finish(self, scored: Sequence[Scored], committed: Callable[[], object]) -> None:
        """Replace the evaluations of these turns (and what was merged into them) and mark them done."""

    def finish_conversations(self, scored: Sequence[ScoredConversation], committed: Callable[[], object]) -> None:
        """Replace the results of these conversations."""

    def discard(self, turn_ids: Sequence[str], committed: Callable[[], object]) -> None:
        """Delete these turns, and the evaluations of their conversations."""

    def prune(self, before: datetime | None, max_bytes: int | None) -> None:
        """Delete turns that ended before `before`, then the oldest until the store takes at most `max_bytes`.

        None: no such limit. Also deletes evaluations of these turns, and overwrites the deleted data in the files.
        """

    @property
    def health(self) -> StoreHealth:
        """The state of the writer."""

    @property
    def judge_cache(self) -> JudgeCache:
        """The cache of judges' answers: scoring a turn again sends no request."""

    async def turns(self, query: TurnQuery) -> Page: ...

    async def turn(self, turn_id: str) -> TurnJson | None: ...

    async def status(self, turn_id: str) -> str | None:
        """The status of a turn, without the turn; None where the store does not have it."""

    async def earlier(self, turn: Turn, most: int) -> list[TurnJson]:
        """The last turns of its conversation and run that were added before it, oldest first: at most `most`, and no
        more once they reach `MAX_PAGE_BYTES`."""

    async def of_task(self, task_id: str, most: int) -> list[TurnJson]:
        """The last turns of a task, whatever their status, oldest first: as many as in `earlier`."""

    async def take_over(self, silent_s: float, most: int) -> list[TurnJson]:
        """At most `most` open turns that no process has added again for `silent_s` seconds, for the caller to close.

        Each is given to one caller only; to another one where it is still open as many seconds later.
        """

    async def conversations(self, run: str | None = None, conversation: str | None = None) -> list[ScoredConversation]:
        """Returns the evaluations of whole conversations: of a run, of one conversation, or all."""

    async def unscored_conversations(self, newest: int) -> list[ConversationKey]:
        """Returns the conversations of cases, among the `newest` turns, with scored turns not evaluated yet."""

    async def annotate(self, annotation: Annotation) -> bool:
        """Add it to its turn; False where the store does not have the turn, or it has `MOST_OF_A_TURN` already."""

    async def remove_annotation(self, turn_id: str, annotation_id: str) -> bool:
        """Delete it; False where the turn has none with this id."""

    async def run_names(self, most: int) -> list[str]:
        """Returns the names of the runs with the newest turns, at most `most`, the newest first."""

    async def figures(self, run: str | None = None) -> TurnFigures:
        """Figures of the newest turns, of a run or of all."""

    async def runs(self, name: str | None = None) -> list[RunSummary]: ...

    async def positions(self, newest: int) -> dict[tuple[str, str, str], int]:
        """Returns the number of scored turns among the `newest`, by run, case and conversation."""

    async def drained(self) -> None:
        """Returns when everything queued before the call is committed. Raises `ended_by`."""

    def close(self, timeout_s: float = 30.0) -> None:
        """Commit what is queued and close. Blocks until that is done, or for `timeout_s`: what is not written by then
        is lost, and logged."""


async def every_turn(store: Store, query: TurnQuery, page: int = 500) -> AsyncIterator[TurnJson]:
    """All turns that match, oldest first; `page` of them are in memory at a time."""
    query = replace(query, limit=page)
    while True:
        found = await store.turns(query)
        for turn in found.items:
            yield turn
        if found.next_cursor is None:
            return
        query = replace(query, cursor=found.next_cursor)


async def once_readable(store: Store, read: Callable[[], Awaitable[T]], problem: type[StoreError] = StoreError) -> T:
    """What `read` returns, which is called again after each `problem`, until the patience of the store ends: then it is
    raised."""
    deadline = time.monotonic() + store.patience_s
    while True:
        try:
            return await read()
        except problem as error:
            if time.monotonic() >= deadline:
                raise
            logger.debug("%s; reading again", error)  # how the store does is logged where it is written
        await asyncio.sleep(_READ_AGAIN_S)
