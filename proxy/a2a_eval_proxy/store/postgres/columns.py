"""How turns and results become the columns of a PostgreSQL store."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from ..base import ConversationKey, Score
from ..encoding import EncodedConversation, EncodedResults, EncodedScored, EncodedTurn, encoded_results
from ..schema import OUTCOMES
from ..write_items import added_columns


def turn_columns(turn: EncodedTurn, score: Score | None, held: bool) -> dict[str, Any]:
    """The row of a turn that is added, and whether it is `held`."""
    columns, evaluations = added_columns(turn, score)
    return {
        **columns,
        "started_at": _moment(turn.started_at),
        "ended_at": _moment(turn.ended_at),
        "held": held,
        **result_counts(encoded_results(evaluations)),
    }


def result_columns(scored: EncodedScored) -> dict[str, Any]:
    merged = scored.merged
    return {
        "turn_id": scored.turn_id,
        "body": None if merged is None else merged.body.decode(),
        "case_id": None if merged is None else merged.case_id,
        **result_counts(scored.results),
    }


def conversation_digest(key: ConversationKey) -> str:
    """Identifies a conversation by its `stored_key`: its names may be of any length, an entry of an index may not."""
    return hashlib.sha256("\x00".join(part or "" for part in key).encode()).hexdigest()


def conversation_columns(scored: EncodedConversation) -> dict[str, Any]:
    key = scored.key
    columns = {"key": conversation_digest(key), **key._asdict(), "turns": scored.turns}
    return columns | result_counts(scored.results)


def result_counts(results: EncodedResults) -> dict[str, Any]:
    """The columns of results: their text, and how many have each status."""
    return {"evaluations": results.json.decode(), **{outcome: results.counts.get(outcome, 0) for outcome in OUTCOMES}}


def by_column(rows: Sequence[dict[str, Any]], columns: Iterable[str]) -> dict[str, list[Any]]:
    """The rows turned round, as `unnest` takes them: one statement, however many rows."""
    return {column: [row[column] for row in rows] for column in columns}


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
