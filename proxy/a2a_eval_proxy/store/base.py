"""The values that a store takes and gives, and its errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from ..errors import BAD_INPUT, UNREACHABLE
from ..turn import Turn
from .turn_filter import ANY_TURN, TurnFilter

TurnJson = dict[str, Any]  # a turn as in /api/turns; `annotations` only where it has some
Evaluations = list[dict[str, Any]]

MAX_PAGE_BYTES = 8 * 1024 * 1024  # limit of the JSON of one page; a page ends with the turn that reaches it
MAX_EXAMINED = 20_000  # turns that are read for a page with a filter by content


class StoreError(Exception):
    """The store cannot be opened or read; the message says which, why, and what to do."""

    exit_code = BAD_INPUT
    may_pass = False  # whether the problem may be temporary: then a proxy serves meanwhile and retries


class StoreUnreachableError(StoreError):
    """The database server does not respond or refuses access, a store could not be written for too long, or its file
    is gone."""

    exit_code = UNREACHABLE
    may_pass = True


class StoreFileError(StoreError):
    """The store's file cannot be read or written now: a full disk, a read-only file, a damaged one."""

    may_pass = True


@dataclass(slots=True)
class StoreHealth:
    """State and counters of a store's writer. Only the store's thread changes it; any thread may read it."""

    problem: str | None = "it is being opened"  # why writes fail now; None after a successful write
    failed_writes: int = 0  # number of failed attempts to open or write the store
    writes: int = 0  # number of committed groups of turns and results
    last_write_at: float | None = None  # time of the last commit, in seconds since the epoch
    replaced: int = 0  # number of times that the store was damaged or deleted while in use and reopened
    waiting_turns: int = 0
    waiting_bytes: int = 0  # turns and bytes in memory that wait to be written
    ended: bool = False  # whether nothing more is ever written
    prune_problem: str | None = None  # why old turns could not be deleted last time

    @property
    def is_written(self) -> bool:
        return not self.problem

    @property
    def remarks(self) -> list[str]:
        """What is wrong, for people who look after the proxy."""
        found = ["store: unavailable, turns wait in memory"] if self.problem else []
        if self.ended:
            found = ["store: nothing more is written, see the log; restart the proxy"]
        return found + (["store: old turns could not be deleted, see the log"] if self.prune_problem else [])


STATUSES = ("open", "pending", "done")  # of a turn


@dataclass(frozen=True, slots=True)
class TurnQuery:
    """Which turns, in which order and form; None means any. `cursor` is a `Page.next_cursor`."""

    run: str | None = None
    conversation: str | None = None
    case: str | None = None
    agent: str | None = None  # the name of one of several agents
    status: str | None = None
    limit: int = 100
    cursor: str | None = None
    content: TurnFilter = ANY_TURN
    newest_first: bool = False
    summary: bool = False  # whether the items are those of `turn_summary`


@dataclass(frozen=True, slots=True)
class Page:
    """Turns in the order of the query, and the cursor of the next page (None: last page).

    A page ends with the turn that reaches `limit` or `MAX_PAGE_BYTES`. With a filter by content it also ends after
    `MAX_EXAMINED` turns, and may have fewer items or none.
    """

    items: list[TurnJson]
    next_cursor: str | None


RunStatus = Literal["passed", "failed", "incomplete", "pending"]
"""Of a run that a suite judges. It is incomplete while what came passed, or is not judged as its command has not ended;
pending where turns came after the verdict."""


@dataclass(frozen=True, slots=True)
class RunVerdict:
    """What a run keeps of how it was judged, and by which suite (or suites)."""

    suite: str
    status: RunStatus
    conversations: str = ""
    """How many of them passed, as `Report.passed_text`; "" where that is not known now."""

    @property
    def passed(self) -> bool:
        return self.status == "passed"


@dataclass(frozen=True, slots=True)
class KeptVerdict:
    """The suites that judge a run (`runs.run_result.Plan`), and what they said of it, both in JSON forms. `of` has the
    numbers of the run (`RunSummary.numbers`) at that moment; empty: they do not matter, the verdict stands.
    `conversations`: see `RunVerdict`."""

    suite: str
    plan: dict[str, Any]
    status: RunStatus
    verdict: dict[str, Any] | None
    of: str = ""
    conversations: str = ""


@dataclass(frozen=True, slots=True)
class RunSummary:
    """A run in numbers. `passed`, `failed`, `errored` and `skipped` count results, of turns and of conversations.
    `verdict` None: no suite judges it."""

    name: str
    turns: int
    pending: int
    passed: int
    failed: int
    errored: int
    skipped: int
    started_at: str | None
    ended_at: str | None
    verdict: RunVerdict | None = None

    @property
    def numbers(self) -> str:
        """They differ where results came."""
        return " ".join(
            map(str, (self.turns, self.pending, self.passed, self.failed, self.errored, self.skipped, self.ended_at))
        )


@dataclass(frozen=True, slots=True)
class Scored:
    """A turn's results. `merged` is the turn itself where it changed since it was added."""

    turn_id: str
    evaluations: Evaluations
    merged: Turn | None = None


class Limits(NamedTuple):
    """What is kept: turns that ended at `before` or later (seconds since the epoch), of these the newest that take
    `max_bytes`. None: no such limit."""

    before: float | None = None
    max_bytes: int | None = None

    @classmethod
    def of(cls, days: float | None, megabytes: int | None, now: float) -> Limits:
        """Those of `retain_days` and `retain_mb`."""
        before = None if days is None else now - days * 86_400
        return cls(before, None if megabytes is None else megabytes * 1_000_000)


class ConversationKey(NamedTuple):
    """The turns of a conversation in a run that belong to one case, or (None) to none.

    `agent_name`: with which of several agents the conversation is; None: with the only one, or (of `run`) with any.
    """

    run: str
    conversation_id: str
    case_id: str | None
    agent_name: str | None = None


@dataclass(frozen=True, slots=True)
class ScoredConversation:
    """The evaluations of a whole conversation, and the number of turns that it had then."""

    key: ConversationKey
    turns: int
    evaluations: Evaluations
