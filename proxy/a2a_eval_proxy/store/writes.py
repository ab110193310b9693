"""The statements that write what is queued, and delete what is old. Values stand at `?`, or have names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import chain
from typing import Any

from .dialects import SqlDialect
from .encoding import (
    Add,
    Change,
    Discard,
    EncodedConversation,
    EncodedScored,
    EncodedTurn,
    FinishConversations,
    Item,
    conversation_key,
    latest_results,
)
from .schema import CONVERSATIONS, OUTCOMES, TURNS

_ROWS = 64  # rows in one statement. Each statement lets go of the interpreter lock, and that costs more than the row.
_BATCH, _BATCH_BYTES = 200, 8 * 1024 * 1024
"""Turns deleted in one transaction, and about their size, so that none takes long. A larger turn is deleted alone."""
_EVER = 1e12  # seconds since the epoch

_LINKS = "coalesce(nullif({}, ''), turns.links)"
"""Of a turn that was read from the store, only the store has the links: they stay."""
_RESULTS = ("evaluations", *OUTCOMES)
_PUT_CONVERSATION = (
    f"INSERT INTO conversations ({', '.join(CONVERSATIONS)}) VALUES ({', '.join('?' * len(CONVERSATIONS))})"  # noqa: S608  # fixed texts
    f" ON CONFLICT (key) DO UPDATE SET {', '.join(f'{column} = excluded.{column}' for column in ('turns', *_RESULTS))}"
)
_NEWER = " WHERE conversations.turns < excluded.turns"
_MERGED = (
    f"UPDATE turns SET body = ?, size = ?, case_id = ?, links = {_LINKS.format('CAST(? AS TEXT)')} WHERE turn_id = ?"  # noqa: S608  # fixed texts
)
DELETE_ANSWERS = "DELETE FROM judge_answers WHERE kept_at < :before"
"""Deletes the answers of judges from before a moment (RFC 3339): they quote turns."""

_DISCARD = "DELETE FROM turns WHERE turn_id = ?"

Statement = tuple[str, Sequence[Any] | dict[str, Any]]
Named = tuple[str, dict[str, Any]]
Row = Sequence[Any]


def group_statements(
    group: Sequence[Item], dialect: SqlDialect, jobs: Mapping[str, int] | None = None
) -> Iterator[Statement]:
    """What writes a group: turns before their results, results in the order in which they came, and after these turns
    that replace what has results.

    `jobs`: of workers, by the turns that are pending; None where no workers score.
    """
    adds = [item for item in group if isinstance(item, Add)]
    if adds and dialect.append_lock:
        yield dialect.append_lock, ()
    for again in (False, True):
        turns = {turn.turn_id: turn for item in adds if item.again == again for turn in item.rows}
        if again:
            yield from result_statements(latest_results(group))
            for turn_id in turns if jobs is not None else ():  # workers score its conversation again, too
                yield _discard_conversation(dialect), (turn_id, turn_id)
        yield from _in_parts(partial(_insert, dialect, again), [_row(turn, jobs or {}) for turn in turns.values()])
        yield from _in_parts(
            _names, [(turn.turn_id, name) for turn in turns.values() for name in dict.fromkeys(turn.names)]
        )
    for item in group:
        match item:
            case FinishConversations(rows=whole):
                yield from ((_PUT_CONVERSATION, conversation_row(one)) for one in whole)
            case Discard(rows=turn_ids):
                for turn_id in turn_ids:
                    yield _discard_conversation(dialect), (turn_id, turn_id)
                    yield _DISCARD, (turn_id,)
            case Change(rows=changes):
                yield from changes


def result_statements(scored: Sequence[EncodedScored]) -> Iterator[Statement]:
    """What replaces the results of these turns, whatever they had before, and what was merged into them."""
    yield from _in_parts(_update, [(one.turn_id, *one.results.values()) for one in scored])
    for one in scored:
        if (merged := one.merged) is not None:
            size, case_id, links = (merged.columns[name] for name in ("size", "case_id", "links"))
            yield _MERGED, (merged.body.decode(), size, case_id, links, one.turn_id)


def newer_conversation(one: EncodedConversation) -> Statement:
    """What replaces the results of a conversation whose results are from fewer turns."""
    return _PUT_CONVERSATION + _NEWER, conversation_row(one)


def conversation_row(one: EncodedConversation) -> Row:
    return (conversation_key(one.key), *one.key, one.turns, *one.results.values())


def _in_parts(statement: Callable[[int], str], rows: Sequence[Row]) -> Iterator[Statement]:
    """Pieces of a few fixed sizes: their statements stay prepared, which takes memory for each size."""
    position, size = 0, _ROWS
    while position < len(rows):
        while size > len(rows) - position:
            size //= 2
        yield statement(size), list(chain.from_iterable(rows[position : position + size]))
        position += size


def _row(turn: EncodedTurn, jobs: Mapping[str, int]) -> Row:
    columns = {**turn.columns, "job_id": jobs.get(turn.turn_id), "body": turn.body.decode()}
    return [columns[column] for column in TURNS]


_REPLACED = {
    column: f"{column} = " + (_LINKS.format("excluded.links") if column == "links" else f"excluded.{column}")
    for column in TURNS
    if column != "turn_id"
}


@lru_cache
def _insert(dialect: SqlDialect, again: bool, rows: int) -> str:  # of `partial`
    """`again`: closed turns are replaced, too; their results stay until there are others."""
    replaced = [new for column, new in _REPLACED.items() if not (again and column in _RESULTS)]
    return (
        f"INSERT INTO turns ({', '.join(TURNS)}) VALUES {_values(len(TURNS), rows)}"  # noqa: S608  # fixed texts
        f" ON CONFLICT (turn_id) DO UPDATE SET {', '.join(replaced)}, stored_at = {dialect.now}"
        + ("" if again else " WHERE turns.status = 'open'")
    )


def _values(columns: int, rows: int) -> str:
    return ", ".join([f"({', '.join('?' * columns)})"] * rows)


@lru_cache
def _names(rows: int) -> str:
    return f"INSERT INTO turn_names (turn_id, name) VALUES {_values(2, rows)} ON CONFLICT DO NOTHING"  # noqa: S608  # fixed texts


@lru_cache
def _update(rows: int) -> str:
    row = ", ".join(["CAST(? AS TEXT)"] * 2 + ["CAST(? AS INTEGER)"] * len(OUTCOMES))
    replaced = ", ".join(f"{column} = scored.{column}" for column in _RESULTS)
    return (
        f"WITH scored (id, {', '.join(_RESULTS)}) AS (VALUES {', '.join([f'({row})'] * rows)})"  # noqa: S608  # fixed texts
        f" UPDATE turns SET status = 'done', size = size - length(turns.evaluations) + length(scored.evaluations),"
        f" {replaced} FROM scored WHERE turn_id = id"
    )


@lru_cache
def _discard_conversation(dialect: SqlDialect) -> str:
    """The turn is named twice."""
    same = dialect.same("c.conversation_id", "t.conversation_id")
    return (
        "DELETE FROM conversations AS c WHERE c.conversation_id IN"  # noqa: S608  # fixed texts
        " (SELECT conversation_id FROM turns WHERE turn_id = ?) AND EXISTS"
        f" (SELECT 1 FROM turns AS t WHERE t.turn_id = ? AND {same} AND c.run = t.run"
        " AND c.case_id = coalesce(t.case_id, '') AND c.agent_name IN ('', t.agent))"
    )


# ── what is old ─────────────────────────────────────────────────────────────────────────────────────────────


OLDEST = "SELECT started_at FROM turns ORDER BY seq LIMIT 1"
"""Selects when the oldest turn began."""

_DELETE_OLDEST = (
    "DELETE FROM turns WHERE seq IN (SELECT seq FROM"  # noqa: S608  # fixed texts
    " (SELECT seq, sum(size) OVER (ORDER BY seq) - size AS earlier FROM"
    f" (SELECT seq, size, coalesce(ended_at, started_at) AS ended FROM turns ORDER BY seq LIMIT {_BATCH}) AS oldest"
    " WHERE ended < :before) AS summed WHERE earlier < :excess)"
)


def delete_oldest(*, before: float = _EVER, excess: float = _BATCH_BYTES) -> Named:
    """Deletes of the oldest turns those that ended before that moment, up to the one that takes the last of `excess`
    bytes."""
    return _DELETE_OLDEST, {"before": before, "excess": min(excess, _BATCH_BYTES)}


def delete_orphans(dialect: SqlDialect) -> list[str]:
    """Deletes what was said of conversations and runs that have no turns any more."""
    same, of_run = dialect.same("t.conversation_id", "c.conversation_id"), dialect.same("turns.run", "verdicts.run")
    return [
        f"DELETE FROM conversations AS c WHERE NOT EXISTS (SELECT 1 FROM turns AS t WHERE {same} AND t.run = c.run"  # noqa: S608  # fixed texts
        " AND c.agent_name IN ('', t.agent))",
        f"DELETE FROM verdicts WHERE NOT EXISTS (SELECT 1 FROM turns WHERE {of_run})",  # noqa: S608  # fixed texts
    ]
