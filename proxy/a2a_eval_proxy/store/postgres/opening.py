"""Opens a database as a store: any number of processes may start together."""

from __future__ import annotations

from typing import Any

import psycopg
from procrastinate.schema import SchemaManager
from psycopg.conninfo import conninfo_to_dict

from ...settings.store_url import check_postgres, masked_url
from ..base import StoreError, StoreUnreachableError
from ..schema import POSTGRES
from .database import CONNECT_TIMEOUT_S, passes, reason

VERSION_TABLE = "a2a_eval_proxy_version"

JOB_ENGINE = "03.04.00_50_post_add_retry_failed_job_procedure.sql"
"""The last migration of procrastinate, the job engine, that its tables have. Later ones become a version of ours."""

_CREATING = 0x6132_6165_7661_6C02
"""Advisory lock of who creates or upgrades the tables."""


def check_url(url: str) -> None:
    """Raises StoreError for what is no URL of a database."""
    try:
        check_postgres(url)
        conninfo_to_dict(url)
    except (ValueError, psycopg.ProgrammingError) as error:
        raise StoreError(f"store {masked_url(url)}: {reason(error)}") from None


def prepare(url: str, *, must_exist: bool = False) -> None:
    """Make the tables of a store, or bring them to this version, in one transaction. What is there stays.

    Raises StoreUnreachableError where the database does not let us in, or cannot make them now; StoreError where it
    (`must_exist`) holds no store, holds one of an unknown version, or something else under the names of our tables.
    """
    name = f"store {masked_url(url)}"
    try:
        with psycopg.connect(url, connect_timeout=CONNECT_TIMEOUT_S) as connection:
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_CREATING,))
            _create_tables(connection, must_exist=must_exist)
    except StoreError as error:
        raise StoreError(f"{name}: {error}") from error
    except (psycopg.OperationalError, OSError) as error:
        raise StoreUnreachableError(f"{name}: cannot connect: {reason(error)}") from error
    except psycopg.Error as error:
        problem = f"{name}: its tables cannot be created: {reason(error)}"
        if passes(error):
            raise StoreUnreachableError(problem) from error
        raise StoreError(f"{problem}; give a database of its own") from error


def _create_tables(connection: psycopg.Connection[Any], *, must_exist: bool) -> None:
    (exists,) = connection.execute("SELECT to_regclass(%s) IS NOT NULL", (VERSION_TABLE,)).fetchone() or (False,)
    if exists:
        (version,) = connection.execute(f"SELECT version_num FROM {VERSION_TABLE}").fetchone() or ("0",)  # noqa: S608
        statements = POSTGRES.upgrade(int(version))
    elif must_exist:
        raise StoreError("the database holds no store; has anything been captured into it?")
    else:
        connection.execute(f"CREATE TABLE {VERSION_TABLE} (version_num varchar(32) PRIMARY KEY)")
        connection.execute(f"INSERT INTO {VERSION_TABLE} VALUES ('')")  # noqa: S608  # fixed texts
        statements = [*POSTGRES.statements(), SchemaManager.get_schema()]
    for statement in statements:
        connection.execute(statement.encode())
    if statements:
        connection.execute(f"UPDATE {VERSION_TABLE} SET version_num = '{POSTGRES.version:04}'")  # noqa: S608
