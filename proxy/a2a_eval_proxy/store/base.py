"""The narrow interface of a store, and the values that cross it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from tool_call_evaluators.judge.cache import JudgeCache

from ..errors import BAD_INPUT, UNREACHABLE
from ..turn import Turn

TurnJson = dict[str, Any]
"""A turn as in /api/turns."""

Evaluations = list[dict[str, Any]]


MAX_PAGE_BYTES = 8 * 1024 * 1024
"""Of the JSON of turns that are read at once. With so much, no further turn is read."""

Score = Callable[[str], Evaluations | None]
"""Returns the results of the turn with this id; None where it has to be stored first."""


class StoreError(Exception):
    """The store cannot be opened or read; the message says which, why, and what to do."""

    exit_code = BAD_INPUT
    may_pass = False
    """Whether the same store may be fine later: then a proxy serves meanwhile, and keeps trying."""


class StoreUnreachableError(StoreError):
    """The store is on another machine, or in another process, that does not answer or does not let us in."""

    exit_code = UNREACHABLE
    may_pass = True


class StoreFileError(StoreError):
    """The store's file cannot be read or written now: a full disk, a read-only file, a damaged one."""

    may_pass = True


@dataclass(slots=True)
class StoreHealth:
    """How a store that is written to does. The store's thread changes it, everybody may read it."""

    problem: str | None = "it is being opened"
    """Why it cannot be written now; None where the last write worked."""
    failed_writes: int = 0
    """Attempts to open or write it that failed."""
    writes: int = 0
    """Groups of turns and results that it took."""
    last_write_at: float | None = None
    """When it took the last of them, in seconds since the epoch."""
    replaced: int = 0
    """How often it was found damaged or gone while in use, and opened anew."""
    waiting_turns: int = 0
    waiting_bytes: int = 0
    """Of what waits to be written, in memory."""


@dataclass(frozen=True, slots=True)
class TurnQuery:
    """Which turns; None means any. `cursor` is a `Page.next_cursor`."""

    run: str | None = None
    conversation: str | None = None
    case: str | None = None
    status: str | None = None
    limit: int = 100
    cursor: str | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """Turns oldest first, and where the next page begins (None: there is none).

    It ends with the turn that reaches `limit` or `MAX_PAGE_BYTES`.
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
    """What was said of a conversation as a whole when it had so many `turns`."""

    key: ConversationKey
    turns: int
    evaluations: Evaluations


class Store(Protocol):
    """Writes are queued and never wait; `committed` callbacks come from another thread. Reads are awaited, and raise
    StoreError while the store cannot be read."""

    on_opened: Callable[[], object]
    """Called in the store's thread when it was opened; to be set before `start`."""

    on_ended: Callable[[], object]
    """Called in the store's thread when it has `ended_by`."""

    ended_by: StoreError | None
    """Why nothing more is ever written; None as long as the store is written, or tried again."""

    def start(self) -> None:
        """Open it in the background, and keep trying; for one that was opened `patiently`."""

    def first_attempt(self, timeout_s: float) -> StoreError | None:
        """Waits for the first attempt to open it: why that failed. None where it worked, or is still going on."""

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
        """Forget these turns, and what was said of their conversations."""

    def prune(self, before: datetime | None, max_bytes: int | None) -> None:
        """Delete turns that ended before a moment, then the oldest until no more than so many bytes are taken.

        None: no such limit. With them goes all that was said of them. What is deleted is nowhere in the files.
        """

    @property
    def health(self) -> StoreHealth:
        """How it does; read at any time."""

    @property
    def shared(self) -> bool:
        """Whether other processes add turns too: then what is pending may be on its way elsewhere."""

    @property
    def judge_cache(self) -> JudgeCache:
        """Where the answers of judges are kept, so that scoring again asks nobody."""

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
        """What was said of whole conversations: of a run, of one conversation, or of all."""

    async def unscored_conversations(self, newest: int) -> list[ConversationKey]:
        """Conversations of cases, among the `newest` turns, that have scored turns of which nothing was said yet."""

    async def runs(self, name: str | None = None) -> list[RunSummary]: ...

    async def positions(self, newest: int) -> dict[tuple[str, str, str], int]:
        """How many of the `newest` turns are scored, by run, case and conversation."""

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
