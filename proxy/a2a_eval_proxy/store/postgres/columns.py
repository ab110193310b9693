"""How turns and results become the columns of a PostgreSQL store."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from ..base import ConversationKey, Score
from ..encoding import EncodedConversation, EncodedResults, EncodedScored, EncodedTurn, encoded_results, utf8_text
from ..schema import OUTCOMES


def stored_text(text: str) -> str:
    """`text` as a column takes it: without lone surrogates and without U+0000, which PostgreSQL does not store."""
    return utf8_text(text).replace("\x00", "\ufffd")


def turn_columns(turn: EncodedTurn, score: Score | None) -> dict[str, Any]:
    """The row of a turn; one that is closed is done at once where `score` has results."""
    evaluations = score(turn.turn_id) if score is not None and turn.status != "open" else None
    return {
        "turn_id": turn.turn_id,
        "run": stored_text(turn.run),
        "case_id": None if turn.case_id is None else stored_text(turn.case_id),
        "conversation_id": stored_text(turn.conversation_id),
        "task_id": stored_text(turn.task_id),
        "status": turn.status if evaluations is None else "done",
        "started_at": _moment(turn.started_at),
        "ended_at": _moment(turn.ended_at),
        "body": turn.body.decode(),
        **result_counts(encoded_results(evaluations or [])),
    }


def settled_columns(turn: EncodedTurn) -> dict[str, Any]:
    return {"turn_id": turn.turn_id, "body": turn.body.decode()}


def result_columns(scored: EncodedScored) -> dict[str, Any]:
    merged = scored.merged
    return {
        "turn_id": scored.turn_id,
        "body": None if merged is None else merged.body.decode(),
        "case_id": None if merged is None or merged.case_id is None else stored_text(merged.case_id),
        **result_counts(scored.results),
    }


def conversation_digest(key: ConversationKey) -> str:
    """What a conversation is known by: its names may be of any length, an entry of an index may not."""
    return hashlib.sha256("\x00".join(stored_text(part or "") for part in key).encode()).hexdigest()


def conversation_columns(scored: EncodedConversation) -> dict[str, Any]:
    run, conversation_id, case_id = (stored_text(part or "") for part in scored.key)
    return {
        "key": conversation_digest(scored.key),
        "run": run,
        "conversation_id": conversation_id,
        "case_id": case_id,
        "turns": scored.turns,
        **result_counts(scored.results),
    }


def result_counts(results: EncodedResults) -> dict[str, Any]:
    """The columns of results: their text, and how many have each status."""
    return {"evaluations": results.json.decode(), **{outcome: results.counts.get(outcome, 0) for outcome in OUTCOMES}}


def by_column(rows: Sequence[dict[str, Any]], columns: Iterable[str]) -> dict[str, list[Any]]:
    """The rows turned round, as `unnest` takes them: one statement, however many rows."""
    return {column: [row[column] for row in rows] for column in columns}


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
