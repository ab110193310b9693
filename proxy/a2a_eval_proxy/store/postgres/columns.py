"""How turns and results become the columns of a PostgreSQL store."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from ...capture.turn import Turn
from ..base import ConversationKey, Evaluations, Score, Scored, ScoredConversation, TurnJson
from ..encoding import json_text, utf8_text

OUTCOMES = ("passed", "failed", "errored", "skipped")
"""Statuses of results that are counted, each in a column of its name: a run in numbers reads no texts."""

PREFIX = 128
"""Characters of an id that are indexed: an entry of an index has its limit, an id that an agent made up has none."""


def stored_text(text: str) -> str:
    """`text` as a column takes it: without lone surrogates and without U+0000, which PostgreSQL does not store."""
    return utf8_text(text).replace("\x00", "\ufffd")


def turn_columns(turn: Turn, score: Score | None) -> dict[str, Any]:
    """The row of a turn; one that is closed is done at once where `score` has results."""
    evaluations = score(turn) if score is not None and turn.status != "open" else None
    body = turn.to_dict()
    return {
        "turn_id": turn.turn_id,
        "run": stored_text(turn.run),
        "case_id": None if turn.case_id is None else stored_text(turn.case_id),
        "conversation_id": stored_text(turn.conversation_id),
        "task_id": stored_text(turn.task_id),
        "status": turn.status if evaluations is None else "done",
        "started_at": _moment(body["started_at"]),
        "ended_at": _moment(body["ended_at"]),
        "body": json_text(body),
        **evaluation_columns(evaluations or []),
    }


def settled_columns(turn: Turn) -> dict[str, Any]:
    return {"turn_id": turn.turn_id, "body": json_text(turn.to_dict())}


def result_columns(scored: Scored) -> dict[str, Any]:
    merged = scored.merged
    return {
        "turn_id": scored.turn_id,
        "body": None if merged is None else json_text(merged.to_dict()),
        "case_id": None if merged is None or merged.case_id is None else stored_text(merged.case_id),
        **evaluation_columns(scored.evaluations),
    }


def conversation_digest(key: ConversationKey) -> str:
    """What a conversation is known by: its names may be of any length, an entry of an index may not."""
    return hashlib.sha256("\x00".join(stored_text(part or "") for part in key).encode()).hexdigest()


def conversation_columns(scored: ScoredConversation) -> dict[str, Any]:
    run, conversation_id, case_id = (stored_text(part or "") for part in scored.key)
    return {
        "key": conversation_digest(scored.key),
        "run": run,
        "conversation_id": conversation_id,
        "case_id": case_id,
        "turns": scored.turns,
        **evaluation_columns(scored.evaluations),
    }


def evaluation_columns(evaluations: Evaluations) -> dict[str, Any]:
    counts = Counter(result["status"] for result in evaluations)
    return {"evaluations": json_text(evaluations), **{outcome: counts[outcome] for outcome in OUTCOMES}}


def turn_json(status: str, body: str, evaluations: str) -> TurnJson:
    """The turn of a row."""
    return {**json.loads(body), "status": status, "evaluations": json.loads(evaluations)}


def by_column(rows: Sequence[dict[str, Any]], columns: Iterable[str]) -> dict[str, list[Any]]:
    """The rows turned round, as `unnest` takes them: one statement, however many rows."""
    return {column: [row[column] for row in rows] for column in columns}


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
