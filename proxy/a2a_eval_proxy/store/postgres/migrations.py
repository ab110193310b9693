"""Creates the tables of a PostgreSQL store, and migrates those of earlier versions to the same schema."""

from __future__ import annotations

from itertools import chain
from typing import Any

import psycopg
from procrastinate.schema import SchemaManager

from ..base import StoreError
from ..schema import POSTGRES

VERSION_TABLE = "a2a_eval_proxy_version"

MIGRATIONS: dict[str, tuple[str, ...]] = {
    "0004": (  # open turns, and the task of each turn: another process may continue them
        "ALTER TABLE turns ADD COLUMN task_id text NOT NULL DEFAULT ''",
        "ALTER TABLE turns ADD COLUMN heard_at timestamptz NOT NULL DEFAULT now()",
        # Only recent turns get their task: older tasks do not continue. As text: JSON with \u0000 cannot be cast.
        r"""
        UPDATE turns SET task_id = coalesce(substring(body from '"task_id": ?"([^"\\]*)"'), '')
         WHERE stored_at > now() - interval '7 days'
        """,
        "CREATE INDEX turns_task ON turns (left(task_id, 128), seq) WHERE task_id != ''",
        "CREATE INDEX turns_open ON turns (heard_at) WHERE status = 'open'",
    ),
    "0005": (
        "CREATE TABLE annotations (annotation_id text PRIMARY KEY,"
        " turn_id text NOT NULL REFERENCES turns (turn_id) ON DELETE CASCADE, body text NOT NULL)",
        "CREATE INDEX annotations_turn ON annotations (turn_id)",
    ),
    "0006": (
        "CREATE TABLE webhooks (webhook_id text PRIMARY KEY, url text NOT NULL, asked bigint NOT NULL,"
        " registered_at bigint NOT NULL, task_key text NOT NULL, config_key text NOT NULL, ended_at bigint NOT NULL)",
        "CREATE INDEX webhooks_task ON webhooks (task_key)",
    ),
    "0007": (
        "ALTER TABLE webhooks ADD COLUMN lease_owner text NOT NULL DEFAULT ''",
        "ALTER TABLE webhooks ADD COLUMN lease_until bigint NOT NULL DEFAULT 0",
        "CREATE TABLE deliveries (number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,"
        " webhook_id text NOT NULL, content text NOT NULL, kept_at bigint NOT NULL,"
        " tries bigint NOT NULL DEFAULT 0, due_at bigint NOT NULL DEFAULT 0)",
        "CREATE INDEX deliveries_webhook ON deliveries (webhook_id, number)",
    ),
    "0008": (  # the owner of each task
        "CREATE TABLE proxies (proxy text PRIMARY KEY, alive_until timestamptz NOT NULL,"
        " reported_until double precision)",
        "CREATE TABLE task_owners (task text PRIMARY KEY, owner text NOT NULL)",
        "CREATE INDEX task_owners_owner ON task_owners (owner)",
        "CREATE TABLE observations (number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,"
        " task text NOT NULL, at double precision NOT NULL, content text NOT NULL)",
        "CREATE INDEX observations_task ON observations (task)",
    ),
}
"""Statements by the version to which they lead, ascending. Released ones never change: add a version."""

OLDEST, NEWEST = "0003", max(MIGRATIONS)

JOB_ENGINE = "03.04.00_50_post_add_retry_failed_job_procedure.sql"
"""The last migration of procrastinate, the job engine, that its tables have. Later ones become a version of ours."""


def migrate(connection: psycopg.Connection[Any], *, must_exist: bool) -> None:
    """Create the tables, or bring them to `NEWEST`, in the transaction of `connection`.

    Raises psycopg.Error; StoreError where the database (`must_exist`) holds no store, or one of another version.
    """
    (exists,) = connection.execute("SELECT to_regclass(%s) IS NOT NULL", (VERSION_TABLE,)).fetchone() or (False,)
    if not exists:
        if must_exist:
            raise StoreError("the database holds no store; has anything been captured into it?")
        connection.execute(f"CREATE TABLE {VERSION_TABLE} (version_num varchar(32) PRIMARY KEY)")
        connection.execute(f"INSERT INTO {VERSION_TABLE} VALUES ('{NEWEST}')")  # noqa: S608  # fixed texts
        for statement in (*POSTGRES.statements(), SchemaManager.get_schema()):
            connection.execute(statement.encode())
        return
    (version,) = connection.execute(f"SELECT version_num FROM {VERSION_TABLE}").fetchone() or ("none",)  # noqa: S608
    if version not in (OLDEST, *MIGRATIONS):
        raise StoreError(f"it is of another version ({version}); use that or a later one")
    for statement in chain.from_iterable(MIGRATIONS[later] for later in MIGRATIONS if later > version):
        connection.execute(statement.encode())
    connection.execute(f"UPDATE {VERSION_TABLE} SET version_num = '{NEWEST}'")  # noqa: S608
