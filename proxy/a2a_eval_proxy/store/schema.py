"""The tables and indexes of a store, declared once, and created whole."""

from __future__ import annotations

from .base import StoreError
from .dialects import SqlDialect
from .observations import OBSERVATIONS, OBSERVATIONS_INDEXES, PROXIES
from .webhooks import WEBHOOKS, WEBHOOKS_INDEX

VERSION = 2
OUTCOMES = ("passed", "failed", "errored", "skipped")
"""Statuses of results. Each is counted in a column of its name: a run in numbers reads no texts."""

Columns = dict[str, str]  # types and constraints by the name of the column
_COUNTS = dict.fromkeys(OUTCOMES, "INTEGER NOT NULL DEFAULT 0")
_OF_TURN = "TEXT NOT NULL REFERENCES turns (turn_id) ON DELETE CASCADE"

TURNS: Columns = {
    "turn_id": "TEXT NOT NULL UNIQUE",
    "run": "TEXT NOT NULL",
    "case_id": "TEXT",
    "conversation_id": "TEXT NOT NULL",
    "task_id": "TEXT NOT NULL",
    "trace_id": "TEXT NOT NULL",
    "agent": "TEXT NOT NULL",  # `Turn.agent_key`
    "status": "TEXT NOT NULL",
    "started_at": "DOUBLE PRECISION NOT NULL",  # in seconds since the epoch
    "ended_at": "DOUBLE PRECISION",
    "size": "BIGINT NOT NULL",  # bytes of its texts, see `EncodedTurn.stored_bytes`
    **_COUNTS,
    "job_id": "BIGINT",  # the job of the workers that scores it, where one does
    "links": "TEXT NOT NULL",  # see `encoding.links_text`
    "evaluations": "TEXT NOT NULL",
    "body": "TEXT NOT NULL",
}
"""The columns that are written. SQLite reads a row from its beginning: what is long comes last."""

CONVERSATIONS: Columns = {
    "key": "TEXT PRIMARY KEY",  # of the following names, which may be of any length
    "run": "TEXT NOT NULL",
    "conversation_id": "TEXT NOT NULL",
    "case_id": "TEXT NOT NULL",
    "agent_name": "TEXT NOT NULL",  # see `ConversationKey`
    "turns": "INTEGER NOT NULL",
    "evaluations": "TEXT NOT NULL",
    **_COUNTS,
}

VERDICTS: Columns = {
    "key": "TEXT PRIMARY KEY",  # of the name of the run, which may be of any length
    "run": "TEXT NOT NULL",
    "suite": "TEXT NOT NULL",
    "plan": "TEXT NOT NULL",
    "status": "TEXT NOT NULL",
    "verdict": "TEXT NOT NULL",
    "numbers": "TEXT NOT NULL",
    "conversations": "TEXT NOT NULL",
}
"""See `KeptVerdict`."""


def unknown_version(version: object) -> StoreError:
    """The error for a store of another version, without its name."""
    return StoreError(
        f"another version of a2a-eval-proxy wrote it (schema {version}, this one has {VERSION}); export its turns with "
        "that version, then move it aside or give another store"
    )


def _tables(dialect: SqlDialect) -> dict[str, Columns]:
    return {
        "turns": {
            "seq": f"{dialect.number} PRIMARY KEY",
            "stored_at": f"DOUBLE PRECISION NOT NULL DEFAULT ({dialect.now})",
            **TURNS,
        },
        # What is named and its id, see `encoding.name_key`.
        "turn_names": {"turn_id": _OF_TURN, "name": "TEXT NOT NULL", "PRIMARY KEY": "(turn_id, name)"},
        "conversations": CONVERSATIONS,
        "judge_answers": {
            "key": "TEXT PRIMARY KEY",
            "entry": "TEXT",
            "kept_at": "TIMESTAMPTZ NOT NULL",  # of SQLite a text, which sorts as the moments do
        },
        "annotations": {"annotation_id": "TEXT PRIMARY KEY", "turn_id": _OF_TURN, "body": "TEXT NOT NULL"},
        "calibrations": {"name": "TEXT PRIMARY KEY", "body": "TEXT NOT NULL"},  # by the metric and the key of its judge
        "verdicts": VERDICTS,
        "webhooks": WEBHOOKS,
        "observations": {"number": f"{dialect.number} PRIMARY KEY", **OBSERVATIONS},
        "proxies": PROXIES,
    }


def statements(dialect: SqlDialect) -> list[str]:
    """Creates the tables and indexes."""
    tables = {table: ", ".join(map(" ".join, columns.items())) for table, columns in _tables(dialect).items()}
    by = {column: dialect.indexed.format(column) for column in (*TURNS, *CONVERSATIONS)}
    return [
        *(f"CREATE TABLE {table} ({columns})" for table, columns in tables.items()),
        f"CREATE INDEX turns_run ON turns ({by['run']}, seq)",
        f"CREATE INDEX turns_conversation ON turns ({by['conversation_id']}, {by['run']}, seq)",
        f"CREATE INDEX turns_case ON turns ({by['case_id']}, seq) WHERE case_id IS NOT NULL",
        f"CREATE INDEX turns_task ON turns ({by['task_id']}, {by['agent']}, seq)",
        f"CREATE INDEX turns_trace ON turns ({by['trace_id']}) WHERE trace_id != ''",
        f"CREATE INDEX turns_agent ON turns ({by['agent']}, seq, size)",
        "CREATE INDEX turns_pending ON turns (seq) WHERE status = 'pending'",
        "CREATE INDEX turns_open ON turns (seq) WHERE status = 'open'",
        "CREATE INDEX turn_names_name ON turn_names (name)",
        "CREATE INDEX annotations_turn ON annotations (turn_id)",
        f"CREATE INDEX conversations_id ON conversations ({by['conversation_id']})",
        f"CREATE INDEX conversations_run ON conversations ({by['run']})",
        WEBHOOKS_INDEX,
        *OBSERVATIONS_INDEXES,
    ]
