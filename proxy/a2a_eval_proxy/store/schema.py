"""The tables and indexes of a store, declared once: new SQLite files and PostgreSQL databases are created from them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from .base import StoreError
from .shared_tasks import INDEXES as SHARED_INDEXES
from .shared_tasks import TABLES as SHARED_TABLES
from .webhooks import WEBHOOKS, WEBHOOKS_INDEX

FIRST_VERSION = 10  # of the schema in the first release
OUTCOMES = ("passed", "failed", "errored", "skipped")
"""Statuses of results. Each is counted in a column of its name: a run in numbers reads no texts."""

Columns = dict[str, str]  # types and constraints by the name of the column
_COUNTS = dict.fromkeys(OUTCOMES, "INTEGER NOT NULL DEFAULT 0")

CONVERSATIONS: Columns = {
    "run": "TEXT NOT NULL",
    "conversation_id": "TEXT NOT NULL",
    "case_id": "TEXT NOT NULL",
    "turns": "INTEGER NOT NULL",
    "evaluations": "TEXT NOT NULL",
    **_COUNTS,
    "agent_name": "TEXT NOT NULL DEFAULT ''",  # see `ConversationKey`
}

NAMES: Columns = {
    "turn_id": "TEXT NOT NULL REFERENCES turns (turn_id) ON DELETE CASCADE",
    "name": "TEXT NOT NULL",  # what is named and its id, see `encoding.name_key`
}
NAMES_KEY = "PRIMARY KEY (turn_id, name)"
NAMES_INDEX = "CREATE INDEX turn_names_name ON turn_names (name)"

ANNOTATIONS: Columns = {
    "annotation_id": "TEXT PRIMARY KEY",
    "turn_id": "TEXT NOT NULL REFERENCES turns (turn_id) ON DELETE CASCADE",
    "body": "TEXT NOT NULL",
}
ANNOTATIONS_INDEX = "CREATE INDEX annotations_turn ON annotations (turn_id)"

CALIBRATIONS: Columns = {"name": "TEXT PRIMARY KEY", "body": "TEXT NOT NULL"}
"""By the metric and the key of its judge."""
VERDICTS: Columns = {
    "key": "TEXT PRIMARY KEY",  # of the name of the run, which may be of any length
    "run": "TEXT NOT NULL",
    "suite": "TEXT NOT NULL",
    "plan": "TEXT NOT NULL",
    "status": "TEXT NOT NULL",
    "verdict": "TEXT NOT NULL",
    "numbers": "TEXT NOT NULL",
}
"""See `KeptVerdict`."""
WITHOUT_RUN = "DELETE FROM verdicts WHERE NOT EXISTS (SELECT 1 FROM turns WHERE turns.run = verdicts.run)"
WIRES: Columns = {
    "turn_id": "TEXT PRIMARY KEY REFERENCES turns (turn_id) ON DELETE CASCADE",
    "body": "TEXT NOT NULL",
}


def _adding(table: str, columns: Columns) -> tuple[str, ...]:
    return (f"CREATE TABLE {table} ({', '.join(map(' '.join, columns.items()))})",)


_MIGRATIONS = {
    11: _adding("calibrations", CALIBRATIONS),
    12: _adding("wires", WIRES),
    14: (f"ALTER TABLE webhooks ADD COLUMN agent_name {WEBHOOKS['agent_name']}",),
    17: _adding("verdicts", VERDICTS),
}


class Upgrade(NamedTuple):
    """The version of a store, and the statements that bring it to the version of this program."""

    version: int
    latest: int
    statements: list[str]


@dataclass(frozen=True, slots=True)
class Schema:
    """The schema in one database. Fields are what differs: types, keys of indexes (`{}` is a column), columns."""

    create: str
    number: str  # type of a primary key that ascends in the order in which rows are added
    by_name: str
    by_id: str
    by_task: str
    by_prefix: str
    conversation_key: str
    turns: Columns
    judge_answers: Columns
    conversations: Columns = field(default_factory=dict)
    shared: dict[str, Columns] = field(default_factory=dict)  # tables for what proxies share
    indexes: tuple[str, ...] = ()
    migrations: dict[int, tuple[str, ...]] = field(default_factory=dict)
    """Statements by the version to which they lead, from the one before it. They add only, and never change."""

    @property
    def version(self) -> int:
        return max(self.migrations, default=FIRST_VERSION)

    def upgrade(self, version: int) -> list[str]:
        """Brings the tables of an earlier version to this one. Raises StoreError for a version that has no way here."""
        if not FIRST_VERSION <= version <= self.version:
            raise StoreError(
                f"another version of a2a-eval-proxy wrote it (schema {version}, this one has {self.version}): use that"
                " version, for example to export its turns, or give another store"
            )
        return [statement for later in range(version, self.version) for statement in self.migrations[later + 1]]

    def tables(self) -> dict[str, Columns]:
        """The columns of each table."""
        return {
            "turns": {
                "seq": f"{self.number} PRIMARY KEY",
                "turn_id": "TEXT NOT NULL UNIQUE",
                "run": "TEXT NOT NULL",
                "case_id": "TEXT",
                "conversation_id": "TEXT NOT NULL",
                "status": "TEXT NOT NULL",
                "body": "TEXT NOT NULL",
                "evaluations": "TEXT NOT NULL DEFAULT '[]'",
                "task_id": "TEXT NOT NULL DEFAULT ''",
                "started_at": "DOUBLE PRECISION NOT NULL",  # in seconds since the epoch
                "ended_at": "DOUBLE PRECISION",
                **_COUNTS,
                **self.turns,
                **LINKS,
                **OF_AGENT,
            },
            "turn_names": NAMES,
            "conversations": {**CONVERSATIONS, **self.conversations},
            "judge_answers": {"key": "TEXT PRIMARY KEY", **self.judge_answers},
            "annotations": ANNOTATIONS,
            "calibrations": CALIBRATIONS,
            "verdicts": VERDICTS,
            "wires": WIRES,
            "webhooks": WEBHOOKS,
            **self.shared,
        }

    def statements(self) -> list[str]:
        """Creates the tables and indexes."""
        columns = {table: [" ".join(column) for column in items.items()] for table, items in self.tables().items()}
        columns["conversations"].append(f"PRIMARY KEY ({self.conversation_key})")
        columns["turn_names"].append(NAMES_KEY)
        return [
            *(f"{self.create} {table} ({', '.join(lines)})" for table, lines in columns.items()),
            f"CREATE INDEX turns_run ON turns ({self.by_name.format('run')})",
            f"CREATE INDEX turns_conversation ON turns ({self.by_id.format('conversation_id')})",
            f"CREATE INDEX turns_case ON turns ({self.by_name.format('case_id')}) WHERE case_id IS NOT NULL",
            turns_trace(self.by_id),
            *_by_agent(self.by_name, self.by_task),
            NAMES_INDEX,
            "CREATE INDEX turns_pending ON turns (seq) WHERE status = 'pending'",
            "CREATE INDEX turns_open ON turns (heard_at) WHERE status = 'open'",
            *self.indexes,
            ANNOTATIONS_INDEX,
            WEBHOOKS_INDEX,
            f"CREATE INDEX conversations_id ON conversations ({self.by_prefix.format('conversation_id')})",
        ]


LINKS: Columns = {"trace_id": "TEXT NOT NULL DEFAULT ''", "links": "TEXT NOT NULL DEFAULT ''"}
"""Of turns: `links` is JSON, see `encoding.links_text`."""


def replacing(column: str, new: str) -> str:
    """The assignment that replaces a column of a turn. Of a turn that was read from the store, only the store has the
    links: they stay."""
    return f"{column} = " + (f"coalesce(nullif({new}, ''), turns.links)" if column == "links" else new)


def turns_trace(by_id: str) -> str:
    return f"CREATE INDEX turns_trace ON turns ({by_id.format('trace_id')}) WHERE trace_id != ''"


def _to_links(by_id: str) -> tuple[str, ...]:
    names = ", ".join([*(" ".join(column) for column in NAMES.items()), NAMES_KEY])
    return (
        *(f"ALTER TABLE turns ADD COLUMN {' '.join(column)}" for column in LINKS.items()),
        f"CREATE TABLE turn_names ({names})",
        turns_trace(by_id),
        NAMES_INDEX,
    )


OF_AGENT: Columns = {"agent": "TEXT NOT NULL DEFAULT ''", "size": "INTEGER NOT NULL DEFAULT 0"}
"""Of turns: `Turn.agent_key`, and the bytes that it takes (`EncodedTurn.stored_bytes`). Of one that an earlier release
stored neither is known."""


def _by_agent(by_name: str, by_task: str) -> tuple[str, ...]:
    return (
        f"CREATE INDEX turns_agent ON turns ({by_name.format('agent')}, size)",
        f"CREATE INDEX turns_task ON turns ({by_task}) WHERE task_id != ''",
    )


def _to_agents(by_name: str, by_task: str) -> tuple[str, ...]:
    return (
        *(f"ALTER TABLE turns ADD COLUMN {' '.join(column)}" for column in OF_AGENT.items()),
        "DROP INDEX turns_task",
        *_by_agent(by_name, by_task),
    )


_CONVERSATION_KEY_SQLITE = "run, conversation_id, case_id, agent_name"
_BY_NAME_SQLITE = "{}, seq"
_BY_ID_SQLITE = "seq >> 11, substr({}, -8)"  # see `sqlite.sql`
_BY_TASK_SQLITE = f"{_BY_ID_SQLITE.format('task_id')}, agent"

SQLITE = Schema(
    create="CREATE TABLE IF NOT EXISTS",  # a judge cache may have created its table before
    number="INTEGER",
    by_name=_BY_NAME_SQLITE,
    by_id=_BY_ID_SQLITE,
    by_task=_BY_TASK_SQLITE,
    by_prefix="{}",
    conversation_key=_CONVERSATION_KEY_SQLITE,
    turns={"heard_at": "INTEGER NOT NULL DEFAULT 0"},  # in seconds since the epoch
    judge_answers={"entry": "TEXT", "kept_at": "TEXT NOT NULL"},
    migrations={
        **_MIGRATIONS,
        13: _to_links(_BY_ID_SQLITE),
        15: _to_agents(_BY_NAME_SQLITE, _BY_TASK_SQLITE),
        16: (  # SQLite changes the primary key of no table
            "ALTER TABLE conversations RENAME TO conversations_15",
            *_adding("conversations", CONVERSATIONS | {"PRIMARY KEY": f"({_CONVERSATION_KEY_SQLITE})"}),
            "INSERT INTO conversations SELECT *, '' FROM conversations_15",
            "DROP TABLE conversations_15",
            "CREATE INDEX conversations_id ON conversations (conversation_id)",
        ),
    },
)

PREFIX = 128
"""Characters of an id that PostgreSQL indexes: an index limits the size of an entry, agents make up ids of any size."""

_BY_ID_POSTGRES = f"left({{}}, {PREFIX}), seq"
_BY_TASK_POSTGRES = f"left(task_id, {PREFIX}), left(agent, {PREFIX}), seq"

POSTGRES = Schema(
    create="CREATE TABLE",
    number="BIGINT GENERATED ALWAYS AS IDENTITY",
    by_name=_BY_ID_POSTGRES,
    by_id=_BY_ID_POSTGRES,
    by_task=_BY_TASK_POSTGRES,
    by_prefix=f"left({{}}, {PREFIX})",
    conversation_key="key",
    turns={
        "version": "INTEGER NOT NULL DEFAULT 0",  # how often its results were written
        "stored_at": "TIMESTAMPTZ NOT NULL DEFAULT now()",
        "heard_at": "TIMESTAMPTZ NOT NULL DEFAULT now()",  # when a process last had news of it, while it is open
        "job_id": "BIGINT",  # the job of the workers that scores it, where one does
    },
    judge_answers={"entry": "TEXT NOT NULL", "kept_at": "TIMESTAMPTZ NOT NULL DEFAULT now()"},
    conversations={"key": "TEXT"},
    indexes=(f"CREATE INDEX conversations_run ON conversations (left(run, {PREFIX}))", *SHARED_INDEXES),
    shared=SHARED_TABLES,
    migrations={
        **_MIGRATIONS,
        13: _to_links(_BY_ID_POSTGRES),
        15: _to_agents(_BY_ID_POSTGRES, _BY_TASK_POSTGRES),
        16: (f"ALTER TABLE conversations ADD COLUMN agent_name {CONVERSATIONS['agent_name']}",),
    },
)
